//! Tasks, as all loaders return them.

use std::time::Duration;

use crate::Value;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
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
    /// The data that decides.
    pub spec: TaskSpec,
}

/// The data that decides whether an answer is right.
#[derive(Debug, Clone, PartialEq)]
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
    Own(OwnTask),
}

impl TaskSpec {
    /// The grader that the task needs: `math`, `code`, `lean`, or the name of one of the operator's own.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            TaskSpec::Math(_) => "math",
            TaskSpec::Code(_) | TaskSpec::Program(_) => "code",
            TaskSpec::Lean(_) => "lean",
            TaskSpec::Own(task) => &task.grader,
        }
    }
}

/// A question with one final answer.
#[derive(Debug, Clone, PartialEq)]
pub struct MathTask {
    /// The right answer, in LaTeX or plain text.
    pub answer: String,
}

/// A Python function to write.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CodeTask {
    /// The function that the completion must define, or a method ([`crate::python_name::method`]).
    pub entry_point: String,
    /// The code that a completion continues (HumanEval's form): the prompt, which ends in the function's head.
    pub prefix: Option<String>,
    /// A right program, if the data set has one. The verifier computes expected values with it, in its own sandbox.
    pub canonical: Option<String>,
    /// Import lines of the record's tests (MBPP's `test_imports`), and other code that must run before them.
    pub imports: Vec<String>,
    /// The example assertion shown in the paper's prompt (MBPP's `test_list[0]`).
    pub example: Option<String>,
    /// Calls of the entry point.
    pub tests: Vec<CodeTest>,
    /// Test code: Python statements that must run without an exception, or definitions of tests (`unittest.TestCase` classes, `test_…` functions,
    /// HumanEval's `check(candidate)`), which the verifier finds and runs. Empty if `tests` suffice.
    pub asserts: Vec<String>,
    /// Absolute tolerance for floating-point results; 0 stands for 1e-6. The relative tolerance is always 1e-7.
    pub atol: f64,
    /// How a result is compared with the expected value.
    pub compare: Compare,
    /// The time that a program may take natively, if the task states it ([`time_limit`]).
    pub time_limit: Option<Duration>,
}

/// The longest time limit of a task, in seconds.
const MAX_TIME_LIMIT: f64 = 60.0;

/// The time limit that a field `time_limit` states in seconds.
///
/// # Errors
/// The reason why it states none.
pub fn time_limit(value: &Value) -> Result<Duration, &'static str> {
    let seconds = value.real().unwrap_or(0.0);
    if seconds > 0.0 && seconds <= MAX_TIME_LIMIT {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err("a number of seconds is expected, above 0 and at most 60")
}

/// One call of the entry point.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeTest {
    /// Positional arguments.
    pub args: Vec<Value>,
    /// The recorded result; `None` if the canonical program has to compute it.
    pub expected: Option<Value>,
}

/// A Python program to write, which reads standard input and writes standard output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramTask {
    /// Runs of the program, each by itself.
    pub tests: Vec<ProgramTest>,
    /// The time that a run may take natively, if the task states it ([`time_limit`]).
    pub time_limit: Option<Duration>,
}

/// One run of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramTest {
    /// What the program reads from standard input.
    pub stdin: String,
    /// What it must write to standard output.
    pub stdout: String,
}

/// How a result is compared with the expected value (EvalPlus's oracles).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// Equality, or within the tolerance for floating-point values.
    #[default]
    Equal,
    /// Equality after both sides are converted to sets.
    Set,
    /// Booleans are compared. Of other values only whether they are `None`.
    NotNone,
    /// As `Equal`. The surface of a square pyramid by its height instead of its slant height passes too (MBPP+ 581).
    PyramidSurface,
    /// As `Equal`. The sum of the digits' differences of the two arguments, padded to one length, passes too (MBPP+ 558).
    DigitDistance,
    /// The result must be a root of the polynomial whose coefficients are the first argument, constant term first (HumanEval 32).
    Root,
}

/// A task for a grader of the operator's own, which alone knows what its fields mean.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnTask {
    /// The name of the grader.
    pub grader: String,
    /// The fields, with `kind`, which is the grader's name.
    pub fields: serde_json::Map<String, serde_json::Value>,
}

/// Whether this can be the name of a grader of the operator's own: lower-case letters, digits and underscores, a letter first, and at most 32, and not the name of another kind
/// of task.
#[must_use]
pub fn is_grader_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= 32
        && bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !["math", "code", "program", "lean"].contains(&name)
}

/// A theorem to prove in Lean 4.
#[derive(Debug, Clone, PartialEq)]
pub struct LeanTask {
    /// Imports and options before the statement.
    pub header: String,
    /// The theorem, up to and including `:= by`.
    pub statement: String,
}
