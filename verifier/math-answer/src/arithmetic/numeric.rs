//! Values to many digits, for what has no exact form here: functions, nested roots, powers with a variable above.
//!
//! Every expression is computed at two precisions. What they differ by bounds the error of the lower one, so that the higher one's is some 2⁻¹²⁸ of it; two values that
//! differ by no more than a small share of that are the same.

use std::collections::HashMap;

use dashu_int::ops::BitTest as _;
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use crate::arithmetic::complex::{Complex, Digits, Real, forget_constants, is_zero};
use crate::arithmetic::exact::rational;
use crate::meter::Meter;
use crate::seed::mix;
use crate::syntax::{Constant, Expr, Function};

/// The lower precision, in bits, and how many more the higher one has.
const PRECISION: usize = 128;
const MORE: usize = 128;

/// How many bits may be lost of what is computed with, before more are taken.
const SPARE: usize = 100;
/// What takes more bits than these besides is not computed.
const MAX_EXTRA: usize = 1 << 13;

/// A value with a bound of its error.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    low: Complex,
    high: Complex,
    /// Bits that both have besides.
    extra: usize,
}

/// What came of computing a value.
pub(crate) enum Computed {
    Value(Value),
    /// It takes so many bits besides.
    Needs(usize),
}

/// Values of variables: a place on the line for each, by a seed.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    seed: u64,
    number: u64,
    names: HashMap<String, RBig>,
}

impl Point {
    /// The `number`-th point of a seed.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        Self {
            seed: mix(seed),
            number,
            names: HashMap::new(),
        }
    }

    /// Whether no variable was asked for: then all points are one.
    pub(crate) fn is_anywhere(&self) -> bool {
        self.names.is_empty()
    }

    fn of(&mut self, name: &str) -> RBig {
        let (seed, number) = (self.seed, self.number);
        self.names
            .entry(name.to_owned())
            .or_insert_with(|| {
                let hash = name
                    .bytes()
                    .fold(seed, |hash, byte| mix(hash ^ u64::from(byte)));
                let size = (mix(hash ^ mix(number)) >> 44) as i64 + (1 << 18);
                // Four points in a row have every pattern of signs that two names can have.
                let mask = hash % 3 + 1;
                let signed = if (mask & number).count_ones() % 2 == 0 {
                    size
                } else {
                    -size
                };
                RBig::from_parts(signed.into(), (1_u32 << 19).into())
            })
            .clone()
    }
}

/// The value of `expr` at a point, computed with so many bits besides.
pub(crate) fn value(
    expr: &Expr,
    point: &mut Point,
    meter: &Meter,
    extra: usize,
) -> Option<Computed> {
    forget_constants();
    let mut evaluator = Evaluator::new(PRECISION + extra, point, meter);
    let low = evaluator.of(expr)?;
    let needed = evaluator.lost;
    if needed > extra + SPARE {
        let extra = needed.next_multiple_of(MORE);
        return (extra <= MAX_EXTRA).then_some(Computed::Needs(extra));
    }
    let high = Evaluator::new(PRECISION + MORE + extra, point, meter).of(expr)?;
    Some(Computed::Value(Value { low, high, extra }))
}

/// The value of a number.
pub(crate) fn of_rational(value: &RBig) -> Option<Value> {
    let extra = if bits(value) > SPARE { bits(value) } else { 0 };
    Some(Value {
        low: Digits::new(PRECISION + extra).rational(value)?,
        high: Digits::new(PRECISION + MORE + extra).rational(value)?,
        extra,
    })
}

/// Bits that it takes to write the longer part of a fraction, which tell it from its neighbours.
fn bits(value: &RBig) -> usize {
    let (above, below) = (value.numerator(), value.denominator());
    let of = |length: usize, zeros: Option<usize>| length - zeros.unwrap_or(0);
    of(above.bit_len(), above.trailing_zeros()).max(of(below.bit_len(), below.trailing_zeros()))
}

impl Value {
    /// Whether both are the same number, as far as their digits tell.
    pub(crate) fn equals(&self, other: &Value) -> bool {
        let same = || {
            let error = self.error()? + other.error()?;
            Some(distance(&self.high, &other.high)? <= error * fine())
        };
        same().unwrap_or(false)
    }

    /// By what the lower precision may be wrong.
    fn error(&self) -> Option<Real> {
        let slack = Real::from_parts(IBig::ONE, -((PRECISION + self.extra) as isize));
        Some(distance(&self.high, &self.low)? + size(&self.high)? * slack)
    }

    /// Whether it has no imaginary part, as far as its digits tell.
    pub(crate) fn is_real(&self) -> bool {
        self.real().is_some()
    }

    /// The real number that it is.
    pub(crate) fn real(&self) -> Option<f64> {
        let beside = size(&Complex {
            re: Real::ZERO,
            im: self.high.im.clone(),
        })?;
        (beside <= self.error()? * fine()).then(|| self.high.re.to_f64().value())
    }

    /// Whether as many digits of both are known, so that where they are the same they are equal.
    pub(crate) fn is_as_exact_as(&self, other: &Value) -> bool {
        self.extra == other.extra
    }

    /// Which of two is less, where they are real and not the same.
    pub(crate) fn order(&self, other: &Value) -> std::cmp::Ordering {
        if self.equals(other) {
            return std::cmp::Ordering::Equal;
        }
        self.high.re.cmp(&other.high.re)
    }

    /// This over another, where that is not 0.
    pub(crate) fn over(&self, other: &Value) -> Option<Value> {
        let extra = self.extra.min(other.extra);
        Some(Value {
            low: Digits::new(PRECISION + extra).div(&self.low, &other.low)?,
            high: Digits::new(PRECISION + MORE + extra).div(&self.high, &other.high)?,
            extra,
        })
    }

    /// Whether it is 0, as far as its digits tell.
    pub(crate) fn is_zero(&self) -> bool {
        let nothing = || Some(size(&self.high)? <= distance(&self.high, &self.low)? * fine());
        nothing().unwrap_or(false)
    }
}

/// The share of the lower precision's error that may be left of the higher one's.
fn fine() -> Real {
    Real::from_parts(IBig::ONE, -108)
}

fn size(z: &Complex) -> Option<Real> {
    Digits::new(PRECISION + MORE).abs(z)
}

fn distance(a: &Complex, b: &Complex) -> Option<Real> {
    size(&Digits::new(PRECISION + MORE + MAX_EXTRA).sub(a, b)?)
}

/// The power of two that a number is near; none of 0.
fn magnitude(z: &Complex) -> Option<isize> {
    let of = |part: &Real| {
        let digits = isize::try_from(part.repr().digits()).unwrap_or(isize::MAX);
        (!is_zero(part)).then(|| part.repr().exponent().saturating_add(digits))
    };
    of(&z.re).max(of(&z.im))
}

struct Evaluator<'a> {
    digits: Digits,
    point: &'a mut Point,
    meter: &'a Meter,
    /// Bits that are lost where terms of different sizes are added, or a function of a very small or large number is taken.
    lost: usize,
}

impl<'a> Evaluator<'a> {
    fn new(precision: usize, point: &'a mut Point, meter: &'a Meter) -> Self {
        Self {
            digits: Digits::new(precision),
            point,
            meter,
            lost: 0,
        }
    }

    fn of(&mut self, expr: &Expr) -> Option<Complex> {
        let digits = self.digits;
        if let Some(value) = rational(expr, self.meter) {
            self.lost = self.lost.max(bits(&value));
            return digits.rational(&value);
        }
        match expr {
            Expr::Symbol(name) => digits.rational(&self.point.of(name)),
            Expr::Constant(Constant::Pi) => Some(digits.pi()),
            Expr::Constant(Constant::E) => digits.exp(&digits.integer(1)),
            Expr::Constant(Constant::I) => Some(digits.i()),
            Expr::Negative(inner) => digits.sub(&digits.integer(0), &self.of(inner)?),
            Expr::Sum(terms) => {
                let mut sum = digits.integer(0);
                let mut sizes = Vec::new();
                for term in terms {
                    let term = self.of(term)?;
                    sizes.extend(magnitude(&term));
                    sum = digits.add(&sum, &term)?;
                }
                self.added(&sizes);
                Some(sum)
            }
            Expr::Product(factors) => {
                let mut product = digits.integer(1);
                for factor in factors {
                    product = digits.mul(&product, &self.of(factor)?)?;
                }
                Some(product)
            }
            Expr::Quotient(above, below) => digits.div(&self.of(above)?, &self.of(below)?),
            Expr::Power(base, power) => self.power(base, power),
            Expr::Root(index, radicand) => {
                let index = rational(index, self.meter).filter(|index| *index > RBig::ZERO)?;
                let radicand = self.of(radicand)?;
                self.raise(&radicand, &index.pow(-1))
            }
            Expr::Degrees(inner) => {
                let turned = digits.mul(&self.of(inner)?, &digits.pi())?;
                digits.div(&turned, &digits.integer(180))
            }
            Expr::Percent(inner) => digits.div(&self.of(inner)?, &digits.integer(100)),
            Expr::Call(function, arguments) => self.call(*function, arguments),
            _ => None,
        }
    }

    fn power(&mut self, base: &Expr, power: &Expr) -> Option<Complex> {
        let digits = self.digits;
        let exponent = rational(power, self.meter);
        if let (Expr::Constant(Constant::E), None) = (base, &exponent) {
            let power = self.of(power)?;
            self.taken(&power);
            return digits.exp(&power);
        }
        let base = self.of(base)?;
        if let Some(exponent) = exponent {
            self.lost = self.lost.max(bits(&exponent));
            return self.raise(&base, &exponent);
        }
        let power = self.of(power)?;
        let power = digits.mul(&digits.ln(&base)?, &power)?;
        self.taken(&power);
        digits.exp(&power)
    }

    /// Takes note of the sizes of what is added.
    fn added(&mut self, sizes: &[isize]) {
        if let (Some(most), Some(least)) = (sizes.iter().max(), sizes.iter().min()) {
            self.lost = self.lost.max(most.abs_diff(*least));
        }
    }

    /// Takes note of what a function is taken of: cos x is 1 − x²/2 where x is small.
    fn taken(&mut self, argument: &Complex) {
        let size = magnitude(argument).unwrap_or_default().unsigned_abs();
        self.lost = self.lost.max(2 * size);
    }

    fn raise(&self, base: &Complex, exponent: &RBig) -> Option<Complex> {
        let digits = self.digits;
        let nothing = is_zero(&base.re) && is_zero(&base.im);
        if nothing {
            return (*exponent > RBig::ZERO).then(|| digits.integer(0));
        }
        let whole = |n: &IBig| {
            i64::try_from(n)
                .ok()
                .filter(|n| n.unsigned_abs() <= 1 << 32)
        };
        if exponent.is_int() {
            return digits.power(base, whole(exponent.numerator())?);
        }
        // The real root of a negative number, where there is one.
        if is_zero(&base.im) && base.re < Real::ZERO && exponent.denominator().bit(0) {
            let size = self.raise(&digits.real(-base.re.clone()), exponent)?;
            let negative = exponent.numerator().bit(0);
            return if negative {
                digits.sub(&digits.integer(0), &size)
            } else {
                Some(size)
            };
        }
        if *exponent.denominator() == UBig::from(2_u8) {
            return digits.power(&digits.sqrt(base)?, whole(exponent.numerator())?);
        }
        digits.exp(&digits.mul(&digits.ln(base)?, &digits.rational(exponent)?)?)
    }

    fn call(&mut self, function: Function, arguments: &[Expr]) -> Option<Complex> {
        let digits = self.digits;
        let argument = self.of(&arguments[0])?;
        let z = &argument;
        if !matches!(function, Function::Ln | Function::Log | Function::Abs) {
            self.taken(z);
        }
        let one = digits.integer(1);
        match function {
            Function::Sin => digits.sin(z),
            Function::Cos => digits.cos(z),
            Function::Tan => digits.div(&digits.sin(z)?, &digits.cos(z)?),
            Function::Cot => digits.div(&digits.cos(z)?, &digits.sin(z)?),
            Function::Sec => digits.div(&one, &digits.cos(z)?),
            Function::Csc => digits.div(&one, &digits.sin(z)?),
            Function::Arcsin => digits.asin(z),
            Function::Arccos => digits.acos(z),
            Function::Arctan => digits.atan(z),
            Function::Sinh | Function::Cosh | Function::Tanh => {
                let (up, down) = (
                    digits.exp(z)?,
                    digits.exp(&digits.sub(&digits.integer(0), z)?)?,
                );
                let sizes: Vec<isize> = [&up, &down].into_iter().filter_map(magnitude).collect();
                self.added(&sizes);
                let (sum, difference) = (digits.add(&up, &down)?, digits.sub(&up, &down)?);
                match function {
                    Function::Sinh => digits.div(&difference, &digits.integer(2)),
                    Function::Cosh => digits.div(&sum, &digits.integer(2)),
                    _ => digits.div(&difference, &sum),
                }
            }
            Function::Exp => digits.exp(z),
            Function::Ln => digits.ln(z),
            Function::Log => {
                let of = self.of(&arguments[1])?;
                digits.div(&digits.ln(&of)?, &digits.ln(z)?)
            }
            Function::Abs => digits.abs(z).map(|size| digits.real(size)),
            _ => None,
        }
    }
}
