//! One optimiser update over a mini-batch: forward over all packs, the objective once, backward, clip, AdamW.
//!
//! Of each pack the forward pass keeps as much as the budget allows ([`super::kept`]); the rest is computed again in the backward pass, block by block, with the same
//! operations on the same numbers, so that the gradients are equal to the bit whatever was kept.
//!
//! Completions whose `dL/dlogp` is 0 throughout (all of a group that was all right or all wrong, under a group baseline) add nothing to the gradient. Where they are
//! many, the others are packed anew and only these go through the backward pass, after a forward pass of their own.

use std::ops::Range;
use std::time::Instant;

use crate::api::{AdamW, Objective, StepReport};
use crate::backend::Buf;
use crate::batch::{Group, TokenStats};
use crate::error::EngineError;
use crate::model::Model;
use crate::model::backward::Gradient;
use crate::model::forward::Keys;
use crate::model::work::{Inside, Work, element_bytes};
use crate::sample::{self, LEAST_TEMPERATURE};
use crate::train::adamw;
use crate::train::kept::{Kept, Plan, default_budget};
use crate::train::pack::{Pack, pack};

/// One optimiser update: forward over all groups, `objective` once, backward, clip, AdamW. `None` if the objective skips the update. Weights and moments stay as they
/// were then, and on an error.
pub fn step(
    model: &mut Model,
    groups: &[Group],
    temperature: f32,
    objective: Objective,
    adamw: &AdamW,
) -> Result<Option<StepReport>, EngineError> {
    let _entered = tracing::info_span!("step").entered();
    let began = Instant::now();
    let mut mini_batch = MiniBatch::new(model, groups, temperature)?;
    let plan = mini_batch.plan_of(model, 0..mini_batch.packs.len());
    let buffer = model.kept(plan.len)?;
    for number in 0..mini_batch.packs.len() {
        let kept = plan.kept(buffer, number);
        mini_batch.forward(model, number, kept.as_ref())?;
    }
    let stats = std::mem::take(&mut mini_batch.stats);
    let forward = began.elapsed();

    let dlogp = tracing::info_span!("objective")
        .in_scope(|| objective(&stats))
        .map_err(EngineError::Numeric)?;
    let Some(dlogp) = dlogp else { return Ok(None) };
    check_gradient(&stats, &dlogp)?;

    let began = Instant::now();
    let optimiser = model.optimiser()?;
    model.decoder.backend.zero(optimiser.gradient);
    let live = live(&dlogp);
    let lean = pack(groups, model.pack_tokens, |number| live[number]);
    let repacked = tokens(&lean) as f64 <= LEAN * tokens(&mini_batch.packs) as f64;
    if repacked {
        mini_batch.work = room(model, &lean)?;
        mini_batch.packs = lean;
    }
    for number in 0..mini_batch.packs.len() {
        let dlogp = mini_batch.packs[number].gather(&dlogp);
        if dlogp.iter().all(|g| *g == 0.0) {
            continue;
        }
        if repacked {
            mini_batch.anew(model, number, &dlogp)?;
            continue;
        }
        let (kept, complete) = match plan.kept(buffer, number) {
            Some(kept) => (kept, true),
            None => (plan.again(buffer, number), false),
        };
        if !complete {
            mini_batch.blocks(model, number, Some(&kept))?;
        }
        mini_batch.backward(model, number, &kept, &dlogp)?;
    }
    let norm = model
        .decoder
        .backend
        .sum_squares(optimiser.gradient)?
        .sqrt();
    let backward = began.elapsed();
    if !norm.is_finite() {
        return Err(EngineError::Numeric(format!(
            "the gradient's norm is {norm}, so the weights were left as they were; lower the learning rate, or look at the objective's weights"
        )));
    }

    let _entered = tracing::info_span!("optimiser").entered();
    let began = Instant::now();
    let numbers = adamw::numbers(adamw, model.updates + 1, norm);
    let (weights, o) = (model.trained(), optimiser);
    let backend = &mut model.decoder.backend;
    backend.adamw(weights, o.gradient, o.m, o.v, &numbers);
    // Waits for a device that works behind the calls, so that what goes wrong in the update is told as its failure, and its time is its own.
    backend.download(weights.at(0, 0), &mut [])?;
    model.updates += 1;
    Ok(StepReport {
        stats,
        grad_norm: norm,
        forward,
        backward,
        optimiser: began.elapsed(),
    })
}

/// Per-token log-probabilities and entropies of given completions, groups in order, completions in order.
pub fn score(
    model: &mut Model,
    groups: &[Group],
    temperature: f32,
) -> Result<Vec<TokenStats>, EngineError> {
    let _entered = tracing::info_span!("score").entered();
    let mut mini_batch = MiniBatch::new(model, groups, temperature)?;
    for number in 0..mini_batch.packs.len() {
        mini_batch.forward(model, number, None)?;
    }
    Ok(mini_batch.stats)
}

/// Share of a mini-batch's tokens up to which packing those with a gradient anew is the quicker way: a forward pass of them against a backward pass of the others.
pub(super) const LEAN: f64 = 0.6;

/// Which completions have a gradient.
pub(super) fn live(dlogp: &[Vec<f32>]) -> Vec<bool> {
    let some = |g: &Vec<f32>| g.iter().any(|x| *x != 0.0);
    dlogp.iter().map(some).collect()
}

pub(super) fn tokens(packs: &[Pack]) -> usize {
    packs.iter().map(|pack| pack.batch.tokens.len()).sum()
}

/// Buffers for a forward pass of any of the packs.
pub(super) fn room(model: &mut Model, packs: &[Pack]) -> Result<Work, EngineError> {
    let most = |count: fn(&Pack) -> usize| packs.iter().map(count).max().unwrap_or(0);
    model.work(most(|p| p.batch.tokens.len()), most(|p| p.targets.len()))
}

/// Refuses a gradient of another shape than the log-probabilities', or with numbers that are not finite.
pub(super) fn check_gradient(stats: &[TokenStats], dlogp: &[Vec<f32>]) -> Result<(), EngineError> {
    let lengths = |i: usize| (stats[i].logp.len(), dlogp[i].len());
    if stats.len() != dlogp.len() || (0..stats.len()).any(|i| lengths(i).0 != lengths(i).1) {
        return Err(EngineError::Numeric(
            "the objective's gradient has another shape than the log-probabilities that it was given; it must return one number a token".into(),
        ));
    }
    match dlogp.iter().position(|g| g.iter().any(|x| !x.is_finite())) {
        Some(number) => Err(EngineError::Numeric(format!(
            "the objective's gradient of completion {number} is not finite, so the weights were left as they were; an importance weight has probably overflowed"
        ))),
        None => Ok(()),
    }
}

impl Pack {
    /// A pack's targets' elements of something shaped as the completions.
    pub(super) fn gather(&self, values: &[Vec<f32>]) -> Vec<f32> {
        let slots = self.slots.iter();
        slots.map(|(number, t)| values[*number][*t]).collect()
    }
}

/// Packs of one mini-batch and what their forward passes found.
pub(super) struct MiniBatch {
    pub(super) packs: Vec<Pack>,
    pub(super) stats: Vec<TokenStats>,
    pub(super) temperature: f32,
    pub(super) work: Work,
}

impl MiniBatch {
    pub(super) fn new(
        model: &mut Model,
        groups: &[Group],
        temperature: f32,
    ) -> Result<Self, EngineError> {
        if !sample::divides(temperature) {
            return Err(EngineError::Request(format!(
                "the temperature of training is {temperature}; it is a number from {LEAST_TEMPERATURE:e} upwards, as log-probabilities are those of the distribution sampled from"
            )));
        }
        for (number, group) in groups.iter().enumerate() {
            if group.prompt.is_empty() || group.completions.iter().any(Vec::is_empty) {
                return Err(EngineError::Request(format!(
                    "the prompt or a completion of group {number} has no tokens; each needs at least one"
                )));
            }
        }
        let completions = groups.iter().flat_map(|group| &group.completions);
        let stats = completions.map(|completion| TokenStats {
            logp: vec![0.0; completion.len()],
            entropy: vec![0.0; completion.len()],
        });
        let stats = stats.collect();
        let packs = pack(groups, model.pack_tokens, |_| true);
        let work = room(model, &packs)?;
        Ok(Self {
            packs,
            stats,
            temperature,
            work,
        })
    }

    /// What can be kept of some packs at a time.
    pub(super) fn plan_of(&self, model: &Model, packs: Range<usize>) -> Plan {
        let budget = model
            .kept_bytes
            .unwrap_or_else(|| default_budget(model.memory(), model.training_bytes()));
        let packs = self.packs[packs].iter();
        let tokens: Vec<usize> = packs.map(|p| p.batch.tokens.len()).collect();
        let layers = model.config().num_hidden_layers;
        let width = element_bytes(model.decoder.backend.as_ref());
        Plan::new(model.decoder.widths, layers, &tokens, budget, width)
    }

    /// Forward pass of a pack with its head; statistics go to `stats`.
    pub(super) fn forward(
        &mut self,
        model: &mut Model,
        number: usize,
        kept: Option<&Kept>,
    ) -> Result<(), EngineError> {
        let _entered = tracing::info_span!("forward").entered();
        let last = self.blocks(model, number, kept)?;
        let pack = &self.packs[number];
        let (logp, entropy) = model.decoder.log_probs(
            &self.work,
            last,
            &pack.rows,
            &pack.targets,
            self.temperature,
        )?;
        for (i, (completion, t)) in pack.slots.iter().enumerate() {
            if !logp[i].is_finite() {
                return Err(EngineError::Numeric(format!(
                    "the log-probability of token {t} of completion {completion} is {}, so the weights were left as they were; the weights have probably diverged: \
                     go back to a checkpoint and lower the learning rate",
                    logp[i]
                )));
            }
            self.stats[*completion].logp[*t] = logp[i];
            self.stats[*completion].entropy[*t] = entropy[i];
        }
        Ok(())
    }

    /// Forward pass of a pack through all blocks, keeping what `kept` has room for; returns where the residual stream ends.
    pub(super) fn blocks(
        &self,
        model: &mut Model,
        number: usize,
        kept: Option<&Kept>,
    ) -> Result<Buf, EngineError> {
        let batch = &self.packs[number].batch;
        let tokens = batch.tokens.len();
        let work = &self.work;
        let decoder = &mut model.decoder;
        decoder.begin(batch, tokens, tokens)?;
        decoder.rotations(work);
        let stream = |layer: usize| kept.map_or(work.x, |kept| kept.inputs[layer]);
        decoder.embed(stream(0), tokens);
        let layers = decoder.layout.blocks.len();
        for layer in 0..layers {
            let (input, output) = (stream(layer), stream(layer + 1));
            let inside = match kept {
                Some(kept) => kept.inside[layer].unwrap_or(work.inside),
                None => Inside {
                    middle: work.x,
                    ..work.inside
                },
            };
            decoder.block(layer, tokens, input, output, &inside, Keys::Own, work);
        }
        Ok(stream(layers))
    }

    /// Forward and backward pass of a pack of which nothing is kept: adds to the gradient. Overwrites what is kept of others.
    pub(super) fn anew(
        &self,
        model: &mut Model,
        number: usize,
        dlogp: &[f32],
    ) -> Result<(), EngineError> {
        let alone = self.plan_of(model, number..number + 1);
        let buffer = model.kept(alone.len)?;
        let place = alone.kept(buffer, 0);
        let kept = place.unwrap_or_else(|| alone.again(buffer, 0));
        self.blocks(model, number, Some(&kept))?;
        self.backward(model, number, &kept, dlogp)
    }

    /// Backward pass of a pack: adds to the gradient.
    pub(super) fn backward(
        &self,
        model: &mut Model,
        number: usize,
        kept: &Kept,
        dlogp: &[f32],
    ) -> Result<(), EngineError> {
        let _entered = tracing::info_span!("backward").entered();
        let pack = &self.packs[number];
        let tokens = pack.batch.tokens.len();
        let back = model.back(tokens)?;
        let gradient = model.wanted_gradient()?;
        let work = &self.work;
        let decoder = &mut model.decoder;
        decoder.begin(&pack.batch, tokens, tokens)?;
        decoder.rotations(work);
        let width = decoder.widths.hidden;
        let dx = back.dx.at(0, tokens * width);
        decoder.backend.zero(dx);
        let layers = decoder.layout.blocks.len();
        decoder.log_probs_backward(
            work,
            &back,
            kept.inputs[layers],
            &pack.rows,
            &pack.targets,
            dlogp,
            self.temperature,
            gradient,
        );
        for layer in (0..layers).rev() {
            let input = kept.inputs[layer];
            let inside = match kept.inside[layer] {
                Some(inside) => inside,
                None => {
                    decoder.block_inside(layer, tokens, input, &work.inside, Keys::Own, work);
                    work.inside
                }
            };
            decoder.block_backward(layer, tokens, input, &inside, work, &back, gradient);
        }
        if let Gradient::Weights(gradient) = gradient {
            let dtable = decoder.layout.embedding.of(gradient);
            let scale = decoder.embedding_scale();
            decoder.backend.embed_backward(dtable, dx, width, scale);
        }
        Ok(())
    }
}
