//! The grader of mathematics: the crate `math-answer` extracts and compares the final answer, and this module turns its result into a verdict.

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
    #[must_use]
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
#[must_use]
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
    fn the_last_box_decides_and_an_unboxed_answer_only_if_any_form_counts() {
        let first = r"First \boxed{2}, no: \boxed{3}.";
        let unboxed = "The answer is 3.";
        for (extraction, answer, completion, verdict) in [
            (Extraction::Boxed, "3", first, Verdict::Correct),
            (Extraction::Boxed, "2", first, Verdict::Incorrect),
            (Extraction::Boxed, "3", unboxed, Verdict::Malformed),
            (Extraction::Any, "3", unboxed, Verdict::Correct),
            (Extraction::Any, "3", "1 + 2 = 3", Verdict::Correct),
            (Extraction::Any, "4", "1 + 2 = 3", Verdict::Incorrect),
            (Extraction::Any, "4", "four", Verdict::Malformed),
        ] {
            let settings = MathSettings {
                extraction,
                ..MathSettings::default()
            };
            let grading = grade("", answer, completion, settings);
            assert_eq!(grading.verdict, verdict, "{completion}");
        }
    }

    #[test]
    fn the_detail_has_the_extracted_answer_and_the_rule() {
        let grading = grade("", r"\frac12", r"so \boxed{0.5}", MathSettings::default());
        assert_eq!(
            grading.detail,
            json!({ "extracted": "0.5", "from": "boxed", "rule": "number" })
        );
    }

    #[test]
    fn a_long_answer_is_shortened_in_the_detail() {
        let grading = grade(
            "",
            "1",
            &format!(r"\boxed{{{}}}", "9".repeat(1 << 20)),
            MathSettings::default(),
        );
        assert_eq!(grading.verdict, Verdict::Incorrect);
        assert!(grading.detail.to_string().len() < 2_000);
    }

    #[test]
    fn an_answer_that_copies_the_problem_is_rejected_with_a_reason() {
        for (policy, verdict) in [
            (Policy::Strict, Verdict::Incorrect),
            (Policy::Standard, Verdict::Incorrect),
            (Policy::Lenient, Verdict::Correct),
        ] {
            let extraction = Extraction::Boxed;
            let settings = MathSettings { extraction, policy };
            let grading = grade("", "72", r"\boxed{27 + 45}", settings);
            assert_eq!(grading.verdict, verdict);
            let says = grading.detail["reason"].to_string().contains("one number");
            assert_eq!(says, policy == Policy::Standard);
        }
    }
}
