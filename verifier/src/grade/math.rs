//! Final answers of mathematics problems: taken from the completion, compared with the task's answer.
//!
//! ```text
//! completion ── extract ──▶ answer ── latex ──▶ normal form ── equal ──▶ rule that accepted it, or none
//! ```
//!
//! Every step is linear in a text of bounded length, and no power or product that an answer writes is ever computed
//! beyond a fixed number of digits: an answer cannot cost more than a fixed number of operations.

mod equal;
mod extract;
mod latex;
mod number;
mod unit;

use serde::{Deserialize, Serialize};
use serde_json::json;
use verifier_api::Verdict;

use super::{Grading, excerpt};

pub use equal::{Rule, equal};
pub use extract::{Extracted, Source, extract};

/// Changes whenever the same completion may get another verdict.
pub const VERSION: &str = "math-1";

/// Where in a completion an answer may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extraction {
    /// Only in the last balanced `\boxed{}` or `\fbox{}`.
    #[default]
    Boxed,
    /// There, else after the last "answer is", else the last number.
    Any,
}

impl Extraction {
    /// As configuration files and `/v1/info` write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Extraction::Boxed => "boxed",
            Extraction::Any => "any",
        }
    }
}

/// Judges `completion` against the task's `answer`.
#[must_use]
pub fn grade(answer: &str, completion: &str, extraction: Extraction) -> Grading {
    let Some(extracted) = extract(completion, extraction) else {
        let wanted = match extraction {
            Extraction::Boxed => "no balanced \\boxed{…} that holds an answer",
            Extraction::Any => "no \\boxed{…}, no \"answer is\", no number",
        };
        return Grading::new(Verdict::Malformed, json!({ "reason": wanted }));
    };
    let mut detail =
        json!({ "extracted": excerpt(extracted.text), "from": extracted.source.name() });
    let verdict = match equal(answer, extracted.text) {
        Some(rule) => {
            detail["rule"] = json!(rule.name());
            Verdict::Correct
        }
        None => Verdict::Incorrect,
    };
    Grading::new(verdict, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(answer: &str, completion: &str) -> Verdict {
        grade(answer, completion, Extraction::Boxed).verdict
    }

    #[test]
    fn the_last_box_decides() {
        assert_eq!(
            verdict("3", r"First \boxed{2}, no: \boxed{3}."),
            Verdict::Correct
        );
        assert_eq!(
            verdict("3", r"First \boxed{3}, no: \boxed{2}."),
            Verdict::Incorrect
        );
    }

    #[test]
    fn an_unboxed_answer_is_malformed_unless_any_form_counts() {
        assert_eq!(verdict("3", "The answer is 3."), Verdict::Malformed);
        assert_eq!(
            grade("3", "The answer is 3.", Extraction::Any).verdict,
            Verdict::Correct
        );
        assert_eq!(
            grade("3", "1 + 2 = 3", Extraction::Any).verdict,
            Verdict::Correct
        );
        assert_eq!(
            grade("4", "1 + 2 = 3", Extraction::Any).verdict,
            Verdict::Incorrect
        );
        assert_eq!(
            grade("4", "four", Extraction::Any).verdict,
            Verdict::Malformed
        );
    }

    #[test]
    fn the_detail_says_what_was_read_and_why_it_was_accepted() {
        let grading = grade(r"\frac12", r"so \boxed{0.5}", Extraction::Boxed);
        assert_eq!(
            grading.detail,
            json!({ "extracted": "0.5", "from": "boxed", "rule": "number" })
        );
    }

    #[test]
    fn a_long_answer_leaves_a_short_detail() {
        let grading = grade(
            "1",
            &format!(r"\boxed{{{}}}", "9".repeat(1 << 20)),
            Extraction::Boxed,
        );
        assert_eq!(grading.verdict, Verdict::Incorrect);
        assert!(grading.detail.to_string().len() < 2_000);
    }
}
