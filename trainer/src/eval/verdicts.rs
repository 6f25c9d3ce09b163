//! How many completions got each verdict, which explains a low figure.

use datasets::passk::percent;
use engine::Finish;
use serde::{Deserialize, Serialize};
use verifier_api::Verdict;

use crate::record::SampleRecord;

/// If this share of the judged completions has no answer, the prompt is more likely at fault than the model.
const NEARLY_ALL: f64 = 0.9;

/// Counts of completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Verdicts {
    /// Correct.
    pub correct: usize,
    /// Wrong.
    pub incorrect: usize,
    /// Without an answer in the required form.
    pub malformed: usize,
    /// Stopped at the limit of time.
    pub timeout: usize,
    /// Stopped at the limit of memory.
    pub memory: usize,
    /// Without a verdict.
    pub unavailable: usize,
    /// Cut off at the limit of tokens, whatever their verdict.
    pub truncated: usize,
}

impl Verdicts {
    /// The counts of samples.
    pub fn of<'a>(samples: impl IntoIterator<Item = &'a SampleRecord>) -> Self {
        let mut counts = Self::default();
        for sample in samples {
            *match sample.verdict {
                Verdict::Correct => &mut counts.correct,
                Verdict::Incorrect => &mut counts.incorrect,
                Verdict::Malformed => &mut counts.malformed,
                Verdict::Timeout => &mut counts.timeout,
                Verdict::Memory => &mut counts.memory,
                Verdict::Unavailable => &mut counts.unavailable,
            } += 1;
            counts.truncated += usize::from(sample.finish == Finish::Length);
        }
        counts
    }

    /// The counts by the verifier's names of the verdicts, in its order.
    #[must_use]
    pub fn named(&self) -> [(&'static str, usize); 6] {
        [
            ("correct", self.correct),
            ("incorrect", self.incorrect),
            ("malformed", self.malformed),
            ("timeout", self.timeout),
            ("memory", self.memory),
            ("unavailable", self.unavailable),
        ]
    }

    /// The hint to print if nearly all completions have no answer in the required form, with one of them. `settings` are the names of the settings of the template and of
    /// the limit of tokens.
    pub fn hint<'a>(
        samples: &(impl Iterator<Item = &'a SampleRecord> + Clone),
        settings: (&str, &str),
    ) -> Option<String> {
        let hint = Self::of(samples.clone()).remark(settings)?;
        let is_malformed = |sample: &&SampleRecord| sample.verdict == Verdict::Malformed;
        let example = samples.clone().find(is_malformed)?.completion.chars();
        let beginning: String = example.take(120).collect();
        Some(format!("{hint} One of them begins: {beginning:?}"))
    }

    fn remark(&self, (template, limit): (&str, &str)) -> Option<String> {
        let all: usize = self.named().iter().map(|(_, count)| count).sum();
        let judged = all - self.unavailable;
        if judged == 0 || (self.malformed as f64) < NEARLY_ALL * judged as f64 {
            return None;
        }
        let cut = if self.truncated as f64 >= NEARLY_ALL * all as f64 {
            format!(", and the limit of tokens ({limit}), at which nearly all are cut off")
        } else {
            String::new()
        };
        Some(format!(
            "{} of {judged} completions ({}) have no answer in the form that is graded (malformed): does the template ask for it ({template}){cut}?",
            self.malformed,
            percent(self.malformed as f64 / judged as f64)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_the_template_if_nearly_all_completions_have_no_answer() {
        let some = Verdicts {
            correct: 1,
            malformed: 9,
            unavailable: 5,
            truncated: 14,
            ..Verdicts::default()
        };
        let options = ("--template", "--max-tokens");
        assert_eq!(
            some.remark(options).unwrap(),
            "9 of 10 completions (90.0%) have no answer in the form that is graded (malformed): does the template ask for it (--template), and the limit of tokens (--max-tokens), at which nearly all are cut off?"
        );
        let fewer = Verdicts {
            malformed: 8,
            incorrect: 1,
            ..some
        };
        assert_eq!(fewer.remark(options), None);
        assert_eq!(Verdicts::default().remark(options), None);
    }

    #[test]
    fn the_hint_shows_the_beginning_of_a_completion_without_an_answer() {
        let completion = "1\n2".repeat(60);
        let sample = serde_json::json!({
            "task": "a", "sample": 0, "prompt": "", "completion": completion, "reward": 0.0, "verdict": "malformed",
            "detail": {}, "tokens": 1, "logp": -1.0, "finish": "stop",
        });
        let sample: SampleRecord = serde_json::from_value(sample).unwrap();
        let hint = Verdicts::hint(&[&sample].into_iter(), ("`data.template`", "")).unwrap();
        let end = format!(
            "(`data.template`)? One of them begins: {:?}",
            &completion[..120]
        );
        assert!(hint.ends_with(&end), "{hint}");
    }
}
