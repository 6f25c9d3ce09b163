//! Whether two parsed answers are the same: by the kind of thing that they are.

use std::borrow::Cow;

use num_bigint::BigInt;
use num_rational::BigRational;

use super::Rule;
use super::exact::rational;
use super::reals::Reals;
use super::syntax::{Bracket, Expr, Relation, Side};
use super::unit::{self, Measure, measure};
use super::value::{Judge, Same};
use super::words;

/// Elements of longer lists are compared in order only.
const MAX_UNORDERED: usize = 48;
/// Values that signs of ± stand for, at most.
const MAX_VARIANTS: usize = 16;

impl From<Same> for Rule {
    fn from(same: Same) -> Self {
        match same {
            Same::Number => Rule::Number,
            Same::Form => Rule::Form,
            Same::Identity => Rule::Identity,
            Same::Digits => Rule::Digits,
        }
    }
}

/// The rule by which `given` is `right`.
pub(super) fn same(judge: &Judge, right: &Expr, given: &Expr) -> Option<Rule> {
    let (right, given) = (variants(right)?, variants(given)?);
    let (right, given) = (chained(judge, &right), chained(judge, &given));
    if let (Expr::Relation(parts, relations), Expr::Relation(others, other_relations)) =
        (right, given)
    {
        return relation(judge, (parts, relations), (others, other_relations))
            .or_else(|| sets(judge, right, given));
    }
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
                let others: Vec<Option<BigRational>> = others.iter().map(rational).collect();
                parts.len() == others.len()
                    && parts.iter().zip(others).all(|(part, other)| {
                        other == Some(BigRational::from_integer((*part).into()))
                    })
            }
            (words::Said::Time(parts, _), Expr::Number(hour)) => {
                *hour == BigRational::from_integer(parts[0].into())
                    && parts[1..].iter().all(|part| *part == 0)
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
            if each(a, b) {
                return Some(Some(Rule::Elements));
            }
            // The order of words may be what was asked for; that of letters, numbers and pairs is not.
            let ordered = |items: &[Expr]| {
                items.iter().any(|item| matches!(item, Expr::Words(words) if words.chars().filter(|c| c.is_alphabetic()).count() > 1))
            };
            let free = a.len() <= MAX_UNORDERED && !ordered(a) && !ordered(b);
            let braces = matches!((right, given), (Expr::Set(_), Expr::Set(_)));
            if free && unordered(judge, a, b, braces) {
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

/// The same elements in any order; in braces, however often each is written.
fn unordered(judge: &Judge, right: &[Expr], given: &[Expr], braces: bool) -> bool {
    let has =
        |items: &[Expr], item: &Expr| items.iter().any(|other| same(judge, item, other).is_some());
    if braces {
        return right.len().max(given.len()) <= MAX_UNORDERED
            && right.iter().all(|item| has(given, item))
            && given.iter().all(|item| has(right, item));
    }
    if right.len() != given.len() {
        return false;
    }
    let mut left: Vec<&Expr> = given.iter().collect();
    right.iter().all(|item| {
        let at = left
            .iter()
            .position(|other| same(judge, item, other).is_some());
        at.map(|at| left.swap_remove(at)).is_some()
    })
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
    // x = 5 is an answer, 2x = 10 a step on the way to it.
    if solved(left, right) != solved(other_left, other_right) {
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
        (Relation::Equal | Relation::Unequal | Relation::In, _) | (_, Relation::In) => false,
        (a, b) if sign > 0.0 => a == b,
        (a, b) => *a == turned(*b),
    };
    agree.then_some(Rule::Relation)
}

/// Whether it says what one name is.
fn solved(left: &Expr, right: &Expr) -> bool {
    matches!(left, Expr::Symbol(_)) && rational(right).is_some()
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

/// What `x = 5` says of x, where the other answer does not name it; and the set of `x ∈ [0, 1]`.
fn assigned<'a>(expr: &'a Expr, other: &Expr) -> &'a Expr {
    let Expr::Relation(parts, relations) = expr else {
        return expr;
    };
    let ([left, value], [relation]) = (parts.as_slice(), relations.as_slice()) else {
        return expr;
    };
    let name = match left {
        Expr::Symbol(_) => true,
        Expr::Apply(_, arguments) => matches!(arguments.as_slice(), [Expr::Symbol(_)]),
        _ => false,
    };
    let strips = match relation {
        Relation::Equal => !matches!(other, Expr::Relation(..)),
        Relation::In => true,
        _ => false,
    };
    if name && strips { value } else { expr }
}

/// The last of several equal values: ½ = 0.5 says ½.
fn chained<'a>(judge: &Judge, expr: &'a Expr) -> &'a Expr {
    if let Expr::Relation(parts, relations) = expr
        && relations
            .iter()
            .all(|relation| *relation == Relation::Equal)
        && let Some((last, before)) = parts.split_last()
        && before.iter().all(|part| {
            judge.real(bare(part)).is_some() && judge.same(bare(part), bare(last)).is_some()
        })
    {
        return last;
    }
    expr
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Money(_, inner) | Expr::Quantity(inner, _) => inner,
        other => other,
    }
}

/// Numbers with what they measure.
fn quantities(judge: &Judge, right: &Expr, given: &Expr) -> Option<Rule> {
    let (right, of) = measured(right);
    let (given, other) = measured(given);
    let same = |a: &Expr, b: &Expr| judge.same(a, b).map(Rule::from);
    let scaled = |expr: &Expr, size: &BigRational| {
        Expr::Product(vec![expr.clone(), Expr::Number(size.clone())])
    };
    let hundredth = BigRational::new(BigInt::from(1), BigInt::from(100));
    let degrees = |expr: &Expr| Expr::Degrees(Box::new(expr.clone()));
    match (of, other) {
        (
            Some(Measure::Unit(size, dimension)),
            Some(Measure::Unit(other_size, other_dimension)),
        ) => {
            if dimension != other_dimension {
                return None;
            }
            if size == other_size {
                return same(&right, &given);
            }
            same(&scaled(&right, &size), &scaled(&given, &other_size)).map(|_| Rule::Unit)
        }
        (Some(a), Some(b)) if apart(&a, &b) => None,
        (Some(Measure::Percent), None) => same(&right, &given)
            .or_else(|| same(&scaled(&right, &hundredth), &given).map(|_| Rule::Unit)),
        (None, Some(Measure::Percent)) => same(&right, &given)
            .or_else(|| same(&right, &scaled(&given, &hundredth)).map(|_| Rule::Unit)),
        (Some(Measure::Degrees), None) => {
            same(&right, &given).or_else(|| same(&degrees(&right), &given).map(|_| Rule::Unit))
        }
        (None, Some(Measure::Degrees)) => {
            same(&right, &given).or_else(|| same(&right, &degrees(&given)).map(|_| Rule::Unit))
        }
        _ => same(&right, &given),
    }
}

/// Whether it is a number with a unit that has a size.
pub(super) fn names_unit(expr: &Expr) -> bool {
    matches!(expr, Expr::Quantity(number, words)
        if rational(number).is_some() && matches!(measure(words), Measure::Unit(..)))
}

/// Whether two measures are of different kinds: no value of one is one of the other.
fn apart(one: &Measure, other: &Measure) -> bool {
    let kind = |measure: &Measure| match measure {
        Measure::Unit(..) => 0,
        Measure::Degrees => 1,
        Measure::Percent => 2,
        Measure::Words => 3,
        Measure::Generic | Measure::Scale(_) | Measure::Noon(_) => 4,
    };
    let (a, b) = (kind(one), kind(other));
    // 50 °F may be written 50°.
    let warm = |one: &Measure, other: &Measure| matches!((one, other), (Measure::Degrees, Measure::Unit(_, dimension)) if dimension.is_temperature());
    // "units" may be any unit, or any word for what is counted.
    let any = |one, other| one == 4 && matches!(other, 0 | 3);
    a != b && !any(a, b) && !any(b, a) && !warm(one, other) && !warm(other, one)
}

/// A value, and the unit that stands beside it.
fn measured(expr: &Expr) -> (Cow<'_, Expr>, Option<Measure>) {
    match expr {
        Expr::Negative(inner) => match measured(inner) {
            (_, None) => (Cow::Borrowed(expr), None),
            (inner, of) => (Cow::Owned(Expr::Negative(Box::new(inner.into_owned()))), of),
        },
        // $3 million, $5 dollars.
        Expr::Money(sign, inner) => (measured(inner).0, Some(unit::money(*sign))),
        Expr::Degrees(inner) => (Cow::Borrowed(inner), Some(Measure::Degrees)),
        Expr::Percent(inner) => (Cow::Borrowed(inner), Some(Measure::Percent)),
        Expr::Quantity(inner, words) => match (measure(words), measured(inner)) {
            (Measure::Scale(size), (amount, of)) => {
                let product = vec![amount.into_owned(), Expr::Number(size)];
                (Cow::Owned(Expr::Product(product)), of)
            }
            (of, (amount, None)) => (amount, Some(of)),
            // 90° degrees.
            (_, (amount, of)) => (amount, of),
        },
        other => (Cow::Borrowed(other), None),
    }
}

/// a : b as a : b, or as a fraction.
fn ratio(judge: &Judge, right: &Expr, given: &Expr) -> Option<Rule> {
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

/// The values that the signs of ± stand for, as a list.
fn variants(expr: &Expr) -> Option<Cow<'_, Expr>> {
    match count(expr) {
        0 => Some(Cow::Borrowed(expr)),
        signs => spread(expr, signs).map(Cow::Owned),
    }
}

/// The same, where there are some signs.
fn spread(expr: &Expr, signs: usize) -> Option<Expr> {
    match expr {
        Expr::List(items) | Expr::Set(items) => {
            let mut all = Vec::new();
            for item in items {
                match variants(item)?.into_owned() {
                    Expr::List(more) => all.extend(more),
                    one => all.push(one),
                }
            }
            Some(if matches!(expr, Expr::Set(_)) {
                Expr::Set(all)
            } else {
                Expr::List(all)
            })
        }
        Expr::Relation(parts, relations) => {
            let ([name, value], [Relation::Equal]) = (parts.as_slice(), relations.as_slice())
            else {
                return None;
            };
            match (count(name), variants(value)?.into_owned()) {
                (0, Expr::List(values)) => Some(Expr::List(
                    values
                        .into_iter()
                        .map(|value| {
                            Expr::Relation(vec![name.clone(), value], vec![Relation::Equal])
                        })
                        .collect(),
                )),
                _ => None,
            }
        }
        _ => {
            // With ∓ among them all signs go together; else each goes by itself.
            let together = has_lower(expr);
            let free = if together {
                1
            } else {
                u32::try_from(signs).ok()?
            };
            if free > MAX_VARIANTS.ilog2() {
                return None;
            }
            let all = (0..1_u32 << free).map(|choice| {
                let mut at = 0;
                chosen(expr, &mut |side| {
                    let upper = choice >> (if together { 0 } else { at }) & 1 == 0;
                    at += 1;
                    upper == (side == Side::PlusMinus)
                })
            });
            // In a union or a matrix a sign is no list of values.
            let all: Vec<Expr> = all.collect();
            let chosen = all.iter().all(|one| count(one) == 0);
            chosen.then_some(Expr::List(all))
        }
    }
}

/// Signs of ± and ∓.
fn count(expr: &Expr) -> usize {
    usize::from(matches!(expr, Expr::PlusMinus(..)))
        + expr.parts().into_iter().map(count).sum::<usize>()
}

fn has_lower(expr: &Expr) -> bool {
    matches!(expr, Expr::PlusMinus(Side::MinusPlus, _)) || expr.parts().into_iter().any(has_lower)
}

/// The expression with each sign chosen: true keeps plus.
fn chosen(expr: &Expr, choose: &mut impl FnMut(Side) -> bool) -> Expr {
    let mut one = |expr: &Expr| Box::new(chosen(expr, choose));
    match expr {
        Expr::PlusMinus(side, inner) => {
            let plus = choose(*side);
            let inner = chosen(inner, choose);
            if plus {
                inner
            } else {
                Expr::Negative(Box::new(inner))
            }
        }
        Expr::Sum(all) => Expr::Sum(all.iter().map(|x| chosen(x, choose)).collect()),
        Expr::Product(all) => Expr::Product(all.iter().map(|x| chosen(x, choose)).collect()),
        Expr::Call(function, all) => {
            Expr::Call(*function, all.iter().map(|x| chosen(x, choose)).collect())
        }
        Expr::Tuple(open, all, close) => Expr::Tuple(
            *open,
            all.iter().map(|x| chosen(x, choose)).collect(),
            *close,
        ),
        Expr::Quotient(a, b) => Expr::Quotient(one(a), one(b)),
        Expr::Power(a, b) => Expr::Power(one(a), one(b)),
        Expr::Root(a, b) => Expr::Root(one(a), one(b)),
        Expr::Negative(inner) => Expr::Negative(one(inner)),
        Expr::Quantity(inner, words) => Expr::Quantity(one(inner), words.clone()),
        Expr::Degrees(inner) => Expr::Degrees(one(inner)),
        Expr::Percent(inner) => Expr::Percent(one(inner)),
        Expr::Money(sign, inner) => Expr::Money(*sign, one(inner)),
        other => other.clone(),
    }
}
