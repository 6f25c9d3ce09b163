//! One optimiser update on a mini-batch.

use std::collections::BTreeMap;
use std::sync::mpsc;

use engine::{AdamW, Finish, Objective, StepReport, TokenStats};

use super::TrainError;
use super::clock::Clock;
use super::folder::Log;
use super::learning_rate::learning_rate;
use super::train_loop::Run;
use crate::algo::{self, Metrics};
use crate::config::{Algorithm, Config, MetricsOf, Preset, Reward};
use crate::data::Phase;
use crate::record::{Activity, GroupCounts, Repeats, StepRecord, StepTimings, TokenWeights};
use crate::reward::{self, Terms};
use crate::rollout::{MiniBatch, Rollout, Sample, SampledGroup};

#[derive(Debug, Clone)]
pub(super) struct UpdateSettings {
    pub(super) algorithm: Algorithm,
    pub(super) reward: Reward,
    pub(super) max_tokens: usize,
    /// The temperature of the trained distribution: the sampling temperature. Supervised fine-tuning uses 1, the model's own likelihood: a model trained at another
    /// temperature would follow its teacher only when it is sampled at that temperature.
    pub(super) temperature: f32,
    /// With the learning rate of the update.
    pub(super) adamw: AdamW,
    /// Whether log-probabilities are computed of completions without a gradient too, since something reads them.
    pub(super) computes_all: bool,
}

impl UpdateSettings {
    /// The reward of each completion that has one.
    pub(super) fn rewards(&self, groups: &[SampledGroup]) -> Vec<f64> {
        let samples = groups.iter().flat_map(|group| &group.samples);
        samples
            .filter_map(|sample| self.reward_of(sample))
            .collect()
    }

    fn reward_of(&self, sample: &Sample) -> Option<f64> {
        Some(self.terms(sample)?.sum())
    }

    /// Whether an update computes the log-probabilities of each completion of a mini-batch, in the order of its groups.
    fn computed(&self, batch: &MiniBatch<'_>) -> Vec<bool> {
        let samples: Vec<&Sample> = batch.samples().collect();
        let mut computed = vec![true; samples.len()];
        if !self.computes_all {
            let reward = |place: &usize| self.reward_of(samples[*place]);
            let rewards = |group: &Vec<usize>| group.iter().map(reward).collect();
            let rewards: Vec<Vec<Option<f64>>> =
                batch.baseline_groups.iter().map(rewards).collect();
            let has_gradient = algo::has_gradient(&self.algorithm, &rewards).concat();
            for (place, has_gradient) in batch.baseline_groups.iter().flatten().zip(has_gradient) {
                computed[*place] = has_gradient;
            }
        }
        computed
    }

    fn terms(&self, sample: &Sample) -> Option<Terms<'_>> {
        let tokens = sample.tokens.len();
        Terms::of(&sample.judged, tokens, self.max_tokens, &self.reward)
    }

    pub(super) fn of(config: &Config) -> Self {
        let (algorithm, optimiser) = (&config.algorithm, &config.optimiser);
        Self {
            algorithm: *algorithm,
            reward: config.reward.clone(),
            max_tokens: config.sampling.max_tokens,
            temperature: match algorithm.preset {
                Preset::Sft => 1.0,
                _ => config.sampling.temperature as f32,
            },
            adamw: AdamW {
                lr: optimiser.lr as f32,
                beta1: optimiser.beta1 as f32,
                beta2: optimiser.beta2 as f32,
                eps: optimiser.eps as f32,
                weight_decay: optimiser.weight_decay as f32,
                clip_norm: if optimiser.clip_norm > 0.0 {
                    optimiser.clip_norm as f32
                } else {
                    f32::INFINITY
                },
            },
            computes_all: config.run.metrics == MetricsOf::All
                || algorithm.reads_all()
                || algorithm.auto_h > 0.0
                || algorithm.sum_padding,
        }
    }
}

impl Run {
    /// Makes one update on a mini-batch of the phase's samples, and logs it.
    pub(super) fn update(&mut self, phase: &Phase, samples: &Rollout) -> Result<(), TrainError> {
        let number = self.step - phase.first_update;
        let config = &self.job.config;
        let batch = if config.algorithm.mix_groups {
            samples.shuffled_mini_batch(phase, number, config.algorithm.group_size, config.run.seed)
        } else {
            samples.mini_batch(phase, number)
        };
        self.job.journal.progress.updating(phase, number);
        let updates = self.schedule.updates();
        self.settings.adamw.lr = learning_rate(&config.optimiser, self.step + 1, updates) as f32;
        let (settings, clock) = (&self.settings, &self.job.clock);
        clock.enter(Activity::Forward);
        let computed = settings.computed(&batch);
        let (send, metrics) = mpsc::channel();
        let stepped = tokio::task::block_in_place(|| {
            self.job.policy.step(
                batch.trained_groups(&computed),
                settings.temperature,
                objective(settings, &batch, &computed, send, clock.clone()),
                settings.adamw,
            )
        });
        if let Ok(report) = &stepped {
            clock.split(&[
                (Activity::Optimiser, report.optimiser),
                (Activity::Exchange, report.exchange),
            ]);
        }
        clock.enter(Activity::Other);
        let mut report = stepped?;
        report.stats = of_all(report.stats, &computed);
        let metrics = metrics.try_recv().map_err(|_| engine::EngineError::Objective("the engine made an update without calling its objective; this is a fault of the program".into()))?;
        let mut record = self.record(phase, samples, &batch, metrics, &report);
        record.auto_h = self.phase_size.take();
        // The weights have changed, so no checkpoint of the step before can be saved any more.
        self.step += 1;
        let mut timings = self.timings(&report, &batch, (number == 0).then_some(samples));
        if number > 0 && number + 1 == phase.updates.len() {
            let at = (record.step, record.phase, record.update);
            if let Some(weights) = TokenWeights::of(at, &batch.groups, &report.stats) {
                self.job.folder.append(Log::Weights, &weights)?;
            }
        }
        let job = &mut self.job;
        let times = job.clock.save(&job.folder, self.step)?;
        timings.total = times.seconds;
        timings.memory = times.memory;
        timings.device_memory = times.device_memory;
        job.journal.updated(&job.folder, &record, &mut timings)?;
        self.logged = self.step;
        if self.step == self.saved + 1 {
            // This update shows that the weights of the newest checkpoint can be trained further, so older checkpoints can be removed.
            self.prune_to(self.schedule.phase_of(self.step), 0)?;
        }
        Ok(())
    }

    /// The record of an update, without the choice of its phase's size.
    fn record(
        &self,
        phase: &Phase,
        samples: &Rollout,
        batch: &MiniBatch<'_>,
        metrics: Metrics,
        report: &StepReport,
    ) -> StepRecord {
        let number = self.step - phase.first_update;
        let completions: Vec<&Sample> = batch.samples().collect();
        let share = |part: usize| part as f64 / completions.len().max(1) as f64;
        let lengths = || completions.iter().map(|sample| sample.tokens.len());
        let truncated = completions.iter().filter(|it| it.finish == Finish::Length);
        let judged = completions.iter().zip(&report.stats);
        let judged = judged.filter(|(sample, _)| sample.judged.reward.is_some());
        let entropies = judged.flat_map(|(sample, stats)| entropies(sample, stats));
        let entropies: Vec<f64> = entropies.collect();
        let terms = completions.iter();
        let terms = terms.filter_map(|sample| self.settings.terms(sample));
        StepRecord {
            step: self.step + 1,
            phase: phase.index,
            update: number,
            phase_updates: phase.updates.len(),
            auto_h: None,
            epoch: self.schedule.epoch_after(self.step + 1),
            prompts: batch.groups.len(),
            groups: GroupCounts::of(batch.baseline_group_counts()),
            discarded: if number == 0 { samples.discarded } else { 0 },
            sampled_reward: samples.sampled_reward.filter(|_| number == 0),
            algo: metrics,
            terms: reward::means(&terms.collect::<Vec<_>>()),
            pass_at: pass_at(&batch.groups),
            grad_norm: report.grad_norm,
            grad_scale: Some(self.settings.adamw.grad_scale(report.grad_norm)),
            entropy: entropies.iter().sum::<f64>() / entropies.len().max(1) as f64,
            length_mean: share(lengths().sum()),
            length_max: lengths().max().unwrap_or(0),
            truncated: share(truncated.count()),
            repeats: Repeats::of(&batch.groups),
            lr: f64::from(self.settings.adamw.lr),
        }
    }

    /// The times of an update. The first on new samples also has the times of sampling them.
    fn timings(
        &self,
        report: &StepReport,
        batch: &MiniBatch<'_>,
        new: Option<&Rollout>,
    ) -> StepTimings {
        let mut stats = report.stats.iter();
        let trained_tokens = |group: &SampledGroup| {
            let own = stats.by_ref().take(group.samples.len());
            let own: usize = own.map(|stats| stats.logp.len()).sum();
            own + group.prompt.tokens.len() * usize::from(own > 0)
        };
        let sampled = new.into_iter().flat_map(|new| &new.groups);
        let sampled = sampled.flat_map(|group| &group.samples);
        StepTimings {
            step: self.step,
            inference: new.map_or(0.0, |new| new.inference.as_secs_f64()),
            verify: new.map_or(0.0, |new| new.verify.as_secs_f64()),
            sampled_tokens: sampled.map(|sample| sample.tokens.len()).sum(),
            forward: report.forward.as_secs_f64(),
            backward: report.backward.as_secs_f64(),
            optimiser: report.optimiser.as_secs_f64(),
            exchange: report.exchange.as_secs_f64(),
            trained_tokens: batch.groups.iter().map(trained_tokens).sum(),
            elapsed: self.started.elapsed().as_secs_f64(),
            ..StepTimings::default()
        }
    }
}

/// The statistics of all completions: those of the computed ones, in order, and none for the others.
fn of_all(stats: Vec<TokenStats>, computed: &[bool]) -> Vec<TokenStats> {
    let mut stats = stats.into_iter();
    let stats = |computed: &bool| match computed {
        true => stats.next().unwrap_or_default(),
        false => TokenStats::default(),
    };
    computed.iter().map(stats).collect()
}

/// A sample as the algorithm sees it: with its reward, and its log-probabilities under the current policy, first of its own tokens, then of its padding.
fn numbers<'a>(sample: &'a Sample, reward: Option<f64>, logp: &'a [f32]) -> algo::Sample<'a> {
    let padding = sample.padding.as_ref().map_or(&[][..], |it| &it.logp[..]);
    let (new, new_padding) = logp.split_at(logp.len().saturating_sub(padding.len()));
    let reference = &sample.reference;
    algo::Sample {
        new,
        // A demonstration has no behaviour policy: the current policy takes its place, so that its weight is 1. It has a gradient, so it is computed.
        behaviour: if sample.logp.is_empty() {
            new
        } else {
            &sample.logp
        },
        reference: (!reference.is_empty()).then(|| &reference[..new.len().min(reference.len())]),
        reward,
        padding: new_padding
            .iter()
            .zip(padding)
            .map(|(new, behaviour)| f64::from(*new) - f64::from(*behaviour))
            .sum(),
    }
}

/// The objective that the engine calls between the forward and the backward passes, with the statistics of the computed completions. It returns their `dL/dlogp`,
/// sends its metrics to `metrics`, and advances the clock.
fn objective(
    settings: &UpdateSettings,
    batch: &MiniBatch<'_>,
    computed: &[bool],
    metrics: mpsc::Sender<Metrics>,
    clock: Clock,
) -> Objective {
    let with_reward = |sample: &Sample| (sample.clone(), settings.reward_of(sample));
    let data: Vec<(Sample, Option<f64>)> = batch.samples().map(with_reward).collect();
    let (algorithm, max_tokens) = (settings.algorithm, settings.max_tokens);
    let baseline_groups = batch.baseline_groups.clone();
    let computed = computed.to_vec();
    Box::new(move |stats: &[TokenStats]| {
        let count = computed.iter().filter(|computed| **computed).count();
        if stats.len() != count {
            return Err(format!(
                "the engine returned log-probabilities of {} completions instead of {count}",
                stats.len()
            ));
        }
        let stats = of_all(stats.to_vec(), &computed);
        let groups: Vec<Vec<algo::Sample<'_>>> = baseline_groups
            .iter()
            .map(|group| {
                let number = |place: &usize| {
                    let (sample, reward) = &data[*place];
                    numbers(sample, *reward, &stats[*place].logp)
                };
                group.iter().map(number).collect()
            })
            .collect();
        let gradient =
            algo::gradient(&algorithm, &groups, max_tokens).map_err(|error| error.to_string())?;
        // The receiver lives until the step returns.
        let _ = metrics.send(gradient.metrics);
        let mut dlogp = vec![Vec::new(); stats.len()];
        for (place, mut own) in baseline_groups.iter().flatten().zip(gradient.dlogp) {
            // Padding has no gradient.
            own.resize(stats[*place].logp.len(), 0.0);
            dlogp[*place] = own;
        }
        let dlogp = dlogp.into_iter().zip(&computed);
        let dlogp = dlogp.filter(|(_, computed)| **computed);
        let dlogp = dlogp.map(|it| it.0).collect();
        clock.enter(Activity::Backward);
        Ok(dlogp)
    })
}

/// The entropy of the next token at each token of a completion. For a completion that was not computed, −log μ of its tokens estimates it: over all samples, the
/// mean of −log μ is the entropy of μ.
fn entropies(sample: &Sample, stats: &TokenStats) -> impl Iterator<Item = f64> {
    let computed = stats.entropy.iter().take(sample.tokens.len());
    let sampled = sample.logp.iter().filter(|_| stats.entropy.is_empty());
    let estimated = sampled.map(|logp| -f64::from(*logp));
    computed.map(|entropy| f64::from(*entropy)).chain(estimated)
}

/// The mean over groups of the unbiased Pass@k, for k = 1, 2, 4, … up to the largest group. Groups with fewer than k judged samples are left out.
fn pass_at(groups: &[SampledGroup]) -> BTreeMap<usize, f64> {
    let sizes = groups.iter().map(|group| group.samples.len());
    let largest = sizes.max().unwrap_or(0);
    let mean = |k: usize| {
        let values = groups.iter().filter_map(|group| group.counts().pass_at(k));
        let values: Vec<f64> = values.collect();
        (!values.is_empty()).then(|| (k, values.iter().sum::<f64>() / values.len() as f64))
    };
    let powers = std::iter::successors(Some(1_usize), |k| Some(2 * k));
    let ks = powers.take_while(|k| *k <= largest);
    ks.filter_map(mean).collect()
}

#[cfg(test)]
mod tests;
