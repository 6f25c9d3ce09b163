//! Whether two expressions have the same value.

use std::cell::Cell;

use num_rational::BigRational;

use super::exact::rational;
use super::modular::{Field, Missing, PRIMES};
use super::numeric::{self, Point};
use super::syntax::{Constant, Expr, Function};

/// What one comparison computes to many digits, at most, as [`cost`] counts it: some 20 ms of a slow core.
const BUDGET: u32 = 160;
/// Points at which a numeric identity must hold, and how many are tried.
const POINTS: u64 = 4;
const TRIES: u64 = 12;

/// How two values were found to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Same {
    /// Both are rational numbers.
    Number,
    /// Both are written the same.
    Form,
    /// They agree modulo large primes at random points.
    Identity,
    /// They agree to many digits at random points.
    Digits,
}

/// Compares values; what it computes depends on the two answers alone.
pub(super) struct Judge {
    seed: u64,
    budget: Cell<u32>,
}

impl Judge {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            budget: Cell::new(BUDGET),
        }
    }

    pub(super) fn same(&self, right: &Expr, given: &Expr) -> Option<Same> {
        if let (Some(right), Some(given)) = (rational(right), rational(given)) {
            return (right == given).then_some(Same::Number);
        }
        if right == given {
            return Some(Same::Form);
        }
        if is_infinite(right) || is_infinite(given) {
            return (infinity(right)? == infinity(given)?).then_some(Same::Form);
        }
        match self.identity(right, given) {
            Some(same) => same.then_some(Same::Identity),
            None => self.digits(right, given)?.then_some(Same::Digits),
        }
    }

    /// Whether the values agree in large fields; `None` where they cannot be computed there.
    fn identity(&self, right: &Expr, given: &Expr) -> Option<bool> {
        let mut agreed = 0;
        for prime in 0..PRIMES.len() {
            let mut field = Field::new(self.seed, prime, prime as u64);
            match (field.value(right), field.value(given)) {
                (Ok(a), Ok(b)) if a != b => return Some(false),
                (Ok(_), Ok(_)) => agreed += 1,
                (Err(Missing::Unknown), _) | (_, Err(Missing::Unknown)) => return None,
                _ => {}
            }
            if agreed == 2 {
                return Some(true);
            }
        }
        (agreed > 0).then_some(true)
    }

    fn digits(&self, right: &Expr, given: &Expr) -> Option<bool> {
        let mut agreed = 0;
        for number in 0..TRIES {
            self.spend(right, given)?;
            let mut point = Point::new(self.seed, number);
            let values = (
                numeric::value(right, &mut point),
                numeric::value(given, &mut point),
            );
            let (Some(a), Some(b)) = values else {
                if point.is_anywhere() {
                    return None;
                }
                continue;
            };
            if !a.equals(&b) {
                return Some(false);
            }
            agreed += 1;
            if agreed == POINTS || point.is_anywhere() {
                return Some(true);
            }
        }
        None
    }

    /// Takes what computing both costs from what is left.
    fn spend(&self, right: &Expr, given: &Expr) -> Option<()> {
        let cost = cost(right).saturating_add(cost(given));
        let left = self.budget.get().checked_sub(cost)?;
        self.budget.set(left);
        Some(())
    }

    /// The real number that an expression without variables is, to the precision of a double.
    pub(super) fn real(&self, expr: &Expr) -> Option<f64> {
        match infinity(expr) {
            Some(true) => return Some(f64::INFINITY),
            Some(false) => return Some(f64::NEG_INFINITY),
            None => {}
        }
        self.spend(expr, expr)?;
        let mut point = Point::new(self.seed, 0);
        let value = numeric::value(expr, &mut point)?;
        point.is_anywhere().then(|| value.real())?
    }

    /// Whether two expressions differ by a factor that is the same everywhere and not 0: the sign of it.
    pub(super) fn proportional(&self, right: &Expr, given: &Expr) -> Option<f64> {
        let mut before: Option<(numeric::Value, numeric::Value)> = None;
        let (mut agreed, mut sign) = (0, 0.0);
        for number in 0..TRIES {
            self.spend(right, given)?;
            let mut point = Point::new(self.seed, number);
            let (Some(a), Some(b)) = (
                numeric::value(right, &mut point),
                numeric::value(given, &mut point),
            ) else {
                continue;
            };
            if a.is_zero() != b.is_zero() {
                return None;
            }
            if a.is_zero() {
                continue;
            }
            if let Some((c, d)) = &before {
                if !a.over(&b)?.equals(&c.over(d)?) {
                    return None;
                }
                agreed += 1;
            } else {
                sign = a.over(&b)?.real()?;
                before = Some((a, b));
            }
            if agreed == POINTS {
                return Some(sign);
            }
        }
        None
    }
}

fn is_infinite(expr: &Expr) -> bool {
    infinity(expr).is_some()
}

/// Whether it is ∞ or −∞.
fn infinity(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Constant(Constant::Infinity) => Some(true),
        Expr::Negative(inner) => infinity(inner).map(|positive| !positive),
        _ => None,
    }
}

/// What it costs to compute: 4 for a function, 8 for two or for a root, 1 for everything else.
fn cost(expr: &Expr) -> u32 {
    let parts = |parts: &[Expr]| parts.iter().map(cost).fold(0, u32::saturating_add);
    match expr {
        Expr::Call(function, arguments) => {
            let twice = matches!(
                function,
                Function::Tan
                    | Function::Arcsin
                    | Function::Arccos
                    | Function::Arctan
                    | Function::Cot
                    | Function::Log
                    | Function::Sinh
                    | Function::Cosh
                    | Function::Tanh
            );
            parts(arguments).saturating_add(if twice { 8 } else { 4 })
        }
        // A root of what is not a positive number is a logarithm and an exponential.
        Expr::Root(_, inner) if rational(inner).is_some() => 2,
        Expr::Root(_, inner) => cost(inner).saturating_add(8),
        Expr::Power(base, power) => {
            let plain = rational(power).is_some_and(|power: BigRational| power.is_integer());
            let own = if plain { 1 } else { 8 };
            cost(base).saturating_add(cost(power)).saturating_add(own)
        }
        Expr::Sum(all) | Expr::Product(all) => parts(all),
        Expr::Negative(inner) | Expr::Degrees(inner) | Expr::Percent(inner) => cost(inner) + 1,
        Expr::Quotient(above, below) => cost(above) + cost(below),
        _ => 1,
    }
}
