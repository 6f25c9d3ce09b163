//! Python values in records, in requests, and between host and sandbox: JSON, with tags for types that JSON lacks.

mod json;
mod literal;
mod parse;
mod render;

use dashu_int::IBig;

pub use parse::ParseError;

/// Maximum nesting depth of a value. The tagged form needs up to three JSON levels for one level of Python's, and `serde_json` reads 128.
pub const MAX_DEPTH: usize = 40;

/// Maximum number of digits of an integer. Parsing takes more than twice the time for twice as many digits.
pub const MAX_DIGITS: usize = 100_000;

/// A Python value.
///
/// JSON form: `null`, booleans, strings, arrays (lists) and numbers stand for themselves (a number with a point or an
/// exponent is a float). Other values are objects with one key: `{"$tuple":[…]}`, `{"$set":[…]}`,
/// `{"$frozenset":[…]}`, `{"$bytes":"base64"}`, `{"$complex":[re,im]}`, `{"$float":"nan"|"inf"|"-inf"}`,
/// `{"$int":"digits"}` (beyond 64 bits), `{"$dict":[[k,v],…]}`, `{"$opaque":"type name"}`. An object without a `$` key
/// is a dict with string keys.
///
/// `==` compares the structure: `1` is not `1.0`, and sets and dicts in another order differ. The grader implements Python's
/// own equality, with a tolerance for floats.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer of any size.
    Int(IBig),
    /// A 64-bit float, which may be infinite or NaN.
    Float(f64),
    /// Real and imaginary part.
    Complex(f64, f64),
    /// Text.
    Str(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// `[…]`.
    List(Vec<Value>),
    /// `(…)`.
    Tuple(Vec<Value>),
    /// `{…}`, in no particular order.
    Set(Vec<Value>),
    /// `frozenset(…)`.
    FrozenSet(Vec<Value>),
    /// `{k: v}`, in insertion order.
    Dict(Vec<(Value, Value)>),
    /// An object without an encoding, by its type's name. It equals nothing, not even itself, but is not `None`.
    Opaque(String),
}

impl Value {
    /// The nearest float, or an infinity, if it is a real number.
    pub(crate) fn real(&self) -> Option<f64> {
        match self {
            Value::Int(n) => Some(n.to_f64().value()),
            Value::Float(x) => Some(*x),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Str(text.to_owned())
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Value {
        Value::Int(n.into())
    }
}

#[cfg(test)]
mod tests;
