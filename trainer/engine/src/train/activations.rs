//! Activation checkpointing: which activations a step saves from the forward to the backward pass, within a budget. The others are recomputed.

use crate::backend::Buf;
use crate::model::workspace::{BlockActivations, PerDtype, Widths};

/// Parts begin on a cache line.
const ALIGN: usize = 16;
/// The largest budget unless set otherwise, in bytes.
const MOST: u64 = 6 << 30;
/// The budget where the system does not say what is free.
const UNKNOWN: u64 = 1 << 30;

/// The saved activations of one pack.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SavedActivations {
    /// Residual stream before each block and after the last one.
    pub(super) inputs: Vec<Buf>,
    /// For each block, what it computes on the way.
    pub(super) acts: Vec<Option<BlockActivations>>,
}

/// Places in the buffers, found before they are allocated.
#[derive(Debug, Clone, PartialEq)]
struct Places {
    inputs: usize,
    acts: Vec<Option<PerDtype<usize>>>,
}

/// What is saved of each pack, and where.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ActivationPlan {
    /// Elements of the buffers.
    pub(crate) len: PerDtype<usize>,
    packs: Vec<Option<Places>>,
    layers: usize,
    widths: Widths,
    tokens: Vec<usize>,
}

impl ActivationPlan {
    /// Plans for packs of so many tokens; an element takes `width` bytes. Packs beyond the budget of bytes are recomputed when their gradients are: one
    /// after another, in one place, which is there whatever the budget.
    pub(crate) fn new(
        widths: Widths,
        layers: usize,
        tokens: &[usize],
        budget: u64,
        width: PerDtype<usize>,
    ) -> Self {
        let inputs = |tokens: usize| PerDtype::sums((layers + 1) * stride(widths, tokens));
        let fits = |len: PerDtype<usize>| len.bytes(width) <= budget;
        let largest = tokens.iter().copied().max();
        let mut len = largest.map_or(PerDtype::default(), inputs);
        let all = tokens.iter().map(|n| inputs(*n));
        let all = all.fold(PerDtype::default(), |a, b| a + b);
        let mut packs: Vec<Option<Places>> = Vec::new();
        for (number, &n) in tokens.iter().enumerate() {
            // The first pack is in the place that is there anyway, if no other needs it.
            let place = if number == 0 && (tokens.len() == 1 || fits(all)) {
                len = inputs(n);
                Some(0)
            } else if fits(len + inputs(n)) {
                len = len + inputs(n);
                Some(len.sums - inputs(n).sums)
            } else {
                None
            };
            packs.push(place.map(|inputs| Places {
                inputs,
                acts: vec![None; layers],
            }));
        }
        for (places, &n) in packs.iter_mut().zip(tokens) {
            let size = BlockActivations::len(widths, n);
            for acts in places.iter_mut().flat_map(|p| &mut p.acts) {
                if fits(len + size) {
                    *acts = Some(len);
                    len = len + size;
                }
            }
        }
        Self {
            len,
            packs,
            layers,
            widths,
            tokens: tokens.to_vec(),
        }
    }

    /// The parts of `buf` that hold a pack's saved activations, `None` where it is to be recomputed.
    pub(super) fn saved(&self, buf: PerDtype<Buf>, pack: usize) -> Option<SavedActivations> {
        let places = self.packs[pack].as_ref()?;
        let tokens = self.tokens[pack];
        let size = BlockActivations::len(self.widths, tokens);
        let acts = places.acts.iter().map(|place| {
            place.map(|offset| BlockActivations::cut(buf.at(offset, size), self.widths, tokens))
        });
        Some(SavedActivations {
            inputs: self.inputs(buf, places.inputs, tokens),
            acts: acts.collect(),
        })
    }

    /// The place of packs that are recomputed.
    pub(super) fn recomputed(&self, buf: PerDtype<Buf>, pack: usize) -> SavedActivations {
        SavedActivations {
            inputs: self.inputs(buf, 0, self.tokens[pack]),
            acts: vec![None; self.layers],
        }
    }

    fn inputs(&self, buf: PerDtype<Buf>, offset: usize, tokens: usize) -> Vec<Buf> {
        let len = tokens * self.widths.hidden;
        let place = |i| offset + i * stride(self.widths, tokens);
        (0..=self.layers)
            .map(|i| buf.sums.at(place(i), len))
            .collect()
    }
}

fn stride(widths: Widths, tokens: usize) -> usize {
    (tokens * widths.hidden).next_multiple_of(ALIGN)
}

/// A third of the device's `memory` that weights, gradients and moments (`taken` bytes) leave.
pub(crate) fn default_budget(memory: Option<u64>, taken: u64) -> u64 {
    memory.map_or(UNKNOWN, |all| (all.saturating_sub(taken) / 3).min(MOST))
}

#[cfg(test)]
mod tests {
    use super::ActivationPlan;
    use crate::backend::{Backend, cpu};
    use crate::model::workspace::{PerDtype, Widths};

    const WIDTHS: Widths = Widths {
        hidden: 24,
        heads: 3,
        kv_heads: 1,
        head_dim: 8,
        inner: 40,
        vocabulary: 100,
        qk_norm: true,
        sandwich: true,
        rope_tables: 2,
        rank: 0,
    };

    #[test]
    fn a_budget_is_kept_to_beyond_the_one_place_that_is_always_there() {
        let tokens = [50, 70, 30];
        let width = PerDtype {
            activations: 2,
            sums: 4,
        };
        let mut found = [0; 2];
        for budget in (0..2_000_000).step_by(10_000) {
            let plan = ActivationPlan::new(WIDTHS, 4, &tokens, budget, width);
            let least = ActivationPlan::new(WIDTHS, 4, &tokens, 0, width).len;
            assert!(plan.len.bytes(width) <= budget.max(least.bytes(width)));
            let mut backend: Box<dyn Backend> = cpu::open(Some(1)).expect("one thread");
            let buf = PerDtype::allocate(backend.as_mut(), plan.len).expect("memory");
            let mut parts = Vec::new();
            let mut again = false;
            for pack in 0..tokens.len() {
                let Some(saved) = plan.saved(buf, pack) else {
                    again = true;
                    continue;
                };
                parts.extend(saved.inputs);
                for acts in saved.acts.iter().flatten() {
                    parts.extend([acts.qkv, acts.gate_up, acts.middle, acts.lse]);
                }
            }
            if again {
                found[0] += 1;
                parts.extend(plan.recomputed(buf, 1).inputs);
            } else {
                found[1] += 1;
            }
            parts.sort_unstable_by_key(|part| (part.block, part.offset));
            for pair in parts.windows(2) {
                let apart = pair[0].block != pair[1].block
                    || pair[0].offset + pair[0].len <= pair[1].offset;
                assert!(apart, "parts overlap at {budget}");
            }
        }
        assert!(found[0] > 0 && found[1] > 0);
    }
}
