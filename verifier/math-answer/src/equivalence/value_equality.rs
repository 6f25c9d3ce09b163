//! Whether two expressions have the same value: exactly, modulo large primes, or to many digits.

use std::cell::RefCell;
use std::cmp::Ordering;

use dashu_ratio::RBig;

use crate::arithmetic::exact::rational;
use crate::arithmetic::modular::{Field, FieldElement, NoValue};
use crate::arithmetic::numeric::{self, Computed, Domain, Point};
use crate::expression::{Constant, Expr, FullDebug, Function};
use crate::match_rule::Rule;
use crate::meter::{Meter, arithmetic_cost};
use crate::question_hints::QuestionHints;

/// Meter steps for each unit of `cost` when a value is computed to many digits.
const STEPS_PER_COST: u64 = 6_000;
/// Maximum number of times that the precision is raised.
const MAX_RAISES: usize = 4;
/// Number of points at which a numeric identity must hold, and the maximum that is tried.
const MIN_POINTS: u64 = 4;
const MAX_TRIES: u64 = 24;
/// Points with large values, all positive and then all negative, and one with small values.
const FAR_POINTS: [u64; 3] = [16, 7, 32];
/// Number of points at which both sides must be real, if they are not real at others.
const MIN_REAL_POINTS: u64 = 2;
/// Maximum number of fields in which values are computed until two agree.
const MAX_FIELDS: usize = 4;

/// Compares values. The computation depends only on the two answers and the question.
pub(crate) struct ValueComparer {
    seed: u64,
    /// What the question implies about the unit of an expected answer without one.
    pub(crate) hints: QuestionHints,
    pub(crate) meter: Meter,
    fields: RefCell<Vec<Field>>,
}

/// A real number or an infinity, computed as far as ordering requires. `Infinite(true)` is +∞.
#[derive(Debug, Clone)]
pub(crate) enum RealNumber {
    Infinite(bool),
    Exact(RBig),
    Numeric(Box<numeric::Value>),
}

impl ValueComparer {
    pub(crate) fn new(seed: u64, hints: QuestionHints) -> Self {
        Self {
            seed,
            hints,
            meter: Meter::new(),
            fields: RefCell::default(),
        }
    }

    pub(crate) fn rational(&self, expr: &Expr) -> Option<RBig> {
        rational(expr, &self.meter)
    }

    /// The rule by which two values are equal, if they are: [`Rule::Number`], [`Rule::Form`], [`Rule::Identity`] or [`Rule::Numeric`].
    pub(crate) fn equality(&self, expected: &Expr, answer: &Expr) -> Option<Rule> {
        if let (Some(expected), Some(answer)) = (self.rational(expected), self.rational(answer)) {
            return (expected == answer).then_some(Rule::Number);
        }
        if expected == answer {
            return Some(Rule::Form);
        }
        if is_infinite(expected) || is_infinite(answer) {
            return (infinity(expected)? == infinity(answer)?).then_some(Rule::Form);
        }
        match self.identity(expected, answer) {
            Some(same) => same.then_some(Rule::Identity),
            None => self
                .numeric_agreement(expected, answer)?
                .then_some(Rule::Numeric),
        }
    }

    /// Whether the values agree in large fields. `None` if they cannot be computed there.
    fn identity(&self, expected: &Expr, answer: &Expr) -> Option<bool> {
        let mut agreed = 0;
        for index in 0..MAX_FIELDS {
            let value = |expr| self.modular(index, expr);
            match (value(expected), value(answer)) {
                (Ok(a), Ok(b)) if a != b => return Some(false),
                (Ok(_), Ok(_)) => agreed += 1,
                (Err(NoValue::Unknown), _) | (_, Err(NoValue::Unknown)) => return None,
                _ => {}
            }
            if agreed == 2 {
                return Some(true);
            }
        }
        (agreed > 0).then_some(true)
    }

    fn modular(&self, index: usize, expr: &Expr) -> Result<FieldElement, NoValue> {
        let mut fields = self.fields.borrow_mut();
        while fields.len() <= index {
            // The cost of finding a prime.
            self.meter.spend(2_000).ok_or(NoValue::Unknown)?;
            let next = Field::new(self.seed, fields.len() as u64);
            fields.push(next);
        }
        fields[index].value(expr, &self.meter)
    }

    /// A value that is equal for equal expressions and almost never for others. `None` if there is no such value.
    pub(crate) fn fingerprint(&self, expr: &Expr) -> Option<FieldElement> {
        self.modular(0, expr).ok()
    }

    fn numeric_agreement(&self, expected: &Expr, answer: &Expr) -> Option<bool> {
        // Where neither has a real value, they do not differ: √(1/x) and 1/√x.
        let differ = |(a, b): &(numeric::Value, numeric::Value)| {
            !a.equals(b) && (a.domain, b.domain) != (Domain::Outside, Domain::Outside)
        };
        let (mut agreed, mut real, mut undefined, mut names) = (0, 0, 0, 0);
        let pieces = has_pieces(expected) || has_pieces(answer);
        for index in 0..MAX_TRIES {
            // One name has two patterns of signs. The first two points of each size have both.
            if undefined > 0 && names == 1 && index % 4 > 1 {
                continue;
            }
            let mut point = Point::new(self.seed, index);
            let Some(values) = self.values_at(expected, answer, &mut point) else {
                if point.has_no_variables() || self.meter.is_spent() {
                    return None;
                }
                continue;
            };
            let same = values.0.equals(&values.1);
            if differ(&values) || point.has_no_variables() {
                return Some(same);
            }
            agreed += u64::from(same);
            undefined += u64::from(!same);
            real += u64::from(same && values.0.domain.max(values.1.domain) == Domain::Real);
            names = point.variables();
            if undefined == 0 && agreed == MIN_POINTS {
                // Expressions with pieces may be the same on one of them only: |x − 5| is 5 − x for small x.
                for index in FAR_POINTS.into_iter().filter(|_| pieces) {
                    let mut point = Point::new(self.seed, index);
                    let values = self.values_at(expected, answer, &mut point);
                    if values.as_ref().is_some_and(differ) {
                        return Some(false);
                    }
                    undefined += u64::from(values.is_some_and(|(a, b)| !a.equals(&b)));
                }
                if undefined == 0 {
                    return Some(true);
                }
            }
            // They may be real at any pattern of signs, and differ at any size if they have pieces.
            let enough = match names {
                _ if undefined == 0 => false,
                ..=2 if pieces => index + 1 >= 12,
                3 if pieces => index + 1 >= 24,
                ..=4 if !pieces => index + 1 >= MIN_POINTS.max(1 << names),
                _ => return Some(false),
            };
            if enough && real >= MIN_REAL_POINTS {
                return Some(true);
            }
        }
        None
    }

    /// Both values at a point, to the same precision.
    fn values_at(
        &self,
        expected: &Expr,
        answer: &Expr,
        point: &mut Point,
    ) -> Option<(numeric::Value, numeric::Value)> {
        let mut extra = 0;
        let mut a = self.compute(expected, point, &mut extra)?;
        let b = self.compute(answer, point, &mut extra)?;
        if !a.is_as_exact_as(&b) {
            a = self.compute(expected, point, &mut extra)?;
        }
        Some((a, b))
    }

    /// The value at a point, with at least `extra` more bits. Raises `extra` if more are needed, and charges the meter.
    fn compute(&self, expr: &Expr, point: &mut Point, extra: &mut usize) -> Option<numeric::Value> {
        for _ in 0..MAX_RAISES {
            let factor = 1 + *extra as u64 / 256;
            let cost = u64::from(self.cost(expr)) * STEPS_PER_COST;
            self.meter
                .spend(cost.saturating_mul(factor).saturating_mul(factor))?;
            match numeric::value(expr, point, &self.meter, *extra)? {
                Computed::Value(value) => return Some(value),
                Computed::Needs(more) => *extra = more,
            }
        }
        None
    }

    /// The value of an expression without variables.
    pub(crate) fn real_number(&self, expr: &Expr) -> Option<RealNumber> {
        if let Some(positive) = infinity(expr) {
            return Some(RealNumber::Infinite(positive));
        }
        if let Some(exact) = self.rational(expr) {
            return Some(RealNumber::Exact(exact));
        }
        self.numeric_value(expr)
            .map(|value| RealNumber::Numeric(Box::new(value)))
    }

    fn numeric_value(&self, expr: &Expr) -> Option<numeric::Value> {
        let mut point = Point::new(self.seed, 0);
        let value = self.compute(expr, &mut point, &mut 0)?;
        (point.has_no_variables() && value.is_real()).then_some(value)
    }

    /// The order of two numbers. `None` if the steps are spent or the precision does not suffice.
    pub(crate) fn order(&self, a: &RealNumber, b: &RealNumber) -> Option<Ordering> {
        self.meter.spend(10)?;
        Some(match (a, b) {
            (RealNumber::Infinite(a), RealNumber::Infinite(b)) => a.cmp(b),
            (RealNumber::Infinite(true), _) | (_, RealNumber::Infinite(false)) => Ordering::Greater,
            (RealNumber::Infinite(false), _) | (_, RealNumber::Infinite(true)) => Ordering::Less,
            (RealNumber::Exact(a), RealNumber::Exact(b)) => {
                self.meter.spend(arithmetic_cost(a, b))?;
                a.cmp(b)
            }
            (RealNumber::Numeric(a), RealNumber::Numeric(b)) => {
                self.meter.spend(1_000)?;
                order_if_distinct(a, b)?
            }
            (RealNumber::Numeric(a), RealNumber::Exact(b)) => {
                self.meter.spend(1_000)?;
                order_if_distinct(a, &numeric::of_rational(b)?)?
            }
            (RealNumber::Exact(a), RealNumber::Numeric(b)) => {
                self.meter.spend(1_000)?;
                order_if_distinct(&numeric::of_rational(a)?, b)?
            }
        })
    }

    /// The constant factor by which two expressions differ, if one is real and not 0.
    pub(crate) fn proportional(&self, expected: &Expr, answer: &Expr) -> Option<f64> {
        let mut first: Option<(numeric::Value, numeric::Value)> = None;
        let (mut agreed, mut factor) = (0, 0.0);
        for index in 0..MAX_TRIES {
            let mut point = Point::new(self.seed, index);
            let Some((a, b)) = self.values_at(expected, answer, &mut point) else {
                if self.meter.is_spent() {
                    return None;
                }
                continue;
            };
            if a.is_zero() != b.is_zero() {
                return None;
            }
            if a.is_zero() {
                continue;
            }
            if let Some((c, d)) = &first {
                if !a.over(&b)?.equals(&c.over(d)?) {
                    return None;
                }
                agreed += 1;
            } else {
                factor = a.over(&b)?.real()?;
                first = Some((a, b));
            }
            if agreed == MIN_POINTS {
                return Some(factor);
            }
        }
        None
    }
}

/// The order of two numbers. `None` if they agree as far as computed and one is known to more digits.
fn order_if_distinct(a: &numeric::Value, b: &numeric::Value) -> Option<Ordering> {
    let order = a.order(b);
    (order != Ordering::Equal || a.is_as_exact_as(b)).then_some(order)
}

/// Whether it is ∞ or −∞.
pub(crate) fn is_infinite(expr: &Expr) -> bool {
    infinity(expr).is_some()
}

/// The sign of ∞ (true) or −∞ (false); `None` for other expressions.
fn infinity(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Constant(Constant::Infinity) => Some(true),
        Expr::Negative(inner) => infinity(inner).map(|positive| !positive),
        _ => None,
    }
}

impl ValueComparer {
    /// The cost of computing a value to many digits. It is 4 for most functions, and 8 for those that need two of these. It is 8 for roots and powers that need a
    /// logarithm and an exponential, and 1 or 2 for other expressions.
    fn cost(&self, expr: &Expr) -> u32 {
        let parts = |parts: &[Expr]| {
            parts
                .iter()
                .map(|part| self.cost(part))
                .fold(0, u32::saturating_add)
        };
        match expr {
            Expr::Call(function, arguments) => {
                let expensive = matches!(
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
                parts(arguments).saturating_add(if expensive { 8 } else { 4 })
            }
            // The square root of a real number is cheap. Any other root is a logarithm and an exponential.
            Expr::Root(index, inner) if is_two(index) && self.rational(inner).is_some() => 2,
            Expr::Root(index, inner) if is_two(index) && is_always_real(inner) => {
                self.cost(inner).saturating_add(1)
            }
            Expr::Root(_, inner) => self.cost(inner).saturating_add(8),
            Expr::Power(base, power) => {
                let plain = self.rational(power).is_some_and(|power| power.is_int());
                let own = if plain { 1 } else { 8 };
                self.cost(base)
                    .saturating_add(self.cost(power))
                    .saturating_add(own)
            }
            Expr::Sum(all) | Expr::Product(all) => parts(all),
            Expr::Negative(inner) | Expr::Degrees(inner) | Expr::Percent(inner) => {
                self.cost(inner).saturating_add(1)
            }
            Expr::Quotient(above, below) => self.cost(above).saturating_add(self.cost(below)),
            _ => 1,
        }
    }
}

fn is_two(expr: &Expr) -> bool {
    matches!(expr, Expr::Number(FullDebug(two)) if *two == RBig::from(2))
}

/// Whether it is real for real variables: without roots, functions and i.
fn is_always_real(expr: &Expr) -> bool {
    match expr {
        Expr::Symbol(_) | Expr::Number(_) | Expr::Constant(Constant::Pi | Constant::E) => true,
        Expr::Power(base, exponent) => {
            is_always_real(base) && rational_number(exponent).is_some_and(|number| number.is_int())
        }
        Expr::Sum(_) | Expr::Product(_) | Expr::Negative(_) | Expr::Quotient(..) => {
            expr.parts().into_iter().all(is_always_real)
        }
        _ => false,
    }
}

/// Whether one formula may give the value for some values of the variables, and another for others.
fn has_pieces(expr: &Expr) -> bool {
    match expr {
        Expr::Root(_, radicand) => !is_one_sign(radicand),
        Expr::Call(function, arguments) => {
            let own = matches!(
                function,
                Function::Abs | Function::Floor | Function::Ceiling | Function::Min | Function::Max
            );
            let logarithm = matches!(function, Function::Ln | Function::Log);
            own || arguments.iter().any(has_pieces)
                || logarithm && !arguments.iter().all(is_one_sign)
        }
        Expr::Sum(parts) | Expr::Product(parts) => parts.iter().any(has_pieces),
        Expr::Negative(part) | Expr::Degrees(part) | Expr::Percent(part) => has_pieces(part),
        Expr::Quotient(above, below) => has_pieces(above) || has_pieces(below),
        Expr::Power(base, exponent) => match rational_number(exponent) {
            Some(number) if !number.is_int() => !is_one_sign(base),
            _ => has_pieces(base),
        },
        _ => false,
    }
}

/// Whether it has one sign for all variables of one sign: it has no sum.
fn is_one_sign(expr: &Expr) -> bool {
    match expr {
        Expr::Number(_) | Expr::Symbol(_) | Expr::Constant(_) => true,
        Expr::Negative(part) | Expr::Root(_, part) => is_one_sign(part),
        Expr::Product(parts) => parts.iter().all(is_one_sign),
        Expr::Quotient(above, below) => is_one_sign(above) && is_one_sign(below),
        Expr::Power(base, exponent) => is_one_sign(base) && is_one_sign(exponent),
        _ => false,
    }
}

/// An exponent that is written as a number or as a fraction of two.
fn rational_number(expr: &Expr) -> Option<RBig> {
    match expr {
        Expr::Number(FullDebug(number)) => Some(number.clone()),
        Expr::Negative(part) => rational_number(part),
        Expr::Quotient(above, below) => {
            let below = rational_number(below).filter(|below| !below.is_zero())?;
            Some(rational_number(above)? / below)
        }
        _ => None,
    }
}
