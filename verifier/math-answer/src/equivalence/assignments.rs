//! Values with names: x = 5 is 5, if the other answer has no name.

use std::borrow::Cow;

use crate::equivalence::value_equality::{RealNumber, ValueComparer};
use crate::expression::{Bracket, Expr, Relation};
use crate::parser::assignment_target::is_assignable;

/// Maximum relative difference of a number and its rounded value.
const MAX_RELATIVE_DIFFERENCE: f64 = 0.1;

/// The value of x in `x = 5`, if the other answer does not name it, and the set in `x ∈ [0, 1]`.
pub(crate) fn assigned_value<'a>(expr: &'a Expr, other: &Expr) -> &'a Expr {
    // A(2, −3) is the point (2, −3).
    if let Expr::Product(factors) = expr
        && let [Expr::Symbol(name), point @ Expr::Tuple(..)] = factors.as_slice()
        && is_point(name)
        && matches!(other, Expr::Tuple(..))
    {
        return point;
    }
    let Expr::Relation(parts, relations) = expr else {
        return expr;
    };
    let ([left, value], [relation]) = (parts.as_slice(), relations.as_slice()) else {
        return expr;
    };
    let is_assignment = match relation {
        Relation::Equal => is_assignable(left) && !matches!(other, Expr::Relation(..)),
        Relation::In => {
            let letter = |part: &Expr| matches!(part, Expr::Symbol(_));
            let name = match left {
                Expr::Symbol(_) => true,
                Expr::Apply(_, of) => matches!(of.as_slice(), [Expr::Symbol(_)]),
                // (x, y) ∈ {(1, 2), (3, 4)}
                Expr::Tuple(_, parts, _) => parts.iter().all(letter),
                _ => false,
            };
            name && holds_elements(value)
        }
        _ => false,
    };
    if is_assignment { value } else { expr }
}

/// Whether it is a collection that can have elements.
fn holds_elements(expr: &Expr) -> bool {
    match expr {
        Expr::Tuple(..) | Expr::Set(_) | Expr::Combine(..) | Expr::List(_) => true,
        Expr::Symbol(name) => name == "Reals",
        _ => false,
    }
}

/// Whether its letters are not in alphabetical order and `other` has no names. (y, x) = (1, 2) would be (2, 1), or (1, 2) if the problem asks for (y, x).
pub(crate) fn is_ambiguous(expr: &Expr, other: &Expr) -> bool {
    let named = match other {
        Expr::Relation(..) => true,
        Expr::List(items) => items.iter().any(|item| matches!(item, Expr::Relation(..))),
        _ => false,
    };
    let Expr::Relation(sides, _) = expr else {
        return false;
    };
    let Some(Expr::Tuple(_, parts, _) | Expr::Ratio(parts)) = sides.first() else {
        return false;
    };
    let letter = |part: &Expr| match part {
        Expr::Symbol(name) if name.len() == 1 => Some(name.clone()),
        _ => None,
    };
    let letters: Option<Vec<String>> = parts.iter().map(letter).collect();
    !named && letters.is_some_and(|letters| !letters.is_sorted())
}

/// The last of several equal values: ½ = 0.5 is 0.5, and x = ½ = 0.5 is x = 0.5.
pub(crate) fn last_of_chain<'a>(comparer: &ValueComparer, expr: &'a Expr) -> Cow<'a, Expr> {
    let unchanged = Cow::Borrowed(expr);
    let Expr::Relation(parts, relations) = expr else {
        return unchanged;
    };
    let is = |relation: Relation| move |one: &&Relation| **one == relation;
    let exact = relations.iter().take_while(is(Relation::Equal)).count();
    let near = relations[exact..]
        .iter()
        .take_while(is(Relation::Near))
        .count();
    if exact + near < relations.len() {
        return unchanged;
    }
    let (parts, others) = parts.split_at(exact + 1);
    let (Some(last), true) = (parts.last(), exact + near > 0) else {
        return unchanged;
    };
    if !others.iter().all(|other| is_near(comparer, last, other)) {
        return unchanged;
    }
    let [first, .., last] = parts else {
        return Cow::Borrowed(last);
    };
    let equals_last = |part: &Expr| comparer.equality(&value(part), &value(last)).is_some();
    let is_number = |part: &Expr| comparer.real_number(&value(part)).is_some();
    if is_number(first) {
        let all_equal = parts[..parts.len() - 1]
            .iter()
            .all(|part| is_number(part) && equals_last(part));
        // 50% = 0.5 is 50%.
        let percent = parts.iter().find(|part| matches!(part, Expr::Percent(_)));
        let stated = percent.unwrap_or(last);
        return if all_equal {
            Cow::Borrowed(stated)
        } else {
            unchanged
        };
    }
    let between = &parts[1..parts.len() - 1];
    // y = x + y = x + 3 does not give the value of y. y = mx + b = 2x + 3 replaces m and b by their values.
    let is_consistent = |part: &Expr| {
        if is_number(part) {
            return equals_last(part);
        }
        let names = names(part);
        let names_of_last = self::names(last);
        !names.contains(&first)
            && (!names.iter().all(|name| names_of_last.contains(name)) || equals_last(part))
    };
    let named = (!between.is_empty() || !others.is_empty())
        && is_assignable(first)
        && between.iter().all(is_consistent);
    if named {
        let equation = vec![first.clone(), last.clone()];
        return Cow::Owned(Expr::Relation(equation, vec![Relation::Equal]));
    }
    unchanged
}

fn is_near(comparer: &ValueComparer, exact: &Expr, rounded: &Expr) -> bool {
    let size = |expr: &Expr| match comparer.real_number(&value(expr))? {
        RealNumber::Exact(number) => Some(number.to_f64().value()),
        RealNumber::Numeric(number) => number.real(),
        RealNumber::Infinite(_) => None,
    };
    let sizes = size(exact).zip(size(rounded));
    sizes.is_some_and(|(exact, rounded)| {
        (exact - rounded).abs() <= MAX_RELATIVE_DIFFERENCE * exact.abs()
    })
}

/// The names that occur in an expression.
fn names(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Symbol(_) | Expr::Apply(..) => vec![expr],
        other => other.parts().into_iter().flat_map(names).collect(),
    }
}

/// The value without its unit, and a ratio of two as a fraction.
fn value(expr: &Expr) -> Cow<'_, Expr> {
    match expr {
        Expr::Money(_, inner) | Expr::Quantity(inner, _) => value(inner),
        Expr::Ratio(parts) => match parts.as_slice() {
            [a, b] => Cow::Owned(Expr::Quotient(Box::new(a.clone()), Box::new(b.clone()))),
            _ => Cow::Borrowed(expr),
        },
        other => Cow::Borrowed(other),
    }
}

/// Named solutions as points, if the other answer is one or more points: m = 1, n = 4; m = 3, n = 4 becomes (1, 4), (3, 4).
///
/// Each solution names the same letters, in alphabetical order or in the order that the other answer names. Coordinates are in alphabetical order unless a
/// problem states another.
pub(crate) fn solutions_as_points<'a>(expr: &'a Expr, other: &Expr) -> Cow<'a, Expr> {
    let unchanged = Cow::Borrowed(expr);
    // P(2, −3) is parsed as a call of P.
    if let (Expr::Apply(name, arguments), Expr::Tuple(..)) = (expr, other)
        && arguments.len() > 1
        && is_point(name)
    {
        let round = Bracket::Round;
        return Cow::Owned(Expr::Tuple(round, arguments.clone(), round));
    }
    let point = match other {
        Expr::List(items) | Expr::Set(items) => items.first().and_then(coordinates),
        other => coordinates(other),
    };
    let (Some((size, order)), Expr::List(items)) = (point, expr) else {
        return unchanged;
    };
    let Some(assigned) = items.iter().map(assignment).collect::<Option<Vec<_>>>() else {
        return unchanged;
    };
    let names = |solution: &[(char, &Expr)]| -> Vec<char> {
        solution.iter().map(|(name, _)| *name).collect()
    };
    let mut solutions = assigned.chunks_exact(size);
    let first = names(solutions.clone().next().unwrap_or_default());
    let alike = solutions.clone().all(|solution| names(solution) == first);
    // The values of A = (1, 2), B = (3, 4) are already points.
    let plain = assigned
        .iter()
        .all(|(_, value)| coordinates(value).is_none());
    let in_order = match order {
        Some(order) => first == order,
        None => first.is_sorted_by(|a, b| a < b),
    };
    if !alike || !plain || !in_order || !solutions.remainder().is_empty() {
        return unchanged;
    }
    let mut solutions: Vec<Expr> = solutions
        .by_ref()
        .map(|solution| {
            let values = solution.iter().map(|(_, value)| (*value).clone()).collect();
            Expr::Tuple(Bracket::Round, values, Bracket::Round)
        })
        .collect();
    Cow::Owned(match solutions.len() {
        1 => solutions.remove(0),
        _ => Expr::List(solutions),
    })
}

/// Whether it may be the name of a point, one capital letter.
fn is_point(name: &str) -> bool {
    matches!(name.as_bytes(), [b'A'..=b'Z'])
}

/// The number of coordinates of a point, and their names if it has names: (x, y) = (1, 2).
fn coordinates(expr: &Expr) -> Option<(usize, Option<Vec<char>>)> {
    match expr {
        Expr::Tuple(Bracket::Round, parts, Bracket::Round) if parts.len() > 1 => {
            Some((parts.len(), None))
        }
        _ => {
            let (Expr::Tuple(_, names, _), point) = expr.equation()? else {
                return None;
            };
            let names: Option<Vec<char>> = names.iter().map(letter).collect();
            Some((coordinates(point)?.0, Some(names?)))
        }
    }
}

/// A name of one letter.
fn letter(expr: &Expr) -> Option<char> {
    let Expr::Symbol(name) = expr else {
        return None;
    };
    let mut letters = name.chars();
    letters.next().filter(|_| letters.next().is_none())
}

/// Whether the elements are values of different names: x = 1, y = 2.
pub(crate) fn has_several_names(items: &[Expr]) -> bool {
    let names = items.iter().filter_map(|item| Some(item.equation()?.0));
    let mut names = names.filter(|name| is_assignable(name));
    let first = names.next();
    names.any(|name| Some(name) != first)
}

/// The letter to which an equation assigns a value, and the value.
fn assignment(expr: &Expr) -> Option<(char, &Expr)> {
    let (name, value) = expr.equation()?;
    Some((letter(name)?, value))
}
