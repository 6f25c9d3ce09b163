//! Sketches of several gradients of one mini-batch: one forward pass, then a backward pass for each gradient. Weights and moments do not change.

use crate::api::Objectives;
use crate::backend::Buf;
use crate::batch::Group;
use crate::error::EngineError;
use crate::model::Model;
use crate::model::train_state::PIECE;
use crate::train::count_sketch::CountSketch;
use crate::train::exchange::check_gradient;
use crate::train::step::{PackedMiniBatch, forward_workspace};

/// Computes the sketch of the gradient of Σ dlogp · log π for each set of `dlogp` that `objectives` returns.
///
/// If few completions have a gradient in a set, these are packed again, as in a training step. Such sets come last, since they overwrite the activations that
/// the forward pass saved for the other sets.
pub fn sketch(
    model: &mut Model,
    groups: &[Group],
    temperature: f32,
    objectives: Objectives,
    sketch: CountSketch,
) -> Result<Vec<Vec<f32>>, EngineError> {
    sketch.check()?;
    let mut mini_batch = PackedMiniBatch::new(model, groups, temperature)?;
    let (plan, buffer, stats) = mini_batch.forward_all(model)?;
    let sets = objectives(&stats).map_err(EngineError::Objective)?;
    for dlogp in &sets {
        check_gradient(&stats, dlogp)?;
    }
    let mut sketches = vec![Vec::new(); sets.len()];
    let mut repacked = Vec::new();
    // A backward pass overwrites a block's saved activations, but not the block's input.
    let mut fresh = vec![true; mini_batch.packing.packs.len()];
    for (number, dlogp) in sets.iter().enumerate() {
        if let Some(packing) = mini_batch.repacked(model, groups, dlogp) {
            repacked.push((number, packing));
            continue;
        }
        let gradient = zero_gradient(model)?;
        for (index, fresh) in fresh.iter_mut().enumerate() {
            let dlogp = mini_batch.packing.packs[index].gather(dlogp);
            if dlogp.iter().all(|g| *g == 0.0) {
                continue;
            }
            let Some(mut saved) = plan.saved(buffer, index) else {
                let saved = plan.recomputed(buffer, index);
                mini_batch.forward_blocks(model, index, Some(&saved))?;
                mini_batch.backward(model, index, &saved, &dlogp, gradient)?;
                continue;
            };
            if !std::mem::take(fresh) {
                saved.acts.fill(None);
            }
            mini_batch.backward(model, index, &saved, &dlogp, gradient)?;
        }
        sketches[number] = read_sketch(model, sketch)?;
    }
    for (number, packing) in repacked {
        let gradient = zero_gradient(model)?;
        let batch = PackedMiniBatch {
            work: forward_workspace(model, &packing.packs)?,
            packing,
            stats: Vec::new(),
            temperature,
        };
        for index in 0..batch.packing.packs.len() {
            let dlogp = batch.packing.packs[index].gather(&sets[number]);
            batch.recompute(model, index, &dlogp, gradient)?;
        }
        sketches[number] = read_sketch(model, sketch)?;
    }
    Ok(sketches)
}

fn zero_gradient(model: &mut Model) -> Result<Buf, EngineError> {
    let gradient = model.partial_gradient(0)?;
    model.decoder.backend.zero(gradient);
    Ok(gradient)
}

fn read_sketch(model: &mut Model, sketch: CountSketch) -> Result<Vec<f32>, EngineError> {
    let gradient = model.partial_gradient(0)?;
    let (mut buckets, mut first, mut piece) = (vec![0.0; sketch.size], 0, Vec::new());
    for (name, _) in model.trained_shapes() {
        let buf = model.trained_layout().region(&name)?.within(gradient);
        for start in (0..buf.len()).step_by(PIECE) {
            piece.resize(PIECE.min(buf.len() - start), 0.0);
            let part = buf.at(start, piece.len());
            model.decoder.backend.download(part, &mut piece)?;
            sketch.add(&mut buckets, first, &piece);
            first += piece.len();
        }
    }
    if buckets.iter().all(|x| x.is_finite()) {
        Ok(buckets)
    } else {
        Err(EngineError::Numeric(
            "the gradient is not finite; an importance weight has probably overflowed".into(),
        ))
    }
}
