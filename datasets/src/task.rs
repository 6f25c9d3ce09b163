//! What a loader makes of a record, whatever its file looked like.

use crate::Value;

/// A named set of tasks with its two splits.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// `mbppplus`, `math`, `gsm8k`, `minif2f`, `starter-math`, …, or a user's file's stem.
    pub name: String,
    /// Tasks to train on.
    pub train: Vec<Task>,
    /// Tasks held out for evaluation.
    pub eval: Vec<Task>,
}

/// Which part of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// Tasks to train on.
    Train,
    /// Tasks held out for evaluation.
    Eval,
}

/// One problem and what decides whether an answer to it is right.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Unique in all data sets: `mbppplus/2`, `gsm8k/eval/17`.
    pub id: String,
    /// The problem's own text, before any prompt template.
    pub question: String,
    /// What decides.
    pub spec: TaskSpec,
}

/// What decides whether an answer is right.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskSpec {
    /// One final answer.
    Math(MathTask),
    /// A Python function.
    Code(CodeTask),
    /// A Lean proof.
    Lean(LeanTask),
}

impl TaskSpec {
    /// `math`, `code` or `lean`: the grader that a task needs.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            TaskSpec::Math(_) => "math",
            TaskSpec::Code(_) => "code",
            TaskSpec::Lean(_) => "lean",
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
#[derive(Debug, Clone, PartialEq)]
pub struct CodeTask {
    /// The function that the completion must define.
    pub entry_point: String,
    /// What a completion goes on with, where it is the rest of a program (HumanEval's form): the prompt, which ends in the function's head.
    pub prefix: Option<String>,
    /// A right program, where the data set has one; expected values are made from it in the verifier's own sandbox.
    pub canonical: Option<String>,
    /// Import lines of the record's tests (MBPP's `test_imports`), and whatever else must stand before them.
    pub imports: Vec<String>,
    /// The example assertion shown in the paper's prompt (MBPP's `test_list[0]`).
    pub example: Option<String>,
    /// Calls of the entry point.
    pub tests: Vec<CodeTest>,
    /// Test code: Python statements that must run without an exception, or definitions of tests (`unittest.TestCase` classes, `test_…` functions,
    /// HumanEval's `check(candidate)`), which the verifier finds and runs. Empty where `tests` already say it.
    pub asserts: Vec<String>,
    /// Absolute tolerance for floating-point results; 0 where the record asks for equality, to which EvalPlus's oracle adds
    /// 1e-6 where the expected value is a float, or a list or tuple of nothing but floats. The relative one is 1e-7 throughout.
    pub atol: f64,
    /// How a result is compared with the expected value.
    pub compare: Compare,
}

/// One call of the entry point.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeTest {
    /// Positional arguments.
    pub args: Vec<Value>,
    /// The recorded result; `None` where only the canonical program can tell.
    pub expected: Option<Value>,
}

/// How a result is compared with the expected value (EvalPlus's oracles).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// Equal, or within tolerance where floating-point.
    Equal,
    /// Both sides turned into sets first.
    Set,
    /// A bool is compared; anything else only for being `None` or not.
    NotNone,
    /// As `Equal`; the surface of a square pyramid by its height instead of its slant height passes too (MBPP+ 581).
    PyramidSurface,
    /// As `Equal`; the sum of the digits' differences of the two arguments, padded to one length, passes too (MBPP+ 558).
    DigitDistance,
    /// Whether it is a root of the polynomial whose coefficients are the first argument, constant term first (HumanEval 32).
    Root,
}

/// A theorem to prove in Lean 4.
#[derive(Debug, Clone, PartialEq)]
pub struct LeanTask {
    /// Imports and options before the statement.
    pub header: String,
    /// The theorem up to and including `:= by`.
    pub statement: String,
}
