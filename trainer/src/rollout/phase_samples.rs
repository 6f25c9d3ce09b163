//! The samples that the updates of a phase train on.

use std::time::Duration;

use super::SampledGroup;
use crate::data::Phase;
use crate::seed;

/// The samples for a phase's updates, starting with update `from`.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseSamples {
    /// The number of the first update that they are for, counted from 0 in the phase.
    pub from: usize,
    /// Whole groups, in the order of the updates.
    pub groups: Vec<SampledGroup>,
    /// Groups that were sampled and discarded by dynamic sampling, since they had no signal.
    pub discarded: usize,
    /// As in [`StepRecord::sampled_reward`](crate::record::StepRecord::sampled_reward).
    pub sampled_reward: Option<f64>,
    /// Time spent sampling.
    pub inference: Duration,
    /// Time spent judging beyond sampling.
    pub verify: Duration,
}

impl PhaseSamples {
    /// The groups of the phase's update `number`.
    #[must_use]
    pub fn of_update(&self, phase: &Phase, number: usize) -> &[SampledGroup] {
        let before = phase.updates[self.from..number].iter().map(Vec::len).sum();
        &self.groups[before..][..phase.updates[number].len()]
    }

    /// As [`PhaseSamples::of_update`], but with the completions of all groups shuffled over the updates (`algorithm.mix_groups`). An update gets as many completions as
    /// `of_update` has, and those of one prompt form a group.
    #[must_use]
    pub fn mixed(&self, phase: &Phase, number: usize, run_seed: u64) -> Vec<SampledGroup> {
        let all: Vec<(usize, usize)> = self
            .groups
            .iter()
            .enumerate()
            .flat_map(|(group, sampled)| (0..sampled.samples.len()).map(move |i| (group, i)))
            .collect();
        let size = |group: &SampledGroup| group.samples.len();
        let whole = self.of_update(phase, number);
        let end: usize = self.groups[..phase.updates[self.from..=number]
            .iter()
            .map(Vec::len)
            .sum::<usize>()]
            .iter()
            .map(size)
            .sum();
        let start = end - whole.iter().map(size).sum::<usize>();
        let mut taken: Vec<(usize, usize)> = seed::mixture(run_seed, phase.index, all.len())
            [start..end]
            .iter()
            .map(|place| all[*place])
            .collect();
        taken.sort_unstable();
        taken
            .chunk_by(|a, b| a.0 == b.0)
            .map(|together| SampledGroup {
                prompt: self.groups[together[0].0].prompt.clone(),
                samples: together
                    .iter()
                    .map(|(group, i)| self.groups[*group].samples[*i].clone())
                    .collect(),
            })
            .collect()
    }
}
