//! The grader of Python functions: it runs them in a sandbox and compares their results here.
//!
//! ```text
//! completion ── extract (the sandbox parses) ──▶ program ── sandbox ──▶ encoded results ── compare ──▶ verdict
//!        canonical solution ── the same sandbox, once ──▶ expected values ──┘
//! ```
//!
//! The program never sees an expected value. Its output and its exit code decide nothing.

mod attempt;
mod canonical;
mod compare;
mod equality;
mod evalplus_special_rules;
mod expected_values;
mod extract;
mod fuel;
mod grader;
mod gradings;
mod program;
mod program_dependency;
mod run_tests;
mod stdio;
mod suite;
mod value_mismatch;

pub use expected_values::{CanonicalResult, NoCanonicalResult};
pub use extract::{ExtractedProgram, Extraction};
pub use grader::{CodeGrader, CodingTask, Pending, SampleState, VERSION};
pub use program::Wanted;
pub use run_tests::TestMode;
pub use stdio::{ProgramRun, VERSION as STDIO_VERSION};
