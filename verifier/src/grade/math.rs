//! The grader of mathematics: the crate `math-answer` extracts and compares the final answer, and this module makes a verdict of its result.

use clap::ValueEnum;
use datasets::excerpt::excerpt;
use datasets::settings::{choice, settings};
use math_answer::{Comparison, Graded};
use serde_json::json;
use verifier_api::Verdict;

use super::Grading;

/// Changes whenever the same completion may get another verdict.
pub const VERSION: &str = "math-15";

settings! {
    /// Where in a completion the answer is looked for, and when two answers are the same.
    #[derive(Copy, Eq)]
    pub struct MathSettings {
        /// Where in a completion the answer may be. Also --math-extraction.
        ///   boxed  only in the last \boxed{} or \fbox{}
        ///   any    there, else after the last "answer is", else the last formula or number
        pub extraction: Extraction,
        /// When two answers are the same; verifier/math-answer/docs/math-policy.md has the reasons. Also --math-policy.
        ///   strict    the same text, after the normalisation that MATH was published with
        ///   standard  the same value, simplified as far as the expected answer
        ///   lenient   the same value
        pub policy: Policy,
    }
}

impl MathSettings {
    /// The settings as `/v1/info` shows them.
    pub fn name(self) -> String {
        format!("{}, {}", self.extraction.name(), self.policy.name())
    }
}

choice! {
    /// Where the answer is looked for in a completion. The command line's help shows the comments of the variants.
    #[derive(ValueEnum)]
    pub enum Extraction {
        /// Only in the last \boxed{} or \fbox{}
        #[default]
        Boxed = "boxed",
        /// There, else after the last "answer is", else the last formula or number
        Any = "any",
    }
}

choice! {
    /// When two answers are the same; `verifier/math-answer/docs/math-policy.md` has the reasons. The command line's help shows the comments of the variants.
    #[derive(ValueEnum)]
    pub enum Policy {
        /// The same text after the normalisation that MATH was published with
        Strict = "strict",
        /// The same value, simplified as far as the expected answer
        #[default]
        Standard = "standard",
        /// The same value
        Lenient = "lenient",
    }
}

impl From<MathSettings> for math_answer::Settings {
    fn from(settings: MathSettings) -> math_answer::Settings {
        math_answer::Settings {
            extraction: match settings.extraction {
                Extraction::Boxed => math_answer::Extraction::Boxed,
                Extraction::Any => math_answer::Extraction::Any,
            },
            policy: match settings.policy {
                Policy::Strict => math_answer::Policy::Strict,
                Policy::Standard => math_answer::Policy::Standard,
                Policy::Lenient => math_answer::Policy::Lenient,
            },
        }
    }
}

/// Judges `completion` against the task's `answer`. The `question` states what is counted and in which unit; it may be empty.
pub fn grade(question: &str, answer: &str, completion: &str, settings: MathSettings) -> Grading {
    let Some(Graded {
        extracted,
        comparison,
    }) = math_answer::grade(question, answer, completion, settings.into())
    else {
        let reason = match settings.extraction {
            Extraction::Boxed => "no \\boxed{…} that holds an answer",
            Extraction::Any => "no \\boxed{…}, no \"answer is\", no formula, no number",
        };
        return Grading::with_reason(Verdict::Malformed, reason);
    };
    let mut detail =
        json!({ "extracted": excerpt(extracted.text), "from": extracted.source.name() });
    let verdict = match comparison {
        Comparison::Same(rule) => {
            detail["rule"] = json!(rule.name());
            Verdict::Correct
        }
        Comparison::Unsimplified(rule, missing) => {
            detail["rule"] = json!(rule.name());
            detail["reason"] = json!(format!(
                "the value is right, but {missing} (the lenient policy accepts it)"
            ));
            Verdict::Incorrect
        }
        Comparison::Different => Verdict::Incorrect,
    };
    Grading::new(verdict, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_decide_where_the_answer_is_found_and_when_it_is_the_same() {
        use Extraction::{Any, Boxed};
        use Policy::{Lenient, Standard, Strict};
        let first = r"First \boxed{2}, no: \boxed{3}.";
        let (unboxed, copied) = ("The answer is 3.", r"\boxed{27 + 45}");
        for (extraction, policy, answer, completion, verdict) in [
            (Boxed, Standard, "3", first, Verdict::Correct),
            (Boxed, Standard, "2", first, Verdict::Incorrect),
            (Boxed, Standard, "3", unboxed, Verdict::Malformed),
            (Any, Standard, "3", unboxed, Verdict::Correct),
            (Any, Standard, "3", "1 + 2 = 3", Verdict::Correct),
            (Any, Standard, "4", "1 + 2 = 3", Verdict::Incorrect),
            (Any, Standard, "4", "four", Verdict::Malformed),
            (Boxed, Strict, "72", copied, Verdict::Incorrect),
            (Boxed, Standard, "72", copied, Verdict::Incorrect),
            (Boxed, Lenient, "72", copied, Verdict::Correct),
        ] {
            let grading = grade("", answer, completion, MathSettings { extraction, policy });
            assert_eq!(grading.verdict, verdict, "{completion}");
            // An answer that copies the problem is rejected with the reason.
            let says = grading.detail["reason"].to_string().contains("one number");
            assert_eq!(says, (completion, policy) == (copied, Standard));
        }
    }

    #[test]
    fn the_detail_has_the_extracted_answer_shortened_and_the_rule() {
        let judged = |answer, completion: &str| {
            grade("", answer, completion, MathSettings::default()).detail
        };
        let expected = json!({ "extracted": "0.5", "from": "boxed", "rule": "number" });
        assert_eq!(judged(r"\frac12", r"so \boxed{0.5}"), expected);
        let long = judged("1", &format!(r"\boxed{{{}}}", "9".repeat(1 << 20)));
        assert!(long.to_string().len() < 2_000);
    }
}
