//! Whether fractions with variables are in lowest terms, judged by the degree of their denominators.

use crate::expression::{Expr, FullDebug};

/// Whether `answer` has a fraction that `expected` lacks, with a common factor or within a denominator: (x² + x)/(x + 1)² for x/(x + 1).
pub(crate) fn is_less_reduced(expected: &Expr, answer: &Expr) -> bool {
    let degrees = denominator_degree(expected).zip(denominator_degree(answer));
    let higher = degrees.is_some_and(|((_, max), (min, _))| min > max);
    higher || (is_nested(answer) && !is_nested(expected))
}

/// The least and the greatest possible degree of the common denominator. `None` if a denominator is not a polynomial.
fn denominator_degree(expr: &Expr) -> Option<(u64, u64)> {
    match expr {
        _ if !expr.has_variable() => Some((0, 0)),
        Expr::Symbol(_) => Some((0, 0)),
        Expr::Negative(inner) => denominator_degree(inner),
        Expr::Sum(terms) => terms
            .iter()
            .try_fold((0, 0), |(min, max): (u64, u64), term| {
                let (low, high) = denominator_degree(term)?;
                Some((min.max(low), max.saturating_add(high)))
            }),
        Expr::Product(factors) => factors.iter().try_fold((0, 0), |sum, factor| {
            Some(add_pairs(sum, denominator_degree(factor)?))
        }),
        Expr::Quotient(above, under) => {
            let degree = degree(under)?;
            Some(add_pairs(denominator_degree(above)?, (degree, degree)))
        }
        Expr::Power(base, power) => match &**power {
            Expr::Number(FullDebug(power)) => {
                let power = u64::try_from(power.clone()).ok()?;
                let (min, max) = denominator_degree(base)?;
                Some((min.saturating_mul(power), max.saturating_mul(power)))
            }
            Expr::Negative(power) => {
                let degree = degree(&Expr::Power(base.clone(), power.clone()))?;
                Some((degree, degree))
            }
            _ => None,
        },
        _ => None,
    }
}

fn add_pairs((a, b): (u64, u64), (c, d): (u64, u64)) -> (u64, u64) {
    (a.saturating_add(c), b.saturating_add(d))
}

/// The degree of a polynomial.
fn degree(expr: &Expr) -> Option<u64> {
    match expr {
        _ if !expr.has_variable() => Some(0),
        Expr::Symbol(_) => Some(1),
        Expr::Negative(inner) => degree(inner),
        Expr::Sum(terms) => terms
            .iter()
            .try_fold(0, |max: u64, term| Some(max.max(degree(term)?))),
        Expr::Product(factors) => factors.iter().try_fold(0, |sum: u64, factor| {
            Some(sum.saturating_add(degree(factor)?))
        }),
        Expr::Quotient(above, under) if !under.has_variable() => degree(above),
        Expr::Power(base, power) => match &**power {
            Expr::Number(FullDebug(power)) if power.is_int() => {
                Some(degree(base)?.saturating_mul(power.numerator().try_into().ok()?))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether a denominator contains a fraction with a variable in its own denominator.
fn is_nested(expr: &Expr) -> bool {
    let is_fraction =
        |part: &Expr| matches!(part, Expr::Quotient(_, under) if under.has_variable());
    expr.contains(&|part| matches!(part, Expr::Quotient(_, under) if under.contains(&is_fraction)))
}
