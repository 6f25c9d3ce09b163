//! The result of a grader.

use std::collections::BTreeMap;

use datasets::excerpt::bounded;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use verifier_api::Verdict;

/// A grader's result: the verdict with its explanation, without an id, a key and a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grading {
    /// The verdict.
    pub verdict: Verdict,
    /// A JSON object of bounded size that explains it.
    pub detail: Json,
    /// Number of passed tests, for code only.
    pub passed: Option<u32>,
    /// Number of all tests, for code only.
    pub total: Option<u32>,
    /// The reward of an incorrect completion, if it is not 0: below 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<f64>,
    /// Parts of the reward by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub terms: BTreeMap<String, f64>,
    /// Whether another try may succeed; only with [`Verdict::Unavailable`].
    pub retryable: bool,
    /// Whether the verdict is a pure function of the key.
    pub deterministic: bool,
}

impl Grading {
    /// A deterministic verdict about the completion.
    pub fn new(verdict: Verdict, detail: Json) -> Grading {
        Grading {
            verdict,
            detail,
            passed: None,
            total: None,
            partial: None,
            terms: BTreeMap::new(),
            retryable: false,
            deterministic: true,
        }
    }

    /// A deterministic verdict with the reason for it.
    pub fn with_reason(verdict: Verdict, reason: &str) -> Grading {
        Grading::new(verdict, json!({ "reason": reason }))
    }

    /// This grading, not deterministic unless `holds`.
    pub fn deterministic_if(self, holds: bool) -> Grading {
        Grading {
            deterministic: self.deterministic && holds,
            ..self
        }
    }

    /// An `unavailable` verdict: a failure that says nothing about the completion.
    pub fn unavailable(reason: &str, retryable: bool) -> Grading {
        Grading {
            retryable,
            ..Grading::with_reason(Verdict::Unavailable, &bounded(reason, 2_000))
        }
    }

    /// 1 or 0, or between them from a grader of the operator's own; `None` if the verdict is `unavailable`.
    pub fn reward(&self) -> Option<f64> {
        match self.verdict {
            Verdict::Correct => Some(1.0),
            Verdict::Incorrect => Some(self.partial.unwrap_or(0.0)),
            Verdict::Timeout | Verdict::Memory | Verdict::Malformed => Some(0.0),
            Verdict::Unavailable => None,
        }
    }
}
