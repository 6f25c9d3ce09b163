//! Gets the samples of a phase: newly sampled and judged, stored by an earlier process, or a teacher's demonstrations.

use std::sync::Arc;

use super::TrainError;
use super::folder::rollouts;
use super::masked::MaskedCount;
use super::train_loop::Run;
use crate::config::BehaviourLogprob;
use crate::data::{Phase, PromptUse};
use crate::record::Activity;
use crate::rollout::{self, PartialRollout, Rollout, RolloutProgress};

impl Run {
    /// The samples for the remaining updates of the phase. New ones are stored with all that the updates need.
    pub(super) async fn sample_phase(&mut self, phase: &Phase) -> Result<Rollout, TrainError> {
        if let Some(demonstrations) = &self.job.demonstrations {
            let groups = phase
                .prompt_uses()
                .map(|it| demonstrations[it.prompt].clone());
            return Ok(Rollout {
                groups: groups.collect(),
                ..Rollout::default()
            });
        }
        let samples = match rollouts::load(&self.job.folder, phase, &self.job.prompts.train) {
            Some(samples) => samples,
            // The weights that sampled this phase no longer exist.
            None if self.step > phase.first_update => {
                return Err(rollouts::missing(&self.job.folder, phase));
            }
            None => {
                rollouts::remove_later(&self.job.folder, phase);
                let mut partial =
                    rollouts::partial(&self.job.folder, &format!("phase-{}", phase.index))?;
                let mut samples = self.sample_groups(phase, &mut partial).await?;
                self.score(phase, &mut samples)?;
                rollouts::save(&self.job.folder, phase, &samples)?;
                partial.remove();
                self.job.clock.save(&self.job.folder, self.step)?;
                samples
            }
        };
        let rewards = self.settings.rewards(&samples.groups);
        self.job
            .journal
            .sampled(&self.job.folder, phase, &samples, &rewards)?;
        Ok(samples)
    }

    /// Samples a group per prompt. Dynamic sampling (DAPO) then replaces groups without signal, in up to `algorithm.dynamic_sampling` rounds.
    async fn sample_groups(
        &mut self,
        phase: &Phase,
        partial: &mut PartialRollout,
    ) -> Result<Rollout, TrainError> {
        let (folder, clock) = (&self.job.folder, &self.job.clock);
        clock.enter(Activity::Inference);
        let rounds = self.job.config.algorithm.dynamic_sampling;
        let (mut samples, mut rewards) = (Rollout::default(), Vec::new());
        // Counted over all rounds, since in the few groups of a later round one task that cannot be judged would be a large share.
        let mut masked = MaskedCount::default();
        let mut uses: Vec<PromptUse> = phase.prompt_uses().collect();
        let mut no_signal = Vec::new();
        for round in 0.. {
            let train = &self.job.prompts.train;
            let prompts = uses
                .iter()
                .map(|it| (Arc::clone(&train[it.prompt]), it.epoch));
            let terminal = &mut self.job.journal.progress;
            let mut watch = |progress: &RolloutProgress| {
                clock.enter(if progress.is_sampling() {
                    Activity::Inference
                } else {
                    Activity::Verify
                });
                clock.save_if_due(folder, self.step);
                terminal.sampling(phase, progress);
            };
            let more = rollout::collect(
                self.job.policy.as_ref(),
                &self.job.rewards,
                &prompts.collect::<Vec<_>>(),
                &self.sampling,
                partial,
                &self.job.stop,
                &mut watch,
            )
            .await?;
            let judged = more.groups.iter().flat_map(|group| &group.samples);
            masked.add(judged.map(|sample| (sample.judged.reward, &sample.judged.detail)));
            let part = format!("phase {}", phase.index + 1);
            masked.check(self.job.config.verifier.max_masked, &part)?;
            rewards.extend(self.settings.rewards(&more.groups));
            samples.inference += more.inference;
            samples.verify += more.verify;
            if round == 0 {
                samples.groups = more.groups;
            } else {
                samples.discarded += more.groups.len();
                let groups = more.groups.into_iter();
                let with_signal = groups.filter(|group| !group.has_no_signal());
                for (at, group) in no_signal.into_iter().zip(with_signal) {
                    samples.groups[at] = group;
                }
            }
            if round == rounds {
                break;
            }
            let groups = samples.groups.iter().enumerate();
            let without = groups.filter(|(_, group)| group.has_no_signal());
            no_signal = without.map(|(at, _)| at).collect::<Vec<usize>>();
            uses = self
                .schedule
                .replacements(phase.index, round, no_signal.len());
            if uses.is_empty() {
                break;
            }
        }
        if rounds > 0 && !rewards.is_empty() {
            samples.sampled_reward = Some(rewards.iter().sum::<f64>() / rewards.len() as f64);
        }
        Ok(samples)
    }

    /// Adds the log-probabilities that sampling does not give: of padding, under μ by the training forward pass, and under the reference policy.
    fn score(&self, phase: &Phase, samples: &mut Rollout) -> Result<(), TrainError> {
        let (config, clock) = (&self.job.config, &self.job.clock);
        let (policy, groups) = (self.job.policy.as_ref(), &mut samples.groups[..]);
        let temperature = config.sampling.temperature as f32;
        if config.algorithm.sum_padding {
            clock.enter(Activity::Recompute);
            rollout::pad(policy, groups, temperature)?;
        }
        if config.sampling.behaviour_logprob == BehaviourLogprob::Recompute {
            clock.enter(Activity::Recompute);
            let mut rest = &mut groups[..];
            for update in &phase.updates {
                let (groups, after) = rest.split_at_mut(update.len());
                rest = after;
                rollout::score(policy, groups, temperature, |sample, mut logp| {
                    let padding_logp = logp.split_off(sample.tokens.len());
                    sample.logp = logp;
                    if let Some(padding) = &mut sample.padding {
                        padding.logp = padding_logp;
                    }
                })?;
            }
        }
        if let Some(reference) = &self.job.reference {
            clock.enter(Activity::Reference);
            let reference = reference.as_ref();
            rollout::score(reference, groups, temperature, |sample, logp| {
                sample.reference = logp;
            })?;
        }
        clock.enter(Activity::Other);
        Ok(())
    }
}
