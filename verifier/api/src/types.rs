//! The bodies of `POST /v1/verify`.

use std::collections::BTreeMap;

use datasets::TaskSpec;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::Id;

/// A batch of completions to judge. Items are judged independently and answered in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct VerifyRequest {
    /// The items to judge.
    pub items: Vec<Item>,
}

/// One completion of one prompt of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Any string, which the answer repeats. The service accepts numbers too, and repeats them as numbers.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::id::schema))]
    pub id: String,
    /// The task, which decides whether the completion is correct.
    pub task: TaskRef,
    /// The digest of a named task's content as the client has it, 64 hexadecimal digits. If the server's task has another digest,
    /// the item is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_digest: Option<String>,
    /// The prompt as the model saw it. It is part of the verdict's key. The grader of mathematics reads from it which things are
    /// counted and in which unit; no other grader uses it.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(default = ""))]
    pub prompt: String,
    /// The model's text after the prompt.
    pub completion: String,
    /// Whether all tests of a code task run, so that `passed` / `total` is the share of passed tests. Otherwise judging ends with
    /// the first failed test, and `passed` counts the tests before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "openapi", schema(default = false))]
    pub all_tests: bool,
}

/// The id of a task in a data set of the server (`"mbppplus/2"`), or an inline task.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum TaskRef {
    /// `dataset/id` of a task that the server has loaded.
    #[cfg_attr(feature = "openapi", schema(examples("mbppplus/2")))]
    Named(String),
    /// The whole task, in the request.
    Inline(TaskSpec),
}

impl<'de> Deserialize<'de> for TaskRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TaskRef, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let task = match json.get().starts_with('"') {
            true => serde_json::from_str(json.get()).map(TaskRef::Named),
            false => serde_json::from_str(json.get()).map(TaskRef::Inline),
        };
        task.map_err(D::Error::custom)
    }
}

/// The judgements, in the order of the request's items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VerifyResponse {
    /// One judgement per item.
    pub results: Vec<Judgement>,
}

/// The verifier's decision on one item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Judgement {
    /// The item's id.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::id::schema))]
    pub id: Id,
    /// 1 or 0, or `null` if the verdict is `unavailable`. A grader of the operator's own may give a reward between 0 and 1, with the verdict `incorrect`.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub reward: Option<f64>,
    /// The reason for the reward.
    pub verdict: Verdict,
    /// A JSON object of bounded size, such as the first failed test, the extracted answer or Lean's messages.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub detail: serde_json::Value,
    /// Number of tests that passed, for code only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub passed: Option<u32>,
    /// Number of all tests, for code only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub total: Option<u32>,
    /// Parts of the reward by name, from a grader of the operator's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub terms: BTreeMap<String, f64>,
    /// Whether the same request may succeed later. True only with `unavailable`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub retryable: bool,
    /// BLAKE3 of everything the verdict depends on, 64 hexadecimal digits. Empty for an item that cannot be used, with `errors=item`.
    pub key: String,
    /// Whether the verdict came from the cache.
    pub cached: bool,
    /// Whether the verdict is a pure function of the key. False if a clock decided it.
    pub deterministic: bool,
    /// Time that judging took, in milliseconds, or the look-up in the cache if `cached`.
    pub elapsed_ms: f64,
}

/// The decision on a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every test passed, the answer is equal, or the proof is accepted.
    Correct,
    /// The completion was understood and is wrong.
    Incorrect,
    /// The completion exceeded its limit of fuel or time.
    Timeout,
    /// The completion exceeded its limit of memory.
    Memory,
    /// The completion has no code, answer or proof to judge.
    Malformed,
    /// The verifier could not judge. This does not depend on the completion and is never cached. The reward is `null`.
    Unavailable,
}

impl Verdict {
    /// Its name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Correct => "correct",
            Verdict::Incorrect => "incorrect",
            Verdict::Timeout => "timeout",
            Verdict::Memory => "memory",
            Verdict::Malformed => "malformed",
            Verdict::Unavailable => "unavailable",
        }
    }
}
