//! Identities checked by chance: both sides are computed modulo primes of 61 bits at random points.
//!
//! Numbers, sums, products, quotients, integer powers of any size, and square roots of numbers are computed without rounding. π and e are random points, like
//! variables. No answer's identity depends on a relation between them. Two different expressions agree at a point with a probability of about their degree over 2⁶⁰
//! (Schwartz 1980, Zippel 1979). The prime p is 3 modulo 4, and the values are a + bi. In that field of p² elements every integer has a square root.

use std::collections::HashMap;

use dashu_int::ops::{BitTest as _, RemEuclid as _, SquareRoot as _, UnsignedAbs as _};
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use crate::arithmetic::exact::rational;
use crate::arithmetic::prime::Prime;
use crate::expression::{Constant, Expr, FullDebug, Function};
use crate::meter::{Meter, limb_count};
use crate::random_seed::{hash, mix};

/// Factorials of larger numbers are not computed.
const MAX_FACTORIAL: u64 = 4096;
/// Upper limit of the primes that divide radicands.
const MAX_FACTOR: u64 = 1 << 12;

/// The number a + bi.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldElement {
    re: u64,
    im: u64,
}

/// A field, and the values of names in it.
pub(crate) struct Field {
    prime: Prime,
    seed: u64,
    names: HashMap<String, FieldElement>,
    /// The chosen square roots of whole numbers computed so far. `None` if the number could not be factored.
    roots: HashMap<UBig, Option<FieldElement>>,
}

/// Why an expression has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoValue {
    /// It contains something that cannot be computed here, or the steps are spent.
    Unknown,
    /// It divides by zero at this point. It may have a value at another.
    Point,
}

impl Field {
    /// Field `number` of a seed.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let seed = mix(seed ^ mix(number));
        Self {
            prime: Prime::from_seed(seed),
            seed,
            names: HashMap::new(),
            roots: HashMap::new(),
        }
    }

    pub(crate) fn value(&mut self, expr: &Expr, meter: &Meter) -> Result<FieldElement, NoValue> {
        meter.spend(4).ok_or(NoValue::Unknown)?;
        match expr {
            Expr::Number(FullDebug(number)) => self.of_rational(number, meter),
            Expr::Mixed(..) | Expr::Percent(_) => self.rational_value(expr, meter),
            Expr::Symbol(name) => Ok(self.value_of_name(name)),
            Expr::Constant(Constant::Pi) => Ok(self.value_of_name("\\pi")),
            Expr::Constant(Constant::E) => Ok(self.value_of_name("\\e")),
            Expr::Constant(Constant::I) => Ok(FieldElement {
                re: 0,
                im: self.prime.one,
            }),
            Expr::Constant(Constant::Infinity) => Err(NoValue::Unknown),
            Expr::Negative(inner) => {
                let inner = self.value(inner, meter)?;
                Ok(self.minus(inner))
            }
            Expr::Sum(terms) => terms.iter().try_fold(self.real(0), |sum, term| {
                let term = self.value(term, meter)?;
                Ok(self.plus(sum, term))
            }),
            Expr::Product(factors) => {
                let one = self.real(self.prime.one);
                factors.iter().try_fold(one, |product, factor| {
                    let factor = self.value(factor, meter)?;
                    Ok(self.times(product, factor))
                })
            }
            Expr::Quotient(above, below) => {
                let (above, below) = (self.value(above, meter)?, self.value(below, meter)?);
                Ok(self.times(above, self.inverse(below, meter)?))
            }
            Expr::Power(base, power) => self.power(base, power, meter),
            Expr::Root(index, radicand) => {
                if rational(index, meter) != Some(RBig::from(2)) {
                    return Err(NoValue::Unknown);
                }
                self.square_root(radicand, meter)
            }
            Expr::Call(Function::Factorial, arguments) => {
                let n = rational(&arguments[0], meter)
                    .and_then(|n| u64::try_from(n).ok())
                    .filter(|n| *n <= MAX_FACTORIAL && meter.spend(*n).is_some())
                    .ok_or(NoValue::Unknown)?;
                let prime = self.prime;
                Ok(self.real((2..=n).fold(prime.one, |product, k| {
                    prime.times(product, prime.of_u64(k))
                })))
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
            ) => self.rational_value(expr, meter),
            _ => Err(NoValue::Unknown),
        }
    }

    fn rational_value(&self, expr: &Expr, meter: &Meter) -> Result<FieldElement, NoValue> {
        let value = rational(expr, meter).ok_or(NoValue::Unknown)?;
        self.of_rational(&value, meter)
    }

    fn value_of_name(&mut self, name: &str) -> FieldElement {
        if let Some(value) = self.names.get(name) {
            return *value;
        }
        let hash = hash(self.seed, name.bytes());
        let value = self.real(hash % (self.prime.p - 2) + 2);
        self.names.insert(name.to_owned(), value);
        value
    }

    fn of_rational(&self, value: &RBig, meter: &Meter) -> Result<FieldElement, NoValue> {
        let limbs = limb_count(value.numerator()) + limb_count(value.denominator());
        meter.spend(4 * limbs).ok_or(NoValue::Unknown)?;
        let above = self.prime.of_integer(value.numerator());
        if value.denominator().is_one() {
            return Ok(self.real(above));
        }
        let below = self.real(self.prime.of_natural(value.denominator()));
        Ok(self.times(self.real(above), self.inverse(below, meter)?))
    }

    fn power(&mut self, base: &Expr, power: &Expr, meter: &Meter) -> Result<FieldElement, NoValue> {
        let power = rational(power, meter).ok_or(NoValue::Unknown)?;
        // e is one random point, so e^x of a rational x can be computed only if x is an integer.
        let base = if power.is_int() {
            self.value(base, meter)?
        } else if *power.denominator() == UBig::from(2_u8) {
            self.square_root(base, meter)?
        } else {
            return Err(NoValue::Unknown);
        };
        if base == self.real(0) {
            return (power > RBig::ZERO).then_some(base).ok_or(NoValue::Point);
        }
        meter
            .spend(300 + 20 * limb_count(power.numerator()))
            .ok_or(NoValue::Unknown)?;
        let p = u128::from(self.prime.p);
        let order = if base.im == 0 { p - 1 } else { p * p - 1 };
        let exponent = power.numerator().rem_euclid(IBig::from(order));
        let exponent = u128::try_from(exponent).map_err(|_| NoValue::Unknown)?;
        Ok(self.raise(base, exponent))
    }

    /// The square root of a rational number, as the product of the chosen roots of its primes.
    fn square_root(&mut self, radicand: &Expr, meter: &Meter) -> Result<FieldElement, NoValue> {
        let value = rational(radicand, meter).ok_or(NoValue::Unknown)?;
        let mut root = self.real(self.prime.one);
        if value < RBig::ZERO {
            std::mem::swap(&mut root.re, &mut root.im);
        }
        let above = self.root_of_integer(&value.numerator().unsigned_abs(), meter)?;
        root = self.times(root, above);
        if !value.denominator().is_one() {
            let below = self.root_of_integer(value.denominator(), meter)?;
            root = self.times(root, self.inverse(below, meter)?);
        }
        Ok(root)
    }

    fn root_of_integer(&mut self, value: &UBig, meter: &Meter) -> Result<FieldElement, NoValue> {
        meter.spend(8).ok_or(NoValue::Unknown)?;
        let cached = self.roots.get(value).copied();
        let root = cached.unwrap_or_else(|| {
            let root = self.new_root(value, meter);
            self.roots.insert(value.clone(), root);
            root
        });
        root.ok_or(NoValue::Unknown)
    }

    fn new_root(&mut self, value: &UBig, meter: &Meter) -> Option<FieldElement> {
        let limbs = limb_count(value);
        meter.spend(400 + 64 * limbs * limbs)?;
        let whole = |value: &UBig| {
            let root = value.sqrt();
            (&root * &root == *value).then_some(root)
        };
        if let Some(exact) = whole(value) {
            return Some(self.real(self.prime.of_natural(&exact)));
        }
        let (mut remaining, mut root) = (value.clone(), self.real(self.prime.one));
        let mut factor = 2;
        // The rest fits a machine word and is divided as one.
        while factor <= MAX_FACTOR && remaining.bit_len() > 64 {
            if &remaining % factor == 0 {
                remaining /= factor;
                meter.spend(100 + 4 * limbs)?;
                root = self.times(root, self.root_of_prime(factor));
            } else {
                factor += 1 + (factor & 1);
            }
        }
        if let Some(exact) = whole(&remaining) {
            return Some(self.times(root, self.real(self.prime.of_natural(&exact))));
        }
        let mut remaining = u64::try_from(remaining).ok()?;
        while factor <= MAX_FACTOR && factor * factor <= remaining {
            if remaining.is_multiple_of(factor) {
                remaining /= factor;
                meter.spend(100)?;
                root = self.times(root, self.root_of_prime(factor));
            } else {
                factor += 1 + (factor & 1);
            }
        }
        if remaining == 1 {
            return Some(root);
        }
        let exact = remaining.isqrt();
        if exact * exact == remaining {
            return Some(self.times(root, self.real(self.prime.of_u64(exact))));
        }
        // The rest has no factor up to the limit, so it is a prime if it is less than the limit's square.
        meter.spend(100)?;
        (remaining < MAX_FACTOR * MAX_FACTOR)
            .then(|| self.times(root, self.root_of_prime(remaining)))
    }

    /// √q, or i√−q if q has no square root. Any choice is consistent, since every root is a product of these.
    fn root_of_prime(&self, q: u64) -> FieldElement {
        match self.prime.root(self.prime.of_u64(q)) {
            Ok(re) => self.real(re),
            Err(im) => FieldElement { re: 0, im },
        }
    }

    fn real(&self, re: u64) -> FieldElement {
        FieldElement { re, im: 0 }
    }

    fn plus(&self, a: FieldElement, b: FieldElement) -> FieldElement {
        FieldElement {
            re: self.prime.plus(a.re, b.re),
            im: self.prime.plus(a.im, b.im),
        }
    }

    fn minus(&self, a: FieldElement) -> FieldElement {
        FieldElement {
            re: self.prime.minus(a.re),
            im: self.prime.minus(a.im),
        }
    }

    fn times(&self, a: FieldElement, b: FieldElement) -> FieldElement {
        let times = |a, b| self.prime.times(a, b);
        if a.im == 0 && b.im == 0 {
            return self.real(times(a.re, b.re));
        }
        let minus_im_product = self.prime.minus(times(a.im, b.im));
        FieldElement {
            re: self.prime.plus(times(a.re, b.re), minus_im_product),
            im: self.prime.plus(times(a.re, b.im), times(a.im, b.re)),
        }
    }

    fn raise(&self, mut base: FieldElement, mut power: u128) -> FieldElement {
        let mut result = self.real(self.prime.one);
        while power > 0 {
            if power & 1 == 1 {
                result = self.times(result, base);
            }
            base = self.times(base, base);
            power >>= 1;
        }
        result
    }

    fn inverse(&self, value: FieldElement, meter: &Meter) -> Result<FieldElement, NoValue> {
        if value == self.real(0) {
            return Err(NoValue::Point);
        }
        meter.spend(100).ok_or(NoValue::Unknown)?;
        let conjugate = FieldElement {
            re: value.re,
            im: self.prime.minus(value.im),
        };
        // −1 has no square root, so the norm is 0 only for 0.
        let size = self.times(value, conjugate).re;
        Ok(self.times(conjugate, self.real(self.prime.inverse(size))))
    }
}
