//! Sketches of several gradients of one mini-batch: one forward pass, a backward pass for each; weights and moments stay as they are.

use crate::api::Objectives;
use crate::batch::Group;
use crate::error::EngineError;
use crate::model::Model;
use crate::train::pack::pack;
use crate::train::projection::Sketch;
use crate::train::step::{LEAN, MiniBatch, check_gradient, live, room, tokens};

/// The sketch of the gradient of Σ dlogp · log π for each set of `dlogp` that `objectives` returns.
///
/// A set with few completions that have a gradient is packed anew, as in a training step. Those come last, since they overwrite what the forward pass kept for
/// the others.
pub fn sketch(
    model: &mut Model,
    groups: &[Group],
    temperature: f32,
    objectives: Objectives,
    sketch: Sketch,
) -> Result<Vec<Vec<f32>>, EngineError> {
    sketch.check()?;
    let mut whole = MiniBatch::new(model, groups, temperature)?;
    let plan = whole.plan_of(model, 0..whole.packs.len());
    let buffer = model.kept(plan.len)?;
    for number in 0..whole.packs.len() {
        let kept = plan.kept(buffer, number);
        whole.forward(model, number, kept.as_ref())?;
    }
    let stats = std::mem::take(&mut whole.stats);
    let sets = objectives(&stats).map_err(EngineError::Numeric)?;
    for dlogp in &sets {
        check_gradient(&stats, dlogp)?;
    }
    let mut sketches = vec![Vec::new(); sets.len()];
    let mut lean = Vec::new();
    // A backward pass uses up what was kept of a block's inside, but not its input.
    let mut fresh = vec![true; whole.packs.len()];
    for (number, dlogp) in sets.iter().enumerate() {
        let live = live(dlogp);
        let packs = pack(groups, model.pack_tokens, |completion| live[completion]);
        if tokens(&packs) as f64 <= LEAN * tokens(&whole.packs) as f64 {
            lean.push((number, packs));
            continue;
        }
        zero(model)?;
        for (place, fresh) in fresh.iter_mut().enumerate() {
            let dlogp = whole.packs[place].gather(dlogp);
            if dlogp.iter().all(|g| *g == 0.0) {
                continue;
            }
            let Some(mut kept) = plan.kept(buffer, place) else {
                let kept = plan.again(buffer, place);
                whole.blocks(model, place, Some(&kept))?;
                whole.backward(model, place, &kept, &dlogp)?;
                continue;
            };
            if !std::mem::take(fresh) {
                kept.inside.fill(None);
            }
            whole.backward(model, place, &kept, &dlogp)?;
        }
        sketches[number] = read(model, sketch)?;
    }
    for (number, packs) in lean {
        zero(model)?;
        let batch = MiniBatch {
            work: room(model, &packs)?,
            packs,
            stats: Vec::new(),
            temperature,
        };
        for place in 0..batch.packs.len() {
            let dlogp = batch.packs[place].gather(&sets[number]);
            batch.anew(model, place, &dlogp)?;
        }
        sketches[number] = read(model, sketch)?;
    }
    Ok(sketches)
}

fn zero(model: &mut Model) -> Result<(), EngineError> {
    let gradient = model.gradient()?;
    model.decoder.backend.zero(gradient);
    Ok(())
}

fn read(model: &mut Model, sketch: Sketch) -> Result<Vec<f32>, EngineError> {
    let mut buckets = vec![0.0; sketch.size];
    let mut first = 0;
    model.read_gradient(&mut |values| {
        sketch.add(&mut buckets, first, values);
        first += values.len();
    })?;
    if buckets.iter().all(|x| x.is_finite()) {
        Ok(buckets)
    } else {
        Err(EngineError::Numeric(
            "the gradient is not finite; an importance weight has probably overflowed".into(),
        ))
    }
}
