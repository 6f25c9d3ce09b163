//! The bodies of `POST /v1/verify`.

use serde::{Deserialize, Serialize};

/// A batch of completions to judge. Items are judged independently and answered in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyRequest {
    /// What to judge.
    pub items: Vec<Item>,
}

/// One completion of one prompt of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Any string; echoed in the answer.
    pub id: String,
    /// What decides whether the completion is right.
    pub task: TaskRef,
    /// The prompt as the model saw it.
    pub prompt: String,
    /// What the model answered, without the prompt.
    pub completion: String,
    /// Whether all tests of a code task are run. Otherwise judging ends with the first that is not passed, which decides the verdict: `passed` then counts
    /// those before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_tests: bool,
}

/// A task of a data set that the server has, by its id (`"mbppplus/2"`), or a task that the client brings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TaskRef {
    /// `dataset/id` of a task that the server has loaded.
    Named(String),
    /// The whole task.
    Inline(InlineTask),
}

/// A task that travels with the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum InlineTask {
    /// A question with one final answer, in LaTeX or plain text.
    Math {
        /// The right answer.
        answer: String,
    },
    /// A Python function to write.
    Code {
        /// The function that the completion must define.
        entry_point: String,
        /// Calls and the values that they must return.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tests: Vec<CodeTest>,
        /// Python statements that must run without an exception, such as `assert f(1) == 2`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        asserts: Vec<String>,
    },
    /// A theorem to prove in Lean 4.
    Lean {
        /// Imports and options before the statement.
        header: String,
        /// The theorem up to and including `:= by`.
        statement: String,
    },
}

/// One call of the entry point. Values are JSON; what JSON lacks is tagged (`{"$tuple": […]}`, `{"$set": […]}`, …).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeTest {
    /// Positional arguments.
    pub args: Vec<serde_json::Value>,
    /// The value that the call must return.
    pub expected: serde_json::Value,
}

/// The answers, in the order of the request's items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifyResponse {
    /// One judgement an item.
    pub results: Vec<Judgement>,
}

/// What the verifier decided about one item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The item's id, echoed.
    pub id: String,
    /// 1 or 0 where the verdict is about the completion; `null` where the verdict is [`Verdict::Unavailable`].
    pub reward: Option<f64>,
    /// Why the reward is what it is.
    pub verdict: Verdict,
    /// First failing test, extracted answer, Lean's messages: a JSON object of bounded size.
    pub detail: serde_json::Value,
    /// Tests passed, for code only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<u32>,
    /// Tests in all, for code only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u32>,
    /// Whether the same request may succeed later; only with [`Verdict::Unavailable`].
    #[serde(default)]
    pub retryable: bool,
    /// BLAKE3 of everything the verdict depends on, 64 hexadecimal digits.
    pub key: String,
    /// Whether the verdict came from the cache.
    pub cached: bool,
    /// Whether the verdict is a pure function of the key; false where a clock decided it.
    pub deterministic: bool,
    /// Time that judging took, in milliseconds (of the answer from the cache, where `cached`).
    pub elapsed_ms: f64,
}

/// The decision on a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every test passed, the answer is equal, the proof checks.
    Correct,
    /// The completion was understood and is wrong.
    Incorrect,
    /// The completion used more than its share of fuel or time.
    Timeout,
    /// The completion used more than its share of memory.
    Memory,
    /// There is nothing to judge: no code, no answer, no proof.
    Malformed,
    /// The verifier could not judge. Says nothing about the completion; never cached; the reward is `null`.
    Unavailable,
}
