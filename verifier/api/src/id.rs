//! An item's `id`.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A client's name for an item, which the answer repeats as the client wrote it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Id {
    /// A string.
    Text(String),
    /// A number, as the client wrote it: no numeric type represents every JSON number.
    Number(Box<str>),
}

impl Id {
    /// The id in a JSON value; `None` if it is neither a string nor a number.
    #[must_use]
    pub fn of(json: &RawValue) -> Option<Id> {
        let text = json.get();
        match text.as_bytes().first() {
            Some(b'"') => serde_json::from_str(text).ok().map(Id::Text),
            Some(b'-' | b'0'..=b'9') => Some(Id::Number(text.into())),
            _ => None,
        }
    }
}

/// What the OpenAPI document says of an id.
#[cfg(feature = "openapi")]
pub(crate) fn schema() -> utoipa::openapi::schema::ObjectBuilder {
    datasets::schema::text_or_number("The client's name for the item, which the answer repeats.")
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Id::Text(text) => text,
            Id::Number(digits) => digits,
        })
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Id::Text(text) => serializer.serialize_str(text),
            Id::Number(digits) => serde_json::from_str::<&RawValue>(digits)
                .map_err(serde::ser::Error::custom)?
                .serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        Id::of(&json).ok_or_else(|| D::Error::custom("an id is a string or a number"))
    }
}
