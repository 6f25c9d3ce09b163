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

    /// The hint to print if nearly all completions have no answer in the required form, with one of them. `template` and `limit` are the names of the settings of the
    /// template and of the limit of tokens.
    pub fn hint<'a>(
        samples: &(impl Iterator<Item = &'a SampleRecord> + Clone),
        (template, limit): (&str, &str),
    ) -> Option<String> {
        let counts = Self::of(samples.clone());
        let all: usize = counts.named().iter().map(|(_, count)| count).sum();
        let (malformed, judged) = (counts.malformed, all - counts.unavailable);
        if judged == 0 || (malformed as f64) < NEARLY_ALL * judged as f64 {
            return None;
        }
        let cut = if counts.truncated as f64 >= NEARLY_ALL * all as f64 {
            format!(", and the limit of tokens ({limit}), at which nearly all are cut off")
        } else {
            String::new()
        };
        let is_malformed = |sample: &&SampleRecord| sample.verdict == Verdict::Malformed;
        let example = samples.clone().find(is_malformed)?.example();
        Some(format!(
            "{malformed} of {judged} completions ({}) have no answer in the form that is graded (malformed): does the template ask for it ({template}){cut}? {example}",
            percent(malformed as f64 / judged as f64)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_the_template_if_nearly_nothing_has_an_answer() {
        let (prompt, completion) = ("é".repeat(300), "1\n2".repeat(100));
        let hint = |malformed: usize, finish: &str| {
            let verdicts = ["correct"; 1].into_iter().chain(["unavailable"; 5]);
            let verdicts = verdicts.chain(std::iter::repeat_n("malformed", malformed));
            let sample = |verdict| {
                serde_json::from_value(serde_json::json!({
                    "task": "a", "sample": 0, "prompt": prompt, "completion": completion, "reward": 0.0, "verdict": verdict,
                    "detail": {}, "tokens": 1, "logp": -1.0, "finish": finish,
                }))
                .unwrap()
            };
            let samples: Vec<SampleRecord> = verdicts.map(sample).collect();
            Verdicts::hint(&samples.iter(), ("--template", "--max-tokens"))
        };
        let start = "9 of 10 completions (90.0%) have no answer in the form that is graded (malformed): does the template ask for it (--template)";
        let shown = (&prompt[..400], &completion[..200]);
        let end = format!(
            "? For example, a prompt ends {:?} and its completion begins {:?}",
            shown.0, shown.1
        );
        assert_eq!(hint(9, "stop").unwrap(), format!("{start}{end}"));
        let cut = ", and the limit of tokens (--max-tokens), at which nearly all are cut off";
        assert_eq!(hint(9, "length").unwrap(), format!("{start}{cut}{end}"));
        assert_eq!(hint(8, "stop"), None);
    }
}
