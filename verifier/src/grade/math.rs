//! Final answers of mathematics problems: the crate `math-answer` finds and compares them, and this makes a verdict of what it found.

use math_answer::{Comparison, Graded};
use serde_json::json;
use verifier_api::Verdict;

use super::{Grading, excerpt};

pub use math_answer::{Extraction, Policy, Settings};

/// Changes whenever the same completion may get another verdict.
pub const VERSION: &str = "math-10";

/// Judges `completion` against the task's `answer`. The `question`, which may be empty, says what is counted and in which unit.
#[must_use]
pub fn grade(question: &str, answer: &str, completion: &str, settings: Settings) -> Grading {
    let Some(Graded {
        extracted,
        comparison,
    }) = math_answer::grade(question, answer, completion, settings)
    else {
        let wanted = match settings.extraction {
            Extraction::Boxed => "no balanced \\boxed{…} that holds an answer",
            Extraction::Any => "no \\boxed{…}, no \"answer is\", no formula, no number",
        };
        return Grading::new(Verdict::Malformed, json!({ "reason": wanted }));
    };
    let mut detail =
        json!({ "extracted": excerpt(extracted.text), "from": extracted.source.name() });
    let verdict = match comparison {
        Comparison::Same(rule) => {
            detail["rule"] = json!(rule.name());
            Verdict::Correct
        }
        Comparison::Unfinished(rule, left) => {
            detail["rule"] = json!(rule.name());
            detail["reason"] = json!(format!(
                "the value is right, but {left} (the lenient policy accepts it)"
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

    fn verdict(answer: &str, completion: &str) -> Verdict {
        grade("", answer, completion, Settings::default()).verdict
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
        let any = Settings {
            extraction: Extraction::Any,
            ..Settings::default()
        };
        assert_eq!(verdict("3", "The answer is 3."), Verdict::Malformed);
        assert_eq!(
            grade("", "3", "The answer is 3.", any).verdict,
            Verdict::Correct
        );
        assert_eq!(grade("", "3", "1 + 2 = 3", any).verdict, Verdict::Correct);
        assert_eq!(grade("", "4", "1 + 2 = 3", any).verdict, Verdict::Incorrect);
        assert_eq!(grade("", "4", "four", any).verdict, Verdict::Malformed);
    }

    #[test]
    fn the_detail_says_what_was_read_and_why_it_was_accepted() {
        let grading = grade("", r"\frac12", r"so \boxed{0.5}", Settings::default());
        assert_eq!(
            grading.detail,
            json!({ "extracted": "0.5", "from": "boxed", "rule": "number" })
        );
    }

    #[test]
    fn a_long_answer_leaves_a_short_detail() {
        let grading = grade(
            "",
            "1",
            &format!(r"\boxed{{{}}}", "9".repeat(1 << 20)),
            Settings::default(),
        );
        assert_eq!(grading.verdict, Verdict::Incorrect);
        assert!(grading.detail.to_string().len() < 2_000);
    }

    #[test]
    fn an_answer_that_copies_the_problem_is_told_so() {
        let copied = |policy| {
            let settings = Settings {
                policy,
                ..Settings::default()
            };
            grade("", "72", r"\boxed{27 + 45}", settings)
        };
        let standard = copied(Policy::Standard);
        assert_eq!(standard.verdict, Verdict::Incorrect);
        assert!(standard.detail["reason"].to_string().contains("one number"));
        assert_eq!(copied(Policy::Lenient).verdict, Verdict::Correct);
        assert_eq!(copied(Policy::Strict).verdict, Verdict::Incorrect);
    }
}
