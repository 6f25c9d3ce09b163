//! The gradings of samples without a run of their program.

use sandboxes::SandboxError;
use sandboxes::defined_names::Stopped;
use verifier_api::Verdict;

use crate::grade::Grading;

/// The grading of a completion without a program.
pub(super) fn without_code() -> Box<Grading> {
    let reason = "the completion holds no code";
    Box::new(Grading::with_reason(Verdict::Malformed, reason))
}

/// The grading of a completion that was not read to its end. The clock or the machine's memory may allow it another time.
pub(super) fn unread(stopped: Stopped) -> Box<Grading> {
    let (verdict, reason) = match stopped {
        Stopped::OutOfTime => (Verdict::Timeout, "the completion takes too long to read"),
        Stopped::OutOfMemory => (
            Verdict::Memory,
            "the machine had no memory to read the completion",
        ),
        Stopped::Failed(error) => return error.into(),
    };
    Box::new(Grading::with_reason(verdict, reason).deterministic_if(false))
}

/// A failure of the sandbox says nothing about the program.
impl From<SandboxError> for Box<Grading> {
    fn from(error: SandboxError) -> Box<Grading> {
        let retryable = matches!(error, SandboxError::Deferred(_));
        Box::new(Grading::unavailable(&error.to_string(), retryable))
    }
}

/// The `unavailable` grading for an error in the task.
pub(super) fn bad_task(reason: &str) -> Box<Grading> {
    Box::new(Grading::unavailable(reason, false))
}
