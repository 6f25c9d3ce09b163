//! Python values as they travel between records, requests and sandboxes: JSON, with tags for what JSON lacks.

mod json;
mod literal;
mod parse;
mod render;

use dashu_int::IBig;

pub use parse::ParseError;

/// How deep a value may nest. The tagged form needs up to three JSON levels for one of Python's, and `serde_json` reads 128.
pub const MAX_DEPTH: usize = 40;

/// How many digits an integer may have. Turning digits into a number takes more than twice the time for twice as many.
pub const MAX_DIGITS: usize = 100_000;

/// A Python value.
///
/// JSON form: `null`, booleans, strings, arrays (lists) and numbers stand for themselves (a number written with a
/// point or an exponent is a float); the rest is an object with one key: `{"$tuple":[…]}`, `{"$set":[…]}`,
/// `{"$frozenset":[…]}`, `{"$bytes":"base64"}`, `{"$complex":[re,im]}`, `{"$float":"nan"|"inf"|"-inf"}`,
/// `{"$int":"digits"}` (beyond 64 bits), `{"$dict":[[k,v],…]}`, `{"$opaque":"type name"}`. An object without a `$` key
/// is a dict with string keys.
///
/// `==` compares structure, as it was written: `1` is not `1.0`, and sets and dicts in another order differ. Python's
/// own equality, and its tolerance for floats, belong to the grader.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer of any size.
    Int(IBig),
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
    /// `serde_json` has turned integers beyond 64 bits into floats before this sees them; they come as `{"$int":"digits"}`,
    /// or are read from text with [`Value::parse_json`].
    ///
    /// # Errors
    /// [`ValueError`] for an unknown tag, a tag with the wrong content, and too deep nesting.
    pub fn from_json(json: &serde_json::Value) -> Result<Value, ValueError> {
        json::from_json(json)
    }

    /// The tagged JSON form. [`Value::from_json`] reads back an equal value.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        json::to_json(self)
    }

    /// Reads JSON text, integers of any size and Python's `NaN` and `Infinity` included, and the tags of the tagged form.
    ///
    /// # Errors
    /// [`ParseError`] with the place in `text`.
    pub fn parse_json(text: &str) -> Result<Value, ParseError> {
        let plain = Value::parse_plain_json(text)?;
        json::untag(plain).map_err(|e| ParseError::new(text, 0, e.to_string()))
    }

    /// Reads JSON text as [`Value::parse_json`] does, but leaves objects with `$` keys as dicts.
    pub(crate) fn parse_plain_json(text: &str) -> Result<Value, ParseError> {
        parse::whole(text, parse::Dialect::Json)
    }

    /// Gives `$` keys their meaning in a value that came from [`Value::parse_plain_json`].
    pub(crate) fn untag(self) -> Result<Value, ValueError> {
        json::untag(self)
    }

    /// Reads a Python literal: what `ast.literal_eval` reads, and `inf`, `nan`, `float('inf')`, `set()`, `set([…])`,
    /// `frozenset(…)`, `complex(re, im)` besides. Nothing is evaluated.
    ///
    /// # Errors
    /// [`ParseError`] with the place in `text`.
    pub fn parse_python(text: &str) -> Result<Value, ParseError> {
        parse::whole(text, parse::Dialect::Python)
    }

    /// Reads the Python literal that `text` begins with; the second part of the answer is how many bytes it took.
    ///
    /// # Errors
    /// [`ParseError`] with the place in `text`.
    pub fn parse_python_prefix(text: &str) -> Result<(Value, usize), ParseError> {
        parse::prefix(text, parse::Dialect::Python)
    }

    /// The value as a Python literal, which [`Value::parse_python`] reads back (an [`Value::Opaque`] excepted).
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
