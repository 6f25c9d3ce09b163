//! An item's `id`, and the response, which repeats each id as the client wrote it.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use verifier_api::{Judgement, Verdict};

use super::request::wrong_kind;

/// Maximum length of an id in JSON, in bytes.
const MAX_ID: usize = 1_024;

/// A client's name for an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Id {
    /// A string.
    Text(String),
    /// A number, as the client wrote it: no numeric type represents every JSON number.
    Number(Box<str>),
}

impl Id {
    /// Parses an id.
    ///
    /// # Errors
    /// If it is neither a string nor a number, or is longer than [`MAX_ID`].
    pub(super) fn of(json: &RawValue) -> Result<Id, String> {
        let text = json.get();
        if text.len() > MAX_ID {
            return Err(format!(
                "it has {} bytes, and may have {MAX_ID}, since answers repeat it; give a shorter one",
                text.len()
            ));
        }
        let id = match text.as_bytes().first() {
            Some(b'"') => serde_json::from_str(text).ok().map(Id::Text),
            Some(b'-' | b'0'..=b'9') => Some(Id::Number(text.into())),
            _ => None,
        };
        id.ok_or_else(|| wrong_kind("a string or a number", json))
    }
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

/// The body of a response: [`verifier_api::VerifyResponse`] with the ids of the request.
#[derive(Serialize)]
pub(super) struct Answers<'a> {
    results: Vec<Answer<'a>>,
}

/// A [`Judgement`] with the id of the request.
#[derive(Serialize)]
struct Answer<'a> {
    id: &'a Id,
    reward: Option<f64>,
    verdict: Verdict,
    detail: &'a Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    passed: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u32>,
    retryable: bool,
    key: &'a str,
    cached: bool,
    deterministic: bool,
    elapsed_ms: f64,
}

impl<'a> Answers<'a> {
    /// The judgements of the items with these `ids`, in the same order.
    pub(super) fn new(ids: &'a [Id], judgements: &'a [Judgement]) -> Answers<'a> {
        let results = ids.iter().zip(judgements);
        Answers {
            results: results
                .map(|(id, judgement)| answer(id, judgement))
                .collect(),
        }
    }
}

fn answer<'a>(id: &'a Id, judgement: &'a Judgement) -> Answer<'a> {
    let Judgement {
        id: _,
        reward,
        verdict,
        detail,
        passed,
        total,
        retryable,
        key,
        cached,
        deterministic,
        elapsed_ms,
    } = judgement;
    Answer {
        id,
        reward: *reward,
        verdict: *verdict,
        detail,
        passed: *passed,
        total: *total,
        retryable: *retryable,
        key,
        cached: *cached,
        deterministic: *deterministic,
        elapsed_ms: *elapsed_ms,
    }
}

#[cfg(test)]
mod tests {
    use verifier_api::VerifyResponse;

    use super::*;

    fn judgement(id: &str, tests: Option<u32>) -> Judgement {
        Judgement {
            id: id.to_owned(),
            reward: tests.map(|_| 1.0),
            verdict: Verdict::Correct,
            detail: serde_json::json!({ "a": 1 }),
            passed: tests,
            total: tests,
            retryable: true,
            key: "00".to_owned(),
            cached: true,
            deterministic: false,
            elapsed_ms: 0.25,
        }
    }

    #[test]
    fn a_response_with_string_ids_equals_the_wire_types_json() {
        let judgements = vec![judgement("a\"é", Some(2)), judgement("", None)];
        let ids = [Id::Text("a\"é".to_owned()), Id::Text(String::new())];
        let answer = serde_json::to_string(&Answers::new(&ids, &judgements)).unwrap();
        let results = judgements;
        let contract = serde_json::to_string(&VerifyResponse { results }).unwrap();
        assert_eq!(answer, contract);
    }

    #[test]
    fn a_number_is_repeated_digit_by_digit() {
        for number in ["1", "-0", "1.10", "1e5", "123456789012345678901234567890"] {
            let raw: &RawValue = serde_json::from_str(number).unwrap();
            let ids = [Id::of(raw).unwrap()];
            let judgements = [judgement(number, None)];
            let answer = serde_json::to_string(&Answers::new(&ids, &judgements)).unwrap();
            let begin = format!("{{\"results\":[{{\"id\":{number},\"reward\":null");
            assert!(answer.starts_with(&begin), "{answer}");
        }
        let long = format!("\"{}\"", "\\u0000".repeat(200));
        for other in ["null", "true", "[1]", "{}", &long, &"1".repeat(1_025)] {
            assert!(
                Id::of(serde_json::from_str(other).unwrap()).is_err(),
                "{other}"
            );
        }
    }
}
