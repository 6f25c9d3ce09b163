//! Python values as they travel between records, requests and sandboxes: JSON, with tags for what JSON lacks.

use num_bigint::BigInt;

/// A Python value.
///
/// JSON form: `null`, booleans, strings, arrays (lists) and numbers stand for themselves (a number written with a
/// point or an exponent is a float); the rest is an object with one key: `{"$tuple":[…]}`, `{"$set":[…]}`,
/// `{"$frozenset":[…]}`, `{"$bytes":"base64"}`, `{"$complex":[re,im]}`, `{"$float":"nan"|"inf"|"-inf"}`,
/// `{"$int":"digits"}` (beyond 64 bits), `{"$dict":[[k,v],…]}`, `{"$opaque":"type name"}`. An object without a `$` key
/// is a dict with string keys.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer of any size.
    Int(BigInt),
    /// A 64-bit float, not finite ones included.
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
    /// An object that has no encoding: its type's name. Equals nothing, itself included, but is not `None`.
    Opaque(String),
}
