//! Values to many digits, for expressions without an exact form here: functions, nested roots, powers with a variable as the exponent.
//!
//! Every expression is computed at two precisions. Their difference bounds the error of the lower one, and the error of the higher one is about 2⁻¹²⁸ of that.
//! Two values are the same if they differ by no more than a small share of the bound.

use std::collections::HashMap;

use dashu_int::ops::BitTest as _;
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use crate::arithmetic::complex::{Complex, Precision, Real, forget_constants, is_zero};
use crate::arithmetic::exact::rational;
use crate::expression::{Constant, Expr, Function};
use crate::meter::Meter;
use crate::random_seed::{hash, mix};

/// The lower precision in bits, and the number of additional bits of the higher one.
const LOW_PRECISION: usize = 128;
const PRECISION_STEP: usize = 128;

/// Maximum number of bits that may be lost before a value is computed again with more bits.
const GUARD_BITS: usize = 100;
/// Maximum number of additional bits.
const MAX_EXTRA: usize = 1 << 13;

/// A value with a bound of its error.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    low: Complex,
    high: Complex,
    /// The number of additional bits of both.
    extra: usize,
    pub(crate) domain: Domain,
}

/// Which numbers occur in a computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Domain {
    /// All are real.
    Real,
    /// One has no real value: an even root or a logarithm of a negative number.
    Outside,
    /// One has i, or is a power of a negative number with a variable as the exponent.
    Complex,
}

/// The result of a computation.
pub(crate) enum Computed {
    Value(Value),
    /// The computation needs this many additional bits.
    Needs(usize),
}

/// Number of consecutive points with values of one size. They have all patterns of signs of two names. The sizes are about 1, then thousands, then hundredths, and so
/// on.
const POINTS_OF_A_SIZE: u64 = 4;
const SIZES: u64 = 3;

/// Values of variables: each variable has a real value, determined by a seed.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    seed: u64,
    number: u64,
    names: HashMap<String, RBig>,
}

impl Point {
    /// The point with this number, for a seed.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        Self {
            seed: mix(seed),
            number,
            names: HashMap::new(),
        }
    }

    /// Whether no variable has been evaluated. Then all points give the same value.
    pub(crate) fn has_no_variables(&self) -> bool {
        self.names.is_empty()
    }

    /// The number of variables that have been evaluated.
    pub(crate) fn variables(&self) -> usize {
        self.names.len()
    }

    fn value_of(&mut self, name: &str) -> RBig {
        let (seed, number) = (self.seed, self.number);
        // Any four consecutive points have all patterns of signs of the first two names, and of the second and the third. The first 2ⁿ points have all
        // patterns of n names, up to four.
        let mask = [1, 2, 7, 9].get(self.names.len()).copied();
        let mask = mask.unwrap_or(self.names.len() as u64 % 3 + 1);
        // From 0.5 to 2.5, times the size.
        let denominator = match number / POINTS_OF_A_SIZE % SIZES {
            0 => 1_u32 << 19,
            1 => 1 << 7,
            _ => 1 << 25,
        };
        self.names
            .entry(name.to_owned())
            .or_insert_with(|| {
                let hash = hash(seed, name.bytes());
                let size = (mix(hash ^ mix(number)) >> 44) as i64 + (1 << 18);
                let positive = (mask & number).count_ones().is_multiple_of(2);
                let signed = if positive { size } else { -size };
                RBig::from_parts(signed.into(), denominator.into())
            })
            .clone()
    }
}

/// The value of `expr` at a point, computed with `extra` additional bits.
pub(crate) fn value(
    expr: &Expr,
    point: &mut Point,
    meter: &Meter,
    extra: usize,
) -> Option<Computed> {
    forget_constants();
    let mut evaluator = Evaluator::new(LOW_PRECISION + extra, point, meter);
    let low = evaluator.evaluate(expr)?;
    let (needed, domain) = (evaluator.lost_bits, evaluator.domain);
    if needed > extra + GUARD_BITS {
        let extra = needed.next_multiple_of(PRECISION_STEP);
        return (extra <= MAX_EXTRA).then_some(Computed::Needs(extra));
    }
    let high =
        Evaluator::new(LOW_PRECISION + PRECISION_STEP + extra, point, meter).evaluate(expr)?;
    Some(Computed::Value(Value {
        low,
        high,
        extra,
        domain,
    }))
}

/// The value of a rational number.
pub(crate) fn of_rational(value: &RBig) -> Option<Value> {
    let bits = bits(value);
    let extra = if bits > GUARD_BITS { bits } else { 0 };
    Some(Value {
        low: Precision::new(LOW_PRECISION + extra).rational(value)?,
        high: Precision::new(LOW_PRECISION + PRECISION_STEP + extra).rational(value)?,
        extra,
        domain: Domain::Real,
    })
}

/// The number of bits of the longer part of a fraction, without trailing zeros: as many as distinguish the fraction from its neighbours.
fn bits(value: &RBig) -> usize {
    let (above, below) = (value.numerator(), value.denominator());
    let of = |length: usize, zeros: Option<usize>| length - zeros.unwrap_or(0);
    of(above.bit_len(), above.trailing_zeros()).max(of(below.bit_len(), below.trailing_zeros()))
}

impl Value {
    /// Whether both are the same number, as far as they are computed.
    pub(crate) fn equals(&self, other: &Value) -> bool {
        let equal = || {
            let error = self.error()? + other.error()?;
            Some(distance(&self.high, &other.high)? <= error * tolerance())
        };
        equal().unwrap_or(false)
    }

    /// A bound of the error at the lower precision.
    fn error(&self) -> Option<Real> {
        let slack = Real::from_parts(IBig::ONE, -((LOW_PRECISION + self.extra) as isize));
        Some(distance(&self.high, &self.low)? + size(&self.high)? * slack)
    }

    /// Whether it has no imaginary part, as far as it is computed.
    pub(crate) fn is_real(&self) -> bool {
        self.real().is_some()
    }

    /// Its real part, if it is a real number.
    pub(crate) fn real(&self) -> Option<f64> {
        let imaginary = size(&Complex {
            re: Real::ZERO,
            im: self.high.im.clone(),
        })?;
        (imaginary <= self.error()? * tolerance()).then(|| self.high.re.to_f64().value())
    }

    /// Whether both are computed to the same precision, so that values that agree are equal.
    pub(crate) fn is_as_exact_as(&self, other: &Value) -> bool {
        self.extra == other.extra
    }

    /// The order of two real numbers.
    pub(crate) fn order(&self, other: &Value) -> std::cmp::Ordering {
        if self.equals(other) {
            return std::cmp::Ordering::Equal;
        }
        self.high.re.cmp(&other.high.re)
    }

    /// The quotient, if `other` is not 0.
    pub(crate) fn over(&self, other: &Value) -> Option<Value> {
        let extra = self.extra.min(other.extra);
        Some(Value {
            low: Precision::new(LOW_PRECISION + extra).div(&self.low, &other.low)?,
            high: Precision::new(LOW_PRECISION + PRECISION_STEP + extra)
                .div(&self.high, &other.high)?,
            extra,
            domain: self.domain.max(other.domain),
        })
    }

    /// Whether it is 0, as far as it is computed.
    pub(crate) fn is_zero(&self) -> bool {
        let is_zero = || Some(size(&self.high)? <= distance(&self.high, &self.low)? * tolerance());
        is_zero().unwrap_or(false)
    }
}

/// The share of the lower precision's error by which two equal values may differ.
fn tolerance() -> Real {
    Real::from_parts(IBig::ONE, -108)
}

fn size(z: &Complex) -> Option<Real> {
    Precision::new(LOW_PRECISION + PRECISION_STEP).abs(z)
}

fn distance(a: &Complex, b: &Complex) -> Option<Real> {
    size(&Precision::new(LOW_PRECISION + PRECISION_STEP + MAX_EXTRA).sub(a, b)?)
}

/// The exponent of the nearest power of two. `None` for 0.
fn magnitude(z: &Complex) -> Option<isize> {
    let of = |part: &Real| {
        let length = isize::try_from(part.repr().digits()).unwrap_or(isize::MAX);
        (!is_zero(part)).then(|| part.repr().exponent().saturating_add(length))
    };
    of(&z.re).max(of(&z.im))
}

struct Evaluator<'a> {
    precision: Precision,
    point: &'a mut Point,
    meter: &'a Meter,
    /// Bits that are lost by adding terms of different sizes, or by a function of a very small or very large number.
    lost_bits: usize,
    domain: Domain,
}

impl<'a> Evaluator<'a> {
    fn new(precision: usize, point: &'a mut Point, meter: &'a Meter) -> Self {
        Self {
            precision: Precision::new(precision),
            point,
            meter,
            lost_bits: 0,
            domain: Domain::Real,
        }
    }

    fn evaluate(&mut self, expr: &Expr) -> Option<Complex> {
        let precision = self.precision;
        if let Some(value) = rational(expr, self.meter) {
            self.lost_bits = self.lost_bits.max(bits(&value));
            return precision.rational(&value);
        }
        match expr {
            Expr::Symbol(name) => precision.rational(&self.point.value_of(name)),
            Expr::Constant(Constant::Pi) => Some(precision.pi()),
            Expr::Constant(Constant::E) => precision.exp(&precision.integer(1)),
            Expr::Constant(Constant::I) => {
                self.domain = Domain::Complex;
                Some(precision.i())
            }
            Expr::Negative(inner) => precision.sub(&precision.integer(0), &self.evaluate(inner)?),
            Expr::Sum(terms) => {
                let mut sum = precision.integer(0);
                let mut sizes = Vec::new();
                for term in terms {
                    let term = self.evaluate(term)?;
                    sizes.extend(magnitude(&term));
                    sum = precision.add(&sum, &term)?;
                }
                self.note_term_sizes(&sizes);
                Some(sum)
            }
            Expr::Product(factors) => {
                let mut product = precision.integer(1);
                for factor in factors {
                    product = precision.mul(&product, &self.evaluate(factor)?)?;
                }
                Some(product)
            }
            Expr::Quotient(above, below) => {
                precision.div(&self.evaluate(above)?, &self.evaluate(below)?)
            }
            Expr::Power(base, power) => self.power(base, power),
            Expr::Root(index, radicand) => {
                let index = rational(index, self.meter).filter(|index| *index > RBig::ZERO)?;
                let radicand = self.evaluate(radicand)?;
                self.raise(&radicand, &index.pow(-1))
            }
            Expr::Degrees(inner) => {
                let scaled = precision.mul(&self.evaluate(inner)?, &precision.pi())?;
                precision.div(&scaled, &precision.integer(180))
            }
            Expr::Percent(inner) => precision.div(&self.evaluate(inner)?, &precision.integer(100)),
            Expr::Call(function, arguments) => self.call(*function, arguments),
            _ => None,
        }
    }

    fn power(&mut self, base: &Expr, power: &Expr) -> Option<Complex> {
        let precision = self.precision;
        let exponent = rational(power, self.meter);
        if let (Expr::Constant(Constant::E), None) = (base, &exponent) {
            let power = self.evaluate(power)?;
            self.note_argument_size(&power);
            return precision.exp(&power);
        }
        let base = self.evaluate(base)?;
        if let Some(exponent) = exponent {
            self.lost_bits = self.lost_bits.max(bits(&exponent));
            return self.raise(&base, &exponent);
        }
        // It may be real if the variable is a whole number.
        let domain = if power.has_variable() {
            Domain::Complex
        } else {
            Domain::Outside
        };
        self.note_negative(&base, domain);
        let power = self.evaluate(power)?;
        let power = precision.mul(&precision.ln(&base)?, &power)?;
        self.note_argument_size(&power);
        precision.exp(&power)
    }

    /// Records the bits lost by adding terms of these sizes.
    fn note_term_sizes(&mut self, sizes: &[isize]) {
        if let (Some(max), Some(min)) = (sizes.iter().max(), sizes.iter().min()) {
            self.lost_bits = self.lost_bits.max(max.abs_diff(*min));
        }
    }

    /// Records the bits lost by applying a function to this argument: cos x is 1 − x²/2 for a small x.
    fn note_argument_size(&mut self, argument: &Complex) {
        let size = magnitude(argument).unwrap_or_default().unsigned_abs();
        self.lost_bits = self.lost_bits.max(2 * size);
    }

    /// Records a root, a logarithm or a fractional power of a negative number, or of one without a real value.
    fn note_negative(&mut self, number: &Complex, domain: Domain) {
        if !is_zero(&number.im) || number.re < Real::ZERO {
            self.domain = self.domain.max(domain);
        }
    }

    fn raise(&mut self, base: &Complex, exponent: &RBig) -> Option<Complex> {
        let precision = self.precision;
        let base_is_zero = is_zero(&base.re) && is_zero(&base.im);
        if base_is_zero {
            return (*exponent > RBig::ZERO).then(|| precision.integer(0));
        }
        let whole = |n: &IBig| {
            i64::try_from(n)
                .ok()
                .filter(|n| n.unsigned_abs() <= 1 << 32)
        };
        if exponent.is_int() {
            return precision.power(base, whole(exponent.numerator())?);
        }
        // The real root of a negative number, if there is one.
        if is_zero(&base.im) && base.re < Real::ZERO && exponent.denominator().bit(0) {
            let size = self.raise(&precision.real(-base.re.clone()), exponent)?;
            let negative = exponent.numerator().bit(0);
            return if negative {
                precision.sub(&precision.integer(0), &size)
            } else {
                Some(size)
            };
        }
        self.note_negative(base, Domain::Outside);
        if *exponent.denominator() == UBig::from(2_u8) {
            return precision.power(&precision.sqrt(base)?, whole(exponent.numerator())?);
        }
        precision.exp(&precision.mul(&precision.ln(base)?, &precision.rational(exponent)?)?)
    }

    fn call(&mut self, function: Function, arguments: &[Expr]) -> Option<Complex> {
        let precision = self.precision;
        let argument = self.evaluate(&arguments[0])?;
        let z = &argument;
        if !matches!(function, Function::Ln | Function::Log | Function::Abs) {
            self.note_argument_size(z);
        }
        let one = precision.integer(1);
        match function {
            Function::Sin => precision.sin(z),
            Function::Cos => precision.cos(z),
            Function::Tan => precision.div(&precision.sin(z)?, &precision.cos(z)?),
            Function::Cot => precision.div(&precision.cos(z)?, &precision.sin(z)?),
            Function::Sec => precision.div(&one, &precision.cos(z)?),
            Function::Csc => precision.div(&one, &precision.sin(z)?),
            Function::Arcsin => precision.asin(z),
            Function::Arccos => precision.acos(z),
            Function::Arctan => precision.atan(z),
            Function::Sinh | Function::Cosh | Function::Tanh => {
                let up = precision.exp(z)?;
                let down = precision.exp(&precision.sub(&precision.integer(0), z)?)?;
                let sizes: Vec<isize> = [&up, &down].into_iter().filter_map(magnitude).collect();
                self.note_term_sizes(&sizes);
                let (sum, difference) = (precision.add(&up, &down)?, precision.sub(&up, &down)?);
                match function {
                    Function::Sinh => precision.div(&difference, &precision.integer(2)),
                    Function::Cosh => precision.div(&sum, &precision.integer(2)),
                    _ => precision.div(&difference, &sum),
                }
            }
            Function::Exp => precision.exp(z),
            Function::Ln => {
                self.note_negative(z, Domain::Outside);
                precision.ln(z)
            }
            Function::Log => {
                let argument = self.evaluate(&arguments[1])?;
                self.note_negative(z, Domain::Outside);
                self.note_negative(&argument, Domain::Outside);
                precision.div(&precision.ln(&argument)?, &precision.ln(z)?)
            }
            Function::Abs => precision.abs(z).map(|size| precision.real(size)),
            _ => None,
        }
    }
}
