//! Tasks: what all loaders return, what `POST /v1/verify` takes, and what the graders judge by.

mod read;

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use crate::Value;

pub use read::unknown_kind;
pub(crate) use read::{MAX_TIME_LIMIT, time_limit, tolerance};

/// A named set of tasks with its two splits.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// `mbppplus`, `math`, `gsm8k`, `minif2f`, `starter-math`, …, or the stem of a user's file.
    pub name: String,
    /// Tasks to train on.
    pub train: Vec<Task>,
    /// Tasks held out for evaluation.
    pub eval: Vec<Task>,
}

/// A part of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// Tasks to train on.
    Train,
    /// Tasks held out for evaluation.
    Eval,
}

/// One problem, with the data that decides whether an answer to it is right.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Unique in all data sets: `mbppplus/2`, `gsm8k/eval/17`. (The training tasks of `starter-math-400` are those of `starter-math`.)
    pub id: String,
    /// The problem's own text, before any prompt template.
    pub question: String,
    /// The example assertion shown in the paper's prompt (MBPP's `test_list[0]`). It decides nothing.
    pub example: Option<String>,
    /// The data that decides.
    pub spec: TaskSpec,
}

impl Task {
    /// A task with no example in its prompt.
    #[must_use]
    pub fn new(id: impl Into<String>, question: impl Into<String>, spec: TaskSpec) -> Task {
        Task {
            id: id.into(),
            question: question.into(),
            example: None,
            spec,
        }
    }
}

/// A task that a request contains in full.
// Its fields are checked when it is read (`read.rs`).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = InlineTask))]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TaskSpec {
    /// One final answer.
    Math(MathTask),
    /// A Python function.
    Code(CodeTask),
    /// A whole Python program.
    Program(ProgramTask),
    /// A Lean proof.
    Lean(LeanTask),
    /// A task for a grader of the operator's own.
    #[serde(untagged)]
    Custom(CustomTask),
}

impl TaskSpec {
    /// A question with this answer.
    #[must_use]
    pub fn math(answer: impl Into<String>) -> TaskSpec {
        TaskSpec::Math(MathTask {
            answer: answer.into(),
        })
    }

    /// The grader that the task needs: `math`, `code`, `lean`, or the name of one of the operator's own.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            TaskSpec::Math(_) => "math",
            TaskSpec::Code(_) | TaskSpec::Program(_) => "code",
            TaskSpec::Lean(_) => "lean",
            TaskSpec::Custom(task) => &task.grader,
        }
    }

    /// The same task for a grader of the operator's own, which gets all its fields.
    #[must_use]
    pub fn for_grader(&self, grader: &str) -> TaskSpec {
        let mut fields = match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(fields)) => fields,
            // A task is an object in JSON.
            _ => serde_json::Map::new(),
        };
        fields.insert("kind".to_owned(), grader.into());
        TaskSpec::Custom(CustomTask {
            grader: grader.to_owned(),
            fields,
        })
    }
}

/// A question with one final answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(title = "MathTask"))]
pub struct MathTask {
    /// The correct answer, in LaTeX or plain text. Of a worked solution, what follows the last `####`, or the only box at its end, counts. The service accepts a
    /// number too, which counts as its text in the request.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::answer))]
    pub answer: String,
}

/// A Python function to write.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(title = "CodeTask"))]
pub struct CodeTask {
    /// The name of the function that the completion must define, which is not a keyword of Python, or a method of its class: `Solution().add`.
    pub entry_point: String,
    /// Calls and the values that they must return.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<CodeTest>,
    /// Python statements that must run without an exception, such as `assert f(1) == 2`, or definitions of tests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub asserts: Vec<String>,
    /// The beginning of the program that the completion continues, such as HumanEval's prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The canonical solution. It runs in the same sandbox to compute the expected values of tests without `expected`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical: Option<String>,
    /// Python that runs before `asserts`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<String>,
    /// Absolute tolerance for floats in results, at any depth; 0 stands for 1e-6.
    #[serde(skip_serializing_if = "is_zero")]
    #[cfg_attr(feature = "openapi", schema(default = 0, minimum = 0))]
    pub atol: f64,
    /// How a result is compared with the value that is expected.
    #[serde(skip_serializing_if = "Compare::is_equal")]
    #[cfg_attr(feature = "openapi", schema(default = "equal"))]
    pub compare: Compare,
    /// Seconds that a program may take natively, 60 at most. They set its limit of fuel.
    #[serde(serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub time_limit: Option<Duration>,
}

/// One call of the entry point. Values are JSON; values that JSON lacks are tagged (`{"$tuple": […]}`, `{"$set": […]}`, …).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CodeTest {
    /// Positional arguments.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<crate::schema::PythonValue>))]
    pub args: Vec<Value>,
    /// The value that the call must return, with `null` for Python's `None`. It may be absent if the task's `canonical` program
    /// computes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::PythonValue))]
    pub expected: Option<Value>,
}

/// A Python program to write, which reads standard input and writes standard output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(title = "ProgramTask"))]
pub struct ProgramTask {
    /// Runs of the program, each by itself.
    #[cfg_attr(feature = "openapi", schema(min_items = 1))]
    pub tests: Vec<ProgramTest>,
    /// Seconds that a run may take natively, 60 at most. They set its limit of fuel.
    #[serde(serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub time_limit: Option<Duration>,
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

/// How a result is compared with the value that is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
    /// The result must be a root of a polynomial. The first argument has its coefficients, constant term first.
    Root,
}

impl Compare {
    fn is_equal(&self) -> bool {
        *self == Compare::Equal
    }
}

/// A theorem to prove in Lean 4.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(title = "LeanTask"))]
pub struct LeanTask {
    /// Imports and options before the statement.
    pub header: String,
    /// The theorem up to and including `:= by`.
    pub statement: String,
}

/// A task for a grader of the operator's own, which alone knows what its fields mean.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(title = "CustomTask"))]
pub struct CustomTask {
    /// The name of the grader.
    #[serde(skip)]
    pub grader: String,
    /// All fields. `kind` is the grader's name.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::HashMap<String, serde_json::Value>))]
    pub fields: serde_json::Map<String, serde_json::Value>,
}

/// Whether this can be the name of a grader of the operator's own: lower-case letters, digits and underscores, a letter first, 32 at most, and not another kind of task.
#[must_use]
pub fn is_grader_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= 32
        && bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !["math", "code", "program", "lean"].contains(&name)
}

/// Whether there is no tolerance.
fn is_zero(tolerance: &f64) -> bool {
    *tolerance == 0.0
}

/// A time limit as JSON has it. One that is absent is left out.
fn seconds<S: Serializer>(limit: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    limit.map(|limit| limit.as_secs_f64()).serialize(serializer)
}
