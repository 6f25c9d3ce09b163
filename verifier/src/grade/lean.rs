//! Lean proofs. No backend runs Lean yet, so every proof is answered with the reason.

use super::Grading;

/// Changes whenever the same completion may get another verdict.
pub const VERSION: &str = "lean-0";

/// Why no proof can be judged.
pub const REASON: &str = "this version of rapid-verifier has no Lean backend: train and evaluate on math or code tasks, or use a version that lists a `lean` grader as ready in /v1/info";

/// The verdict on every proof.
#[must_use]
pub fn grade() -> Grading {
    Grading::unavailable(REASON, false)
}

#[cfg(test)]
mod tests {
    use verifier_api::Verdict;

    use super::*;

    #[test]
    fn a_proof_is_neither_right_nor_wrong_without_lean() {
        let grading = grade();
        assert_eq!(
            (grading.verdict, grading.reward(), grading.retryable),
            (Verdict::Unavailable, None, false)
        );
    }
}
