//! Arithmetic modulo a prime below 2⁶² that a seed determines, in Montgomery's form (Montgomery 1985).
//!
//! No prime is known before both answers are. So no answer can be constructed to fit one, for instance with an exponent that is a multiple of p − 1.

use dashu_int::ops::UnsignedAbs as _;
use dashu_int::{IBig, UBig};

use crate::random_seed::mix;

/// The prime 2⁶¹ − 1, which is 3 modulo 4. It is used if no other is found.
const MERSENNE: u64 = (1 << 61) - 1;
/// Maximum number of candidates. One in twenty is a prime.
const MAX_TRIES: u64 = 4096;
/// The bases of the Miller-Rabin test. Every composite number of 64 bits fails it for one of these (Sorenson & Webster 2015).
const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];

/// A modulus, odd and below 2⁶². Numbers are stored as multiples of 2⁶⁴.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prime {
    pub(crate) p: u64,
    /// −1/p modulo 2⁶⁴.
    inverse: u64,
    /// 2⁶⁴ modulo p, which represents 1.
    pub(crate) one: u64,
    /// 2¹²⁸ modulo p.
    square: u64,
}

impl Prime {
    /// The prime of a seed. It is 3 modulo 4, so that −1 has no square root.
    pub(crate) fn from_seed(seed: u64) -> Self {
        (0..MAX_TRIES)
            .map(|number| (mix(seed ^ mix(number)) >> 3) | (1 << 60) | 3)
            .find(|candidate| is_prime(*candidate))
            .map_or_else(|| Self::modulo(MERSENNE), Self::modulo)
    }

    fn modulo(p: u64) -> Self {
        // Each step doubles the number of correct bits. p itself has three.
        let inverse = (0..5).fold(p, |inverse, _| {
            inverse.wrapping_mul(2_u64.wrapping_sub(p.wrapping_mul(inverse)))
        });
        let one = ((1_u128 << 64) % u128::from(p)) as u64;
        Self {
            p,
            inverse: inverse.wrapping_neg(),
            one,
            square: (u128::from(one) * u128::from(one) % u128::from(p)) as u64,
        }
    }

    pub(crate) fn of_u64(self, value: u64) -> u64 {
        self.times(value % self.p, self.square)
    }

    pub(crate) fn of_natural(self, value: &UBig) -> u64 {
        self.of_u64(value % self.p)
    }

    pub(crate) fn of_integer(self, value: &IBig) -> u64 {
        let size = self.of_natural(&value.unsigned_abs());
        if *value < IBig::ZERO {
            self.minus(size)
        } else {
            size
        }
    }

    pub(crate) fn plus(self, a: u64, b: u64) -> u64 {
        let sum = a + b;
        if sum >= self.p { sum - self.p } else { sum }
    }

    pub(crate) fn minus(self, a: u64) -> u64 {
        if a == 0 { 0 } else { self.p - a }
    }

    pub(crate) fn times(self, a: u64, b: u64) -> u64 {
        let product = u128::from(a) * u128::from(b);
        let fill = (product as u64).wrapping_mul(self.inverse);
        let reduced = ((product + u128::from(fill) * u128::from(self.p)) >> 64) as u64;
        if reduced >= self.p {
            reduced - self.p
        } else {
            reduced
        }
    }

    pub(crate) fn raise(self, mut base: u64, mut power: u64) -> u64 {
        let mut result = self.one;
        while power > 0 {
            if power & 1 == 1 {
                result = self.times(result, base);
            }
            base = self.times(base, base);
            power >>= 1;
        }
        result
    }

    /// The inverse of a value that is not 0.
    pub(crate) fn inverse(self, value: u64) -> u64 {
        if value == self.one {
            return value;
        }
        self.raise(value, self.p - 2)
    }

    /// The square root of the value (`Ok`), or of its negative (`Err`). Exactly one of the two has a root.
    pub(crate) fn root(self, value: u64) -> Result<u64, u64> {
        let root = self.raise(value, self.p / 4 + 1);
        let is_root = self.times(root, root) == value;
        if is_root { Ok(root) } else { Err(root) }
    }
}

/// Whether an odd number below 2⁶² is a prime.
fn is_prime(candidate: u64) -> bool {
    if BASES.iter().any(|base| candidate.is_multiple_of(*base)) {
        return BASES.contains(&candidate);
    }
    let field = Prime::modulo(candidate);
    let twos = (candidate - 1).trailing_zeros();
    let last = field.minus(field.one);
    BASES.iter().all(|base| {
        let mut power = field.raise(field.of_u64(*base), (candidate - 1) >> twos);
        if power == field.one || power == last {
            return true;
        }
        (1..twos).any(|_| {
            power = field.times(power, power);
            power == last
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn primes_are_distinguished_from_composite_numbers() {
        let small: Vec<u64> = (3..100).step_by(2).filter(|n| is_prime(*n)).collect();
        assert_eq!(small.len(), 24, "{small:?}");
        for prime in [MERSENNE, 2_305_843_009_213_693_921, 16_777_213] {
            assert!(is_prime(prime), "{prime}");
        }
        // Strong pseudoprimes of many small bases, and a square.
        for composite in [
            3_215_031_751,
            3_474_749_660_383,
            341_550_071_728_321,
            3_825_123_056_546_413_051,
            1_073_741_789 * 1_073_741_789,
        ] {
            assert!(!is_prime(composite), "{composite}");
        }
    }

    proptest! {
        #[test]
        fn arithmetic_agrees_with_the_integers(seed: u64, a: i128, b: i128) {
            let field = Prime::from_seed(seed);
            prop_assert_eq!(field.p % 4, 3);
            let [a, b] = [IBig::from(a), IBig::from(b)];
            let of = |value: &IBig| field.of_integer(value);
            prop_assert_eq!(of(&(&a + &b)), field.plus(of(&a), of(&b)));
            prop_assert_eq!(of(&(&a * &b)), field.times(of(&a), of(&b)));
            prop_assert_eq!(of(&-&a), field.minus(of(&a)));
            if of(&a) != 0 {
                prop_assert_eq!(field.times(of(&a), field.inverse(of(&a))), field.one);
                let (Ok(root) | Err(root)) = field.root(of(&a));
                let square = field.times(root, root);
                prop_assert!(square == of(&a) || square == field.minus(of(&a)));
            }
        }
    }
}
