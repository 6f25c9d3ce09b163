//! Numbers with what they measure: units, degrees, percent, money, words.

use std::borrow::Cow;

use dashu_ratio::RBig;
use dashu_ratio::ops::Abs as _;

use crate::arithmetic::exact::rational;
use crate::meter::Meter;
use crate::question::Asked;
use crate::read::nouns::count_alike;
use crate::read::unit::{self, Measure, measure};
use crate::rule::Rule;
use crate::same::value::{Judge, RealNumber};
use crate::syntax::{Constant, Expr, Function};

/// Numbers with what they measure.
pub(crate) fn quantities(judge: &Judge, right: &Expr, given: &Expr) -> Option<Rule> {
    if let (Some(a), Some(b)) = (told(right), told(given))
        && a != b
    {
        return None;
    }
    if let (Some(a), Some(b)) = (counted(right), counted(given))
        && !count_alike(a, b)
    {
        return None;
    }
    let (right, of) = measured(right);
    let (given, other) = measured(given);
    let same = |a: &Expr, b: &Expr| judge.same(a, b).map(Rule::from);
    let scaled =
        |expr: &Expr, size: &RBig| Expr::Product(vec![expr.clone(), Expr::number(size.clone())]);
    let hundredth = RBig::from(100).pow(-1);
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
        // The right answer decides what a bare number counts: of percent and degrees the same. Half a percent is neither a half, nor is a half of 50%.
        (Some(Measure::Percent), None) => same(&right, &given),
        (None, Some(Measure::Percent)) => {
            if counts(judge.question.percent, judge, &right) {
                return same(&right, &given);
            }
            same(&right, &scaled(&given, &hundredth)).map(|_| Rule::Unit)
        }
        (Some(Measure::Degrees), Some(Measure::Radians)) => {
            same(&degrees(&right), &given).map(|_| Rule::Unit)
        }
        (Some(Measure::Radians), Some(Measure::Degrees)) => {
            same(&right, &degrees(&given)).map(|_| Rule::Unit)
        }
        (Some(a), Some(b)) if apart(&a, &b) => None,
        (None, Some(Measure::Radians))
            if judge.question.degrees == Asked::Yes && !in_radians(&right) =>
        {
            same(&degrees(&right), &given).map(|_| Rule::Unit)
        }
        (None, Some(Measure::Unit(size, dimension))) => {
            match judge.question.other_unit(&size, dimension) {
                Some(asked) => {
                    same(&scaled(&right, asked), &scaled(&given, &size)).map(|_| Rule::Unit)
                }
                None => same(&right, &given),
            }
        }
        (Some(Measure::Degrees), None) => {
            if in_radians(&given) {
                return same(&degrees(&right), &given).map(|_| Rule::Unit);
            }
            same(&right, &given)
        }
        (None, Some(Measure::Degrees)) => {
            if !in_radians(&right) && counts(judge.question.degrees, judge, &right) {
                return same(&right, &given);
            }
            same(&right, &degrees(&given)).map(|_| Rule::Unit)
        }
        _ => same(&right, &given),
    }
}

/// Whether it is a number of percent or degrees, where a question may ask for those: what is at most 1 is more likely a share, a ratio or a sine.
fn counts(asked: Asked, judge: &Judge, expr: &Expr) -> bool {
    if asked != Asked::Perhaps {
        return asked == Asked::Yes;
    }
    match judge.real_number(expr) {
        Some(RealNumber::Exact(value)) => value.abs() > RBig::ONE,
        Some(RealNumber::Digits(value)) => value.real().is_some_and(|value| value.abs() > 1.0),
        Some(RealNumber::Infinite(_)) | None => false,
    }
}

/// Whether it is an angle in radians: a number with π in it, or an inverse of a function of angles.
fn in_radians(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Constant(Constant::Pi)
            | Expr::Call(Function::Arcsin | Function::Arccos | Function::Arctan, _)
    ) || expr.parts().into_iter().any(in_radians)
}

/// The words for what it counts.
fn counted(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Negative(inner) => counted(inner),
        Expr::Quantity(_, words) => (measure(words) == Measure::Words).then_some(words),
        _ => None,
    }
}

/// Whether it is a number with a unit that has a size.
pub(crate) fn names_unit(expr: &Expr, meter: &Meter) -> bool {
    matches!(expr, Expr::Quantity(number, words)
        if matches!(measure(words), Measure::Unit(..)) && rational(number, meter).is_some())
}

/// What is said of a measure besides, and makes it another where it differs: of which scale degrees are, or in which direction; per what money is.
fn told(expr: &Expr) -> Option<String> {
    let (measure_of, words) = match expr {
        Expr::Negative(inner) => return told(inner),
        Expr::Quantity(inner, words) => match measured(inner).1 {
            Some(of) => (of, words.as_str()),
            // 50 degrees Celsius
            None => (Measure::Degrees, of_degrees(words)?),
        },
        _ => return None,
    };
    let tells = match (&measure_of, measure(words)) {
        (_, Measure::Scale(_)) => false,
        (Measure::Degrees, of) => of != Measure::Degrees,
        (Measure::Unit(..), of @ Measure::Unit(..)) => of != measure_of,
        _ => false,
    };
    let lower = words.trim().trim_matches('.').to_lowercase();
    tells.then(|| match lower.as_str() {
        "fahrenheit" => "f".into(),
        "celsius" | "centigrade" => "c".into(),
        _ => lower,
    })
}

/// What stands behind the word "degrees", where something does.
fn of_degrees(words: &str) -> Option<&str> {
    let (first, rest) = words.trim().split_once(char::is_whitespace)?;
    matches!(first.to_ascii_lowercase().as_str(), "degree" | "degrees").then_some(rest)
}

/// Whether two measures are of different kinds: no value of one is one of the other.
fn apart(one: &Measure, other: &Measure) -> bool {
    let kind = |measure: &Measure| match measure {
        Measure::Unit(..) => 0,
        Measure::Degrees => 1,
        Measure::Percent => 2,
        Measure::Words => 3,
        Measure::Generic(_) | Measure::Scale(_) | Measure::Noon(_) => 4,
        Measure::Radians => 5,
    };
    match (one, other) {
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
    let (a, b) = (kind(one), kind(other));
    // 50 °F may be written 50°.
    let warm = |one: &Measure, other: &Measure| matches!((one, other), (Measure::Degrees, Measure::Unit(_, dimension)) if dimension.is_temperature());
    let any = |one, other| one == 4 && matches!(other, 0 | 3);
    a != b && !any(a, b) && !any(b, a) && !warm(one, other) && !warm(other, one)
}

/// A value, and the unit that stands beside it.
pub(crate) fn measured(expr: &Expr) -> (Cow<'_, Expr>, Option<Measure>) {
    match expr {
        Expr::Negative(inner) => match measured(inner) {
            (_, None) => (Cow::Borrowed(expr), None),
            (inner, of) => (Cow::Owned(Expr::Negative(Box::new(inner.into_owned()))), of),
        },
        // $3 million, $5 dollars; but $5% and $5 cm are nothing.
        Expr::Money(sign, inner) => match (measured(inner), unit::money(*sign)) {
            ((amount, None | Some(Measure::Words | Measure::Generic(_))), money) => {
                (amount, Some(money))
            }
            ((amount, Some(other)), money) if other == money => (amount, Some(money)),
            _ => (Cow::Borrowed(expr), None),
        },
        Expr::Degrees(inner) => (Cow::Borrowed(inner), Some(Measure::Degrees)),
        Expr::Percent(inner) => (Cow::Borrowed(inner), Some(Measure::Percent)),
        Expr::Quantity(inner, words) if of_degrees(words).is_some() => {
            (measured(inner).0, Some(Measure::Degrees))
        }
        Expr::Quantity(inner, words) => match (measure(words), measured(inner)) {
            (Measure::Scale(size), (amount, of)) => {
                let product = vec![amount.into_owned(), Expr::number(size)];
                (Cow::Owned(Expr::Product(product)), of)
            }
            (of, (amount, None)) => (amount, Some(of)),
            // 90° degrees, $5 dollars; $5 cm is nothing.
            (Measure::Words | Measure::Generic(_), (amount, of)) => (amount, of),
            (outer, (amount, Some(inner))) if outer == inner => (amount, Some(inner)),
            _ => (Cow::Borrowed(expr), None),
        },
        other => (Cow::Borrowed(other), None),
    }
}
