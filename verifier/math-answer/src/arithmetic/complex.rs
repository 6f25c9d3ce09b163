//! Complex numbers of many digits, computed from real ones. The library provides only real functions. It is called only for arguments within their domains.

use std::cell::RefCell;

use dashu_float::round::mode::HalfEven;
use dashu_float::{ConstCache, Context, FBig, FpError, round::Rounded};
use dashu_int::IBig;
use dashu_ratio::RBig;

pub(crate) type Real = FBig<HalfEven, 2>;

/// Largest argument of a trigonometric function, and of the exponential.
const MAX_ANGLE: f64 = 1e9;
const MAX_POWER: f64 = 1e5;
/// Largest absolute value of a binary exponent. The exponential of a tiny number is close to 1, and computing it would take as many bits as the exponent. The
/// largest exponential is within the limit.
const MAX_EXPONENT: isize = 1 << 18;

thread_local! {
    /// Digits of π and of logarithms that later calls reuse. Results do not depend on them.
    static CONSTANTS: RefCell<ConstCache> = RefCell::default();
}

/// Drops the cached digits. After one answer has needed very many, all later values would be cut from those. That is slower than computing few.
pub(crate) fn forget_constants() {
    CONSTANTS.with_borrow_mut(|constants| *constants = ConstCache::new());
}

#[derive(Debug, Clone)]
pub(crate) struct Complex {
    pub(crate) re: Real,
    pub(crate) im: Real,
}

/// Arithmetic at a fixed precision. Every operation returns `None` if its value is undefined or too large.
#[derive(Clone, Copy)]
pub(crate) struct Precision {
    context: Context<HalfEven>,
    precision: usize,
}

impl Precision {
    /// `precision` is in bits.
    pub(crate) fn new(precision: usize) -> Self {
        Self {
            context: Context::new(precision),
            precision,
        }
    }

    pub(crate) fn integer(self, value: i64) -> Complex {
        self.real(Real::from(IBig::from(value)))
    }

    pub(crate) fn i(self) -> Complex {
        Complex {
            re: Real::ZERO,
            im: Real::ONE,
        }
    }

    pub(crate) fn pi(self) -> Complex {
        self.real(Real::pi(self.precision))
    }

    pub(crate) fn real(self, re: Real) -> Complex {
        Complex { re, im: Real::ZERO }
    }

    pub(crate) fn rational(self, value: &RBig) -> Option<Complex> {
        let above = Real::from(value.numerator().clone());
        let below = Real::from(value.denominator().clone());
        let result = self.context.div(above.repr(), below.repr());
        self.checked(result).map(|re| self.real(re))
    }

    fn checked(self, result: Result<Rounded<Real>, FpError>) -> Option<Real> {
        let value = result.ok()?.value();
        let exponent = value.repr().exponent();
        (!value.repr().is_infinite() && exponent.abs() < MAX_EXPONENT).then_some(value)
    }

    fn compute(
        self,
        function: impl FnOnce(&mut ConstCache) -> Result<Rounded<Real>, FpError>,
    ) -> Option<Real> {
        self.checked(CONSTANTS.with_borrow_mut(function))
    }

    fn plus(self, a: &Real, b: &Real) -> Option<Real> {
        self.checked(self.context.add(a.repr(), b.repr()))
    }

    fn minus(self, a: &Real, b: &Real) -> Option<Real> {
        self.checked(self.context.sub(a.repr(), b.repr()))
    }

    fn times(self, a: &Real, b: &Real) -> Option<Real> {
        self.checked(self.context.mul(a.repr(), b.repr()))
    }

    fn quotient(self, a: &Real, b: &Real) -> Option<Real> {
        if is_zero(b) {
            return None;
        }
        self.checked(self.context.div(a.repr(), b.repr()))
    }

    pub(crate) fn add(self, a: &Complex, b: &Complex) -> Option<Complex> {
        Some(Complex {
            re: self.plus(&a.re, &b.re)?,
            im: self.plus(&a.im, &b.im)?,
        })
    }

    pub(crate) fn sub(self, a: &Complex, b: &Complex) -> Option<Complex> {
        Some(Complex {
            re: self.minus(&a.re, &b.re)?,
            im: self.minus(&a.im, &b.im)?,
        })
    }

    pub(crate) fn mul(self, a: &Complex, b: &Complex) -> Option<Complex> {
        if is_zero(&a.im) && is_zero(&b.im) {
            return Some(self.real(self.times(&a.re, &b.re)?));
        }
        Some(Complex {
            re: self.minus(&self.times(&a.re, &b.re)?, &self.times(&a.im, &b.im)?)?,
            im: self.plus(&self.times(&a.re, &b.im)?, &self.times(&a.im, &b.re)?)?,
        })
    }

    pub(crate) fn div(self, a: &Complex, b: &Complex) -> Option<Complex> {
        if is_zero(&b.im) {
            return Some(Complex {
                re: self.quotient(&a.re, &b.re)?,
                im: self.quotient(&a.im, &b.re)?,
            });
        }
        let size = self.plus(&self.times(&b.re, &b.re)?, &self.times(&b.im, &b.im)?)?;
        let conjugate = Complex {
            re: b.re.clone(),
            im: -b.im.clone(),
        };
        let above = self.mul(a, &conjugate)?;
        Some(Complex {
            re: self.quotient(&above.re, &size)?,
            im: self.quotient(&above.im, &size)?,
        })
    }

    pub(crate) fn abs(self, z: &Complex) -> Option<Real> {
        if is_zero(&z.im) {
            return Some(if z.re < Real::ZERO {
                -z.re.clone()
            } else {
                z.re.clone()
            });
        }
        let square = self.plus(&self.times(&z.re, &z.re)?, &self.times(&z.im, &z.im)?)?;
        self.root(&square)
    }

    fn root(self, x: &Real) -> Option<Real> {
        if is_zero(x) {
            return Some(Real::ZERO);
        }
        self.checked(self.context.sqrt(x.repr()))
    }

    /// An integer power, by squaring.
    pub(crate) fn power(self, base: &Complex, exponent: i64) -> Option<Complex> {
        let mut result = self.integer(1);
        let mut square = base.clone();
        let mut left = exponent.unsigned_abs();
        while left > 0 {
            if left & 1 == 1 {
                result = self.mul(&result, &square)?;
            }
            left >>= 1;
            if left > 0 {
                square = self.mul(&square, &square)?;
            }
        }
        if exponent < 0 {
            self.div(&self.integer(1), &result)
        } else {
            Some(result)
        }
    }

    /// The principal root.
    pub(crate) fn sqrt(self, z: &Complex) -> Option<Complex> {
        if is_zero(&z.im) {
            return Some(if z.re < Real::ZERO {
                Complex {
                    re: Real::ZERO,
                    im: self.root(&-z.re.clone())?,
                }
            } else {
                self.real(self.root(&z.re)?)
            });
        }
        self.exp(&self.mul(
            &self.ln(z)?,
            &self.rational(&RBig::from_parts(IBig::ONE, 2_u8.into()))?,
        )?)
    }

    pub(crate) fn exp(self, z: &Complex) -> Option<Complex> {
        if !(within(&z.re, MAX_POWER) && within(&z.im, MAX_ANGLE)) {
            return None;
        }
        let size = if is_zero(&z.re) {
            Real::ONE
        } else {
            self.compute(|cache| self.context.exp(z.re.repr(), Some(cache)))?
        };
        if is_zero(&z.im) {
            return Some(self.real(size));
        }
        Some(Complex {
            re: self.times(&size, &self.cosine(&z.im)?)?,
            im: self.times(&size, &self.sine(&z.im)?)?,
        })
    }

    /// The principal logarithm.
    pub(crate) fn ln(self, z: &Complex) -> Option<Complex> {
        let size = self.abs(z)?;
        if is_zero(&size) {
            return None;
        }
        let re = if size == Real::ONE {
            Real::ZERO
        } else {
            self.compute(|cache| self.context.ln(size.repr(), Some(cache)))?
        };
        let im = match (is_zero(&z.im), z.re < Real::ZERO) {
            (true, false) => Real::ZERO,
            (true, true) => Real::pi(self.precision),
            (false, _) => {
                self.compute(|cache| self.context.atan2(z.im.repr(), z.re.repr(), Some(cache)))?
            }
        };
        Some(Complex { re, im })
    }

    fn sine(self, x: &Real) -> Option<Real> {
        if is_zero(x) {
            return Some(Real::ZERO);
        }
        within(x, MAX_ANGLE)
            .then(|| self.compute(|cache| self.context.sin(x.repr(), Some(cache))))?
    }

    fn cosine(self, x: &Real) -> Option<Real> {
        if is_zero(x) {
            return Some(Real::ONE);
        }
        within(x, MAX_ANGLE)
            .then(|| self.compute(|cache| self.context.cos(x.repr(), Some(cache))))?
    }

    /// For real angles only.
    pub(crate) fn sin(self, z: &Complex) -> Option<Complex> {
        is_zero(&z.im).then(|| self.sine(&z.re).map(|re| self.real(re)))?
    }

    /// For real angles only.
    pub(crate) fn cos(self, z: &Complex) -> Option<Complex> {
        is_zero(&z.im).then(|| self.cosine(&z.re).map(|re| self.real(re)))?
    }

    /// For real numbers only.
    pub(crate) fn atan(self, z: &Complex) -> Option<Complex> {
        if !is_zero(&z.im) || is_zero(&z.re) {
            return is_zero(&z.im).then(|| self.integer(0));
        }
        self.compute(|cache| self.context.atan(z.re.repr(), Some(cache)))
            .map(|re| self.real(re))
    }

    /// For real numbers from −1 to 1: atan2(x, √(1 − x²)).
    pub(crate) fn asin(self, z: &Complex) -> Option<Complex> {
        let (x, other) = self.on_unit_circle(z)?;
        self.angle(&x, &other)
    }

    /// For real numbers from −1 to 1: atan2(√(1 − x²), x).
    pub(crate) fn acos(self, z: &Complex) -> Option<Complex> {
        let (x, other) = self.on_unit_circle(z)?;
        self.angle(&other, &x)
    }

    fn on_unit_circle(self, z: &Complex) -> Option<(Real, Real)> {
        let other = self.minus(&Real::ONE, &self.times(&z.re, &z.re)?)?;
        let inside = is_zero(&z.im) && other >= Real::ZERO;
        inside.then(|| Some((z.re.clone(), self.root(&other)?)))?
    }

    /// atan2 of numbers that are not both 0.
    fn angle(self, y: &Real, x: &Real) -> Option<Complex> {
        let angle = match (is_zero(y), is_zero(x)) {
            (true, _) if *x > Real::ZERO => Real::ZERO,
            (true, _) => Real::pi(self.precision),
            (_, true) => {
                let half = self.quotient(&Real::pi(self.precision), &Real::from(IBig::from(2)))?;
                if *y < Real::ZERO { -half } else { half }
            }
            _ => self.compute(|cache| self.context.atan2(y.repr(), x.repr(), Some(cache)))?,
        };
        Some(self.real(angle))
    }
}

pub(crate) fn is_zero(x: &Real) -> bool {
    x.repr().significand().is_zero()
}

fn within(x: &Real, bound: f64) -> bool {
    x.to_f64().value().abs() < bound
}
