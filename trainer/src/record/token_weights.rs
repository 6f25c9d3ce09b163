//! The token-level importance weights of one completion of a phase: the lines of `weights.jsonl`.

use engine::TokenStats;
use serde::{Deserialize, Serialize};

use crate::rollout::{Sample, SampledGroup};

/// A line of `weights.jsonl`: a completion of the last update of a phase, which has the most stale samples. Phases with one update have none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenWeights {
    /// As in [`StepRecord::step`](super::StepRecord::step).
    pub step: usize,
    /// As in [`StepRecord::phase`](super::StepRecord::phase).
    pub phase: usize,
    /// As in [`StepRecord::update`](super::StepRecord::update).
    pub update: usize,
    /// The task's id.
    pub task: String,
    /// The completion.
    pub completion: String,
    /// Its reward from the verifier.
    pub reward: f64,
    /// log μ of each token, under the behaviour policy.
    pub behaviour: Vec<f32>,
    /// log π of each token, under the policy before the update.
    pub policy: Vec<f32>,
}

impl TokenWeights {
    /// The weights of the first judged completion of the first group with both right and wrong ones, else of the first judged completion; `None` without any. `stats`
    /// are those of all completions of the groups, in order; a completion without log-probabilities is left out.
    pub fn of(
        (step, phase, update): (usize, usize, usize),
        groups: &[SampledGroup],
        stats: &[TokenStats],
    ) -> Option<Self> {
        let samples = groups
            .iter()
            .flat_map(|group| group.samples.iter().map(move |sample| (group, sample)));
        let judged: Vec<(&SampledGroup, &Sample, &TokenStats)> = samples
            .zip(stats)
            .map(|((group, sample), stats)| (group, sample, stats))
            .filter(|(_, sample, stats)| {
                sample.judged.reward.is_some() && !sample.logp.is_empty() && !stats.logp.is_empty()
            })
            .collect();
        let mixed = judged.iter().find(|(group, ..)| !group.has_no_signal());
        let (group, sample, stats) = mixed.or(judged.first())?;
        Some(Self {
            step,
            phase,
            update,
            task: group.prompt.task.id.clone(),
            completion: sample.text.clone(),
            reward: sample.judged.reward?,
            behaviour: sample.logp.clone(),
            // Padding comes after the completion's own tokens.
            policy: stats.logp.iter().take(sample.logp.len()).copied().collect(),
        })
    }

    /// log π/μ of each token.
    pub fn log_ratios(&self) -> impl Iterator<Item = f64> + '_ {
        let pairs = self.policy.iter().zip(&self.behaviour);
        pairs.map(|(policy, behaviour)| f64::from(*policy) - f64::from(*behaviour))
    }
}
