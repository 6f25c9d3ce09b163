//! How many completions got each verdict: what a low figure is made of.

use engine::Finish;
use serde::{Deserialize, Serialize};
use verifier_api::Verdict;

use super::Record;

/// From this share on of judged completions, an answer that is nowhere is the prompt's fault sooner than the model's.
const NEARLY_ALL: f64 = 0.9;

/// Counts of completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Verdicts {
    /// Right.
    pub correct: usize,
    /// Wrong.
    pub incorrect: usize,
    /// Without an answer in the form asked for.
    pub malformed: usize,
    /// Stopped for their time.
    pub timeout: usize,
    /// Stopped for their memory.
    pub memory: usize,
    /// Without a verdict.
    pub unavailable: usize,
    /// Cut off at the limit of tokens, whatever their verdict.
    pub truncated: usize,
}

impl Verdicts {
    /// Those of an evaluation.
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

    /// By the verifier's names, in its order.
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

    /// What to look at where nearly all completions have no answer in the form asked for.
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
    fn a_wrong_template_is_hinted_at_where_nearly_all_answers_are_nowhere() {
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
