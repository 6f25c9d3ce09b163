//! `[verifier]`: who judges, and what it must be like.

use serde::{Deserialize, Serialize};

/// `[verifier]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Verifier {
    /// Its address; `--verifier` sets it too, and `RAPID_VERIFIER` where nothing else does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The environment variable that holds the bearer token, where the verifier asks for one.
    pub token_env: String,
    /// Most completions in one request.
    pub batch: usize,
    /// Most requests waiting for an answer at once.
    pub in_flight: usize,
    /// Seconds for which a verifier that does not answer is asked again before its samples are masked.
    pub patience_s: u64,
    /// Training stops where more than this share of a phase's samples is masked.
    pub max_masked: f64,
    /// What makes two answers of mathematics the same: `strict`, `standard` or `lenient`. As of the next two, a run starts only on a verifier that says the same of itself,
    /// and on any unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub math_policy: Option<String>,
    /// Where such an answer may stand in a completion: `boxed` or `any`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub math_extraction: Option<String>,
    /// How the program is found in a completion: `program` or `last-block`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_extraction: Option<String>,
}

impl Verifier {
    /// The keys that name what a grader must be like, with what they take.
    pub const EXPECTATIONS: [(&str, &[&str]); 3] = [
        ("math_policy", &["strict", "standard", "lenient"]),
        ("math_extraction", &["boxed", "any"]),
        ("code_extraction", &["program", "last-block"]),
    ];
}

impl Default for Verifier {
    fn default() -> Self {
        Self {
            url: None,
            token_env: "RAPID_VERIFIER_TOKEN".into(),
            batch: 32,
            in_flight: 4,
            patience_s: 600,
            max_masked: 0.1,
            math_policy: None,
            math_extraction: None,
            code_extraction: None,
        }
    }
}
