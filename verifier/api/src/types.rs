//! The bodies of `POST /v1/verify`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::Id;
#[cfg(feature = "openapi")]
use crate::schema;

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
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::id))]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum TaskRef {
    /// `dataset/id` of a task that the server has loaded.
    #[cfg_attr(feature = "openapi", schema(examples("mbppplus/2")))]
    Named(String),
    /// The whole task, in the request.
    Inline(InlineTask),
}

/// A task that a request contains in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum InlineTask {
    /// A question with one final answer.
    #[cfg_attr(feature = "openapi", schema(title = "MathTask"))]
    Math {
        /// The correct answer, in LaTeX or plain text. Of a worked solution, what follows the last `####`, or the only box at its end, counts. The service accepts a
        /// number too, which counts as its text in the request.
        #[cfg_attr(feature = "openapi", schema(schema_with = schema::answer))]
        answer: String,
    },
    /// A Python function to write.
    #[cfg_attr(feature = "openapi", schema(title = "CodeTask"))]
    Code {
        /// The name of the function that the completion must define, which is not a keyword of Python, or a method of its class: `Solution().add`.
        entry_point: String,
        /// The class of which `entry_point` is a method, if that is only its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class_name: Option<String>,
        /// Calls and the values that they must return.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tests: Vec<CodeTest>,
        /// Python statements that must run without an exception, such as `assert f(1) == 2`, or definitions of tests.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[cfg_attr(feature = "openapi", schema(min_length = 1))]
        asserts: Vec<String>,
        /// The beginning of the program that the completion continues, such as HumanEval's prompt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prefix: Option<String>,
        /// The canonical solution. It runs in the same sandbox to compute the expected values of tests without `expected`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        canonical: Option<String>,
        /// Python that runs before `asserts`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        imports: Vec<String>,
        /// Absolute tolerance for floats in results, at any depth; 0 stands for 1e-6.
        #[serde(default, skip_serializing_if = "is_zero")]
        #[cfg_attr(feature = "openapi", schema(default = 0, minimum = 0))]
        atol: f64,
        /// How a result is compared with the value that is expected.
        #[serde(default, skip_serializing_if = "Compare::is_equal")]
        #[cfg_attr(feature = "openapi", schema(default = "equal"))]
        compare: Compare,
        /// Seconds that a program may take natively, 60 at most. They set its limit of fuel.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time_limit: Option<f64>,
    },
    /// A Python program to write, which reads standard input and writes standard output.
    #[cfg_attr(feature = "openapi", schema(title = "ProgramTask"))]
    Program {
        /// Runs of the program, each by itself.
        #[cfg_attr(feature = "openapi", schema(min_items = 1))]
        tests: Vec<ProgramTest>,
        /// Seconds that a run may take natively, 60 at most. They set its limit of fuel.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time_limit: Option<f64>,
    },
    /// A theorem to prove in Lean 4.
    #[cfg_attr(feature = "openapi", schema(title = "LeanTask"))]
    Lean {
        /// Imports and options before the statement.
        header: String,
        /// The theorem up to and including `:= by`.
        statement: String,
    },
    /// A task for a grader of the operator's own: `kind` is its name, and the other fields are for it alone.
    #[cfg_attr(feature = "openapi", schema(title = "OwnTask", value_type = Object))]
    #[serde(untagged)]
    Own(serde_json::Map<String, serde_json::Value>),
}

/// One run of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ProgramTest {
    /// What the program reads from standard input.
    pub stdin: String,
    /// What it must write to standard output. Blanks at the ends of lines and blank lines at the end do not count, and numbers with a point or an exponent may differ a
    /// little.
    pub stdout: String,
}

/// One call of the entry point. Values are JSON; values that JSON lacks are tagged (`{"$tuple": […]}`, `{"$set": […]}`, …).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CodeTest {
    /// Positional arguments.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<schema::PythonValue>))]
    pub args: Vec<serde_json::Value>,
    /// The value that the call must return, with `null` for Python's `None`. It may be absent if the task's `canonical` program
    /// computes it.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::PythonValue))]
    pub expected: Option<serde_json::Value>,
}

/// A present value, which may be `null`.
fn present<'de, D: Deserializer<'de>>(
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
    /// Equal. Floats may differ by the tolerance.
    #[default]
    Equal,
    /// Both values are converted to sets first.
    Set,
    /// Bools must be equal. Of other values, both must be `None`, or neither.
    NotNone,
    /// As `Equal`. The surface of a square pyramid by its height instead of its slant height passes too.
    PyramidSurface,
    /// As `Equal`. The sum of the differences of the two arguments' digits passes too.
    DigitDistance,
    /// The result must be a root of the polynomial whose coefficients are the first argument, constant term first.
    Root,
}

impl Compare {
    fn is_equal(&self) -> bool {
        *self == Compare::Equal
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
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::id))]
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
