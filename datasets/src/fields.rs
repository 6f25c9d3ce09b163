//! Reads a JSON object field by field. An error names the field and the remedy.
//!
//! Every part stays raw text until its type is known. The values of tests have integers of any size and ordered dictionaries; [`serde_json::Value`] preserves
//! neither.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::did_you_mean::nearest;

/// An error in a field: the field's path, and the reason. The path is empty if the error is about the whole object.
pub type FieldError = (String, String);

/// The value, if it is of this kind; `None` for anything else.
#[must_use]
pub fn of_kind<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Option<T> {
    serde_json::from_str(json.get()).ok()
}

/// The kind of a JSON value, for messages.
#[must_use]
pub fn json_kind(json: &RawValue) -> &'static str {
    match json.get().as_bytes() {
        [b'"', ..] => "a text",
        [b'[', ..] => "an array",
        // A number that JSON does not have, in the tagged form.
        [b'{', ..] if json.get().starts_with("{\"$float\":") => "a number",
        [b'{', ..] => "an object",
        [b't' | b'f', ..] => "a boolean",
        [b'n', ..] => "null",
        _ => "a number",
    }
}

/// The reason if a value is not of the expected kind.
#[must_use]
pub fn wrong_kind(expected: &str, json: &RawValue) -> String {
    format!("it must be {expected}, not {}", json_kind(json))
}

/// The fields of an object, and the object's path. It notes which of them it was asked for. Reading a field fails if it is of another kind, or absent and not
/// optional.
#[derive(Debug)]
pub struct Fields<'a> {
    path: String,
    all: BTreeMap<String, &'a RawValue>,
    /// The names of those that are `null`, if these count as absent.
    nulls: Vec<String>,
    known: Vec<String>,
}

impl<'a> Fields<'a> {
    /// Parses an object. The paths of its fields begin with `path`.
    pub fn new(path: &str, json: &'a RawValue) -> Result<Fields<'a>, FieldError> {
        match of_kind(json) {
            Some(all) => Ok(Fields {
                path: path.to_owned(),
                all,
                nulls: Vec::new(),
                known: Vec::new(),
            }),
            None => {
                let place = path.trim_end_matches('.');
                Err((place.to_owned(), wrong_kind("an object", json)))
            }
        }
    }

    /// These fields without those that are `null`. Tables give each row the fields of all, so `null` is absent.
    #[must_use]
    pub fn without_nulls(mut self) -> Fields<'a> {
        let nulls = self.all.extract_if(.., |_, value| value.get() == "null");
        self.nulls = nulls.map(|(name, _)| name).collect();
        self
    }

    /// An error in the field `name`.
    pub fn fault(&self, name: &str, reason: impl Into<String>) -> FieldError {
        (format!("{}{name}", self.path), reason.into())
    }

    fn wrong(&self, name: &str, expected: &str, json: &RawValue) -> FieldError {
        self.fault(name, wrong_kind(expected, json))
    }

    /// The fields of an object that is at the place `name` in this one.
    pub fn within(&self, name: &str, json: &'a RawValue) -> Result<Fields<'a>, FieldError> {
        Fields::new(&format!("{}{name}.", self.path), json)
    }

    /// All fields, by name.
    #[must_use]
    pub fn all(&self) -> &BTreeMap<String, &'a RawValue> {
        &self.all
    }

    /// Whether there is a field `name`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.all.contains_key(name)
    }

    /// Gives the field `name` this value, or none.
    pub fn set(&mut self, name: &str, value: Option<&'a RawValue>) {
        match value {
            Some(value) => self.all.insert(name.to_owned(), value),
            None => self.all.remove(name),
        };
    }

    /// Whether the field `name` is there and `null`.
    #[must_use]
    pub fn is_null(&self, name: &str) -> bool {
        self.nulls.iter().any(|null| null == name)
    }

    /// The names of some fields, for messages. Those that are `null` are marked.
    #[must_use]
    pub fn listed(&self) -> String {
        let nulls = self.nulls.iter().map(|name| format!("{name} (null)"));
        let listed = self.all.keys().cloned().chain(nulls).take(12);
        listed.collect::<Vec<_>>().join(", ")
    }

    /// A field that may be absent or `null`.
    pub fn get(&mut self, name: &str) -> Option<&'a RawValue> {
        self.known.push(name.to_owned());
        self.all.get(name).copied()
    }

    /// A field.
    pub fn take(&mut self, name: &str) -> Result<&'a RawValue, FieldError> {
        let reason = match self.is_null(name) {
            true => "it is null",
            false => "it is missing",
        };
        self.get(name).ok_or_else(|| self.fault(name, reason))
    }

    /// An optional field. `null` counts as absent.
    pub fn optional(&mut self, name: &str) -> Option<&'a RawValue> {
        self.get(name).filter(|json| json.get() != "null")
    }

    /// A field, which is of the `expected` kind.
    pub fn need<T: Deserialize<'a>>(
        &mut self,
        name: &str,
        expected: &str,
    ) -> Result<T, FieldError> {
        let json = self.take(name)?;
        of_kind(json).ok_or_else(|| self.wrong(name, expected, json))
    }

    /// An optional field, which is of the `expected` kind.
    pub fn optional_of<T: Deserialize<'a>>(
        &mut self,
        name: &str,
        expected: &str,
    ) -> Result<Option<T>, FieldError> {
        let json = self.optional(name);
        json.map(|json| of_kind(json).ok_or_else(|| self.wrong(name, expected, json)))
            .transpose()
    }

    /// A field that is a string.
    pub fn string(&mut self, name: &str) -> Result<String, FieldError> {
        self.need(name, "a string")
    }

    /// An optional field that is a string.
    pub fn optional_string(&mut self, name: &str) -> Result<Option<String>, FieldError> {
        self.optional_of(name, "a string")
    }

    /// A field that is a list.
    pub fn required_list(&mut self, name: &str) -> Result<Vec<&'a RawValue>, FieldError> {
        self.need(name, "an array")
    }

    /// An optional field that is a list. It is empty if the field is absent.
    pub fn list(&mut self, name: &str) -> Result<Vec<&'a RawValue>, FieldError> {
        Ok(self.optional_of(name, "an array")?.unwrap_or_default())
    }

    /// An optional list of Python texts.
    pub fn texts(&mut self, name: &str) -> Result<Vec<String>, FieldError> {
        let texts = self.list(name)?.into_iter().enumerate();
        let text = |(at, text): (usize, &RawValue)| {
            of_kind(text)
                .ok_or_else(|| self.wrong(&format!("{name}[{at}]"), "a string of Python", text))
        };
        texts.map(text).collect()
    }

    /// Fails if there is a field that was not asked for.
    ///
    /// # Errors
    /// The first such field, with the name that it may mean.
    pub fn done(&self) -> Result<(), FieldError> {
        let Some(name) = self.all.keys().find(|name| !self.known.contains(name)) else {
            return Ok(());
        };
        let near = nearest(name, self.known.iter().map(String::as_str))
            .map(|near| format!("; did you mean `{near}`?"))
            .unwrap_or_default();
        Err(self.fault(name, format!("there is no such field{near}")))
    }
}
