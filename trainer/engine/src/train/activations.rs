//! Activation checkpointing: which activations a step saves from the forward to the backward pass, within a budget. The others are recomputed.

use crate::backend::Buf;
use crate::model::Model;
use crate::model::layout::ALIGN;
use crate::model::workspace::{BlockActivations, Cutter, PerPurpose, Widths};

/// Packs are not made smaller than this so that their activations can be saved, in tokens.
const MIN_DEFAULT_PACK: usize = 2048;

/// The saved activations of one pack.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SavedActivations {
    /// Residual stream before each block and after the last one.
    pub(super) inputs: Vec<Buf>,
    /// For each block, its intermediate results, if they are saved.
    pub(super) acts: Vec<Option<BlockActivations>>,
}

/// Offsets of a pack's saved activations, computed before the buffers are allocated.
#[derive(Debug, Clone, PartialEq)]
struct PackOffsets {
    inputs: usize,
    acts: Vec<Option<PerPurpose<usize>>>,
}

/// Which activations of each pack are saved, and where.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ActivationPlan {
    /// Number of elements of the buffers.
    pub(crate) len: PerPurpose<usize>,
    packs: Vec<Option<PackOffsets>>,
    layers: usize,
    widths: Widths,
    tokens: Vec<usize>,
}

impl ActivationPlan {
    /// Plans for packs of these numbers of tokens; an element takes `width` bytes. Packs beyond the budget (in bytes) are recomputed when their gradients are
    /// computed, one after the other, in one shared region. The region exists whatever the budget.
    pub(crate) fn new(
        widths: Widths,
        layers: usize,
        tokens: &[usize],
        budget: u64,
        width: PerPurpose<usize>,
    ) -> Self {
        let inputs = |tokens: usize| PerPurpose::sums((layers + 1) * stride(widths, tokens));
        let fits = |len: PerPurpose<usize>| len.bytes(width) <= budget;
        let largest = tokens.iter().copied().max();
        let mut len = largest.map_or(PerPurpose::default(), inputs);
        let all = tokens.iter().map(|n| inputs(*n));
        let all = all.fold(PerPurpose::default(), |a, b| a + b);
        let mut packs: Vec<Option<PackOffsets>> = Vec::new();
        for (number, &n) in tokens.iter().enumerate() {
            // If no other pack needs the shared region, the first pack is stored in it.
            let start = if number == 0 && (tokens.len() == 1 || fits(all)) {
                len = inputs(n);
                Some(0)
            } else if fits(len + inputs(n)) {
                len = len + inputs(n);
                Some(len.sums - inputs(n).sums)
            } else {
                None
            };
            packs.push(start.map(|inputs| PackOffsets {
                inputs,
                acts: vec![None; layers],
            }));
        }
        for (offsets, &n) in packs.iter_mut().zip(tokens) {
            let size = BlockActivations::len(widths, n);
            for acts in offsets.iter_mut().flat_map(|p| &mut p.acts) {
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

    /// The parts of `buf` with a pack's saved activations; `None` if the pack is recomputed.
    pub(super) fn saved(&self, buf: PerPurpose<Buf>, pack: usize) -> Option<SavedActivations> {
        let offsets = self.packs[pack].as_ref()?;
        let tokens = self.tokens[pack];
        let size = BlockActivations::len(self.widths, tokens);
        let acts = offsets.acts.iter().map(|offset| {
            offset.map(|offset| {
                BlockActivations::cut(&mut Cutter::of(buf.at(offset, size)), self.widths, tokens)
            })
        });
        Some(SavedActivations {
            inputs: self.inputs(buf, offsets.inputs, tokens),
            acts: acts.collect(),
        })
    }

    /// The shared region, for a pack that is recomputed.
    pub(super) fn recomputed(&self, buf: PerPurpose<Buf>, pack: usize) -> SavedActivations {
        SavedActivations {
            inputs: self.inputs(buf, 0, self.tokens[pack]),
            acts: vec![None; self.layers],
        }
    }

    fn inputs(&self, buf: PerPurpose<Buf>, offset: usize, tokens: usize) -> Vec<Buf> {
        let len = tokens * self.widths.hidden;
        let start = |i| offset + i * stride(self.widths, tokens);
        (0..=self.layers)
            .map(|i| buf.sums.at(start(i), len))
            .collect()
    }
}

fn stride(widths: Widths, tokens: usize) -> usize {
    (tokens * widths.hidden).next_multiple_of(ALIGN)
}

/// Maximum number of tokens of one of the model's packs: what is set, or else what its device determines.
pub(super) fn pack_tokens(model: &Model) -> usize {
    model.pack_tokens.unwrap_or_else(|| {
        default_pack_tokens(
            model.training_defaults().pack_tokens,
            model.decoder.widths,
            model.config().num_hidden_layers,
            model.saved_bytes(),
            model.decoder.backend.element_bytes().into(),
        )
    })
}

/// Maximum number of tokens of a pack: `most`, or half of it and so on, until all activations of a pack fit into the budget (in bytes), but at least 2,048. An
/// element takes `width` bytes.
pub(crate) fn default_pack_tokens(
    most: usize,
    widths: Widths,
    layers: usize,
    budget: u64,
    width: PerPurpose<usize>,
) -> usize {
    let saved = |tokens: usize| {
        let inputs = PerPurpose::sums((layers + 1) * stride(widths, tokens));
        let acts = BlockActivations::len(widths, tokens).bytes(width);
        inputs.bytes(width) + layers as u64 * acts
    };
    let mut tokens = most;
    while tokens > MIN_DEFAULT_PACK && saved(tokens) > budget {
        tokens = (tokens / 2).max(MIN_DEFAULT_PACK);
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::{ActivationPlan, default_pack_tokens};
    use crate::backend::{Backend, cpu};
    use crate::model::workspace::{PerPurpose, Widths};

    const WIDTHS: Widths = Widths {
        hidden: 24,
        heads: 3,
        kv_heads: 1,
        head_dim: 8,
        inner: 40,
        vocabulary: 100,
        head_rows: 64,
        qk_norm: true,
        sandwich: true,
        rope_tables: 2,
        rank: 0,
    };

    const BYTES: PerPurpose<usize> = PerPurpose {
        activations: 2,
        sums: 4,
    };

    #[test]
    fn a_pack_is_as_long_as_its_activations_fit() {
        let tokens = |most, budget| default_pack_tokens(most, WIDTHS, 4, budget, BYTES);
        assert_eq!(tokens(16_384, u64::MAX), 16_384);
        assert_eq!(tokens(16_384, 0), 2048);
        // On a CPU, memory changes nothing.
        assert_eq!(tokens(2048, 0), 2048);
        let all = ActivationPlan::new(WIDTHS, 4, &[8192], u64::MAX, BYTES).len;
        assert_eq!(tokens(16_384, all.bytes(BYTES)), 8192);
        assert_eq!(tokens(16_384, all.bytes(BYTES) - 1), 4096);
    }

    #[test]
    fn a_plan_exceeds_its_budget_only_by_the_shared_region() {
        let tokens = [50, 70, 30];
        let mut cases = [0; 2];
        for budget in (0..2_000_000).step_by(10_000) {
            let plan = ActivationPlan::new(WIDTHS, 4, &tokens, budget, BYTES);
            let minimum = ActivationPlan::new(WIDTHS, 4, &tokens, 0, BYTES).len;
            assert!(plan.len.bytes(BYTES) <= budget.max(minimum.bytes(BYTES)));
            let mut backend: Box<dyn Backend> = cpu::open(Some(1)).expect("one thread");
            let buf = PerPurpose::allocate(backend.as_mut(), plan.len).expect("memory");
            let mut parts = Vec::new();
            let mut recomputes = false;
            for pack in 0..tokens.len() {
                let Some(saved) = plan.saved(buf, pack) else {
                    recomputes = true;
                    continue;
                };
                parts.extend(saved.inputs);
                for acts in saved.acts.iter().flatten() {
                    parts.extend([acts.qkv, acts.gate_up, acts.middle, acts.lse]);
                }
            }
            if recomputes {
                cases[0] += 1;
                parts.extend(plan.recomputed(buf, 1).inputs);
            } else {
                cases[1] += 1;
            }
            parts.sort_unstable_by_key(|part| (part.block, part.offset));
            for pair in parts.windows(2) {
                let disjoint = pair[0].block != pair[1].block
                    || pair[0].offset + pair[0].len <= pair[1].offset;
                assert!(disjoint, "parts overlap at {budget}");
            }
        }
        assert!(cases[0] > 0 && cases[1] > 0);
    }
}
