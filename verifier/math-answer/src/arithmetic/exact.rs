//! Exact rational values of numbers and of arithmetic.

use dashu_int::ops::{Abs as _, BitTest as _, Gcd as _, SquareRoot as _, UnsignedAbs as _};
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use crate::expression::{Expr, FullDebug, Function};
use crate::meter::{Meter, arithmetic_cost, limb_count};

/// Maximum length of a number in bits.
const MAX_BITS: usize = 8192;
/// Factorials of larger numbers are not computed.
const MAX_FACTORIAL: u32 = 512;

/// The rational value of `expr`, if there is one within the limits.
pub(crate) fn rational(expr: &Expr, meter: &Meter) -> Option<RBig> {
    meter.spend(4)?;
    let rational = |expr: &Expr| rational(expr, meter);
    let value = match expr {
        Expr::Number(FullDebug(number)) => {
            meter.spend(limb_count(number.numerator()) / 8)?;
            number.clone()
        }
        Expr::Mixed(FullDebug(whole), fraction) => {
            let fraction = rational(fraction)?;
            meter.spend(arithmetic_cost(&fraction, &fraction) + limb_count(whole) - 1)?;
            fraction + whole
        }
        Expr::Negative(inner) => -rational(inner)?,
        Expr::Sum(terms) => terms
            .iter()
            .try_fold(RBig::ZERO, |sum, term| add(&sum, &rational(term)?, meter))?,
        Expr::Product(factors) => factors.iter().try_fold(RBig::ONE, |product, factor| {
            multiply(&product, &rational(factor)?, meter)
        })?,
        Expr::Quotient(above, below) => {
            let below = rational(below)?;
            if below.is_zero() {
                return None;
            }
            let above = rational(above)?;
            meter.spend(arithmetic_cost(&above, &below))?;
            above / below
        }
        Expr::Power(base, power) => {
            return self::power(&rational(base)?, &rational(power)?, meter);
        }
        Expr::Root(index, radicand) => {
            let index = rational(index)?;
            if index <= RBig::ZERO {
                return None;
            }
            return power(&rational(radicand)?, &index.pow(-1), meter);
        }
        Expr::Percent(inner) => {
            let inner = rational(inner)?;
            meter.spend(arithmetic_cost(&inner, &inner))?;
            inner / UBig::from(100_u8)
        }
        Expr::Call(function, arguments) => return call(*function, arguments, meter),
        _ => return None,
    };
    bounded(value)
}

/// The greatest common divisor, not negative. It is 0 if both numbers are 0.
pub(crate) fn gcd(a: &IBig, b: &IBig) -> IBig {
    // The library's function is undefined there.
    if a.is_zero() && b.is_zero() {
        return IBig::ZERO;
    }
    a.gcd(b).into()
}

/// The least common multiple, not negative. It is 0 if one of the numbers is 0.
fn lcm(a: &IBig, b: &IBig) -> IBig {
    if a.is_zero() || b.is_zero() {
        return IBig::ZERO;
    }
    (a / gcd(a, b) * b).abs()
}

/// The sum, if the meter allows it and it is not too large.
pub(crate) fn add(a: &RBig, b: &RBig, meter: &Meter) -> Option<RBig> {
    meter.spend(arithmetic_cost(a, b))?;
    bounded(a + b)
}

/// The product, if the meter allows it and it is not too large.
pub(crate) fn multiply(a: &RBig, b: &RBig, meter: &Meter) -> Option<RBig> {
    meter.spend(arithmetic_cost(a, b))?;
    bounded(a * b)
}

fn bounded(value: RBig) -> Option<RBig> {
    (bits(&value) <= MAX_BITS).then_some(value)
}

fn call(function: Function, arguments: &[Expr], meter: &Meter) -> Option<RBig> {
    let values = arguments.iter().map(|argument| rational(argument, meter));
    let values = values.collect::<Option<Vec<_>>>()?;
    let whole = |value: &RBig| value.is_int().then(|| value.numerator().clone());
    let limbs: u64 = values
        .iter()
        .map(|value| limb_count(value.numerator()) + limb_count(value.denominator()))
        .sum();
    meter.spend(4 + limbs * limbs / 8)?;
    let of_integers = |join: fn(&IBig, &IBig) -> IBig| {
        let mut joined = whole(&values[0])?;
        for value in &values[1..] {
            let value = whole(value)?;
            let limbs = limb_count(&joined) + limb_count(&value);
            meter.spend(8 + limbs * limbs)?;
            joined = join(&joined, &value);
            if joined.bit_len() > MAX_BITS {
                return None;
            }
        }
        bounded(joined.into())
    };
    match function {
        Function::Abs => Some(values[0].clone().abs()),
        Function::Floor => Some(values[0].floor().into()),
        Function::Ceiling => Some(values[0].ceil().into()),
        Function::Min => values.into_iter().min(),
        Function::Max => values.into_iter().max(),
        Function::Gcd => of_integers(gcd),
        Function::Lcm => of_integers(lcm),
        Function::Factorial => {
            let n = to_u32(whole(&values[0])?).filter(|n| *n <= MAX_FACTORIAL)?;
            meter.spend(u64::from(n) * 8)?;
            let product = (1..=n).fold(UBig::ONE, |product, k| product * k);
            bounded(product.into())
        }
        Function::Binomial => {
            let n = to_u32(whole(&values[0])?).filter(|n| *n <= 4096)?;
            let k = to_u32(whole(&values[1])?)?;
            if k > n {
                return Some(RBig::ZERO);
            }
            meter.spend(u64::from(k.min(n - k)) * 64)?;
            let mut binomial = UBig::ONE;
            for step in 0..k.min(n - k) {
                binomial = binomial * (n - step) / (step + 1);
            }
            bounded(binomial.into())
        }
        _ => None,
    }
}

/// `base^exponent`, if it is rational and not too large.
fn power(base: &RBig, exponent: &RBig, meter: &Meter) -> Option<RBig> {
    let index = u32::try_from(exponent.denominator())
        .ok()
        .filter(|index| *index <= 64)?;
    let exponent = exponent.numerator();
    if base.is_zero() {
        return (*exponent > IBig::ZERO).then_some(RBig::ZERO);
    }
    let base = if index == 1 {
        base.clone()
    } else {
        let limbs = limb_count(base.numerator()) + limb_count(base.denominator());
        meter.spend(40 + limbs * limbs * u64::from(index.ilog2() + 1))?;
        root(base, index)?
    };
    let times = to_u32(exponent.clone().abs())?;
    let bits = bits(&base);
    let size = bits.saturating_mul(times as usize);
    // Powers of 1 and −1 stay small for any exponent.
    if bits > 1 && size > MAX_BITS {
        return None;
    }
    let limbs = (size.min(MAX_BITS) / 64) as u64;
    meter.spend(8 + limbs * limbs / 8)?;
    let times = if bits <= 1 { times % 2 + 2 } else { times } as isize;
    let negative = *exponent < IBig::ZERO;
    Some(base.pow(if negative { -times } else { times }))
}

/// The exact root, if there is one. A negative number has real roots of odd index.
fn root(value: &RBig, index: u32) -> Option<RBig> {
    if *value < RBig::ZERO {
        return (index % 2 == 1).then(|| root(&-value, index).map(|root| -root))?;
    }
    let exact = |n: &UBig| {
        let root = whole_root(n, index);
        (root.pow(index as usize) == *n).then_some(root)
    };
    let above = exact(&value.numerator().unsigned_abs())?;
    Some(RBig::from_parts(above.into(), exact(value.denominator())?))
}

/// The root, rounded down. `index` is not 0. The library's own function takes hundreds of times as long if the index is a large prime.
pub(crate) fn whole_root(n: &UBig, index: u32) -> UBig {
    let index = index as usize;
    match (n.bit_len(), index) {
        (_, 2) => return n.sqrt(),
        (bits, index) if bits <= index => return n.clone().min(UBig::ONE),
        _ => {}
    }
    // Newton's method, from above.
    let mut root = UBig::ONE << (n.bit_len() / index + 1);
    loop {
        let next = (n / root.pow(index - 1) + &root * (index - 1)) / index;
        if next >= root {
            return root;
        }
        root = next;
    }
}

/// The length in bits of the longer part of a fraction.
pub(crate) fn bits(value: &RBig) -> usize {
    let (above, below) = (value.numerator(), value.denominator());
    above.bit_len().max(below.bit_len())
}

/// The number, if it fits.
fn to_u32(number: IBig) -> Option<u32> {
    number.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_root_is_the_largest_whole_number_whose_power_is_not_larger(n: u128, more: u128, index in 1u32..70) {
            let n = UBig::from(n) * UBig::from(more) / UBig::from(index);
            for n in [n.clone(), whole_root(&n, index).pow(index as usize)] {
                let root = whole_root(&n, index);
                prop_assert!(root.pow(index as usize) <= n);
                prop_assert!((root + UBig::ONE).pow(index as usize) > n);
            }
        }

        #[test]
        fn gcd_and_lcm_agree_with_a_search_over_all_numbers(a in -200i64..200, b in -200i64..200) {
            let divides = |d: i64, n: i64| if d == 0 { n == 0 } else { n % d == 0 };
            let [first, second] = [a, b].map(IBig::from);
            let greatest = (1..=200).rev().find(|d| divides(*d, a) && divides(*d, b));
            let greatest = if (a, b) == (0, 0) { 0 } else { greatest.unwrap_or(1) };
            prop_assert_eq!(gcd(&first, &second), IBig::from(greatest));
            let least = (1..=40_000).find(|n| divides(a, *n) && divides(b, *n));
            prop_assert_eq!(lcm(&first, &second), IBig::from(least.unwrap_or(0)));
        }
    }
}
