//! The gradings of proofs that no kernel has checked.

use sandboxes::lean::LeanError;
use verifier_api::Verdict;

use crate::grade::Grading;

/// Maximum size of a proof, and of a header with its statement, in bytes. No model writes more.
pub(super) const MAX_TEXT_BYTES: usize = 1 << 20;

pub(super) fn incorrect(reason: &str) -> Box<Grading> {
    Box::new(Grading::with_reason(Verdict::Incorrect, reason))
}

/// The grading of a proof without an answer of Lean or a checker, although it works on the statement.
pub(super) fn grading_without_answer(error: &LeanError) -> Grading {
    // This depends on a clock, on the memory that the machine had, or on when the processes were counted.
    let stopped =
        |verdict| Grading::with_reason(verdict, &error.to_string()).deterministic_if(false);
    match error {
        LeanError::Timeout(_) | LeanError::ProcessorTime(_) => stopped(Verdict::Timeout),
        LeanError::Memory(_) => stopped(Verdict::Memory),
        LeanError::TooMany(..)
        | LeanError::Hidden
        | LeanError::Header(_)
        | LeanError::Crashed(_)
        | LeanError::Output(_) => stopped(Verdict::Incorrect),
        LeanError::Missing(_) => *no_answer(error),
    }
}

/// The `unavailable` grading for an error in the task.
pub(super) fn bad_task(reason: &str) -> Box<Grading> {
    let reason = format!("no proof of this task can be judged here: {reason}");
    Box::new(Grading::unavailable(&reason, false))
}

/// The `unavailable` grading if Lean gave no answer about a statement without a proof.
pub(super) fn no_answer(error: &LeanError) -> Box<Grading> {
    let retryable = !matches!(error, LeanError::Missing(_));
    Box::new(Grading::unavailable(&error.to_string(), retryable))
}
