//! `[verifier]`: the verifier, and the settings that it must have.

use std::path::PathBuf;

use datasets::settings::{between, one_of, settings, whole};

const YEAR: u64 = 365 * 24 * 60 * 60;

settings! {
    /// `[verifier]`.
    pub struct Verifier {
        /// Its address, such as http://127.0.0.1:8700; `--verifier` sets it too, and RAPID_VERIFIER if nothing else does. Without one, a run starts a verifier of its own,
        /// which ends with it.
        pub url: Option<String>,
        /// The configuration file of a verifier that a run starts, with graders of your own (docs/rewards.md).
        pub config: Option<PathBuf>,
        /// The environment variable with the bearer token, for a verifier that requires one.
        pub token_env: String = "RAPID_VERIFIER_TOKEN".into(),
        /// Maximum completions in one request.
        pub batch: usize = 32 => whole(1, 100_000),
        /// Maximum requests that wait for an answer at once.
        pub in_flight: usize = 4 => whole(1, 10_000),
        /// Seconds for which failed requests are repeated, before their samples are masked. A single request may take this long, or an hour if that is longer.
        pub patience_s: u64 = 600 => whole(0, YEAR),
        /// Training stops when more than this fraction of a phase, or of an evaluation, has no verdict.
        pub max_masked: f64 = 0.1 => between(0.0, 1.0),
        /// This and the next two are settings of the verifier that change verdicts. A run starts only if the verifier reports the same values, for the graders that the
        /// tasks need. Unless set, any value is accepted, and the run stores it in its data.json.
        /// When two answers in mathematics are the same (verifier/math-answer/docs/math-policy.md; rapid-verifier serve --math-policy).
        pub math_policy: Option<String> => one_of(&["strict", "standard", "lenient"]),
        /// Where the answer may be in a completion (rapid-verifier serve --math-extraction).
        pub math_extraction: Option<String> => one_of(&["boxed", "any"]),
        /// How the program is found in a completion (rapid-verifier serve --code-extraction).
        pub code_extraction: Option<String> => one_of(&["program", "last-block"]),
    }
}

impl Verifier {
    /// The token to send: what the environment variable `token_env` holds; `None` if it is unset or empty.
    pub fn token(&self) -> Option<String> {
        std::env::var(&self.token_env)
            .ok()
            .filter(|token| !token.is_empty())
    }
}
