//! Whole numbers that are powers of whole numbers, and expressions that are powers.

use dashu_int::ops::{BitTest as _, UnsignedAbs as _};
use dashu_int::{IBig, UBig};

use crate::arithmetic::exact::whole_root;
use crate::expression::{Expr, FullDebug};

/// Maximum length in bits of a radicand in which powers are looked for.
pub(super) const MAX_RADICAND: usize = 512;

/// Whether a power has a root of this index: e^{2x} and 9ⁿ have a square root.
pub(super) fn has_whole_root(expr: &Expr, index: &IBig) -> bool {
    matches!(expr, Expr::Power(base, exponent) if is_multiple(exponent, index) || is_perfect(base, index))
}

/// Whether it is a product with a numeric factor that `of` divides: 2x for 2.
pub(super) fn is_multiple(expr: &Expr, of: &IBig) -> bool {
    let divided = |factor: &Expr| matches!(factor, Expr::Number(FullDebug(number)) if number.is_int() && (number.numerator() % of).is_zero());
    matches!(expr, Expr::Product(factors) if factors.iter().any(divided))
}

/// Whether a whole number has a whole root of this index.
pub(super) fn is_perfect(expr: &Expr, index: &IBig) -> bool {
    let (Expr::Number(FullDebug(number)), Ok(index @ 1..)) = (expr, u32::try_from(index)) else {
        return false;
    };
    number.is_int()
        && number.numerator().bit_len() <= MAX_RADICAND
        && is_power(&number.numerator().unsigned_abs(), index)
}

/// Whether it is a whole number to the power `index`.
pub(super) fn is_power(number: &UBig, index: u32) -> bool {
    whole_root(number, index).pow(index as usize) == *number
}
