//! Whether fractions with variables are in lowest terms: by the degree of what stands below them.

use crate::syntax::{Expr, Full};

/// A fraction that a factor is left to be cancelled in, or one below a fraction, of which the right answer has none: (x² + x)/(x + 1)² for x/(x + 1).
pub(crate) fn is_reduced_less(right: &Expr, given: &Expr) -> bool {
    let degrees = below(right).zip(below(given));
    let more = degrees.is_some_and(|((_, most), (least, _))| least > most);
    more || (is_nested(given) && !is_nested(right))
}

/// The degree of what stands below fractions, put together: at least, and at most. `None` where that is no polynomial.
fn below(expr: &Expr) -> Option<(u64, u64)> {
    match expr {
        _ if !expr.has_variable() => Some((0, 0)),
        Expr::Symbol(_) => Some((0, 0)),
        Expr::Negative(inner) => below(inner),
        Expr::Sum(terms) => terms
            .iter()
            .try_fold((0, 0), |(least, most): (u64, u64), term| {
                let (low, high) = below(term)?;
                Some((least.max(low), most.saturating_add(high)))
            }),
        Expr::Product(factors) => factors
            .iter()
            .try_fold((0, 0), |sum, factor| Some(plus(sum, below(factor)?))),
        Expr::Quotient(above, under) => {
            let degree = degree(under)?;
            Some(plus(below(above)?, (degree, degree)))
        }
        Expr::Power(base, power) => match &**power {
            Expr::Number(Full(power)) => {
                let power = u64::try_from(power.clone()).ok()?;
                let (least, most) = below(base)?;
                Some((least.saturating_mul(power), most.saturating_mul(power)))
            }
            Expr::Negative(_) => {
                let degree = degree(&Expr::Power(base.clone(), positive(power)?))?;
                Some((degree, degree))
            }
            _ => None,
        },
        _ => None,
    }
}

fn plus((a, b): (u64, u64), (c, d): (u64, u64)) -> (u64, u64) {
    (a.saturating_add(c), b.saturating_add(d))
}

fn positive(power: &Expr) -> Option<Box<Expr>> {
    match power {
        Expr::Negative(inner) => Some(inner.clone()),
        _ => None,
    }
}

/// The degree of a polynomial.
fn degree(expr: &Expr) -> Option<u64> {
    match expr {
        _ if !expr.has_variable() => Some(0),
        Expr::Symbol(_) => Some(1),
        Expr::Negative(inner) => degree(inner),
        Expr::Sum(terms) => terms
            .iter()
            .try_fold(0, |most: u64, term| Some(most.max(degree(term)?))),
        Expr::Product(factors) => factors.iter().try_fold(0, |sum: u64, factor| {
            Some(sum.saturating_add(degree(factor)?))
        }),
        Expr::Quotient(above, under) if !under.has_variable() => degree(above),
        Expr::Power(base, power) => match &**power {
            Expr::Number(Full(power)) if power.is_int() => {
                Some(degree(base)?.saturating_mul(power.numerator().try_into().ok()?))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether a fraction with a variable below it stands below a fraction.
fn is_nested(expr: &Expr) -> bool {
    fn has_fraction(expr: &Expr) -> bool {
        matches!(expr, Expr::Quotient(_, under) if under.has_variable())
            || expr.parts().into_iter().any(has_fraction)
    }
    matches!(expr, Expr::Quotient(_, under) if has_fraction(under))
        || expr.parts().into_iter().any(is_nested)
}
