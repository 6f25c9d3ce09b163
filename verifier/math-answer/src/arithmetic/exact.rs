//! Exact rational values: of numbers, and of the arithmetic that answers leave undone.

use dashu_int::UBig;
use dashu_int::ops::Gcd as _;
use num_bigint::{BigInt, BigUint, Sign};
use num_rational::BigRational;
use num_traits::{One as _, Signed as _, ToPrimitive as _, Zero as _};

use crate::meter::{Meter, arithmetic, words};
use crate::syntax::{Expr, Function};

/// No number of more bits is computed.
const MAX_BITS: u64 = 8192;
/// No factorial of a larger number is.
const MAX_FACTORIAL: u32 = 512;

/// The rational number that `expr` is, where that can be computed within bounds.
pub(crate) fn rational(expr: &Expr, meter: &Meter) -> Option<BigRational> {
    meter.spend(4)?;
    let rational = |expr: &Expr| rational(expr, meter);
    let value = match expr {
        Expr::Number(number) => {
            meter.spend(words(number.numer()) / 8)?;
            number.clone()
        }
        Expr::Mixed(whole, fraction) => {
            let fraction = rational(fraction)?;
            meter.spend(arithmetic(&fraction, &fraction) + whole.bits() / 64)?;
            let above = BigInt::from(whole.clone()) * fraction.denom() + fraction.numer();
            BigRational::new_raw(above, fraction.denom().clone())
        }
        Expr::Negative(inner) => -rational(inner)?,
        Expr::Sum(terms) => {
            let mut sum = BigRational::zero();
            for term in terms {
                let term = rational(term)?;
                meter.spend(arithmetic(&sum, &term))?;
                let above = sum.numer() * term.denom() + term.numer() * sum.denom();
                sum = bounded(reduced(above, sum.denom() * term.denom()))?;
            }
            sum
        }
        Expr::Product(factors) => {
            let mut product = BigRational::one();
            for factor in factors {
                let factor = rational(factor)?;
                meter.spend(arithmetic(&product, &factor))?;
                let above = product.numer() * factor.numer();
                product = bounded(reduced(above, product.denom() * factor.denom()))?;
            }
            product
        }
        Expr::Quotient(above, below) => {
            let below = rational(below)?;
            if below.is_zero() {
                return None;
            }
            let (below, above) = (below.recip(), rational(above)?);
            meter.spend(arithmetic(&above, &below))?;
            reduced(above.numer() * below.numer(), above.denom() * below.denom())
        }
        Expr::Power(base, power) => {
            return self::power(&rational(base)?, &rational(power)?, meter);
        }
        Expr::Root(index, radicand) => {
            let index = rational(index)?;
            if !index.is_positive() {
                return None;
            }
            return power(&rational(radicand)?, &index.recip(), meter);
        }
        Expr::Percent(inner) => {
            let inner = rational(inner)?;
            meter.spend(arithmetic(&inner, &inner))?;
            reduced(inner.numer().clone(), inner.denom() * 100u32)
        }
        Expr::Call(function, arguments) => return call(*function, arguments, meter),
        _ => return None,
    };
    bounded(value)
}

/// A fraction in lowest terms, its denominator being positive. The library's own reduction takes many times as long, and longest where the denominator is 1.
pub(crate) fn reduced(numerator: BigInt, denominator: BigInt) -> BigRational {
    if denominator.is_one() {
        return BigRational::from_integer(numerator);
    }
    let common = gcd(&numerator, &denominator);
    if common.is_one() {
        return BigRational::new_raw(numerator, denominator);
    }
    BigRational::new_raw(numerator / &common, denominator / common)
}

/// The greatest common divisor, not negative; 0 where both numbers are 0.
fn gcd(a: &BigInt, b: &BigInt) -> BigInt {
    // The other library's is undefined there.
    if a.is_zero() && b.is_zero() {
        return BigInt::zero();
    }
    let natural = |n: &BigInt| UBig::from_le_bytes(&n.magnitude().to_bytes_le());
    let common = natural(a).gcd(&natural(b));
    BigInt::from_bytes_le(Sign::Plus, &common.to_le_bytes())
}

/// The least common multiple, not negative; 0 where a number is 0.
fn lcm(a: &BigInt, b: &BigInt) -> BigInt {
    if a.is_zero() || b.is_zero() {
        return BigInt::zero();
    }
    (a / gcd(a, b) * b).abs()
}

pub(crate) fn bounded(value: BigRational) -> Option<BigRational> {
    (value.numer().bits() <= MAX_BITS && value.denom().bits() <= MAX_BITS).then_some(value)
}

fn call(function: Function, arguments: &[Expr], meter: &Meter) -> Option<BigRational> {
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        values.push(rational(argument, meter)?);
    }
    let whole = |value: &BigRational| value.is_integer().then(|| value.to_integer());
    let limbs: u64 = values
        .iter()
        .map(|value| words(value.numer()) + words(value.denom()))
        .sum();
    meter.spend(4 + limbs * limbs / 8)?;
    let of_integers = |join: fn(&BigInt, &BigInt) -> BigInt| {
        let mut joined = whole(&values[0])?;
        for value in &values[1..] {
            let value = whole(value)?;
            let limbs = words(&joined) + words(&value);
            meter.spend(8 + limbs * limbs)?;
            joined = join(&joined, &value);
            if joined.bits() > MAX_BITS {
                return None;
            }
        }
        bounded(BigRational::from_integer(joined))
    };
    match function {
        Function::Abs => Some(values[0].abs()),
        Function::Floor => Some(values[0].floor()),
        Function::Ceiling => Some(values[0].ceil()),
        Function::Min => values
            .into_iter()
            .reduce(|a, b| if below(&b, &a) { b } else { a }),
        Function::Max => values
            .into_iter()
            .reduce(|a, b| if below(&a, &b) { b } else { a }),
        Function::Gcd => of_integers(gcd),
        Function::Lcm => of_integers(lcm),
        Function::Factorial => {
            let n = whole(&values[0])?
                .to_u32()
                .filter(|n| *n <= MAX_FACTORIAL)?;
            meter.spend(u64::from(n) * 8)?;
            let product = (1..=n).fold(BigUint::one(), |product, k| product * k);
            bounded(BigRational::from_integer(product.into()))
        }
        Function::Binomial => {
            let n = whole(&values[0])?.to_u32().filter(|n| *n <= 4096)?;
            let k = whole(&values[1])?.to_u32()?;
            if k > n {
                return Some(BigRational::zero());
            }
            meter.spend(u64::from(k.min(n - k)) * 64)?;
            let mut binomial = BigUint::one();
            for step in 0..k.min(n - k) {
                binomial = binomial * (n - step) / (step + 1);
            }
            bounded(BigRational::from_integer(binomial.into()))
        }
        _ => None,
    }
}

/// Whether a is less than b.
pub(crate) fn below(a: &BigRational, b: &BigRational) -> bool {
    a.numer() * b.denom() < b.numer() * a.denom()
}

/// `base^exponent`, where it is rational and not too large.
fn power(base: &BigRational, exponent: &BigRational, meter: &Meter) -> Option<BigRational> {
    let index = exponent.denom().to_u32().filter(|index| *index <= 64)?;
    let exponent = exponent.numer();
    if base.is_zero() {
        return exponent.is_positive().then(BigRational::zero);
    }
    let base = if index == 1 {
        base.clone()
    } else {
        let limbs = words(base.numer()) + words(base.denom());
        meter.spend(40 + limbs * limbs * u64::from(index.ilog2() + 1))?;
        root(base, index)?
    };
    let times = exponent.abs().to_u32()?;
    let bits = base.numer().bits().max(base.denom().bits());
    // 1 and −1 stay small whatever the exponent.
    if bits > 1 && bits.saturating_mul(u64::from(times)) > MAX_BITS {
        return None;
    }
    let limbs = bits.saturating_mul(u64::from(times)).min(MAX_BITS) / 64;
    meter.spend(8 + limbs * limbs / 8)?;
    let times = if bits <= 1 { times % 2 + 2 } else { times };
    // Powers of what has no common factor have none.
    let power = BigRational::new_raw(base.numer().pow(times), base.denom().pow(times));
    Some(if exponent.is_negative() {
        power.recip()
    } else {
        power
    })
}

/// The exact root, where there is one. A negative number has real roots of odd index.
fn root(value: &BigRational, index: u32) -> Option<BigRational> {
    if value.is_negative() {
        return (index % 2 == 1).then(|| root(&-value, index).map(|root| -root))?;
    }
    let exact = |n: &BigInt| {
        let root = n.nth_root(index);
        (root.pow(index) == *n).then_some(root)
    };
    let (above, below) = (exact(value.numer())?, exact(value.denom())?);
    Some(BigRational::new_raw(above, below))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fractions_are_reduced_as_by_the_library(above: i128, below in 1u64.., common in 1u64..) {
            let common = BigInt::from(common);
            let [above, below] = [BigInt::from(above) * &common, BigInt::from(below) * &common];
            let ours = reduced(above.clone(), below.clone());
            let theirs = BigRational::new(above, below);
            prop_assert_eq!((ours.numer(), ours.denom()), (theirs.numer(), theirs.denom()));
        }

        #[test]
        fn gcd_and_lcm_equal_those_of_num_integer(a: i128, b: i128, common in -9i128..9) {
            for (a, b) in [(a, b), (a / 16 * common, b / 16 * common), (common, 0), (0, 0)] {
                let [a, b] = [a, b].map(BigInt::from);
                prop_assert_eq!(gcd(&a, &b), num_integer::Integer::gcd(&a, &b));
                prop_assert_eq!(lcm(&a, &b), num_integer::Integer::lcm(&a, &b));
            }
        }
    }
}
