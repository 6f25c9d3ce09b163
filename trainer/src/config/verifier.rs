//! `[verifier]`: who judges, and what it must be like.

use datasets::settings::{between, one_of, settings, whole};

/// Seconds of a year.
const YEAR: u64 = 365 * 24 * 60 * 60;

settings! {
    /// `[verifier]`.
    pub struct Verifier {
        /// Its address, such as http://127.0.0.1:8700. A run needs one; `--verifier` sets it too, and RAPID_VERIFIER where nothing else does.
        pub url: Option<String>,
        /// The environment variable that holds the bearer token, for a verifier that asks for one.
        pub token_env: String = "RAPID_VERIFIER_TOKEN".into(),
        /// Most completions in one request.
        pub batch: usize = 32 => whole(1, 100_000),
        /// Most requests waiting for an answer at once.
        pub in_flight: usize = 4 => whole(1, 10_000),
        /// Seconds for which a verifier that does not answer is asked again, before its samples are masked; one request waits as long, but an hour at least.
        pub patience_s: u64 = 600 => whole(0, YEAR),
        /// Training stops when more than this share of a phase, or of an evaluation, has no verdict.
        pub max_masked: f64 = 0.1 => between(0.0, 1.0),
        /// This and the next two name settings of the verifier that change verdicts. A run starts only on a verifier that says the same of itself, and only those of its
        /// graders count that the tasks need. Unless set, whatever the verifier has, which the run keeps in its data.json.
        /// What makes two answers of mathematics the same (verifier/math-answer/docs/math-policy.md; rapid-verifier serve --math-policy).
        pub math_policy: Option<String> => one_of(&["strict", "standard", "lenient"]),
        /// Where such an answer may stand (rapid-verifier serve --math-extraction).
        pub math_extraction: Option<String> => one_of(&["boxed", "any"]),
        /// How the program is found in a completion (rapid-verifier serve --code-extraction).
        pub code_extraction: Option<String> => one_of(&["program", "last-block"]),
    }
}
