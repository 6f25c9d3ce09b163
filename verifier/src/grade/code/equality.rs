//! Python's `==` over [`Value`], with a tolerance for floats.

use dashu_int::IBig;
use datasets::Value;

/// The tolerance relative to the expected number, in addition to the absolute one.
const RELATIVE: f64 = 1e-7;
/// Maximum pairs of elements that are compared in vain to match two sets or dicts. Two that need more count as not equal.
const MAX_MISMATCHES: usize = 1_000_000;

/// Which values count as equal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Equality {
    /// By how much a number may differ from an expected float or complex number.
    pub floats: f64,
    /// By how much a float or complex number may differ from an expected integer.
    pub integers: f64,
    /// Whether an expected list stands for a tuple too.
    pub lists_for_tuples: bool,
}

/// An element of a set, or a key of a dict with its value.
type Element<'a> = (f64, Hashed, &'a Value, &'a Value);

impl Equality {
    /// Whether `expected == got` in Python, for two separate objects: `1 == 1.0 == True`, a list never equals a tuple, and sets and dicts have no order. Numbers may
    /// differ by the tolerance. Unlike in Python, a NaN equals a NaN: the author of a task that expects a NaN means this (see `compare`).
    pub(super) fn holds(self, expected: &Value, got: &Value) -> bool {
        let all = |a: &[Value], b: &[Value]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.holds(a, b))
        };
        match (expected, got) {
            (Value::None, Value::None) => true,
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => all(a, b),
            (Value::List(a), Value::Tuple(b)) => self.lists_for_tuples && all(a, b),
            (Value::Set(a) | Value::FrozenSet(a), Value::Set(b) | Value::FrozenSet(b)) => {
                self.holds_for_sets(a, b)
            }
            (Value::Dict(a), Value::Dict(b)) => {
                self.matches(sorted(a.iter().map(pair)), sorted(b.iter().map(pair)))
            }
            (a, b) => self.holds_for_numbers(a, b),
        }
    }

    pub(super) fn holds_for_sets(self, expected: &[Value], got: &[Value]) -> bool {
        self.matches(distinct(expected), distinct(got))
    }

    /// Whether each of `expected` has an element of `got` to itself. It takes the first that is free and equal, in the order of their numbers.
    fn matches(self, expected: Option<Vec<Element<'_>>>, got: Option<Vec<Element<'_>>>) -> bool {
        let (Some(expected), Some(got)) = (expected, got) else {
            return false;
        };
        let mut taken = vec![false; got.len()];
        let (mut start, mut mismatches) = (0, 0);
        let mut finds = |(number, _, key, value): &Element<'_>| {
            start += taken[start..].iter().take_while(|taken| **taken).count();
            let widest = self.floats.max(self.integers) + RELATIVE * number.abs();
            for index in start..got.len() {
                let (other, _, got_key, got_value) = &got[index];
                if mismatches > MAX_MISMATCHES || other - number > widest {
                    break;
                }
                if !taken[index] && self.holds(key, got_key) && self.holds(value, got_value) {
                    taken[index] = true;
                    return true;
                }
                mismatches += 1;
            }
            false
        };
        expected.len() == got.len() && expected.iter().all(&mut finds)
    }

    /// Whether two numbers are equal, or differ by the tolerance at most.
    fn holds_for_numbers(self, expected: &Value, got: &Value) -> bool {
        let (Some(a), Some(b)) = (approximation(expected), approximation(got)) else {
            return false;
        };
        let is_float = |value| matches!(value, &Value::Float(_) | &Value::Complex(..));
        let tolerance = match (expected, got) {
            (Value::Bool(_), _) | (_, Value::Bool(_)) => 0.0,
            _ if is_float(expected) => self.floats,
            _ if is_float(got) => self.integers,
            _ => 0.0,
        };
        let size = a.0.hypot(a.1);
        let close = (a.0 - b.0).hypot(a.1 - b.1) <= tolerance + RELATIVE * size;
        tolerance > 0.0 && size.is_finite() && close || hashed(expected) == hashed(got)
    }
}

fn pair<A, B>((a, b): &(A, B)) -> (&A, &B) {
    (a, b)
}

/// The elements of `set(values)`, as [`sorted`] returns them.
fn distinct(values: &[Value]) -> Option<Vec<Element<'_>>> {
    let mut elements = sorted(values.iter().map(|value| (value, &Value::None)))?;
    elements.dedup_by(|a, b| a.1 == b.1);
    Some(elements)
}

/// Keys with their values, in the order of their numbers; `None` if a key equals nothing or cannot be hashed.
fn sorted<'a>(items: impl Iterator<Item = (&'a Value, &'a Value)>) -> Option<Vec<Element<'a>>> {
    let element = |(key, value)| Some((first_number(key), hashed(key)?, key, value));
    let mut elements = items.map(element).collect::<Option<Vec<_>>>()?;
    elements.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    Some(elements)
}

/// The first number in an element, or the least in a set, so that similar elements get similar numbers. An infinity if there is none.
fn first_number(value: &Value) -> f64 {
    const NONE: f64 = f64::NEG_INFINITY;
    match value {
        Value::Tuple(items) | Value::List(items) => items
            .iter()
            .map(first_number)
            .find(|x| *x != NONE)
            .unwrap_or(NONE),
        Value::Set(items) | Value::FrozenSet(items) => items
            .iter()
            .map(first_number)
            .filter(|x| *x != NONE)
            .reduce(f64::min)
            .unwrap_or(NONE),
        number => approximation(number).map_or(NONE, |(re, _)| re + 0.0),
    }
}

/// The real and the imaginary part of a number, rounded; `None` for other values.
fn approximation(value: &Value) -> Option<(f64, f64)> {
    Some(match value {
        Value::Bool(b) => (f64::from(u8::from(*b)), 0.0),
        Value::Int(n) => (n.to_f64().value(), 0.0),
        Value::Float(x) => (*x, 0.0),
        Value::Complex(re, im) => (*re, *im),
        _ => return None,
    })
}

/// A value in a form in which Rust's equality is Python's. Opaque objects have none, since they equal nothing; nor have dicts, since they cannot be hashed. A list has
/// the form of a tuple, because a list of JSON stands for one.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Hashed {
    None,
    /// Real and imaginary part.
    Number(Real, Real),
    Str(String),
    Bytes(Vec<u8>),
    Tuple(Vec<Hashed>),
    /// Sorted.
    Set(Vec<Hashed>),
}

/// An exact real number.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Real {
    Integer(IBig),
    /// The bits of a float that is not an integer: a fraction, an infinity, or the canonical NaN.
    Other(u64),
}

fn real(x: f64) -> Option<Real> {
    if x.is_nan() {
        Some(Real::Other(f64::NAN.to_bits()))
    } else if x.fract() == 0.0 {
        // The fractional part of an infinity is NaN, so x is finite here.
        IBig::try_from(x).ok().map(Real::Integer)
    } else {
        Some(Real::Other(x.to_bits()))
    }
}

fn hashed(value: &Value) -> Option<Hashed> {
    let zero = || Real::Integer(IBig::ZERO);
    Some(match value {
        Value::None => Hashed::None,
        Value::Bool(b) => Hashed::Number(Real::Integer(IBig::from(u8::from(*b))), zero()),
        Value::Int(n) => Hashed::Number(Real::Integer(n.clone()), zero()),
        Value::Float(x) => Hashed::Number(real(*x)?, zero()),
        Value::Complex(re, im) => Hashed::Number(real(*re)?, real(*im)?),
        Value::Str(text) => Hashed::Str(text.clone()),
        Value::Bytes(bytes) => Hashed::Bytes(bytes.clone()),
        Value::Tuple(items) | Value::List(items) => {
            Hashed::Tuple(items.iter().map(hashed).collect::<Option<_>>()?)
        }
        Value::Set(items) | Value::FrozenSet(items) => {
            let mut items = items.iter().map(hashed).collect::<Option<Vec<_>>>()?;
            items.sort_unstable();
            items.dedup();
            Hashed::Set(items)
        }
        Value::Dict(_) | Value::Opaque(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    const EXACT: Equality = Equality {
        floats: 0.0,
        integers: 0.0,
        lists_for_tuples: false,
    };

    #[test]
    fn no_set_takes_time_that_grows_with_its_square() {
        let floats =
            |by: f64| Vec::from_iter((0..100_000).map(|n| Value::Float(f64::from(n) + by)));
        let near = |n: i64| Value::Tuple(vec![Value::Float(n as f64 * 1e-9), Value::from(n)]);
        let crowd = |from: i64| Vec::from_iter((from..100_000).map(near));
        let close = Equality {
            floats: 0.1,
            ..EXACT
        };
        let started = Instant::now();
        assert!(close.holds_for_sets(&floats(0.0), &floats(0.05)));
        assert!(!close.holds_for_sets(&crowd(0), &[crowd(1), vec![near(-1)]].concat()));
        assert!(started.elapsed() < Duration::from_secs(20));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::None),
            any::<bool>().prop_map(Value::Bool),
            (-3_i64..3).prop_map(Value::from),
            prop_oneof![Just(0.0), Just(1.0), Just(0.5), Just(-0.0)].prop_map(Value::Float),
            "[ab]{0,2}".prop_map(|text| Value::from(text.as_str())),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Tuple),
                prop::collection::vec((0_i64..3).prop_map(Value::from), 0..4).prop_map(Value::Set),
            ]
        })
    }

    proptest! {
        #[test]
        fn equality_is_reflexive_and_symmetric(a in values(), b in values()) {
            prop_assert!(EXACT.holds(&a, &a));
            prop_assert_eq!(EXACT.holds(&a, &b), EXACT.holds(&b, &a));
        }
    }
}
