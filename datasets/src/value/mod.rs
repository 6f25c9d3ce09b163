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

/// A JSON value that is not a [`Value`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// A `$` key that is not a tag, or a tag with the wrong content.
    #[error("`{tag}` {reason}")]
    Tag {
        /// The key.
        tag: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Nested beyond [`MAX_DEPTH`].
    #[error("the value nests deeper than {MAX_DEPTH} levels")]
    Depth,
}

impl Value {
    /// Reads the tagged JSON form.
    ///
    /// `serde_json` converts integers beyond 64 bits into floats before this function gets them. Write them as
    /// `{"$int":"digits"}`, or parse the text with [`Value::parse_json`].
    ///
    /// # Errors
    /// [`ValueError`] for an unknown tag, a tag with the wrong content, and too deep nesting.
    pub fn from_json(json: &serde_json::Value) -> Result<Value, ValueError> {
        json::from_json(json)
    }

    /// The tagged JSON form. [`Value::from_json`] returns an equal value.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        json::to_json(self)
    }

    /// The text of the tagged JSON form, without spaces. Unlike [`Value::to_json`], it takes no more memory than the text.
    #[must_use]
    pub fn to_json_text(&self) -> String {
        json::to_json_text(self)
    }

    /// Reads JSON text with the tags of the tagged form. Integers may have any size, and Python's `NaN` and `Infinity` are allowed.
    ///
    /// # Errors
    /// [`ParseError`] with the position in `text`.
    pub fn parse_json(text: &str) -> Result<Value, ParseError> {
        let plain = Value::parse_plain_json(text)?;
        json::untag(plain).map_err(|e| ParseError::new(text, 0, e.to_string()))
    }

    /// Reads JSON text as [`Value::parse_json`] does, but leaves objects with `$` keys as dicts.
    pub(crate) fn parse_plain_json(text: &str) -> Result<Value, ParseError> {
        parse::whole(text, parse::Dialect::Json)
    }

    /// Interprets the `$` keys of a value from [`Value::parse_plain_json`].
    pub(crate) fn untag(self) -> Result<Value, ValueError> {
        json::untag(self)
    }

    /// Reads a Python literal: the literals of `ast.literal_eval`, and also `inf`, `nan`, `float('inf')`, `set()`, `set([…])`,
    /// `frozenset(…)`, `complex(re, im)`. Nothing is evaluated.
    ///
    /// # Errors
    /// [`ParseError`] with the position in `text`.
    pub fn parse_python(text: &str) -> Result<Value, ParseError> {
        parse::whole(text, parse::Dialect::Python)
    }

    /// Reads the Python literal at the beginning of `text`. Also returns its length in bytes.
    ///
    /// # Errors
    /// [`ParseError`] with the position in `text`.
    pub fn parse_python_prefix(text: &str) -> Result<(Value, usize), ParseError> {
        parse::prefix(text, parse::Dialect::Python)
    }

    /// The value as a Python literal. [`Value::parse_python`] returns an equal value, except for an [`Value::Opaque`].
    #[must_use]
    pub fn to_python(&self) -> String {
        render::to_python(self)
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
