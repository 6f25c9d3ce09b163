//! A phase's samples: drawn and judged, or a teacher's.

use std::time::Duration;

use engine::Group;

use super::course::Run;
use super::masked::Masked;
use super::record::counts;
use super::update::Recipe;
use super::{TrainError, padding, store};
use crate::config::BehaviourLogprob;
use crate::data::{Phase, Slot};
use crate::rollout::{self, Kept, Query, Rollout, RolloutError, Sample, SampledGroup};
use crate::seed;

/// Samples of a phase's updates, from one of them on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Drawn {
    /// The number in the phase of the first update that they are for.
    pub(super) from: usize,
    /// Whole groups, one update's after the other.
    pub(super) groups: Vec<SampledGroup>,
    /// Groups that were drawn besides and given up, since they were all right or all wrong, or had no verdict.
    pub(super) dropped: usize,
    /// As in [`StepRecord::drawn_reward`](super::record::StepRecord::drawn_reward).
    pub(super) reward: Option<f64>,
    /// Seconds of drawing.
    pub(super) inference: Duration,
    /// Seconds of judging beyond the drawing.
    pub(super) verify: Duration,
}

impl Drawn {
    /// The groups of the phase's update of this number.
    pub(super) fn of_update(&self, phase: &Phase, number: usize) -> &[SampledGroup] {
        let before = phase.updates[self.from..number].iter().map(Vec::len).sum();
        &self.groups[before..][..phase.updates[number].len()]
    }

    /// As [`Drawn::of_update`], but as many completions of any groups, taken in an order of their own; those of one prompt that happen to be together are a group.
    pub(super) fn mixed(&self, phase: &Phase, number: usize, run_seed: u64) -> Vec<SampledGroup> {
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

impl Run {
    /// The samples of a phase from its update `from` on: a teacher's, or those on disk, or drawn and judged now. `None` where the end was asked for meanwhile.
    /// With `anew`, what is on disk was found to be out of date.
    pub(super) async fn samples_of(
        &mut self,
        phase: &Phase,
        from: usize,
        anew: bool,
    ) -> Result<Option<Drawn>, TrainError> {
        if let Some(lessons) = &self.job.lessons {
            let groups = phase
                .slots()
                .map(|slot| lessons[slot.prompt].group())
                .collect();
            return Ok(Some(Drawn {
                from: 0,
                groups,
                dropped: 0,
                reward: None,
                inference: Duration::ZERO,
                verify: Duration::ZERO,
            }));
        }
        let stored = store::load(&self.job.folder, phase, from, &self.job.prompts.train)
            .filter(|drawn| !anew || drawn.from == from);
        let drawn = match stored {
            Some(drawn) => drawn,
            // The policy that drew this phase's samples is gone.
            None if from > 0 && !anew => return Err(store::missing(&self.job.folder, phase)),
            None => match self.draw(phase, from).await? {
                Some(drawn) => drawn,
                None => return Ok(None),
            },
        };
        self.job.journal.sampled(&self.job.folder, phase, &drawn)?;
        Ok(Some(drawn))
    }

    async fn draw(&mut self, phase: &Phase, from: usize) -> Result<Option<Drawn>, TrainError> {
        let slots: Vec<Slot> = phase.updates[from..].iter().flatten().copied().collect();
        // Over all draws together: one task that cannot be judged is many of a few that are drawn anew.
        let mut masked = Masked::default();
        store::forget_later(&self.job.folder, phase, from);
        let mut kept = store::keep(&self.job.folder.phase_drawn(phase.index, from))?;
        let Some(rollout) = self.collect(phase, &slots, &mut kept, &mut masked).await? else {
            return Ok(None);
        };
        let recipe = Recipe::of(&self.job.config);
        let rounds = self.job.config.algorithm.dynamic_sampling;
        let mut rewards = recipe.rewards(&rollout.groups);
        let mut drawn = Drawn {
            from,
            groups: rollout.groups,
            dropped: 0,
            reward: None,
            inference: rollout.inference,
            verify: rollout.verify,
        };
        for round in 0..rounds {
            let idle: Vec<usize> = (0..drawn.groups.len())
                .filter(|at| says_nothing(&drawn.groups[*at]))
                .collect();
            let slots = self.schedule.reserve(phase.index, from, round, idle.len());
            if slots.is_empty() {
                break;
            }
            let Some(more) = self.collect(phase, &slots, &mut kept, &mut masked).await? else {
                return Ok(None);
            };
            drawn.inference += more.inference;
            drawn.verify += more.verify;
            drawn.dropped += more.groups.len();
            rewards.extend(recipe.rewards(&more.groups));
            let better = more.groups.into_iter().filter(|group| !says_nothing(group));
            for (at, group) in idle.into_iter().zip(better) {
                drawn.groups[at] = group;
            }
        }
        if rounds > 0 && !rewards.is_empty() {
            drawn.reward = Some(rewards.iter().sum::<f64>() / rewards.len() as f64);
        }
        if self.job.config.algorithm.sum_padding {
            let policy = self.job.policy.as_ref();
            let temperature = self.job.config.sampling.temperature as f32;
            tokio::task::block_in_place(|| padding::pad(policy, &mut drawn.groups, temperature))?;
        }
        if self.job.config.sampling.behaviour_logprob == BehaviourLogprob::Recompute {
            self.recompute(phase, &mut drawn)?;
        }
        self.score_by_reference(&mut drawn.groups)?;
        store::save(&self.job.folder, phase, &drawn)?;
        kept.remove();
        Ok(Some(drawn))
    }

    /// Draws and judges completions of each slot's prompt. `kept` and `masked` have those of the draws before.
    async fn collect(
        &mut self,
        phase: &Phase,
        slots: &[Slot],
        kept: &mut Kept,
        masked: &mut Masked,
    ) -> Result<Option<Rollout>, TrainError> {
        let run_seed = self.job.config.run.seed;
        let queries: Vec<Query> = slots
            .iter()
            .map(|slot| {
                let prompt = self.job.prompts.train[slot.prompt].clone();
                let seeds = (0..self.job.config.algorithm.group_size)
                    .map(|sample| seed::of_sample(run_seed, slot.epoch, &prompt.task.id, sample))
                    .collect();
                Query { prompt, seeds }
            })
            .collect();
        let progress = &mut self.job.journal.progress;
        let mut watch = |tally: &rollout::Tally| progress.drawing(phase.index, tally);
        let drawn = rollout::collect(
            &self.job.policy,
            &self.job.rewards,
            &queries,
            &self.drawing,
            kept,
            &self.job.stop,
            &mut watch,
        )
        .await;
        match drawn {
            Ok(rollout) => {
                let samples = rollout.groups.iter().flat_map(|group| &group.samples);
                masked.count(samples.map(|sample| (sample.judged.reward, &sample.judged.detail)));
                let whose = format!("phase {}", phase.index + 1);
                masked.check(self.job.config.verifier.max_masked, &whose)?;
                Ok(Some(rollout))
            }
            Err(RolloutError::Stopped) => Ok(None),
            Err(error) => Err(TrainError::of_rollout(error)),
        }
    }

    /// Takes log μ from training's forward pass over the completions of each update.
    fn recompute(&self, phase: &Phase, drawn: &mut Drawn) -> Result<(), TrainError> {
        let temperature = self.job.config.sampling.temperature as f32;
        let mut rest = &mut drawn.groups[..];
        for update in &phase.updates[drawn.from..] {
            let (groups, after) = rest.split_at_mut(update.len());
            rest = after;
            let tokens = groups.iter().map(tokens_of).collect();
            let scores =
                tokio::task::block_in_place(|| self.job.policy.score(tokens, temperature))?;
            let samples = groups.iter_mut().flat_map(|group| &mut group.samples);
            for (sample, score) in samples.zip(scores) {
                let (own, behind) = score.logp.split_at(sample.tokens.len());
                sample.logp = own.to_vec();
                if let Some(padding) = &mut sample.padding {
                    padding.logp = behind.to_vec();
                }
            }
        }
        Ok(())
    }

    /// Where a divergence from the reference policy is asked for, its log-probabilities.
    fn score_by_reference(&self, groups: &mut [SampledGroup]) -> Result<(), TrainError> {
        let Some(reference) = &self.job.reference else {
            return Ok(());
        };
        let temperature = self.job.config.sampling.temperature as f32;
        let tokens = groups.iter().map(tokens_of).collect();
        let scores = tokio::task::block_in_place(|| reference.score(tokens, temperature))?;
        let samples = groups.iter_mut().flat_map(|group| &mut group.samples);
        for (sample, score) in samples.zip(scores) {
            sample.reference = score.logp;
        }
        Ok(())
    }
}

/// A group's tokens, as the engine takes them to train on.
pub(super) fn tokens_of(group: &SampledGroup) -> Group {
    Group {
        prompt: group.prompt.tokens.clone(),
        completions: group.samples.iter().map(Sample::trained_tokens).collect(),
    }
}

/// Whether a group is all right or all wrong, or has no verdict.
fn says_nothing(group: &SampledGroup) -> bool {
    let counts = counts(group);
    counts.correct == 0 || counts.correct == counts.judged
}
