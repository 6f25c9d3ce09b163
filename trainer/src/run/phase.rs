//! Gets the samples of a phase: newly sampled and judged, stored by an earlier process, or a teacher's demonstrations.

use super::TrainError;
use super::folder::rollouts;
use super::train_loop::Run;
use super::unjudged::Unjudged;
use crate::config::BehaviourLogprob;
use crate::data::{Phase, PromptUse};
use crate::record::Activity;
use crate::rollout::{
    self, PartialRollout, PhaseSamples, Rollout, RolloutProgress, RolloutRequest, SampledGroup,
};
use crate::seed;

impl Run {
    /// The samples for the remaining updates of the phase.
    pub(super) async fn sample_phase(&mut self, phase: &Phase) -> Result<PhaseSamples, TrainError> {
        if let Some(samples) = self.demonstrations(phase) {
            return Ok(samples);
        }
        let samples = match rollouts::load(&self.job.folder, phase, &self.job.prompts.train) {
            Some(samples) => samples,
            // The weights that sampled this phase no longer exist.
            None if self.step > phase.first_update => {
                return Err(rollouts::missing(&self.job.folder, phase));
            }
            None => self.sample_and_store(phase).await?,
        };
        self.job
            .journal
            .sampled(&self.job.folder, phase, &samples)?;
        Ok(samples)
    }

    /// The demonstrations that supervised fine-tuning trains on, instead of samples of the policy.
    fn demonstrations(&self, phase: &Phase) -> Option<PhaseSamples> {
        let demonstrations = self.job.demonstrations.as_ref()?;
        let groups = phase
            .slots()
            .map(|slot| demonstrations[slot.prompt].clone());
        Some(PhaseSamples {
            groups: groups.collect(),
            ..PhaseSamples::default()
        })
    }

    async fn sample_and_store(&mut self, phase: &Phase) -> Result<PhaseSamples, TrainError> {
        rollouts::remove_later(&self.job.folder, phase);
        let mut partial = rollouts::partial(&self.job.folder.partial_phase(phase.index))?;
        let clock = self.job.clock.clone();
        clock.enter(Activity::Inference);
        let mut samples = self.sample_groups(phase, &mut partial).await?;
        let temperature = self.job.config.sampling.temperature as f32;
        if self.job.config.algorithm.sum_padding {
            clock.enter(Activity::Recompute);
            let policy = self.job.policy.as_ref();
            let groups = &mut samples.groups;
            tokio::task::block_in_place(|| rollout::pad(policy, groups, temperature))?;
        }
        if self.job.config.sampling.behaviour_logprob == BehaviourLogprob::Recompute {
            clock.enter(Activity::Recompute);
            self.recompute_logprobs(phase, &mut samples)?;
        }
        self.score_by_reference(&mut samples.groups)?;
        clock.enter(Activity::Other);
        rollouts::save(&self.job.folder, phase, &samples)?;
        partial.remove();
        clock.save(&self.job.folder, self.step)?;
        Ok(samples)
    }

    /// Samples a group per prompt. Dynamic sampling (DAPO) then replaces groups without signal, in up to `algorithm.dynamic_sampling` rounds.
    async fn sample_groups(
        &mut self,
        phase: &Phase,
        partial: &mut PartialRollout,
    ) -> Result<PhaseSamples, TrainError> {
        let slots: Vec<PromptUse> = phase.slots().collect();
        // Counted over all rounds, since in the few groups of a later round one task that cannot be judged would be a large share.
        let mut unjudged = Unjudged::default();
        let first = self.collect(phase, &slots, partial, &mut unjudged).await?;
        let rounds = self.job.config.algorithm.dynamic_sampling;
        let mut rewards = self.settings.rewards(&first.groups);
        let mut samples = PhaseSamples {
            groups: first.groups,
            inference: first.inference,
            verify: first.verify,
            ..PhaseSamples::default()
        };
        for round in 0..rounds {
            let no_signal: Vec<usize> = (0..samples.groups.len())
                .filter(|group| samples.groups[*group].has_no_signal())
                .collect();
            let slots = self.schedule.reserve(phase.index, round, no_signal.len());
            if slots.is_empty() {
                break;
            }
            let more = self.collect(phase, &slots, partial, &mut unjudged).await?;
            samples.inference += more.inference;
            samples.verify += more.verify;
            samples.discarded += more.groups.len();
            rewards.extend(self.settings.rewards(&more.groups));
            let with_signal = more
                .groups
                .into_iter()
                .filter(|group| !group.has_no_signal());
            for (at, group) in no_signal.into_iter().zip(with_signal) {
                samples.groups[at] = group;
            }
        }
        if rounds > 0 && !rewards.is_empty() {
            samples.sampled_reward = Some(rewards.iter().sum::<f64>() / rewards.len() as f64);
        }
        Ok(samples)
    }

    /// Samples and judges completions of each slot's prompt.
    async fn collect(
        &mut self,
        phase: &Phase,
        slots: &[PromptUse],
        partial: &mut PartialRollout,
        unjudged: &mut Unjudged,
    ) -> Result<Rollout, TrainError> {
        let run_seed = self.job.config.run.seed;
        let requests: Vec<RolloutRequest> = slots
            .iter()
            .map(|slot| {
                let prompt = self.job.prompts.train[slot.prompt].clone();
                let seeds = (0..self.job.config.algorithm.group_size)
                    .map(|sample| seed::of_sample(run_seed, slot.epoch, &prompt.task.id, sample))
                    .collect();
                RolloutRequest { prompt, seeds }
            })
            .collect();
        let (folder, clock) = (&self.job.folder, &self.job.clock);
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
        let rollout = rollout::collect(
            &self.job.policy,
            &self.job.rewards,
            &requests,
            &self.sampling,
            partial,
            &self.job.stop,
            &mut watch,
        )
        .await?;
        let samples = rollout.groups.iter().flat_map(|group| &group.samples);
        unjudged.add(samples.map(|sample| (sample.judged.reward, &sample.judged.detail)));
        let part = format!("phase {}", phase.index + 1);
        unjudged.check(self.job.config.verifier.max_masked, &part)?;
        Ok(rollout)
    }

    /// Replaces log μ by the log-probabilities that the training forward pass computes (`sampling.behaviour_logprob = "recompute"`).
    fn recompute_logprobs(
        &self,
        phase: &Phase,
        samples: &mut PhaseSamples,
    ) -> Result<(), TrainError> {
        let temperature = self.job.config.sampling.temperature as f32;
        let mut rest = &mut samples.groups[..];
        for update in &phase.updates {
            let (groups, after) = rest.split_at_mut(update.len());
            rest = after;
            let tokens = groups.iter().map(SampledGroup::trained_group).collect();
            let scores =
                tokio::task::block_in_place(|| self.job.policy.score(tokens, temperature))?;
            let samples = groups.iter_mut().flat_map(|group| &mut group.samples);
            for (sample, score) in samples.zip(scores) {
                let (own, padding_logp) = score.logp.split_at(sample.tokens.len());
                sample.logp = own.to_vec();
                if let Some(padding) = &mut sample.padding {
                    padding.logp = padding_logp.to_vec();
                }
            }
        }
        Ok(())
    }

    /// Adds the reference policy's log-probabilities, if the loss has a KL term.
    fn score_by_reference(&self, groups: &mut [SampledGroup]) -> Result<(), TrainError> {
        let Some(reference) = &self.job.reference else {
            return Ok(());
        };
        self.job.clock.enter(Activity::Reference);
        let temperature = self.job.config.sampling.temperature as f32;
        let tokens = groups.iter().map(SampledGroup::trained_group).collect();
        let scores = tokio::task::block_in_place(|| reference.score(tokens, temperature))?;
        let samples = groups.iter_mut().flat_map(|group| &mut group.samples);
        for (sample, score) in samples.zip(scores) {
            sample.reference = score.logp;
        }
        Ok(())
    }
}
