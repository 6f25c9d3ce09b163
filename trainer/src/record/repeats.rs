//! How many completions have the same text: the first sign of a model that gives one answer to everything.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::rollout::SampledGroup;

/// The repetitions in one mini-batch. Texts are compared as they were judged; masked completions count too.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Repeats {
    /// Share of completions with the same text as an earlier one of the same prompt. It is high if the model is sure, whether of correct or of wrong answers.
    pub repeated: f64,
    /// Share of completions with the commonest text. If the answers to prompts differ, it stays near 1 / prompts.
    pub commonest: f64,
}

impl Repeats {
    /// The repetitions in the groups of an update.
    pub fn of(groups: &[SampledGroup]) -> Self {
        let (mut all, mut repeated) = (0usize, 0usize);
        let mut everywhere: HashMap<&str, usize> = HashMap::new();
        for group in groups {
            let mut here: HashMap<&str, usize> = HashMap::new();
            for sample in &group.samples {
                *here.entry(sample.text.as_str()).or_default() += 1;
            }
            all += group.samples.len();
            repeated += group.samples.len() - here.len();
            for (text, count) in here {
                *everywhere.entry(text).or_default() += count;
            }
        }
        let share = |part: usize| part as f64 / all.max(1) as f64;
        Self {
            repeated: share(repeated),
            commonest: share(everywhere.into_values().max().unwrap_or(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{group, sample};

    /// The repetitions in groups with these texts, within a prompt and with the commonest text.
    fn repeats(texts: &[&[&str]]) -> (f64, f64) {
        let samples = |texts: &[&str]| texts.iter().map(|text| sample(text, 0.0)).collect();
        let groups = texts.iter().enumerate();
        let groups = groups.map(|(number, texts)| group(number, samples(texts)));
        let repeats = Repeats::of(&groups.collect::<Vec<_>>());
        (repeats.repeated, repeats.commonest)
    }

    #[test]
    fn repeats_within_a_prompt_and_across_prompts_are_counted_separately() {
        let sure = repeats(&[&["1", "1", "1", "1"], &["2", "2", "2", "2"]]);
        assert_eq!(sure, (0.75, 0.5));
        let one_answer = repeats(&[&["0", "0"], &["0", "1"], &["0", "2"]]);
        assert_eq!(one_answer, (1.0 / 6.0, 4.0 / 6.0));
        assert_eq!(repeats(&[]), (0.0, 0.0));
    }
}
