//! Numbers with a measure: units, degrees, percent, money, words.

use std::borrow::Cow;

use dashu_ratio::RBig;
use dashu_ratio::ops::Abs as _;

use crate::arithmetic::exact::rational;
use crate::equivalence::value_equality::{RealNumber, ValueComparer};
use crate::expression::{Constant, Expr, Function};
use crate::match_rule::Rule;
use crate::meter::Meter;
use crate::parser::counted_nouns::count_alike;
use crate::parser::unit::{self, Measure, measure};
use crate::question_hints::{AskedUnit, Likelihood};

/// Compares numbers with their measures.
pub(crate) fn compare_quantities(
    comparer: &ValueComparer,
    expected: &Expr,
    answer: &Expr,
) -> Option<Rule> {
    if let (Some(a), Some(b)) = (qualifier(expected), qualifier(answer))
        && a != b
    {
        return None;
    }
    if let (Some(a), Some(b)) = (counted_words(expected), counted_words(answer))
        && !count_alike(a, b)
    {
        return None;
    }
    // Where dozens are counted, 7 dozen are 7.
    let answer = match dozens(answer) {
        Some(number) if comparer.hints.dozens && dozens(expected).is_none() => number,
        _ => answer,
    };
    let (expected, expected_measure) = split_measure(expected);
    let (answer, answer_measure) = split_measure(answer);
    let same = |a: &Expr, b: &Expr| comparer.equality(a, b);
    let by_unit = |a: &Expr, b: &Expr| same(a, b).map(|_| Rule::Unit);
    let scaled =
        |expr: &Expr, size: &RBig| Expr::Product(vec![expr.clone(), Expr::number(size.clone())]);
    let hundredth = RBig::from(100).pow(-1);
    let degrees = |expr: &Expr| Expr::Degrees(Box::new(expr.clone()));
    match (expected_measure, answer_measure) {
        (
            Some(Measure::Unit(size, dimension)),
            Some(Measure::Unit(other_size, other_dimension)),
        ) => {
            if dimension != other_dimension {
                return None;
            }
            if size == other_size {
                return same(&expected, &answer);
            }
            by_unit(&scaled(&expected, &size), &scaled(&answer, &other_size))
        }
        // The sign of the expected answer decides. 50% and 50 are the same, but 0.5 is no answer to 50%, since it would be half a percent.
        (Some(Measure::Percent), None) => same(&expected, &answer),
        (None, Some(Measure::Percent)) => {
            if counts_percent_or_degrees(comparer.hints.percent, comparer, &expected) {
                return same(&expected, &answer);
            }
            by_unit(&expected, &scaled(&answer, &hundredth))
        }
        (Some(Measure::Degrees), Some(Measure::Radians)) => by_unit(&degrees(&expected), &answer),
        (Some(Measure::Radians), Some(Measure::Degrees)) => by_unit(&expected, &degrees(&answer)),
        (Some(a), Some(b)) if are_incompatible(&a, &b) => None,
        (None, Some(Measure::Radians))
            if comparer.hints.degrees == Likelihood::Yes && !in_radians(&expected) =>
        {
            by_unit(&degrees(&expected), &answer)
        }
        (None, Some(Measure::Unit(size, dimension))) => {
            match comparer.hints.asked_unit(&size, dimension) {
                AskedUnit::Same => same(&expected, &answer),
                AskedUnit::OtherSize(asked) => {
                    by_unit(&scaled(&expected, asked), &scaled(&answer, &size))
                }
                AskedUnit::OtherDimension => None,
            }
        }
        (Some(Measure::Degrees), None) => {
            if in_radians(&answer) {
                return by_unit(&degrees(&expected), &answer);
            }
            same(&expected, &answer)
        }
        (None, Some(Measure::Degrees)) => {
            if !in_radians(&expected)
                && counts_percent_or_degrees(comparer.hints.degrees, comparer, &expected)
            {
                return same(&expected, &answer);
            }
            by_unit(&expected, &degrees(&answer))
        }
        _ => same(&expected, &answer),
    }
}

/// Whether a bare number counts percent or degrees. If the question leaves it open, a number above 1 does. Other numbers are more likely shares, ratios or
/// sines.
fn counts_percent_or_degrees(
    likelihood: Likelihood,
    comparer: &ValueComparer,
    expr: &Expr,
) -> bool {
    if likelihood != Likelihood::Maybe {
        return likelihood == Likelihood::Yes;
    }
    match comparer.real_number(expr) {
        Some(RealNumber::Exact(value)) => value.abs() > RBig::ONE,
        Some(RealNumber::Numeric(value)) => value.real().is_some_and(|value| value.abs() > 1.0),
        Some(RealNumber::Infinite(_)) | None => false,
    }
}

/// Whether it is an angle in radians: a number with π in it, or an inverse trigonometric function.
fn in_radians(expr: &Expr) -> bool {
    expr.contains(&|part| {
        matches!(
            part,
            Expr::Constant(Constant::Pi)
                | Expr::Call(Function::Arcsin | Function::Arccos | Function::Arctan, _)
        )
    })
}

/// The words for what a number counts.
fn counted_words(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Negative(inner) => counted_words(inner),
        Expr::Quantity(_, words) => (measure(words) == Measure::Words).then_some(words),
        _ => None,
    }
}

/// Whether it is a number with a unit of known size.
pub(crate) fn has_sized_unit(expr: &Expr, meter: &Meter) -> bool {
    matches!(expr, Expr::Quantity(number, words)
        if matches!(measure(words), Measure::Unit(..)) && rational(number, meter).is_some())
}

/// The size of the larger unit of 1 hour 30 minutes.
pub(crate) fn larger_unit(expr: &Expr) -> Option<RBig> {
    if let Expr::Quantity(inner, larger) = expr
        && let Expr::Quantity(_, smaller) = &**inner
        && let Measure::Unit(size, dimension) = measure(larger)
        && let Measure::Unit(other, same) = measure(smaller)
    {
        return (dimension == same && size > other).then_some(size);
    }
    None
}

/// The number before "dozen".
pub(crate) fn dozens(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Quantity(inner, words) if measure(words) == measure("dozen") => Some(inner),
        Expr::Quantity(inner, _) => dozens(inner),
        _ => None,
    }
}

/// The unit of an angle, degrees or radians.
pub(crate) fn angle_unit(expr: &Expr) -> Option<Measure> {
    match split_measure(expr).1 {
        Some(unit @ (Measure::Degrees | Measure::Radians)) => Some(unit),
        None => in_radians(expr).then_some(Measure::Radians),
        _ => None,
    }
}

/// A word that qualifies a measure and changes it: the scale of degrees, their direction, or the unit after "per" of an amount of money.
fn qualifier(expr: &Expr) -> Option<String> {
    let (measure_of, words) = match expr {
        Expr::Negative(inner) => return qualifier(inner),
        expr if larger_unit(expr).is_some() => return None,
        Expr::Quantity(inner, words) => match split_measure(inner).1 {
            Some(of) => (of, words.as_str()),
            // 50 degrees Celsius.
            None => (Measure::Degrees, words_after_degrees(words)?),
        },
        _ => return None,
    };
    let qualifies = match (&measure_of, measure(words)) {
        (_, Measure::Scale(_)) => false,
        (Measure::Degrees, of) => of != Measure::Degrees,
        (Measure::Unit(..), of @ Measure::Unit(..)) => of != measure_of,
        _ => false,
    };
    let lower = words.trim().trim_matches('.').to_lowercase();
    qualifies.then(|| match lower.as_str() {
        "fahrenheit" => "f".into(),
        "celsius" | "centigrade" => "c".into(),
        _ => lower,
    })
}

/// The words after "degrees", if there are any.
fn words_after_degrees(words: &str) -> Option<&str> {
    let (first, rest) = words.trim().split_once(char::is_whitespace)?;
    matches!(first.to_ascii_lowercase().as_str(), "degree" | "degrees").then_some(rest)
}

/// Whether two measures are of different kinds, so that no value of one is a value of the other.
fn are_incompatible(first: &Measure, second: &Measure) -> bool {
    let kind = |measure: &Measure| match measure {
        Measure::Unit(..) => 0,
        Measure::Degrees => 1,
        Measure::Percent => 2,
        Measure::Words => 3,
        Measure::Generic(_) | Measure::Scale(_) | Measure::Noon(_) => 4,
        Measure::Radians => 5,
    };
    match (first, second) {
        (Measure::Generic(a), Measure::Generic(b)) => return a != b,
        (Measure::Generic(power), Measure::Unit(_, dimension))
        | (Measure::Unit(_, dimension), Measure::Generic(power)) => {
            return !dimension.may_be_units(*power);
        }
        (Measure::Generic(power), Measure::Words) | (Measure::Words, Measure::Generic(power)) => {
            return *power != 1;
        }
        _ => {}
    }
    let (a, b) = (kind(first), kind(second));
    // 50 °F may be written as 50°.
    let is_temperature = |one: &Measure, other: &Measure| matches!((one, other), (Measure::Degrees, Measure::Unit(_, dimension)) if dimension.is_temperature());
    let is_generic = |one, other| one == 4 && matches!(other, 0 | 3);
    a != b
        && !is_generic(a, b)
        && !is_generic(b, a)
        && !is_temperature(first, second)
        && !is_temperature(second, first)
}

/// A value, and the measure beside it.
pub(crate) fn split_measure(expr: &Expr) -> (Cow<'_, Expr>, Option<Measure>) {
    match expr {
        Expr::Negative(inner) => match split_measure(inner) {
            (_, None) => (Cow::Borrowed(expr), None),
            (inner, of) => (Cow::Owned(Expr::Negative(Box::new(inner.into_owned()))), of),
        },
        // $3 million and $5 dollars are amounts. $5% and $5 cm have no meaning.
        Expr::Money(sign, inner) => match (split_measure(inner), unit::money(*sign)) {
            ((amount, None | Some(Measure::Words | Measure::Generic(_))), money) => {
                (amount, Some(money))
            }
            ((amount, Some(other)), money) if other == money => (amount, Some(money)),
            _ => (Cow::Borrowed(expr), None),
        },
        Expr::Degrees(inner) => (Cow::Borrowed(inner), Some(Measure::Degrees)),
        Expr::Percent(inner) => (Cow::Borrowed(inner), Some(Measure::Percent)),
        Expr::Quantity(inner, words) if words_after_degrees(words).is_some() => {
            (split_measure(inner).0, Some(Measure::Degrees))
        }
        Expr::Quantity(inner, words) => match (measure(words), split_measure(inner)) {
            (Measure::Scale(size), (amount, of)) => {
                let product = vec![amount.into_owned(), Expr::number(size)];
                (Cow::Owned(Expr::Product(product)), of)
            }
            (of, (amount, None)) => (amount, Some(of)),
            // 90° degrees and $5 dollars repeat the measure. $5 cm has two different ones.
            (Measure::Words | Measure::Generic(_), (amount, of)) => (amount, of),
            (outer, (amount, Some(inner))) if outer == inner || larger_unit(expr).is_some() => {
                (amount, Some(inner))
            }
            _ => (Cow::Borrowed(expr), None),
        },
        other => (Cow::Borrowed(other), None),
    }
}
