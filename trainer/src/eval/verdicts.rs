//! How many completions got each verdict, which explains a low figure.

use engine::Finish;
use serde::{Deserialize, Serialize};
use verifier_api::Verdict;

use super::Record;

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
    /// The counts of an evaluation.
    #[must_use]
    pub fn of(records: &[Record]) -> Self {
        let mut counts = Self::default();
        for Record { sample, .. } in records {
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

    /// The hint to print if nearly all completions have no answer in the required form.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let all: usize = self.named().iter().map(|(_, count)| count).sum();
        let judged = all - self.unavailable;
        if judged == 0 || (self.malformed as f64) < NEARLY_ALL * judged as f64 {
            return None;
        }
        let cut = if self.truncated as f64 >= NEARLY_ALL * all as f64 {
            ", and the limit of tokens (--max-tokens), at which nearly all are cut off"
        } else {
            ""
        };
        Some(format!(
            "{} of {judged} completions have no answer in the form asked for (malformed): is the template right (--template){cut}?",
            self.malformed
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
        assert_eq!(
            some.hint().unwrap(),
            "9 of 10 completions have no answer in the form asked for (malformed): is the template right (--template), and the limit of tokens (--max-tokens), at which nearly all are cut off?"
        );
        let fewer = Verdicts {
            malformed: 8,
            incorrect: 1,
            ..some
        };
        assert_eq!(fewer.hint(), None);
        assert_eq!(Verdicts::default().hint(), None);
    }
}
