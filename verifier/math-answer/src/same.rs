//! Whether two parsed answers are the same: by the kind of thing that they are.

mod linear;
pub(crate) mod named;
pub(crate) mod quantity;
pub(crate) mod reals;
pub(crate) mod signs;
pub(crate) mod value;

use dashu_ratio::RBig;

use crate::arithmetic::modular::Element;
use crate::read::unit::{Measure, measure};
use crate::read::words;
use crate::rule::Rule;
use crate::same::named::{assigned, chained, is_ambiguous, names_several, points};
use crate::same::quantity::{measured, quantities};
use crate::same::reals::Reals;
use crate::same::signs::variants;
use crate::same::value::{Agreement, Judge};
use crate::syntax::{Bracket, Expr, Full, Relation, SetOperator};

/// Elements of longer lists are compared in order only.
const MAX_UNORDERED: usize = 48;
/// Steps that a comparison costs at least.
const PAIR: u64 = 20;

impl From<Agreement> for Rule {
    fn from(same: Agreement) -> Self {
        match same {
            Agreement::Number => Rule::Number,
            Agreement::Form => Rule::Form,
            Agreement::Identity => Rule::Identity,
            Agreement::Digits => Rule::Digits,
        }
    }
}

/// The rule by which `given` is `right`.
pub(crate) fn same(judge: &Judge, right: &Expr, given: &Expr) -> Option<Rule> {
    judge.meter.spend(PAIR)?;
    let (right, given) = (
        variants(right, &judge.meter)?,
        variants(given, &judge.meter)?,
    );
    let (right, given) = (chained(judge, &right), chained(judge, &given));
    let (right, given): (&Expr, &Expr) = (&right, &given);
    if let (Expr::Relation(parts, relations), Expr::Relation(others, other_relations)) =
        (right, given)
    {
        // What is computed as a set is decided.
        if Reals::of(judge, right).is_some() && Reals::of(judge, given).is_some() {
            return sets(judge, right, given);
        }
        return relation(judge, (parts, relations), (others, other_relations));
    }
    if is_ambiguous(right, given) || is_ambiguous(given, right) {
        return None;
    }
    let (right, given) = (points(right, given), points(given, right));
    let (right, given): (&Expr, &Expr) = (&right, &given);
    let (right, given) = (assigned(right, given), assigned(given, right));
    if let Some(rule) = spoken(judge, right, given) {
        return rule;
    }
    if let Some(rule) = elements(judge, right, given) {
        return rule;
    }
    if let Some(rule) = sets(judge, right, given) {
        return Some(rule);
    }
    if let (Some((how, a)), Some((other, b))) = (joined(right), joined(given)) {
        // What is computed as a set is decided.
        if Reals::of(judge, right).is_some() && Reals::of(judge, given).is_some() {
            return None;
        }
        // A comma says "and"; "or" where all begin with one name.
        let alike = match (how, other) {
            (None, Some(SetOperator::Union)) | (Some(SetOperator::Union), None) => {
                begin_alike(&a) && begin_alike(&b)
            }
            (how, other) => how == other || how.is_none() || other.is_none(),
        };
        let same = alike && a.len() <= MAX_UNORDERED && unordered(judge, &a, &b, false);
        return same.then_some(Rule::Elements);
    }
    match (right, given) {
        (Expr::Ratio(_), _) | (_, Expr::Ratio(_)) => ratio(judge, right, given),
        (Expr::Based(..), _) | (_, Expr::Based(..)) => (right == given).then_some(Rule::Base),
        (Expr::Negative(a), Expr::Negative(b)) if is_based(a) || is_based(b) => {
            same(judge, a, b).filter(|rule| *rule == Rule::Base)
        }
        (Expr::Apply(name, arguments), Expr::Apply(other, others)) => {
            let alike = name == other && arguments.len() == others.len();
            (alike
                && arguments
                    .iter()
                    .zip(others)
                    .all(|(a, b)| same(judge, a, b).is_some()))
            .then_some(Rule::Form)
        }
        _ => quantities(judge, right, given).or_else(|| {
            (is_spelled(right, given) || is_spelled(given, right)).then_some(Rule::Words)
        }),
    }
}

/// Whether `bare` is the letters of a number with words for what is counted: 14 apples, without `\text`.
fn is_spelled(counted: &Expr, bare: &Expr) -> bool {
    let (Expr::Quantity(number, text), Expr::Product(_)) = (counted, bare) else {
        return false;
    };
    let joined: String = text.split_whitespace().collect();
    let spelled = words::letters(number).map(|number| number + &joined);
    measure(text) == Measure::Words && spelled.is_some() && spelled == words::letters(bare)
}

fn is_based(expr: &Expr) -> bool {
    matches!(expr, Expr::Based(..))
}

/// In words, one of them at least. `None` where both are mathematics.
#[expect(clippy::option_option, reason = "unequal words are no mathematics")]
fn spoken(judge: &Judge, right: &Expr, given: &Expr) -> Option<Option<Rule>> {
    let wordy = |expr: &Expr| {
        matches!(expr, Expr::Words(_))
            || matches!(expr, Expr::Quantity(_, words) if matches!(measure(words), Measure::Noon(_)))
    };
    if !wordy(right) && !wordy(given) {
        return None;
    }
    if let (Some(a), Some(b)) = (words::said(right), words::said(given))
        && words::same(&a, &b)
    {
        return Some(Some(Rule::Words));
    }
    // Four is 4; 9 is 9 a.m., as far as it goes.
    let numbers = |said: Option<words::Said>, other: &Expr| -> bool {
        let Some(said) = said else { return false };
        match (&said, other) {
            (words::Said::Time(parts, _), Expr::Ratio(others)) => {
                let others: Vec<Option<RBig>> =
                    others.iter().map(|other| judge.rational(other)).collect();
                parts.len() == others.len()
                    && parts
                        .iter()
                        .zip(others)
                        .all(|(part, other)| other == Some(RBig::from(*part)))
            }
            (words::Said::Time(parts, _), Expr::Number(Full(hour))) => {
                *hour == RBig::from(parts[0]) && parts[1..].iter().all(|part| *part == 0)
            }
            _ => words::number(&said).is_some_and(|number| judge.same(&number, other).is_some()),
        }
    };
    let same = numbers(words::said(right), given) || numbers(words::said(given), right);
    Some(same.then_some(Rule::Words))
}

/// Elements against elements. `None` where neither has elements, or where they may be sets of numbers besides.
#[expect(clippy::option_option, reason = "unequal elements are decided")]
fn elements(judge: &Judge, right: &Expr, given: &Expr) -> Option<Option<Rule>> {
    let each = |a: &[Expr], b: &[Expr]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(judge, a, b).is_some())
    };
    match (right, given) {
        (Expr::Tuple(open, a, close), Expr::Tuple(other_open, b, other_close)) => {
            let round = |bracket: Bracket| {
                if bracket == Bracket::Angle {
                    Bracket::Round
                } else {
                    bracket
                }
            };
            let alike = round(*open) == round(*other_open) && round(*close) == round(*other_close);
            Some((alike && each(a, b)).then_some(Rule::Elements))
        }
        (Expr::Matrix(kind, a), Expr::Matrix(other, b)) => {
            let alike =
                kind == other && a.len() == b.len() && a.iter().zip(b).all(|(a, b)| each(a, b));
            Some(alike.then_some(Rule::Elements))
        }
        (Expr::Set(a) | Expr::List(a), Expr::Set(b) | Expr::List(b)) => {
            // Values of which only one answer says what they are of are told apart by their order.
            if names_several(a) != names_several(b) {
                let lists = matches!((right, given), (Expr::List(_), Expr::List(_)));
                return Some((lists && each(a, b)).then_some(Rule::Elements));
            }
            if each(a, b) {
                return Some(Some(Rule::Elements));
            }
            // The order of words may be what was asked for; that of letters, numbers and pairs is not.
            let ordered = |items: &[Expr]| {
                items.iter().any(|item| matches!(item, Expr::Words(words) if words.chars().filter(|c| c.is_alphabetic()).count() > 1))
            };
            let free = a.len() <= MAX_UNORDERED && !ordered(a) && !ordered(b);
            let braces = matches!((right, given), (Expr::Set(_), Expr::Set(_)));
            let (a_items, b_items): (Vec<&Expr>, Vec<&Expr>) =
                (a.iter().collect(), b.iter().collect());
            if free && unordered(judge, &a_items, &b_items, braces) {
                return Some(Some(Rule::Elements));
            }
            // Inequalities in a list may make one set.
            let related =
                |items: &[Expr]| items.iter().any(|item| matches!(item, Expr::Relation(..)));
            if related(a) || related(b) {
                None
            } else {
                Some(None)
            }
        }
        (Expr::Matrix(..), _) | (_, Expr::Matrix(..)) => Some(None),
        _ => None,
    }
}

/// Inequalities that stand beside each other, and by which word where there is one.
fn joined(expr: &Expr) -> Option<(Option<SetOperator>, Vec<&Expr>)> {
    let is_relation = |item: &&Expr| matches!(item, Expr::Relation(..));
    let (how, items) = match expr {
        Expr::List(items) => (None, items.iter().collect()),
        Expr::Combine(_, operator, _) => {
            let (mut items, mut left) = (Vec::new(), expr);
            while let Expr::Combine(before, same, last) = left
                && same == operator
            {
                items.push(&**last);
                left = before;
            }
            items.push(left);
            (Some(*operator), items)
        }
        _ => return None,
    };
    items.iter().all(is_relation).then_some((how, items))
}

fn begin_alike(items: &[&Expr]) -> bool {
    let first = |item: &Expr| match item {
        Expr::Relation(parts, _) => parts.first().cloned(),
        _ => None,
    };
    items.windows(2).all(|two| first(two[0]) == first(two[1]))
}

/// The same elements in any order; in braces, however often each is written.
pub(crate) fn unordered(judge: &Judge, right: &[&Expr], given: &[&Expr], braces: bool) -> bool {
    if right.len().max(given.len()) > MAX_UNORDERED || (!braces && right.len() != given.len()) {
        return false;
    }
    // Most that differ are told apart by their prints.
    let printed = |items: &[&Expr]| -> Vec<Option<Element>> {
        items.iter().map(|item| fingerprint(judge, item)).collect()
    };
    let (prints, others) = (printed(right), printed(given));
    let alike = |a: usize, b: usize| {
        let apart = matches!((prints[a], others[b]), (Some(one), Some(other)) if one != other);
        judge.meter.spend(1).is_some() && !apart && same(judge, right[a], given[b]).is_some()
    };
    if braces {
        return (0..right.len()).all(|a| (0..given.len()).any(|b| alike(a, b)))
            && (0..given.len()).all(|b| (0..right.len()).any(|a| alike(a, b)));
    }
    let mut left: Vec<usize> = (0..given.len()).collect();
    (0..right.len()).all(|a| {
        let at = left.iter().position(|b| alike(a, *b));
        at.map(|at| left.swap_remove(at)).is_some()
    })
}

/// What differs between two plain expressions of different values.
fn fingerprint(judge: &Judge, item: &Expr) -> Option<Element> {
    let plain = !matches!(item, Expr::Symbol(name) if name == "Reals");
    let bare = measured(item).1.is_none();
    (plain && bare).then(|| judge.fingerprint(item))?
}

/// Both as sets of real numbers, where one is put together of several, or an inequality.
fn sets(judge: &Judge, right: &Expr, given: &Expr) -> Option<Rule> {
    let set = |expr: &Expr| {
        matches!(expr, Expr::Combine(..) | Expr::Relation(..) | Expr::List(_))
            || matches!(expr, Expr::Symbol(name) if name == "Reals")
    };
    if !set(right) && !set(given) {
        return None;
    }
    let (a, b) = (Reals::of(judge, right)?, Reals::of(judge, given)?);
    a.same(judge, &b).then_some(Rule::Set)
}

/// Equations and inequalities.
fn relation(
    judge: &Judge,
    (parts, relations): (&[Expr], &[Relation]),
    (others, other_relations): (&[Expr], &[Relation]),
) -> Option<Rule> {
    let each = |others: &mut dyn Iterator<Item = &Expr>| {
        parts
            .iter()
            .zip(others)
            .all(|(a, b)| same(judge, a, b).is_some())
    };
    if parts.len() == others.len() {
        if relations == other_relations && each(&mut others.iter()) {
            return Some(Rule::Relation);
        }
        let turned: Vec<Relation> = other_relations
            .iter()
            .rev()
            .map(|one| turned(*one))
            .collect();
        if relations == turned && each(&mut others.iter().rev()) {
            return Some(Rule::Relation);
        }
    }
    let ([left, right], [other_left, other_right]) = (parts, others) else {
        return None;
    };
    let ([relation], [other]) = (relations, other_relations) else {
        return None;
    };
    let equations = (relation, other) == (&Relation::Equal, &Relation::Equal);
    // BC:AB = 4:3 is AB:BC = 3:4.
    if let (true, Expr::Ratio(a), Expr::Ratio(b)) = (equations, left, other_left)
        && let ([_, _], [first, second]) = (a.as_slice(), b.as_slice())
    {
        let swapped = Expr::Ratio(vec![second.clone(), first.clone()]);
        let inverse = same(judge, left, &swapped).is_some()
            && same(judge, right, &inverted(other_right)).is_some();
        return inverse.then_some(Rule::Relation);
    }
    // x = 5 is an answer, 2x = 10 a step on the way to it; and two answers have been compared.
    if equations && (solved(left, right) || solved(other_left, other_right)) {
        return None;
    }
    let difference =
        |a: &Expr, b: &Expr| Expr::Sum(vec![a.clone(), Expr::Negative(Box::new(b.clone()))]);
    let sign = judge.proportional(
        &difference(left, right),
        &difference(other_left, other_right),
    )?;
    let agree = match (relation, other) {
        (Relation::Equal, Relation::Equal) | (Relation::Unequal, Relation::Unequal) => true,
        (Relation::Equal | Relation::Near | Relation::Unequal | Relation::In, _)
        | (_, Relation::Near | Relation::In) => false,
        (a, b) if sign > 0.0 => a == b,
        (a, b) => *a == turned(*b),
    };
    agree.then_some(Rule::Relation)
}

/// One divided by it.
fn inverted(value: &Expr) -> Expr {
    match value {
        Expr::Ratio(parts) => Expr::Ratio(parts.iter().rev().cloned().collect()),
        other => Expr::Quotient(Box::new(Expr::number(1)), Box::new(other.clone())),
    }
}

/// Whether it says what number one name is.
fn solved(left: &Expr, right: &Expr) -> bool {
    matches!(left, Expr::Symbol(_)) && !right.has_variable()
}

fn turned(relation: Relation) -> Relation {
    match relation {
        Relation::Less => Relation::Greater,
        Relation::LessOrEqual => Relation::GreaterOrEqual,
        Relation::Greater => Relation::Less,
        Relation::GreaterOrEqual => Relation::LessOrEqual,
        other => other,
    }
}

/// a : b as a : b, or as a fraction.
fn ratio(judge: &Judge, right: &Expr, given: &Expr) -> Option<Rule> {
    // 2:15 is half of 4:30, and no other way to write that time.
    if judge.question.time {
        return (right == given).then_some(Rule::Ratio);
    }
    let quotient = |a: &Expr, b: &Expr| Expr::Quotient(Box::new(a.clone()), Box::new(b.clone()));
    let equal = match (right, given) {
        (Expr::Ratio(a), Expr::Ratio(b)) => {
            a.len() == b.len()
                && a.windows(2).zip(b.windows(2)).all(|(a, b)| {
                    a == b
                        || judge
                            .same(&quotient(&a[0], &a[1]), &quotient(&b[0], &b[1]))
                            .is_some()
                })
        }
        (Expr::Ratio(parts), value) | (value, Expr::Ratio(parts)) => {
            matches!(parts.as_slice(), [a, b] if judge.same(&quotient(a, b), value).is_some())
        }
        _ => false,
    };
    equal.then_some(Rule::Ratio)
}
