//! Whether an answer is finished: whether its arithmetic is done.
//!
//! A problem that asks for 27 + 45 has the right value in `\boxed{27 + 45}`. A grader that accepts it teaches a model to copy the problem.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One as _, Zero as _};

use super::Rule;
use super::distributed::{comes_out, same_terms};
use super::exact::rational;
use super::fractions::is_reduced_less;
use super::meter::Meter;
use super::reals::Reals;
use super::same::same;
use super::signs::variants;
use super::steps::{Shape, Step, Steps, has_variable, shape};
use super::syntax::{Expr, Relation, SetOperator};
use super::value::{Judge, is_infinite};
use super::words;

/// Why an answer is none yet.
const NOT_A_NUMBER: &str = "it is to be written as one number";
const NOT_A_FRACTION: &str = "it is to be written as a fraction";
const UNSOLVED: &str = "the inequality is left to be solved";
const FORM: &str = "it is to be multiplied out, or factored, as the right answer is";
const REDUCED_LESS: &str = "a fraction is left to be reduced";
const APART: &str = "the set is left to be put together";
const TOO_MUCH: &str = "it takes too many steps";

/// What `given`, which equals `right` by a rule, leaves to be done that `right` does not; `None` where nothing.
pub(super) fn left_undone(
    rule: Rule,
    right: &Expr,
    given: &Expr,
    judge: &Judge,
) -> Option<&'static str> {
    let meter = &judge.meter;
    // Each of the values that ± stands for is looked at.
    let (Some(right), Some(given)) = (variants(right, meter), variants(given, meter)) else {
        return Some(TOO_MUCH);
    };
    let (right, given): (&Expr, &Expr) = (&right, &given);
    let steps = |expr: &Expr| Steps::of(expr, meter);
    // -2y ≥ 6 is a step on the way to y ≤ -3.
    if is_unsolved(given) && !is_unsolved(right) {
        return Some(UNSOLVED);
    }
    match rule {
        Rule::Base | Rule::Text => return None,
        // Letters that make words are no product.
        Rule::Words if words::word(given).is_some() => return None,
        Rule::Set if is_apart(right, given, judge) => return Some(APART),
        Rule::Relation if has_value_of_other_form(right, given, judge) => return Some(FORM),
        Rule::Relation if has_side_reduced_less(right, given) => return Some(REDUCED_LESS),
        // x = 27 + 45 is no more done than 27 + 45.
        Rule::Words | Rule::Relation | Rule::Set => return more(steps(right), steps(given)),
        _ => {}
    }
    match (right, given) {
        (
            Expr::Tuple(_, a, _) | Expr::List(a) | Expr::Set(a),
            Expr::Tuple(_, b, _) | Expr::List(b) | Expr::Set(b),
        ) => {
            if a.iter().all(|item| matches!(item, Expr::Words(_))) {
                return None;
            }
            if a.iter().all(is_written) {
                let written = b.iter().all(|item| is_written(bare(item)));
                if !written {
                    return Some(NOT_A_NUMBER);
                }
            }
            // Each element is compared with the one that it equals.
            let most = a.iter().map(steps).fold(Steps::default(), Steps::most);
            b.iter().enumerate().find_map(|(at, item)| {
                let equal = |other: &&Expr| same(judge, other, item).is_some();
                let alike = if a.len() == b.len() {
                    a.as_slice()
                } else {
                    &[]
                };
                let partner = alike
                    .get(at)
                    .filter(equal)
                    .or_else(|| alike.iter().find(equal));
                let form = partner.is_some_and(|other| {
                    let functions = steps(other).times(Step::Functions);
                    comes_out(item, meter) && !comes_out(other, meter)
                        || is_reduced_less(other, item)
                        || !is_of_form(other, item, judge, functions)
                });
                more(most, steps(item)).or(form.then_some(FORM))
            })
        }
        (Expr::Matrix(_, a), Expr::Matrix(_, b)) => a
            .iter()
            .flatten()
            .zip(b.iter().flatten())
            .find_map(|(a, b)| left_undone(rule, a, b, judge)),
        _ => of_value(rule, bare(right), bare(given), judge),
    }
}

/// The same of a single value.
fn of_value(rule: Rule, right: &Expr, given: &Expr, judge: &Judge) -> Option<&'static str> {
    let meter = &judge.meter;
    let (done, steps) = (Steps::of(right, meter), Steps::of(given, meter));
    // An angle may be in radians instead of degrees.
    let radians = rule == Rule::Unit && steps.is_empty();
    if is_written(right) && !radians {
        let written = is_written(given)
            && (is_whole_quotient(right, meter)
                || is_ratio_to_one(given)
                || !is_whole_quotient(given, meter));
        if written && is_repeating(given) && !is_repeating(right) {
            return Some(NOT_A_FRACTION);
        }
        return (!written).then_some(NOT_A_NUMBER);
    }
    // 2⁵⁰/2 is 2⁴⁹.
    if is_power_of_digits(right) && !is_power_of_digits(given) {
        let written = is_written(given) && !is_whole_quotient(given, meter);
        return (!written).then_some(NOT_A_NUMBER);
    }
    if is_reduced_less(right, given) {
        return Some(REDUCED_LESS);
    }
    if comes_out(given, meter) && !comes_out(right, meter) {
        return Some(Step::Numbers.name());
    }
    more(done, steps).or_else(|| {
        let alike = is_of_form(right, given, judge, done.times(Step::Functions));
        (!alike).then_some(FORM)
    })
}

/// Whether `given` is multiplied out where `right` is, and factored where that is.
fn is_of_form(right: &Expr, given: &Expr, judge: &Judge, functions: usize) -> bool {
    if !has_variable(right) {
        return true;
    }
    let polynomials = is_polynomial(right) && is_polynomial(given);
    let shapes = (shape(right, &judge.meter), shape(given, &judge.meter));
    match shapes {
        // Distributing a number over a sum is no step.
        (Shape::Term | Shape::Sum, Shape::Term | Shape::Sum)
            if is_rational(right) && is_rational(given) =>
        {
            same_terms(judge, right, given)
        }
        // More factors than the right answer has are no less.
        (Shape::Product(most), Shape::Product(factors)) if polynomials => {
            factors >= most && (has_common_factor(right) || !has_common_factor(given))
        }
        (Shape::Product(_), _) | (_, Shape::Product(_)) if polynomials => false,
        // sin 4x + sin 6x is 2 sin 5x cos x.
        (Shape::Term, Shape::Sum) => functions < 2,
        _ => true,
    }
}

/// Whether both say what one name is, and the values are of different forms: y = (x + 1)² and y = x² + 2x + 1.
fn has_value_of_other_form(right: &Expr, given: &Expr, judge: &Judge) -> bool {
    let value = |expr: &Expr| match expr {
        Expr::Relation(sides, relations) if *relations == [Relation::Equal] => {
            match sides.as_slice() {
                [name @ (Expr::Symbol(_) | Expr::Apply(..)), value] => {
                    Some((name.clone(), value.clone()))
                }
                _ => None,
            }
        }
        _ => None,
    };
    let (Some((name, right)), Some((other, given))) = (value(right), value(given)) else {
        return false;
    };
    let functions = Steps::of(&right, &judge.meter).times(Step::Functions);
    name == other && !is_of_form(&right, &given, judge, functions)
}

/// Whether a side of an equation has a fraction that is less reduced.
fn has_side_reduced_less(right: &Expr, given: &Expr) -> bool {
    let (Expr::Relation(sides, _), Expr::Relation(others, _)) = (right, given) else {
        return false;
    };
    let mut pairs = sides.iter().zip(others);
    sides.len() == others.len() && pairs.any(|(side, other)| is_reduced_less(side, other))
}

/// Whether a factor is a sum that a variable may be taken out of: x² + x, of (x² + x)(x + 2).
fn has_common_factor(expr: &Expr) -> bool {
    fn variables(term: &Expr) -> Vec<&Expr> {
        match term {
            Expr::Symbol(_) => vec![term],
            Expr::Power(base, power) if is_whole(power) => variables(base),
            Expr::Negative(inner) => variables(inner),
            Expr::Quotient(above, _) => variables(above),
            Expr::Product(factors) => factors.iter().flat_map(variables).collect(),
            _ => Vec::new(),
        }
    }
    match expr {
        Expr::Sum(terms) => {
            let first = terms.first().map(variables).unwrap_or_default();
            let divides =
                |variable: &&Expr| terms.iter().all(|term| variables(term).contains(variable));
            first.iter().any(divides)
        }
        Expr::Product(factors) => factors.iter().any(has_common_factor),
        Expr::Negative(inner) | Expr::Power(inner, _) | Expr::Quotient(inner, _) => {
            has_common_factor(inner)
        }
        _ => false,
    }
}

/// Whether a set is written with more ends than it has: [0, 2] ∩ [−1, 1], x > 2 or x > 5.
fn is_apart(right: &Expr, given: &Expr, judge: &Judge) -> bool {
    let has = Reals::of(judge, right).or_else(|| Reals::of(judge, given));
    let most = has.map_or(0, |set| set.ends()).max(ends(right));
    ends(given) > most || (has_intersection(given) && !has_intersection(right))
}

/// The numbers that a set is written with.
fn ends(expr: &Expr) -> usize {
    let finite = |part: &&Expr| !is_infinite(part);
    match expr {
        Expr::Tuple(_, items, _) | Expr::Set(items) => items.iter().filter(finite).count(),
        Expr::Relation(parts, relations) if *relations == [Relation::In] => {
            parts.last().map_or(0, ends)
        }
        Expr::Relation(parts, _) => parts.iter().filter(finite).count().saturating_sub(1),
        Expr::Combine(a, _, b) => ends(a) + ends(b),
        Expr::List(items) => items.iter().map(ends).sum(),
        Expr::Symbol(name) if name == "Reals" => 0,
        _ => 1,
    }
}

/// Whether intervals are left to be intersected, or to be taken away. Inequalities that hold together may stay, and ℝ without single numbers.
fn has_intersection(expr: &Expr) -> bool {
    let interval = |part: &Expr| matches!(part, Expr::Tuple(..));
    match expr {
        Expr::Combine(a, operator, b) => {
            let left = match operator {
                SetOperator::Intersection => interval(a) || interval(b),
                SetOperator::Difference => interval(b),
                SetOperator::Union => false,
            };
            left || has_intersection(a) || has_intersection(b)
        }
        _ => false,
    }
}

fn more(right: Steps, given: Steps) -> Option<&'static str> {
    Some(given.beyond(right)?.name())
}

/// Without units and names, and the last of several that are equal.
pub(super) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Quantity(inner, _)
        | Expr::Money(_, inner)
        | Expr::Degrees(inner)
        | Expr::Percent(inner) => bare(inner),
        // 27 + 45 = 72 ≈ 70 says 72 in the end.
        Expr::Relation(parts, relations)
            if relations
                .iter()
                .all(|relation| matches!(relation, Relation::Equal | Relation::Near)) =>
        {
            let exact = relations
                .iter()
                .take_while(|relation| **relation == Relation::Equal)
                .count();
            parts.get(exact).map_or(expr, bare)
        }
        other => other,
    }
}

/// A number as one writes it down: digits, a fraction, a mixed number, a power of ten.
pub(super) fn is_written(expr: &Expr) -> bool {
    match expr {
        Expr::Number(_) | Expr::Mixed(..) | Expr::Based(..) | Expr::Words(_) => true,
        // −(−12) has a sign too many.
        Expr::Negative(inner) => !is_signed(inner) && is_written(inner),
        Expr::Percent(inner) | Expr::Degrees(inner) => is_written(inner),
        Expr::Quantity(inner, _) | Expr::Money(_, inner) => is_written(inner),
        Expr::Quotient(above, below) => is_whole(above) && is_whole(below),
        Expr::Power(base, power) => is_ten(base) && is_exponent(power),
        Expr::Product(factors) => match factors.as_slice() {
            [mantissa, Expr::Power(base, power)] => {
                is_literal(mantissa) && is_ten(base) && is_exponent(power)
            }
            _ => false,
        },
        Expr::Ratio(parts) => parts.iter().all(is_literal),
        _ => false,
    }
}

/// A whole number but 0 and 1, to the powers of which nobody raises who has finished.
fn is_exponent(expr: &Expr) -> bool {
    let none =
        |expr: &Expr| matches!(expr, Expr::Number(number) if number.is_zero() || number.is_one());
    is_literal(expr) && !none(expr)
}

fn is_one(expr: &Expr) -> bool {
    matches!(expr, Expr::Number(one) if one.is_one())
}

/// A power of a number, or a product of such: 2⁴⁹, 2³·5².
fn is_power_of_digits(expr: &Expr) -> bool {
    match expr {
        Expr::Power(base, exponent) => is_literal(base) && is_literal(exponent),
        Expr::Negative(inner) => is_power_of_digits(inner),
        Expr::Quotient(above, below) => is_one(above) && is_power_of_digits(below),
        Expr::Product(factors) => {
            let power = |one: &&Expr| matches!(one, Expr::Power(..));
            factors.iter().any(|one| power(&one))
                && factors
                    .iter()
                    .all(|one| is_literal(one) || power(&one) && is_power_of_digits(one))
        }
        _ => false,
    }
}

pub(super) fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Number(_) => true,
        Expr::Negative(inner) => is_literal(inner),
        _ => false,
    }
}

/// Whether it begins with a sign, or has one above or below its fraction.
pub(super) fn is_signed(expr: &Expr) -> bool {
    match expr {
        Expr::Negative(_) => true,
        Expr::Quotient(above, below) => is_signed(above) || is_signed(below),
        Expr::Product(factors) => factors.iter().any(is_signed),
        Expr::Money(_, inner) | Expr::Percent(inner) | Expr::Degrees(inner) => is_signed(inner),
        _ => false,
    }
}

fn is_whole(expr: &Expr) -> bool {
    match expr {
        Expr::Number(number) => number.is_integer(),
        Expr::Negative(inner) => is_whole(inner),
        _ => false,
    }
}

/// A decimal without an end, such as 0.333…: a number that no decimal with an end is.
fn is_repeating(expr: &Expr) -> bool {
    match expr {
        Expr::Number(number) => {
            let below = number.denom();
            let odd = below >> below.trailing_zeros().unwrap_or(0);
            let fives = u32::try_from(odd.bits()).unwrap_or(u32::MAX);
            !(BigInt::from(5).pow(fives) % odd).is_zero()
        }
        other => other.parts().into_iter().any(is_repeating),
    }
}

pub(super) fn is_ten(expr: &Expr) -> bool {
    matches!(expr, Expr::Number(ten) if *ten == BigRational::from_integer(10.into()))
}

/// 12/4 and 12:4, which are 3.
pub(super) fn is_whole_quotient(expr: &Expr, meter: &Meter) -> bool {
    match expr {
        Expr::Negative(inner) => is_whole_quotient(inner, meter),
        Expr::Quotient(..) => rational(expr, meter).is_some_and(|value| value.is_integer()),
        Expr::Ratio(parts) => match parts.as_slice() {
            [a, b] => is_whole_quotient(
                &Expr::Quotient(Box::new(a.clone()), Box::new(b.clone())),
                meter,
            ),
            _ => false,
        },
        _ => false,
    }
}

/// 2:1, which is as far as a ratio goes.
fn is_ratio_to_one(expr: &Expr) -> bool {
    matches!(expr, Expr::Ratio(parts)
        if matches!(parts.as_slice(), [_, Expr::Number(one)] if one.is_one()))
}

/// Whether there is an inequality in it that is not solved for a name: the name alone on one side, or between two bounds, and no variable on the others.
fn is_unsolved(expr: &Expr) -> bool {
    match expr {
        Expr::Relation(parts, relations) => {
            let is_name = |part: &&Expr| matches!(part, Expr::Symbol(_) | Expr::Apply(..));
            let names = parts.iter().filter(is_name).count();
            let others = parts.iter().filter(|part| !is_name(part));
            let inequality = |relation: &Relation| {
                !matches!(relation, Relation::Equal | Relation::Near | Relation::In)
            };
            relations.iter().any(inequality) && (names != 1 || others.into_iter().any(has_variable))
        }
        Expr::List(parts) | Expr::Set(parts) => parts.iter().any(is_unsolved),
        Expr::Combine(a, _, b) => is_unsolved(a) || is_unsolved(b),
        _ => false,
    }
}

/// A sum or product of powers of variables, in any form.
fn is_polynomial(expr: &Expr) -> bool {
    is_algebraic(expr, &is_literal)
}

/// The same with variables below fractions.
fn is_rational(expr: &Expr) -> bool {
    is_algebraic(expr, &|below| is_algebraic(below, &|_| false))
}

/// A sum or product of powers of variables over what `below` allows.
fn is_algebraic(expr: &Expr, below: &dyn Fn(&Expr) -> bool) -> bool {
    let plain = |expr: &Expr| is_algebraic(expr, below);
    match expr {
        Expr::Number(_) | Expr::Symbol(_) | Expr::Constant(_) => true,
        Expr::Sum(parts) | Expr::Product(parts) => parts.iter().all(plain),
        Expr::Negative(inner) => plain(inner),
        Expr::Power(base, power) => plain(base) && is_literal(power),
        Expr::Quotient(above, under) => plain(above) && below(under),
        _ => false,
    }
}
