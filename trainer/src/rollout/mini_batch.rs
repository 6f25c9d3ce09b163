//! The samples of a phase, divided into the mini-batches of its updates.

use std::borrow::Cow;

use datasets::passk::Counts;
use engine::Group;

use super::{Rollout, Sample, SampledGroup};
use crate::data::Phase;
use crate::seed;

impl Rollout {
    /// The groups of the phase's update `number`.
    pub fn mini_batch(&self, phase: &Phase, number: usize) -> MiniBatch<'_> {
        let before = phase.updates[..number].iter().map(Vec::len).sum();
        MiniBatch::of_groups(&self.groups[before..][..phase.updates[number].len()])
    }

    /// As [`Rollout::mini_batch`], but with the completions of all groups shuffled over the updates (`algorithm.mix_groups`). An update gets as many completions as
    /// `mini_batch` has. Each `group_size` of them that follow each other in the shuffled order are compared, whatever their prompts.
    pub fn shuffled_mini_batch(
        &self,
        phase: &Phase,
        number: usize,
        group_size: usize,
        run_seed: u64,
    ) -> MiniBatch<'static> {
        let places = |(group, sampled): (usize, &SampledGroup)| {
            (0..sampled.samples.len()).map(move |sample| (group, sample))
        };
        let all: Vec<(usize, usize)> = self.groups.iter().enumerate().flat_map(places).collect();
        let size = |number: usize| self.mini_batch(phase, number).samples().count();
        let start: usize = (0..number).map(size).sum();
        let order = seed::completion_order(run_seed, phase.index, all.len());
        let order = order[start..start + size(number)].iter();
        let shuffled: Vec<(usize, usize)> = order.map(|place| all[*place]).collect();
        let mut by_prompt = shuffled.clone();
        by_prompt.sort_unstable();
        let sample =
            |(group, sample): &(usize, usize)| self.groups[*group].samples[*sample].clone();
        let of_prompt = |own: &[(usize, usize)]| SampledGroup {
            prompt: self.groups[own[0].0].prompt.clone(),
            samples: own.iter().map(sample).collect(),
        };
        let groups = by_prompt.chunk_by(|a, b| a.0 == b.0).map(of_prompt);
        // Each completion is once in `by_prompt`.
        let place =
            |completion: &(usize, usize)| by_prompt.partition_point(|other| other < completion);
        let of_group = |group: &[(usize, usize)]| group.iter().map(place).collect();
        MiniBatch {
            groups: groups.collect(),
            baseline_groups: shuffled.chunks(group_size).map(of_group).collect(),
        }
    }
}

/// The completions of an update.
#[derive(Debug, Clone, PartialEq)]
pub struct MiniBatch<'a> {
    /// By prompt, so that the engine computes each prompt once.
    pub groups: Cow<'a, [SampledGroup]>,
    /// The groups of a baseline: which completions are compared with each other, in the order in which they were dealt. Each number is a completion's place in `groups`,
    /// counted over all of them. Each completion is in one group.
    pub baseline_groups: Vec<Vec<usize>>,
}

impl<'a> MiniBatch<'a> {
    /// Whole groups, in which the completions of each prompt are compared with each other.
    pub fn of_groups(groups: &'a [SampledGroup]) -> Self {
        let mut next = 0;
        let baseline_groups = groups
            .iter()
            .map(|group| {
                let first = next;
                next += group.samples.len();
                (first..next).collect()
            })
            .collect();
        Self {
            groups: Cow::Borrowed(groups),
            baseline_groups,
        }
    }

    /// The completions, in the order of `groups`.
    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.groups.iter().flat_map(|group| &group.samples)
    }

    /// The tokens of the completions for which `computed` is true, as the engine takes them to train on, in the order of `groups`.
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

    /// The numbers of judged and of correct completions of each of [`MiniBatch::baseline_groups`].
    pub fn baseline_group_counts(&self) -> impl Iterator<Item = Counts> {
        let samples: Vec<&Sample> = self.samples().collect();
        self.baseline_groups
            .iter()
            .map(move |group| Sample::counts(group.iter().map(|place| samples[*place])))
    }
}

#[cfg(test)]
mod tests;
