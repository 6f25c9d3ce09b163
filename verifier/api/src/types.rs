//! The bodies of `POST /v1/verify`.

use serde::{Deserialize, Deserializer, Serialize};

#[cfg(feature = "openapi")]
use crate::schema;

/// A batch of completions to judge. Items are judged independently and answered in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct VerifyRequest {
    /// What to judge.
    pub items: Vec<Item>,
}

/// One completion of one prompt of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Any string; echoed in the answer. The service takes and echoes numbers too, from clients that have them.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::id))]
    pub id: String,
    /// What decides whether the completion is right.
    pub task: TaskRef,
    /// The digest of what decides on a named task, as the client has it (64 hexadecimal digits): where the server's task is another, the item is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_digest: Option<String>,
    /// The prompt as the model saw it. The verdict's key holds it. Mathematics takes from it what is counted and in which unit; no other grader looks at it.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(default = ""))]
    pub prompt: String,
    /// What the model answered, without the prompt.
    pub completion: String,
    /// Whether all tests of a code task are run, so that `passed` of `total` is the share of those that are passed. Otherwise judging ends with the first
    /// that is not, and `passed` counts those before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "openapi", schema(default = false))]
    pub all_tests: bool,
}

/// A task of a data set that the server has, by its id (`"mbppplus/2"`), or a task that the client brings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum TaskRef {
    /// `dataset/id` of a task that the server has loaded.
    #[cfg_attr(feature = "openapi", schema(examples("mbppplus/2")))]
    Named(String),
    /// The whole task.
    Inline(InlineTask),
}

/// A task that travels with the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum InlineTask {
    /// A question with one final answer.
    #[cfg_attr(feature = "openapi", schema(title = "MathTask"))]
    Math {
        /// The right answer, in LaTeX or plain text. The service takes a number too, as the text that it is written as.
        #[cfg_attr(feature = "openapi", schema(schema_with = schema::answer))]
        answer: String,
    },
    /// A Python function to write.
    #[cfg_attr(feature = "openapi", schema(title = "CodeTask"))]
    Code {
        /// The function that the completion must define: a name, and no keyword of Python.
        entry_point: String,
        /// Calls and the values that they must return.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tests: Vec<CodeTest>,
        /// Python statements that must run without an exception, such as `assert f(1) == 2`, or definitions of tests.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[cfg_attr(feature = "openapi", schema(min_length = 1))]
        asserts: Vec<String>,
        /// What a completion goes on with, where it is the rest of a program: HumanEval's prompt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prefix: Option<String>,
        /// A right program. Run in the same sandbox, it tells the values that are expected, and a test may lack `expected`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        canonical: Option<String>,
        /// Python that runs before `asserts`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        imports: Vec<String>,
        /// Absolute tolerance of results that are floats, or hold some.
        #[serde(default, skip_serializing_if = "is_zero")]
        #[cfg_attr(feature = "openapi", schema(default = 0, minimum = 0))]
        atol: f64,
        /// How a result is compared with the value that is expected.
        #[serde(default, skip_serializing_if = "Compare::is_equal")]
        #[cfg_attr(feature = "openapi", schema(default = "equal"))]
        compare: Compare,
    },
    /// A theorem to prove in Lean 4.
    #[cfg_attr(feature = "openapi", schema(title = "LeanTask"))]
    Lean {
        /// Imports and options before the statement.
        header: String,
        /// The theorem up to and including `:= by`.
        statement: String,
    },
}

/// One call of the entry point. Values are JSON; what JSON lacks is tagged (`{"$tuple": […]}`, `{"$set": […]}`, …).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CodeTest {
    /// Positional arguments.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<schema::PythonValue>))]
    pub args: Vec<serde_json::Value>,
    /// The value that the call must return, `null` for Python's `None`; absent where only the task's `canonical` program can tell it.
    #[serde(
        default,
        deserialize_with = "there",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::PythonValue))]
    pub expected: Option<serde_json::Value>,
}

/// A value that is there: `null` is one.
fn there<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<serde_json::Value>, D::Error> {
    serde_json::Value::deserialize(deserializer).map(Some)
}

/// Whether there is no tolerance.
fn is_zero(tolerance: &f64) -> bool {
    *tolerance == 0.0
}

/// How a result is compared with the value that is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// Equal, or within tolerance where floating-point.
    #[default]
    Equal,
    /// Both sides turned into sets first.
    Set,
    /// A bool is compared; anything else only for being `None` or not.
    NotNone,
    /// As `Equal`; the surface of a square pyramid by its height instead of its slant height passes too.
    PyramidSurface,
    /// As `Equal`; the sum of the digits' differences of the two arguments passes too.
    DigitDistance,
    /// Whether it is a root of the polynomial whose coefficients are the first argument, constant term first.
    Root,
}

impl Compare {
    fn is_equal(&self) -> bool {
        *self == Compare::Equal
    }
}

/// The answers, in the order of the request's items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VerifyResponse {
    /// One judgement an item.
    pub results: Vec<Judgement>,
}

/// What the verifier decided about one item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Judgement {
    /// The item's id, echoed.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::id))]
    pub id: String,
    /// 1 or 0; `null` where the verdict is `unavailable`.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub reward: Option<f64>,
    /// Why the reward is what it is.
    pub verdict: Verdict,
    /// First failing test, extracted answer, Lean's messages: a JSON object of bounded size.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub detail: serde_json::Value,
    /// Tests passed, for code only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub passed: Option<u32>,
    /// Tests in all, for code only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub total: Option<u32>,
    /// Whether the same request may succeed later; only with `unavailable`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
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
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
