//! Python's `==` over [`Value`].

use std::collections::{HashMap, HashSet};

use dashu_int::IBig;
use datasets::Value;

/// Whether `a == b` in Python, for two separate objects: `1 == 1.0 == True`, a list never equals a tuple, and sets and dicts have no order. One thing differs: a NaN
/// equals a NaN, which is what the author of a task that expects one means (see `compare`).
#[must_use]
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::None, Value::None) => true,
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Set(a) | Value::FrozenSet(a), Value::Set(b) | Value::FrozenSet(b)) => {
            equal_sets(a, b)
        }
        (Value::Dict(a), Value::Dict(b)) => equal_dicts(a, b),
        (Value::Opaque(_), _) | (_, Value::Opaque(_)) => false,
        (a, b) => match (hashed(a), hashed(b)) {
            (Some(a @ Hashed::Number(..)), Some(b @ Hashed::Number(..))) => a == b,
            _ => false,
        },
    }
}

fn equal_sets(a: &[Value], b: &[Value]) -> bool {
    match (distinct(a), distinct(b)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// The elements of `set(values)`, or `None` if one of them equals nothing or cannot be hashed.
pub(super) fn distinct(values: &[Value]) -> Option<HashSet<Hashed>> {
    values.iter().map(hashed).collect()
}

fn equal_dicts(a: &[(Value, Value)], b: &[(Value, Value)]) -> bool {
    let Some(keys) = b
        .iter()
        .map(|(key, value)| Some((hashed(key)?, value)))
        .collect::<Option<HashMap<_, _>>>()
    else {
        return false;
    };
    a.len() == keys.len()
        && a.iter().all(|(key, value)| {
            hashed(key)
                .and_then(|key| keys.get(&key).copied())
                .is_some_and(|other| equal(value, other))
        })
}

/// A value in a form for which Python's equality is Rust's. Values that equal nothing (opaque objects) and values that cannot be hashed (lists, dicts) have no such
/// form: neither can be an element of two equal sets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Hashed {
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
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Real {
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
        Value::Tuple(items) => Hashed::Tuple(items.iter().map(hashed).collect::<Option<_>>()?),
        Value::Set(items) | Value::FrozenSet(items) => {
            let mut items = items.iter().map(hashed).collect::<Option<Vec<_>>>()?;
            items.sort_unstable();
            items.dedup();
            Hashed::Set(items)
        }
        Value::List(_) | Value::Dict(_) | Value::Opaque(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn python(text: &str) -> Value {
        Value::parse_python(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn equality_follows_python_except_for_nan() {
        for (a, b) in [
            ("1", "1.0"),
            ("1", "True"),
            ("0.0", "-0.0"),
            ("1", "complex(1, 0)"),
            ("[1, 2]", "[1.0, 2]"),
            ("{1, 2}", "{2, 1}"),
            ("{1, 2}", "frozenset([1, 2])"),
            ("{'a': 1, 'b': 2}", "{'b': 2, 'a': 1.0}"),
            ("{1: 'x'}", "{True: 'x'}"),
            ("{(1, 2)}", "{(1.0, 2)}"),
            ("inf", "inf"),
            ("nan", "nan"),
            ("[nan, 1]", "[nan, 1.0]"),
            ("{nan}", "{nan}"),
            ("{'a': nan}", "{'a': nan}"),
            ("100000000000000000000", "1e20"),
            ("None", "None"),
            ("b'x'", "b'x'"),
            ("[]", "[]"),
        ] {
            assert!(equal(&python(a), &python(b)), "{a} == {b}");
        }
    }

    #[test]
    fn inequality_follows_python() {
        for (a, b) in [
            ("1", "2"),
            ("[1]", "(1,)"),
            ("[1]", "{1}"),
            ("'1'", "1"),
            ("'a'", "b'a'"),
            ("nan", "0.0"),
            ("nan", "inf"),
            ("nan", "None"),
            ("nan", "'nan'"),
            ("[nan]", "[nan, nan]"),
            ("None", "False"),
            ("''", "None"),
            ("[]", "None"),
            ("{}", "set()"),
            ("[1, 2]", "[2, 1]"),
            ("[1, 2]", "[1, 2, 3]"),
            ("{1: 2}", "{1: 3}"),
            ("{1: 2}", "{1: 2, 3: 4}"),
            ("{1, 2}", "{1, 3}"),
            ("9007199254740993", "9007199254740992.0"),
            ("inf", "-inf"),
            ("complex(1, 1)", "1"),
        ] {
            assert!(!equal(&python(a), &python(b)), "{a} != {b}");
        }
        let opaque = Value::Opaque("Thing".to_owned());
        assert!(!equal(&opaque, &opaque));
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
            prop_assert!(equal(&a, &a));
            prop_assert_eq!(equal(&a, &b), equal(&b, &a));
        }
    }
}
