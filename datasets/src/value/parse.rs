//! A bounded recursive-descent parser for Python literals and for JSON text. Numbers and strings are parsed in
//! [`super::literal`].

use std::collections::HashSet;

use dashu_int::IBig;

use super::{MAX_DEPTH, MAX_DIGITS, Value, json, literal};

/// The position and the reason of a parse error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}, at character {position}{excerpt}")]
pub struct ParseError {
    /// Number of characters before the error.
    pub position: usize,
    /// The error.
    pub reason: String,
    /// Up to 24 characters of the text from that position on, or that it is the end.
    excerpt: String,
}

impl ParseError {
    pub(super) fn new(text: &str, offset: usize, reason: impl Into<String>) -> ParseError {
        let (before, after) = text.split_at(text.floor_char_boundary(offset));
        let excerpt: String = after.chars().take(24).collect();
        ParseError {
            position: before.chars().count(),
            reason: reason.into(),
            excerpt: match excerpt.is_empty() {
                true => " (the end)".to_owned(),
                false => format!(": `{excerpt}`"),
            },
        }
    }
}

/// The language of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Python,
    Json,
}

impl Value {
    /// Reads JSON text with the tags of the tagged form. Integers may have any size, and Python's `NaN` and `Infinity` are allowed.
    ///
    /// # Errors
    /// [`ParseError`] with the position in `text`.
    pub fn parse_json(text: &str) -> Result<Value, ParseError> {
        let plain = Value::parse_plain_json(text)?;
        json::untag(plain, 0).map_err(|reason| ParseError::new(text, 0, reason))
    }

    /// Reads JSON text as [`Value::parse_json`] does, but leaves objects with `$` keys as dicts.
    pub(crate) fn parse_plain_json(text: &str) -> Result<Value, ParseError> {
        Parser::new(text, Dialect::Json).whole()
    }

    /// Reads a Python literal: the literals of `ast.literal_eval`, and also `inf`, `nan`, `float('inf')`, `set()`, `set([…])`,
    /// `frozenset(…)`, `complex(re, im)`. Nothing is evaluated.
    ///
    /// # Errors
    /// [`ParseError`] with the position in `text`.
    pub fn parse_python(text: &str) -> Result<Value, ParseError> {
        Parser::new(text, Dialect::Python).whole()
    }

    /// Reads the Python literal at the beginning of `text`.
    ///
    /// # Errors
    /// [`ParseError`] with the position in `text`.
    pub fn parse_python_prefix(text: &str) -> Result<Value, ParseError> {
        let mut parser = Parser::new(text, Dialect::Python);
        parser.skip_space();
        parser.value(0)
    }
}

/// Decimal digits as an integer; `None` for anything else and for more than [`MAX_DIGITS`].
pub(super) fn parse_digits(digits: &str) -> Option<IBig> {
    if digits.is_empty() || digits.len() > MAX_DIGITS || !digits.bytes().all(|b| b.is_ascii_digit())
    {
        return None;
    }
    digits.parse().ok()
}

/// The text and the offset up to which it has been read.
pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    dialect: Dialect,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, dialect: Dialect) -> Parser<'a> {
        Parser {
            text,
            at: 0,
            dialect,
        }
    }

    /// Reads one value that is the whole text.
    fn whole(mut self) -> Result<Value, ParseError> {
        self.skip_space();
        let value = self.value(0)?;
        self.skip_space();
        if self.at < self.text.len() {
            return Err(self.error("something follows the value"));
        }
        Ok(value)
    }

    pub(super) fn error(&self, reason: impl Into<String>) -> ParseError {
        self.error_at(self.at, reason)
    }

    pub(super) fn error_at(&self, offset: usize, reason: impl Into<String>) -> ParseError {
        ParseError::new(self.text, offset, reason)
    }

    pub(super) fn rest(&self) -> &'a str {
        // `at` moves past whole characters only; hostile text cannot put it inside a character.
        self.text.get(self.at..).unwrap_or("")
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips `token` if the rest begins with it, and returns whether it does.
    pub(super) fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), ParseError> {
        if self.take(token) {
            Ok(())
        } else {
            Err(self.error(format!("`{token}` is missing")))
        }
    }

    pub(super) fn skip_space(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                b'\x0c' if self.dialect == Dialect::Python => self.at += 1,
                b'\\' if self.dialect == Dialect::Python && self.rest().starts_with("\\\n") => {
                    self.at += 2;
                }
                b'#' if self.dialect == Dialect::Python => {
                    self.at += self.rest().find('\n').unwrap_or(self.rest().len());
                }
                _ => return,
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, ParseError> {
        match self.dialect {
            Dialect::Python => self.sum(depth),
            Dialect::Json => {
                if depth > 3 * MAX_DEPTH {
                    return Err(self.error("the value nests too deeply"));
                }
                self.json(depth)
            }
        }
    }

    /// A term, or the two terms of a complex number: `1+2j`.
    fn sum(&mut self, depth: usize) -> Result<Value, ParseError> {
        let start = self.at;
        let left = self.signed(depth)?;
        let after = self.at;
        self.skip_space();
        let sign = match self.peek() {
            Some(b'+') => 1.0,
            Some(b'-') => -1.0,
            _ => {
                self.at = after;
                return Ok(left);
            }
        };
        let re = left.real().ok_or_else(|| {
            self.error_at(start, "only a real number can stand before `+` or `-`")
        })?;
        self.at += 1;
        self.skip_space();
        let at = self.at;
        match self.atom(depth)? {
            // Adds as Python does, with the signs of zeros: the real number has an imaginary 0, and the imaginary number a real 0.
            Value::Complex(_, im) => Ok(Value::Complex(re + sign * 0.0, 0.0 + sign * im)),
            _ => Err(self.error_at(at, "only an imaginary number can stand after `+` or `-`")),
        }
    }

    fn signed(&mut self, depth: usize) -> Result<Value, ParseError> {
        let start = self.at;
        let mut negative = false;
        let mut signs = 0usize;
        while let Some(sign @ (b'-' | b'+')) = self.peek() {
            negative ^= sign == b'-';
            signs += 1;
            self.at += 1;
            self.skip_space();
        }
        let value = self.atom(depth)?;
        match value {
            _ if signs == 0 => Ok(value),
            Value::Int(n) => Ok(Value::Int(if negative { -n } else { n })),
            Value::Float(x) => Ok(Value::Float(if negative { -x } else { x })),
            Value::Complex(re, im) if negative => Ok(Value::Complex(-re, -im)),
            Value::Complex(..) => Ok(value),
            _ => Err(self.error_at(start, "a sign can only stand before a number")),
        }
    }

    fn atom(&mut self, depth: usize) -> Result<Value, ParseError> {
        if depth > MAX_DEPTH {
            return Err(self.error("the value nests too deeply"));
        }
        match self.peek() {
            None => Err(self.error("a value is missing")),
            Some(b'[') => {
                self.at += 1;
                Ok(Value::List(self.items("]", depth)?.0))
            }
            Some(b'(') => {
                self.at += 1;
                let (mut items, trailing_comma) = self.items(")", depth)?;
                match items.len() {
                    1 if !trailing_comma => Ok(items.remove(0)),
                    _ => Ok(Value::Tuple(items)),
                }
            }
            Some(b'{') => self.braces(depth),
            Some(b'0'..=b'9' | b'.') => literal::python_number(self),
            Some(b'"' | b'\'') => literal::python_strings(self),
            Some(b) if b.is_ascii_alphabetic() || b == b'_' => self.word(depth),
            Some(_) => Err(self.error("no value begins like this")),
        }
    }

    /// The items before `close`, and whether a comma follows the last one.
    fn items(&mut self, close: &str, depth: usize) -> Result<(Vec<Value>, bool), ParseError> {
        let mut items = Vec::new();
        let mut comma = false;
        loop {
            self.skip_space();
            if self.take(close) {
                return Ok((items, comma));
            }
            if !items.is_empty() && !comma {
                return Err(self.error(format!("`,` or `{close}` is missing")));
            }
            items.push(self.value(depth + 1)?);
            self.skip_space();
            comma = self.take(",");
            if self.dialect == Dialect::Json && comma {
                self.skip_space();
                if self.rest().starts_with(close) {
                    return Err(self.error("a value is missing after `,`"));
                }
            }
        }
    }

    /// A set or a dict, from its `{` on.
    fn braces(&mut self, depth: usize) -> Result<Value, ParseError> {
        self.at += 1;
        self.skip_space();
        if self.take("}") {
            return Ok(Value::Dict(Vec::new()));
        }
        let start = self.at;
        let first = self.value(depth + 1)?;
        self.skip_space();
        if !self.rest().starts_with(':') {
            let mut items = vec![first];
            if self.take(",") {
                items.extend(self.items("}", depth)?.0);
            } else {
                self.expect("}")?;
            }
            return self.distinct(items, start).map(Value::Set);
        }
        let mut entries = Vec::new();
        let mut key = first;
        loop {
            self.skip_space();
            self.expect(":")?;
            self.skip_space();
            entries.push((key, self.value(depth + 1)?));
            self.skip_space();
            let comma = self.take(",");
            self.skip_space();
            if self.take("}") {
                if comma && self.dialect == Dialect::Json {
                    return Err(self.error_at(self.at - 1, "a key is missing after `,`"));
                }
                return self.last_of_each_key(entries, start).map(Value::Dict);
            }
            if !comma {
                return Err(self.error("`,` or `}` is missing"));
            }
            key = self.value(depth + 1)?;
        }
    }

    /// The distinct items of a set literal, in their order. Of equal items the first one stays, as in Python.
    fn distinct(&self, items: Vec<Value>, start: usize) -> Result<Vec<Value>, ParseError> {
        let reason = "an item of this set is of a type that cannot be hashed";
        let mut seen = HashSet::new();
        let mut distinct = Vec::with_capacity(items.len());
        for item in items {
            let key = literal::hash_key(&item);
            let key = key.ok_or_else(|| self.error_at(start, reason))?;
            if seen.insert(key) {
                distinct.push(item);
            }
        }
        Ok(distinct)
    }

    /// The entries of a dict literal. Of entries with equal keys, Python keeps the first one's position and key, and the last one's value.
    fn last_of_each_key(
        &self,
        entries: Vec<(Value, Value)>,
        start: usize,
    ) -> Result<Vec<(Value, Value)>, ParseError> {
        let reason = "a key of this dict is of a type that cannot be hashed";
        let mut positions = std::collections::HashMap::new();
        let mut distinct: Vec<(Value, Value)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            if self.dialect == Dialect::Json && !matches!(key, Value::Str(_)) {
                return Err(self.error_at(start, "a key of this object is not a string"));
            }
            let hash = literal::hash_key(&key);
            let hash = hash.ok_or_else(|| self.error_at(start, reason))?;
            let position = *positions.entry(hash).or_insert(distinct.len());
            match distinct.get_mut(position) {
                Some(entry) => entry.1 = value,
                None => distinct.push((key, value)),
            }
        }
        Ok(distinct)
    }

    /// A name, a call such as `set()`, or a string with a prefix.
    fn word(&mut self, depth: usize) -> Result<Value, ParseError> {
        let start = self.at;
        let is_part = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        let length = self.rest().bytes().take_while(is_part).count();
        let word = &self.rest()[..length];
        if literal::begins_string(self.rest()) {
            return literal::python_strings(self);
        }
        self.at += length;
        match word {
            "None" => Ok(Value::None),
            "True" => Ok(Value::Bool(true)),
            "False" => Ok(Value::Bool(false)),
            "inf" => Ok(Value::Float(f64::INFINITY)),
            "nan" => Ok(Value::Float(f64::NAN)),
            "set" | "frozenset" => {
                use Value::{FrozenSet, List, Set, Tuple};
                let items = match self.arguments(depth)?.as_mut_slice() {
                    [] => Vec::new(),
                    [List(items) | Tuple(items) | Set(items) | FrozenSet(items)] => {
                        self.distinct(std::mem::take(items), start)?
                    }
                    _ => {
                        let reason = "takes nothing, or one list, tuple or set";
                        return Err(self.error_at(start, reason));
                    }
                };
                Ok(match word {
                    "set" => Set(items),
                    _ => FrozenSet(items),
                })
            }
            "float" => {
                let number = match &self.arguments(depth)?[..] {
                    [Value::Str(text)] => literal::float_from_text(text),
                    [number] => number.real(),
                    _ => None,
                };
                let number = number.map(Value::Float);
                number.ok_or_else(|| self.error_at(start, "`float` takes a number, also as text"))
            }
            "complex" => {
                let arguments = self.arguments(depth)?;
                let reals: Vec<f64> = arguments.iter().filter_map(Value::real).collect();
                match (arguments.len(), &reals[..]) {
                    (2, [re, im]) => Ok(Value::Complex(*re, *im)),
                    _ => Err(self.error_at(start, "`complex` takes two real numbers")),
                }
            }
            _ => Err(self.error_at(start, format!("`{word}` is a name, not a literal"))),
        }
    }

    fn arguments(&mut self, depth: usize) -> Result<Vec<Value>, ParseError> {
        self.skip_space();
        self.expect("(")?;
        Ok(self.items(")", depth)?.0)
    }

    fn json(&mut self, depth: usize) -> Result<Value, ParseError> {
        match self.peek() {
            None => Err(self.error("a value is missing")),
            Some(b'[') => {
                self.at += 1;
                Ok(Value::List(self.items("]", depth)?.0))
            }
            Some(b'{') => match self.braces(depth)? {
                Value::Set(_) => Err(self.error("`:` is missing in an object")),
                dict => Ok(dict),
            },
            Some(b'"') => literal::json_string(self),
            Some(b'-' | b'0'..=b'9') => literal::json_number(self),
            Some(_) => {
                for (word, value) in [
                    ("null", Value::None),
                    ("true", Value::Bool(true)),
                    ("false", Value::Bool(false)),
                    ("NaN", Value::Float(f64::NAN)),
                    ("Infinity", Value::Float(f64::INFINITY)),
                ] {
                    if self.take(word) {
                        return Ok(value);
                    }
                }
                Err(self.error("no value begins like this"))
            }
        }
    }
}
