//! The question to an operator's program or server about one item, and its answer, as JSON.

use std::collections::BTreeMap;

use datasets::excerpt::excerpt;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use verifier_api::Verdict;

use crate::grade::Grading;

/// Maximum number of named terms of a reward.
pub(super) const MAX_TERMS: usize = 16;
/// Maximum size of a `detail` as JSON, in bytes.
const MAX_DETAIL: usize = 2_000;

/// The question about one item.
pub(super) struct Question<'a> {
    /// The task's fields, with its `kind`.
    pub(super) task: &'a Map<String, Json>,
    pub(super) prompt: &'a str,
    pub(super) completion: &'a str,
}

/// Why an item has no reward, and whether another try may give it one.
pub(super) struct Failure {
    pub(super) reason: String,
    pub(super) retryable: bool,
}

impl Failure {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self {
            reason,
            retryable: false,
        }
    }

    pub(super) fn passing(reason: impl Into<String>) -> Self {
        Self {
            retryable: true,
            ..Self::new(reason)
        }
    }
}

/// A reward with its terms and its explanation.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Answer {
    /// The item of this answer, if a program sent it.
    pub(super) id: Json,
    reward: Json,
    terms: BTreeMap<String, Json>,
    detail: Json,
    error: Json,
}

impl Answer {
    /// A bare reward, as some servers answer.
    pub(super) fn bare(reward: Json) -> Answer {
        Answer {
            reward,
            ..Answer::default()
        }
    }

    /// The same answer, if its reward is valid.
    pub(super) fn check(self) -> Result<Self, Failure> {
        let fault = |reason: String| Err(Failure::new(reason));
        if !self.error.is_null() {
            return fault(match &self.error {
                Json::String(text) => text.clone(),
                other => other.to_string(),
            });
        }
        match self.reward.as_f64() {
            Some(reward) if (0.0..=1.0).contains(&reward) => {}
            _ if self.reward.is_null() => {
                return fault(
                    "its answer has no `reward`, and no `error` that says why".to_owned(),
                );
            }
            _ => {
                let reward = excerpt(&self.reward.to_string());
                return fault(format!(
                    "its reward is {reward}; a number from 0 to 1 is expected"
                ));
            }
        }
        if self.terms.len() > MAX_TERMS {
            let count = self.terms.len();
            return fault(format!("its answer has {count} terms; {MAX_TERMS} may be"));
        }
        for (name, value) in &self.terms {
            if !datasets::is_grader_name(name) {
                return fault(format!(
                    "`{}` is not a term's name, which is at most 32 lower-case letters, digits and underscores, a letter first",
                    excerpt(name)
                ));
            }
            if !value.as_f64().is_some_and(f64::is_finite) {
                let value = excerpt(&value.to_string());
                return fault(format!("its term `{name}` is {value}, not a number"));
            }
        }
        Ok(self)
    }

    /// The verdict of a checked answer.
    pub(super) fn grading(self) -> Grading {
        let reward = self.reward.as_f64().unwrap_or_default();
        let verdict = match reward == 1.0 {
            true => Verdict::Correct,
            false => Verdict::Incorrect,
        };
        let detail = match self.detail {
            Json::Null => json!({}),
            Json::Object(_) => self.detail,
            other => json!({ "detail": other }),
        };
        let detail = match detail.to_string() {
            text if text.len() > MAX_DETAIL => json!({ "detail": excerpt(&text) }),
            _ => detail,
        };
        let terms = self.terms.into_iter();
        Grading {
            partial: (verdict == Verdict::Incorrect).then_some(reward),
            terms: terms
                .filter_map(|(name, value)| Some((name, value.as_f64()?)))
                .collect(),
            ..Grading::new(verdict, detail)
        }
    }
}
