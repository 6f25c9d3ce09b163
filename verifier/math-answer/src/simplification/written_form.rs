//! How an expression is written, regardless of its value: digits, signs, powers of ten, sums after numbers.

use dashu_ratio::RBig;

use crate::arithmetic::exact::rational;
use crate::expression::{Expr, FullDebug, Relation};
use crate::meter::Meter;

/// The expression without units and names. Of a chain of equal values, the last one.
pub(crate) fn without_unit(expr: &Expr) -> &Expr {
    match expr {
        Expr::Quantity(inner, _) | Expr::Money(_, inner) => without_unit(inner),
        Expr::Degrees(inner) | Expr::Percent(inner) if !is_percent_or_degrees(inner) => {
            without_unit(inner)
        }
        // 27 + 45 = 72 ≈ 70 ends in the exact value 72.
        Expr::Relation(parts, relations)
            if relations
                .iter()
                .all(|relation| matches!(relation, Relation::Equal | Relation::Near)) =>
        {
            let exact = relations
                .iter()
                .take_while(|relation| **relation == Relation::Equal)
                .count();
            parts.get(exact).map_or(expr, without_unit)
        }
        other => other,
    }
}

/// A plain number: digits, a fraction, a mixed number or a power of ten.
pub(crate) fn is_plain_number(expr: &Expr) -> bool {
    match expr {
        Expr::Number(_) | Expr::Mixed(..) | Expr::Based(..) | Expr::Words(_) => true,
        // −(−12) has one sign too many.
        Expr::Negative(inner) => !is_signed(inner) && is_plain_number(inner),
        // (300%)° should be 3°.
        Expr::Percent(inner) | Expr::Degrees(inner) => {
            !is_percent_or_degrees(inner) && is_plain_number(inner)
        }
        Expr::Quantity(inner, _) | Expr::Money(_, inner) => is_plain_number(inner),
        Expr::Quotient(above, below) => is_whole(above) && is_whole(below),
        Expr::Power(base, power) => is_ten(base) && is_nontrivial_exponent(power),
        Expr::Product(factors) => match factors.as_slice() {
            // 10·10² should be 10³.
            [mantissa, Expr::Power(base, power)] => {
                is_literal(mantissa)
                    && !is_ten(mantissa)
                    && is_ten(base)
                    && is_nontrivial_exponent(power)
            }
            _ => false,
        },
        Expr::Ratio(parts) => parts.iter().all(is_literal),
        _ => false,
    }
}

/// A whole number except 0 and 1. A simplified answer has no such exponents.
fn is_nontrivial_exponent(expr: &Expr) -> bool {
    let is_trivial = |expr: &Expr| matches!(expr, Expr::Number(FullDebug(number)) if number.is_zero() || number.is_one());
    is_literal(expr) && !is_trivial(expr)
}

/// Percent or degrees. A plain number has only one such sign.
pub(crate) fn is_percent_or_degrees(expr: &Expr) -> bool {
    matches!(expr, Expr::Percent(_) | Expr::Degrees(_))
}

pub(crate) fn is_one(expr: &Expr) -> bool {
    matches!(expr, Expr::Number(FullDebug(one)) if one.is_one())
}

/// 1 or −1. A simplified answer is not multiplied or divided by these.
pub(crate) fn is_plus_minus_one(expr: &Expr) -> bool {
    match expr {
        Expr::Negative(inner) => is_one(inner),
        other => is_one(other),
    }
}

/// A power of a number, or a product of such powers: 2⁴⁹, 2³·5².
pub(crate) fn is_written_power(expr: &Expr) -> bool {
    match expr {
        Expr::Power(base, exponent) => is_literal(base) && is_literal(exponent),
        Expr::Negative(inner) => is_written_power(inner),
        Expr::Quotient(above, below) => is_one(above) && is_written_power(below),
        Expr::Product(factors) => {
            let power = |one: &&Expr| matches!(one, Expr::Power(..));
            factors.iter().any(|one| power(&one))
                && factors
                    .iter()
                    .all(|one| is_literal(one) || power(&one) && is_written_power(one))
        }
        _ => false,
    }
}

/// Digits, with at most one sign.
pub(crate) fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Number(_) => true,
        Expr::Negative(inner) => !is_signed(inner) && is_literal(inner),
        _ => false,
    }
}

/// Whether it begins with a sign, or has one in a numerator or denominator.
pub(crate) fn is_signed(expr: &Expr) -> bool {
    match expr {
        Expr::Negative(_) => true,
        Expr::Quotient(above, below) => is_signed(above) || is_signed(below),
        Expr::Product(factors) => factors.iter().any(is_signed),
        Expr::Money(_, inner) | Expr::Percent(inner) | Expr::Degrees(inner) => is_signed(inner),
        _ => false,
    }
}

/// Whether a factor has a negative power.
pub(crate) fn has_inverse(expr: &Expr) -> bool {
    match expr {
        Expr::Power(_, exponent) => is_signed(exponent),
        Expr::Product(factors) => factors.iter().any(has_inverse),
        _ => false,
    }
}

/// The digits of a whole number, with at most one sign.
pub(crate) fn is_whole(expr: &Expr) -> bool {
    match expr {
        Expr::Number(FullDebug(number)) => number.is_int(),
        Expr::Negative(inner) => !is_signed(inner) && is_whole(inner),
        _ => false,
    }
}

pub(crate) fn is_ten(expr: &Expr) -> bool {
    matches!(expr, Expr::Number(FullDebug(ten)) if *ten == RBig::from(10))
}

/// 12/4, 12:4 and 30·10⁻¹. They equal 3.
pub(crate) fn is_whole_quotient(expr: &Expr, meter: &Meter) -> bool {
    let divides_evenly = || rational(expr, meter).is_some_and(|value| value.is_int());
    match expr {
        Expr::Negative(inner) => is_whole_quotient(without_unit(inner), meter),
        Expr::Quotient(..) => divides_evenly(),
        Expr::Product(factors) => match factors.as_slice() {
            [mantissa, Expr::Power(base, power)] => {
                is_literal(mantissa) && is_ten(base) && is_signed(power) && divides_evenly()
            }
            _ => false,
        },
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

/// 2:1. It cannot be simplified further.
pub(crate) fn is_ratio_to_one(expr: &Expr) -> bool {
    matches!(expr, Expr::Ratio(parts)
        if matches!(parts.as_slice(), [_, Expr::Number(FullDebug(one))] if one.is_one()))
}

/// Whether it is a sum, or has one as a factor or in a numerator.
pub(crate) fn has_sum_factor(expr: &Expr) -> bool {
    match expr {
        Expr::Sum(_) => true,
        Expr::Negative(inner) => has_sum_factor(inner),
        Expr::Quotient(above, _) => has_sum_factor(above),
        Expr::Product(factors) => factors.iter().any(has_sum_factor),
        _ => false,
    }
}

/// A number in digits, or a constant.
pub(crate) fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Number(_) | Expr::Mixed(..) | Expr::Constant(_) => true,
        Expr::Negative(inner) => is_constant(inner),
        Expr::Quotient(above, below) => is_constant(above) && is_constant(below),
        _ => false,
    }
}
