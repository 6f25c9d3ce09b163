//! One optimiser update over a mini-batch: forward over all packs, the objective once, backward, clip, AdamW.
//!
//! The forward pass saves as many activations of each pack as the budget allows ([`super::activations`]). The backward pass recomputes the others, block by
//! block, with the same operations on the same numbers, so the gradients are equal to the bit whatever was saved.
//!
//! Completions with a `dL/dlogp` of 0 throughout add nothing to the gradient. Under a group baseline, these are all of a group that is all right or all wrong.
//! If there are many, the others are packed again; after another forward pass, only these go through the backward pass. A caller that knows such completions
//! from their rewards leaves them out instead.
//!
//! Several ranks divide the mini-batch ([`super::slices`]) and exchange what they have computed ([`super::exchange`]). All get all log-probabilities, rank 0
//! computes the objective for all, and each updates its shard of the weights.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::api::{AdamW, Objective, StepReport};
use crate::backend::{AdamWStep, Buf, ranks};
use crate::batch::{Group, TokenStats};
use crate::error::EngineError;
use crate::model::Model;
use crate::model::backward::BackwardPass;
use crate::model::workspace::{BlockActivations, PassSize, PerPurpose, Workspace};
use crate::sample::{self, MIN_TEMPERATURE};
use crate::train::activations::{ActivationPlan, SavedActivations, pack_tokens};
use crate::train::exchange;
use crate::train::pack::Pack;
use crate::train::slices::Packing;

/// Performs one optimiser update: forward over all groups, `objective` once, backward, clip, AdamW. On an error, weights and moments do not change, unless a
/// device failed after the gradient's norm was known: then the model is inconsistent, on all ranks. Only rank 0 calls its objective. All ranks get an error of
/// one.
pub fn step(
    model: &mut Model,
    groups: &[Group],
    temperature: f32,
    objective: Objective,
    adamw: &AdamW,
) -> Result<StepReport, EngineError> {
    let _entered = tracing::info_span!("step").entered();
    let began = Instant::now();
    let ranks = model.sharing.ranks.clone();
    let since = |began: Option<Instant>| began.map_or(Duration::ZERO, |began| began.elapsed());
    let mut mini_batch = PackedMiniBatch::new(model, groups, temperature)?;
    let (plan, buffer, stats) = mini_batch.forward_all(model)?;
    let forward = began.elapsed();

    let dlogp = exchange::objective(ranks.as_ref(), objective, &stats)?;

    let began = Instant::now();
    let summed = mini_batch.sum_gradients(model, groups, &dlogp, &plan, buffer);
    let exchange_began = begin_exchange(model, summed)?;
    let optimiser = model.optimiser()?;
    let norm = exchange::sum_gradients(model, optimiser.gradient)?.sqrt();
    let gradient_exchange = since(exchange_began);
    let backward = began.elapsed().saturating_sub(gradient_exchange);
    if !norm.is_finite() {
        return Err(EngineError::Numeric(format!(
            "the gradient's norm is {norm}, so the weights were not changed; lower the learning rate, or look at the objective's weights"
        )));
    }

    let _entered = tracing::info_span!("optimiser").entered();
    let began = Instant::now();
    let numbers = adamw_step(adamw, model.updates + 1, norm);
    let shard = model.shard();
    let [weights, gradient] =
        [model.trained(), optimiser.gradient].map(|all| all.at(shard.start, shard.len()));
    let (m, v) = (optimiser.m, optimiser.v);
    model.inconsistent = true;
    let backend = &mut model.decoder.backend;
    backend.adamw(weights, gradient, m, v, &numbers);
    let exchange_began = begin_exchange(model, Ok(()))?;
    exchange::gather_weights(model)?;
    let weight_exchange = since(exchange_began);
    model.updates += 1;
    model.inconsistent = false;
    Ok(StepReport {
        stats,
        grad_norm: norm,
        forward,
        backward,
        optimiser: began.elapsed().saturating_sub(weight_exchange),
        exchange: gradient_exchange + weight_exchange,
    })
}

/// Numbers of AdamW's update `count` (from 1), with clipping, given the global gradient norm.
fn adamw_step(adamw: &AdamW, count: u64, norm: f64) -> AdamWStep {
    let t = i32::try_from(count).unwrap_or(i32::MAX);
    AdamWStep {
        lr: adamw.lr,
        beta1: adamw.beta1,
        beta2: adamw.beta2,
        eps: adamw.eps,
        decay: adamw.weight_decay,
        bias1: (1.0 - f64::from(adamw.beta1).powi(t)) as f32,
        bias2: (1.0 - f64::from(adamw.beta2).powi(t)) as f32,
        grad_scale: adamw.grad_scale(norm) as f32,
    }
}

/// Begins an exchange if all ranks have `done` their own work; all get an error of one. Waits for an asynchronous device first, since its work is not a part of
/// the exchange. Returns when the exchange began; `None` in a process alone, which exchanges nothing.
fn begin_exchange(
    model: &mut Model,
    done: Result<(), EngineError>,
) -> Result<Option<Instant>, EngineError> {
    let ranks = model.sharing.ranks.clone();
    if ranks.size() == 1 {
        return done.map(|()| None);
    }
    let done = done.and_then(|()| model.decoder.backend.synchronise());
    let began = Instant::now();
    ranks::agree(ranks.as_ref(), done.map(|()| Vec::new()))?;
    Ok(Some(began))
}

/// Rejects what cannot be computed: a temperature that does not divide, or a prompt or completion without tokens.
pub(crate) fn check(groups: &[Group], temperature: f32) -> Result<(), EngineError> {
    if !sample::divides(temperature) {
        return Err(EngineError::Request(format!(
            "the temperature of training is {temperature}; give a number of at least {MIN_TEMPERATURE:e}, since log-probabilities are those of the distribution sampled from"
        )));
    }
    for (number, group) in groups.iter().enumerate() {
        if group.prompt.is_empty() || group.completions.iter().any(Vec::is_empty) {
            return Err(EngineError::Request(format!(
                "the prompt or a completion of group {number} has no tokens; each needs at least one"
            )));
        }
    }
    Ok(())
}

/// Per-token log-probabilities and entropies of given completions, groups in order, completions in order.
pub fn score(
    model: &mut Model,
    groups: &[Group],
    temperature: f32,
) -> Result<Vec<TokenStats>, EngineError> {
    let _entered = tracing::info_span!("score").entered();
    let mut mini_batch = PackedMiniBatch::new(model, groups, temperature)?;
    let packs = 0..mini_batch.packing.packs.len();
    let forward = { packs }.try_for_each(|number| mini_batch.forward(model, number, None));
    let ((), stats) = mini_batch.all_stats(model, forward)?;
    Ok(stats)
}

/// Maximum number of elements of a gradient that are added at a time, as one row: GPU kernels count a row's elements with 32 bits.
const MAX_ROW: usize = 1 << 30;

/// Computes the gradient of some of this rank's slices into the gradient buffer number `depth`: a binary tree of sums. `add` adds the gradient of one slice.
fn sum_slices(
    model: &mut Model,
    slices: Range<usize>,
    depth: usize,
    add: &mut impl FnMut(&mut Model, usize, Buf) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let gradient = model.partial_gradient(depth)?;
    if slices.len() == 1 {
        model.decoder.backend.zero(gradient);
        return add(model, slices.start, gradient);
    }
    let middle = slices.start + slices.len() / 2;
    sum_slices(model, slices.start..middle, depth, add)?;
    sum_slices(model, middle..slices.end, depth + 1, add)?;
    let right = model.partial_gradient(depth + 1)?;
    for start in (0..gradient.len()).step_by(MAX_ROW) {
        let len = MAX_ROW.min(gradient.len() - start);
        let [sum, term] = [gradient, right].map(|buf| buf.at(start, len));
        model.decoder.backend.add_bias(sum, term, 1);
    }
    Ok(())
}

/// Completions without a gradient are dropped, by packing the others again, if at most this share of the tokens remains. One more forward pass of the others
/// then costs less than a backward pass over all.
const REPACK_SHARE: f64 = 0.6;

/// Buffers for a forward pass of any of the packs.
pub(super) fn forward_workspace(
    model: &mut Model,
    packs: &[Pack],
) -> Result<Workspace, EngineError> {
    let max_of = |count: fn(&Pack) -> usize| packs.iter().map(count).max().unwrap_or(0);
    model.workspace(PassSize {
        tokens: max_of(|p| p.batch.tokens.len()),
        logit_rows: max_of(|p| p.rows.len()),
        targets: max_of(|p| p.targets.len()),
    })
}

impl Pack {
    /// Elements for this pack's targets, from values in the shape of the completions.
    pub(super) fn gather(&self, values: &[Vec<f32>]) -> Vec<f32> {
        let slots = self.slots.iter();
        slots.map(|(number, t)| values[*number][*t]).collect()
    }
}

/// Packs of one mini-batch, and the numbers that their forward passes computed.
pub(super) struct PackedMiniBatch {
    pub(super) packing: Packing,
    pub(super) stats: Vec<TokenStats>,
    pub(super) temperature: f32,
    pub(super) work: Workspace,
}

impl PackedMiniBatch {
    pub(super) fn new(
        model: &mut Model,
        groups: &[Group],
        temperature: f32,
    ) -> Result<Self, EngineError> {
        check(groups, temperature)?;
        let completions = groups.iter().flat_map(|group| &group.completions);
        let stats = completions.map(|completion| TokenStats {
            logp: vec![0.0; completion.len()],
            entropy: vec![0.0; completion.len()],
        });
        let stats = stats.collect();
        let packing = Packing::new(groups, pack_tokens(model), &model.sharing, |_| true);
        let ranks = model.sharing.ranks.clone();
        let work = forward_workspace(model, &packing.packs);
        let work = work.map_err(|error| ranks::fail(ranks.as_ref(), error))?;
        Ok(Self {
            packing,
            stats,
            temperature,
            work,
        })
    }

    /// Plans the saved activations of some packs.
    pub(super) fn plan_of(&self, model: &Model, packs: Range<usize>) -> ActivationPlan {
        let budget = model.saved_bytes();
        let packs = self.packing.packs[packs].iter();
        let tokens: Vec<usize> = packs.map(|p| p.batch.tokens.len()).collect();
        let layers = model.config().num_hidden_layers;
        let width = model.decoder.backend.element_bytes().into();
        ActivationPlan::new(model.decoder.widths, layers, &tokens, budget, width)
    }

    /// Forward pass of all packs. Saves as many activations as the memory allows. Returns their plan, their buffer, and the statistics of each completion.
    pub(super) fn forward_all(
        &mut self,
        model: &mut Model,
    ) -> Result<(ActivationPlan, PerPurpose<Buf>, Vec<TokenStats>), EngineError> {
        let packs = 0..self.packing.packs.len();
        let plan = self.plan_of(model, packs.clone());
        let forward = model.saved_buffer(plan.len).and_then(|buffer| {
            for number in packs {
                self.forward(model, number, plan.saved(buffer, number).as_ref())?;
            }
            Ok(buffer)
        });
        let (buffer, stats) = self.all_stats(model, forward)?;
        Ok((plan, buffer, stats))
    }

    /// The completions with a gradient, packed again; `None` if too many tokens remain.
    pub(super) fn repacked(
        &self,
        model: &Model,
        groups: &[Group],
        dlogp: &[Vec<f32>],
    ) -> Option<Packing> {
        let has_gradient = |number: usize| dlogp[number].iter().any(|x| *x != 0.0);
        let packing = Packing::new(groups, pack_tokens(model), &model.sharing, has_gradient);
        let most = REPACK_SHARE * self.packing.tokens as f64;
        (packing.tokens as f64 <= most).then_some(packing)
    }

    /// Computes the gradient of this rank's slices into the first gradient buffer.
    fn sum_gradients(
        &mut self,
        model: &mut Model,
        groups: &[Group],
        dlogp: &[Vec<f32>],
        plan: &ActivationPlan,
        buffer: PerPurpose<Buf>,
    ) -> Result<(), EngineError> {
        model.optimiser()?;
        let repacked = self.repacked(model, groups, dlogp);
        let is_repacked = repacked.is_some();
        if let Some(packing) = repacked {
            self.work = forward_workspace(model, &packing.packs)?;
            self.packing = packing;
        }
        let slices = 0..self.packing.slices.len();
        sum_slices(model, slices, 0, &mut |model, slice, gradient| {
            for number in self.packing.slices[slice].clone() {
                let dlogp = self.packing.packs[number].gather(dlogp);
                if dlogp.iter().all(|g| *g == 0.0) {
                    continue;
                }
                if is_repacked {
                    self.recompute(model, number, &dlogp, gradient)?;
                    continue;
                }
                let saved = match plan.saved(buffer, number) {
                    Some(saved) => saved,
                    None => {
                        let saved = plan.recomputed(buffer, number);
                        self.forward_blocks(model, number, Some(&saved))?;
                        saved
                    }
                };
                self.backward(model, number, &saved, &dlogp, gradient)?;
            }
            Ok(())
        })
    }

    /// The statistics of all completions, those of other ranks included, if the forward passes of all ranks succeeded; and this rank's result.
    fn all_stats<T>(
        &mut self,
        model: &Model,
        forward: Result<T, EngineError>,
    ) -> Result<(T, Vec<TokenStats>), EngineError> {
        let ranks = model.sharing.ranks.as_ref();
        let done = forward.map_err(|error| ranks::fail(ranks, error))?;
        let stats = std::mem::take(&mut self.stats);
        let stats = exchange::gather_stats(ranks, stats, &self.packing.completions)?;
        Ok((done, stats))
    }

    /// Forward pass of a pack with its head. Writes the statistics to `stats`.
    pub(super) fn forward(
        &mut self,
        model: &mut Model,
        number: usize,
        saved: Option<&SavedActivations>,
    ) -> Result<(), EngineError> {
        let _entered = tracing::info_span!("forward").entered();
        let last = self.forward_blocks(model, number, saved)?;
        let pack = &self.packing.packs[number];
        let (decoder, temperature) = (&mut model.decoder, self.temperature);
        let (logp, entropy) =
            decoder.log_probs(&self.work, last, &pack.rows, &pack.targets, temperature)?;
        for (i, (completion, t)) in pack.slots.iter().enumerate() {
            if !logp[i].is_finite() {
                return Err(EngineError::Numeric(format!(
                    "the log-probability of token {t} of completion {completion} is {}, so the weights were not changed; the weights have probably diverged: \
                     go back to a checkpoint and lower the learning rate",
                    logp[i]
                )));
            }
            self.stats[*completion].logp[*t] = logp[i];
            self.stats[*completion].entropy[*t] = entropy[i];
        }
        Ok(())
    }

    /// Forward pass of a pack through all blocks, saving activations into `saved`. Returns the buffer of the final residual stream.
    pub(super) fn forward_blocks(
        &self,
        model: &mut Model,
        number: usize,
        saved: Option<&SavedActivations>,
    ) -> Result<Buf, EngineError> {
        let batch = &self.packing.packs[number].batch;
        let tokens = batch.tokens.len();
        let work = &self.work;
        let decoder = &mut model.decoder;
        decoder.begin(batch, tokens, tokens)?;
        decoder.rotations(work);
        let stream = |layer: usize| saved.map_or(work.x, |saved| saved.inputs[layer]);
        decoder.embed(stream(0), tokens);
        let layers = decoder.layout.blocks.len();
        for layer in 0..layers {
            let (input, output) = (stream(layer), stream(layer + 1));
            let acts = match saved {
                Some(saved) => saved.acts[layer].unwrap_or(work.acts),
                None => BlockActivations {
                    middle: work.x,
                    ..work.acts
                },
            };
            decoder.block(layer, tokens, input, output, &acts, None, work);
        }
        Ok(stream(layers))
    }

    /// Forward and backward pass of a pack without saved activations. Adds to the gradient, and overwrites the saved activations of other packs.
    pub(super) fn recompute(
        &self,
        model: &mut Model,
        number: usize,
        dlogp: &[f32],
        gradient: Buf,
    ) -> Result<(), EngineError> {
        let alone = self.plan_of(model, number..number + 1);
        let buffer = model.saved_buffer(alone.len)?;
        let saved = alone.saved(buffer, 0);
        let saved = saved.unwrap_or_else(|| alone.recomputed(buffer, 0));
        self.forward_blocks(model, number, Some(&saved))?;
        self.backward(model, number, &saved, dlogp, gradient)
    }

    /// Backward pass of a pack; adds to the gradient.
    pub(super) fn backward(
        &self,
        model: &mut Model,
        number: usize,
        saved: &SavedActivations,
        dlogp: &[f32],
        gradient: Buf,
    ) -> Result<(), EngineError> {
        let _entered = tracing::info_span!("backward").entered();
        let pack = &self.packing.packs[number];
        let tokens = pack.batch.tokens.len();
        let back = model.back(tokens)?;
        let work = &self.work;
        let pass = BackwardPass {
            tokens,
            work,
            back: &back,
            gradient,
        };
        let decoder = &mut model.decoder;
        decoder.begin(&pack.batch, tokens, tokens)?;
        decoder.rotations(work);
        let width = decoder.widths.hidden;
        let dx = back.dx.at(0, tokens * width);
        decoder.backend.zero(dx);
        let layers = decoder.layout.blocks.len();
        let (x, temperature) = (saved.inputs[layers], self.temperature);
        decoder.log_probs_backward(pass, x, &pack.rows, &pack.targets, dlogp, temperature);
        for layer in (0..layers).rev() {
            let input = saved.inputs[layer];
            let acts = saved.acts[layer].unwrap_or_else(|| {
                decoder.block_inside(layer, tokens, input, &work.acts, None, work);
                work.acts
            });
            decoder.block_backward(layer, input, &acts, pass);
        }
        if decoder.adapters.is_none() {
            let dtable = decoder.layout.embedding.within(gradient);
            let scale = decoder.constants.embedding_scale;
            decoder.backend.embed_backward(dtable, dx, width, scale);
        }
        Ok(())
    }
}
