//! Exact identity by chance: both sides are computed modulo a prime of 61 bits at random points.
//!
//! Numbers, sums, products, quotients, integer powers however large, and square roots of numbers are computed without rounding; π and e are points like variables,
//! since no answer's identity rests on a relation between them. Two different expressions agree at a point with a chance of about their degree over 2⁶¹ (Schwartz 1980,
//! Zippel 1979).

use std::collections::HashMap;

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_rational::BigRational;
use num_traits::{One as _, Signed as _, ToPrimitive as _, Zero as _};

use super::exact::rational;
use super::seed::mix;
use super::syntax::{Constant, Expr, Function};

/// Largest primes below 2⁶¹ that leave 1 modulo 4, so that −1 has a root, which stands for i.
pub(super) const PRIMES: [u64; 16] = [
    2_305_843_009_213_693_921,
    2_305_843_009_213_693_693,
    2_305_843_009_213_693_669,
    2_305_843_009_213_693_613,
    2_305_843_009_213_693_561,
    2_305_843_009_213_693_549,
    2_305_843_009_213_693_421,
    2_305_843_009_213_693_373,
    2_305_843_009_213_693_277,
    2_305_843_009_213_693_193,
    2_305_843_009_213_693_153,
    2_305_843_009_213_693_133,
    2_305_843_009_213_693_109,
    2_305_843_009_213_693_093,
    2_305_843_009_213_693_013,
    2_305_843_009_213_692_937,
];
/// Factorials of larger numbers are not computed.
const MAX_FACTORIAL: u64 = 4096;
/// Radicands are factored by primes up to here.
const MAX_FACTOR: u64 = 1 << 12;

/// A field, and the values that names have in it.
pub(super) struct Field {
    p: u64,
    seed: u64,
    names: HashMap<String, u64>,
    /// The chosen root of −1 and of each prime.
    roots: HashMap<u64, Option<u64>>,
}

/// Why there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// It holds something that is not computed here.
    Unknown,
    /// A division by zero at this point, or a root that this field does not have: another one may.
    Point,
}

impl Field {
    /// Point `number` of the field with this prime of [`PRIMES`].
    pub(super) fn new(seed: u64, prime: usize, number: u64) -> Self {
        Self {
            p: PRIMES[prime % PRIMES.len()],
            seed: mix(seed ^ mix(number)),
            names: HashMap::new(),
            roots: HashMap::new(),
        }
    }

    /// The value of `expr`.
    pub(super) fn value(&mut self, expr: &Expr) -> Result<u64, Missing> {
        match expr {
            Expr::Number(number) => self.of_rational(number),
            Expr::Mixed(..) | Expr::Percent(_) => {
                let value = rational(expr).ok_or(Missing::Unknown)?;
                self.of_rational(&value)
            }
            Expr::Symbol(name) => Ok(self.named(name)),
            Expr::Constant(Constant::Pi) => Ok(self.named("\\pi")),
            Expr::Constant(Constant::E) => Ok(self.named("\\e")),
            Expr::Constant(Constant::I) => self.root_of_prime(self.p - 1),
            Expr::Constant(Constant::Infinity) => Err(Missing::Unknown),
            Expr::Negative(inner) => {
                let inner = self.value(inner)?;
                Ok(self.minus(inner))
            }
            Expr::Sum(terms) => {
                let mut sum = 0;
                for term in terms {
                    let term = self.value(term)?;
                    sum = self.plus(sum, term);
                }
                Ok(sum)
            }
            Expr::Product(factors) => {
                let mut product = 1;
                for factor in factors {
                    let factor = self.value(factor)?;
                    product = self.times(product, factor);
                }
                Ok(product)
            }
            Expr::Quotient(above, below) => {
                let (above, below) = (self.value(above)?, self.value(below)?);
                Ok(self.times(above, self.inverse(below)?))
            }
            Expr::Power(base, power) => self.power(base, power),
            Expr::Root(index, radicand) => {
                if rational(index) != Some(BigRational::from_integer(2.into())) {
                    return Err(Missing::Unknown);
                }
                self.square_root(radicand)
            }
            Expr::Call(Function::Factorial, arguments) => {
                let n =
                    rational(&arguments[0]).and_then(|n| n.is_integer().then(|| n.to_integer()));
                let n = n
                    .and_then(|n| n.to_u64())
                    .filter(|n| *n <= MAX_FACTORIAL)
                    .ok_or(Missing::Unknown)?;
                Ok((2..=n).fold(1, |product, k| self.times(product, k)))
            }
            Expr::Call(
                Function::Binomial
                | Function::Abs
                | Function::Floor
                | Function::Ceiling
                | Function::Gcd
                | Function::Lcm
                | Function::Min
                | Function::Max,
                _,
            ) => {
                let value = rational(expr).ok_or(Missing::Unknown)?;
                self.of_rational(&value)
            }
            _ => Err(Missing::Unknown),
        }
    }

    fn named(&mut self, name: &str) -> u64 {
        let (p, seed) = (self.p, self.seed);
        *self.names.entry(name.to_owned()).or_insert_with(|| {
            let hash = name
                .bytes()
                .fold(seed, |hash, byte| mix(hash ^ u64::from(byte)));
            hash % (p - 2) + 2
        })
    }

    fn of_integer(&self, value: &BigInt) -> u64 {
        let reduced = value.mod_floor(&BigInt::from(self.p));
        reduced.to_u64().unwrap_or(0)
    }

    fn of_rational(&self, value: &BigRational) -> Result<u64, Missing> {
        let below = self.inverse(self.of_integer(value.denom()))?;
        Ok(self.times(self.of_integer(value.numer()), below))
    }

    fn power(&mut self, base: &Expr, power: &Expr) -> Result<u64, Missing> {
        let power = rational(power).ok_or(Missing::Unknown)?;
        // e^x of rational x: powers of one point only where x is an integer.
        if power.is_integer() {
            let base = self.value(base)?;
            let order = BigInt::from(self.p - 1);
            let reduced = power.to_integer().mod_floor(&order).to_u64().unwrap_or(0);
            if base == 0 {
                return if power.is_positive() {
                    Ok(0)
                } else {
                    Err(Missing::Point)
                };
            }
            return Ok(self.raise(base, reduced));
        }
        if *power.denom() == BigInt::from(2) {
            let root = self.square_root(base)?;
            let order = BigInt::from(self.p - 1);
            let reduced = power.numer().mod_floor(&order).to_u64().unwrap_or(0);
            if root == 0 && power.is_negative() {
                return Err(Missing::Point);
            }
            return Ok(self.raise(root, reduced));
        }
        Err(Missing::Unknown)
    }

    /// The root of a rational number, as the product of the chosen roots of its primes.
    fn square_root(&mut self, radicand: &Expr) -> Result<u64, Missing> {
        let value = rational(radicand).ok_or(Missing::Unknown)?;
        let mut root = 1;
        if value.is_negative() {
            root = self.root_of_prime(self.p - 1)?;
        }
        let value = value.abs();
        for (part, invert) in [(value.numer(), false), (value.denom(), true)] {
            let part = self.root_of_integer(part)?;
            root = self.times(root, if invert { self.inverse(part)? } else { part });
        }
        Ok(root)
    }

    fn root_of_integer(&mut self, value: &BigInt) -> Result<u64, Missing> {
        let mut left = value.clone();
        if left.is_zero() {
            return Ok(0);
        }
        let exact = left.sqrt();
        if &exact * &exact == left {
            return Ok(self.of_integer(&exact));
        }
        let mut root = 1;
        let mut factor = 2;
        while factor <= MAX_FACTOR && !left.is_one() {
            let (quotient, remainder) = left.div_rem(&BigInt::from(factor));
            if remainder.is_zero() {
                left = quotient;
                let one = self.root_of_prime(factor)?;
                root = self.times(root, one);
                continue;
            }
            factor += if factor == 2 { 1 } else { 2 };
        }
        if left.is_one() {
            return Ok(root);
        }
        let exact = left.sqrt();
        if &exact * &exact == left {
            return Ok(self.times(root, self.of_integer(&exact)));
        }
        // What is left has no factor below the bound, so that it is a prime where it is less than the bound's square.
        match left.to_u64().filter(|left| *left < MAX_FACTOR * MAX_FACTOR) {
            Some(prime) => {
                let one = self.root_of_prime(prime)?;
                Ok(self.times(root, one))
            }
            None => Err(Missing::Unknown),
        }
    }

    fn root_of_prime(&mut self, prime: u64) -> Result<u64, Missing> {
        if let Some(root) = self.roots.get(&prime) {
            return root.ok_or(Missing::Point);
        }
        let root = self.tonelli_shanks(prime);
        self.roots.insert(prime, root);
        root.ok_or(Missing::Point)
    }

    /// A square root in the field (Shanks 1973).
    fn tonelli_shanks(&self, value: u64) -> Option<u64> {
        let p = self.p;
        if self.raise(value, (p - 1) / 2) != 1 {
            return None;
        }
        let twos = (p - 1).trailing_zeros();
        let odd = (p - 1) >> twos;
        let none = (2..).find(|n| self.raise(*n, (p - 1) / 2) == p - 1)?;
        let (mut m, mut c) = (twos, self.raise(none, odd));
        let (mut t, mut root) = (self.raise(value, odd), self.raise(value, odd.div_ceil(2)));
        while t != 1 {
            let mut square = t;
            let mut steps = 0;
            while square != 1 {
                square = self.times(square, square);
                steps += 1;
            }
            let mut b = c;
            for _ in 0..m - steps - 1 {
                b = self.times(b, b);
            }
            (m, c) = (steps, self.times(b, b));
            t = self.times(t, c);
            root = self.times(root, b);
        }
        Some(root)
    }

    pub(super) fn plus(&self, a: u64, b: u64) -> u64 {
        (a + b) % self.p
    }

    pub(super) fn minus(&self, a: u64) -> u64 {
        (self.p - a) % self.p
    }

    pub(super) fn times(&self, a: u64, b: u64) -> u64 {
        (u128::from(a) * u128::from(b) % u128::from(self.p)) as u64
    }

    fn raise(&self, mut base: u64, mut power: u64) -> u64 {
        let mut result = 1;
        while power > 0 {
            if power & 1 == 1 {
                result = self.times(result, base);
            }
            base = self.times(base, base);
            power >>= 1;
        }
        result
    }

    fn inverse(&self, value: u64) -> Result<u64, Missing> {
        if value == 0 {
            return Err(Missing::Point);
        }
        Ok(self.raise(value, self.p - 2))
    }
}
