//! The samples of a phase, divided into the mini-batches of its updates.

use std::borrow::Cow;

use datasets::passk::Counts;
use engine::Group;

use super::{Rollout, Sample, SampledGroup};
use crate::data::Phase;
use crate::seed;

impl Rollout {
    /// The groups of the phase's update `number`.
    #[must_use]
    pub fn mini_batch(&self, phase: &Phase, number: usize) -> MiniBatch<'_> {
        let before = phase.updates[..number].iter().map(Vec::len).sum();
        MiniBatch::of_groups(&self.groups[before..][..phase.updates[number].len()])
    }

    /// As [`Rollout::mini_batch`], but with the completions of all groups shuffled over the updates (`algorithm.mix_groups`). An update gets as many completions as
    /// `mini_batch` has. Each `group_size` of them that follow each other in the shuffled order are compared, whatever their prompts.
    #[must_use]
    pub fn shuffled_mini_batch(
        &self,
        phase: &Phase,
        number: usize,
        group_size: usize,
        run_seed: u64,
    ) -> MiniBatch<'static> {
        let all: Vec<(usize, usize)> = self
            .groups
            .iter()
            .enumerate()
            .flat_map(|(group, sampled)| (0..sampled.samples.len()).map(move |i| (group, i)))
            .collect();
        let completions = |groups: &[SampledGroup]| -> usize {
            groups.iter().map(|group| group.samples.len()).sum()
        };
        let end = phase.updates[..=number].iter().map(Vec::len).sum();
        let end: usize = completions(&self.groups[..end]);
        let start = end - completions(&self.mini_batch(phase, number).groups);
        let shuffled: Vec<(usize, usize)> = seed::completion_order(run_seed, phase.index, all.len())
            [start..end]
            .iter()
            .map(|place| all[*place])
            .collect();
        let mut by_prompt: Vec<usize> = (0..shuffled.len()).collect();
        by_prompt.sort_unstable_by_key(|place| shuffled[*place]);
        let groups = by_prompt
            .chunk_by(|a, b| shuffled[*a].0 == shuffled[*b].0)
            .map(|together| SampledGroup {
                prompt: self.groups[shuffled[together[0]].0].prompt.clone(),
                samples: together
                    .iter()
                    .map(|place| shuffled[*place])
                    .map(|(group, i)| self.groups[group].samples[i].clone())
                    .collect(),
            })
            .collect();
        // The inverse: where each place of the shuffled order is in `groups`.
        let mut position = vec![0; shuffled.len()];
        for (at, place) in by_prompt.into_iter().enumerate() {
            position[place] = at;
        }
        MiniBatch {
            groups,
            compared: position.chunks(group_size).map(<[usize]>::to_vec).collect(),
        }
    }
}

/// The completions of an update.
#[derive(Debug, Clone, PartialEq)]
pub struct MiniBatch<'a> {
    /// By prompt, so that the engine computes each prompt once.
    pub groups: Cow<'a, [SampledGroup]>,
    /// Which completions are compared with each other: the groups of a baseline, in the order in which they were dealt. Each number is a completion's place in `groups`,
    /// counted over all of them. Each completion is in one group.
    pub compared: Vec<Vec<usize>>,
}

impl<'a> MiniBatch<'a> {
    /// Whole groups, in which the completions of each prompt are compared with each other.
    #[must_use]
    pub fn of_groups(groups: &'a [SampledGroup]) -> Self {
        let mut next = 0;
        let compared = groups
            .iter()
            .map(|group| {
                let first = next;
                next += group.samples.len();
                (first..next).collect()
            })
            .collect();
        Self {
            groups: Cow::Borrowed(groups),
            compared,
        }
    }

    /// The completions, in the order of `groups`.
    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.groups.iter().flat_map(|group| &group.samples)
    }

    /// The tokens of the completions for which `computed` is true, as the engine takes them to train on, in the order of `groups`.
    #[must_use]
    pub fn trained_groups(&self, computed: &[bool]) -> Vec<Group> {
        let mut computed = computed.iter();
        let group = |group: &SampledGroup| {
            let samples = group.samples.iter().zip(computed.by_ref());
            let samples = samples.filter(|(_, computed)| **computed);
            Group {
                prompt: group.prompt.tokens.clone(),
                completions: samples.map(|(sample, _)| sample.trained_tokens()).collect(),
            }
        };
        let groups = self.groups.iter().map(group);
        groups
            .filter(|group| !group.completions.is_empty())
            .collect()
    }

    /// The numbers of judged and of correct completions of each group that is compared.
    pub fn compared_counts(&self) -> impl Iterator<Item = Counts> {
        let samples: Vec<&Sample> = self.samples().collect();
        self.compared
            .iter()
            .map(move |group| Sample::counts(group.iter().map(|place| samples[*place])))
    }
}

#[cfg(test)]
mod tests;
