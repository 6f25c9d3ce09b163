//! Which activations a step keeps from the forward to the backward pass, within a budget; the others are computed again.

use crate::backend::Buf;
use crate::model::work::{Both, Inside, Widths};

/// Parts begin on a cache line.
const ALIGN: usize = 16;
/// The most that is kept unless set otherwise.
const MOST: u64 = 6 << 30;
/// The budget where the system does not say what is free.
const UNKNOWN: u64 = 1 << 30;

/// What is kept of one pack.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kept {
    /// Residual stream before each block and after the last one.
    pub(super) inputs: Vec<Buf>,
    /// For each block, what it computes on the way.
    pub(super) inside: Vec<Option<Inside>>,
}

/// Places in the buffers, found before they are allocated.
#[derive(Debug, Clone, PartialEq)]
struct Places {
    inputs: usize,
    inside: Vec<Option<Both<usize>>>,
}

/// What is kept of each pack, and where.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// Elements of the buffers.
    pub(crate) len: Both<usize>,
    packs: Vec<Option<Places>>,
    layers: usize,
    widths: Widths,
    tokens: Vec<usize>,
}

impl Plan {
    /// Plans for packs of so many tokens; an element takes `width` bytes. Packs beyond the budget of bytes are forwarded again when their gradients are computed: one
    /// after another, in one place, which is there whatever the budget.
    pub(crate) fn new(
        widths: Widths,
        layers: usize,
        tokens: &[usize],
        budget: u64,
        width: Both<usize>,
    ) -> Self {
        let inputs = |tokens: usize| Both::sums((layers + 1) * stride(widths, tokens));
        let fits = |len: Both<usize>| len.bytes(width) <= budget;
        let largest = tokens.iter().copied().max();
        let mut len = largest.map_or(Both::default(), inputs);
        let all = tokens.iter().map(|n| inputs(*n));
        let all = all.fold(Both::default(), |a, b| a + b);
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
                inside: vec![None; layers],
            }));
        }
        for (places, &n) in packs.iter_mut().zip(tokens) {
            let size = Inside::len(widths, n);
            for inside in places.iter_mut().flat_map(|p| &mut p.inside) {
                if fits(len + size) {
                    *inside = Some(len);
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

    /// The parts of `buf` that keep a pack's activations, `None` where it is to be forwarded again.
    pub(super) fn kept(&self, buf: Both<Buf>, pack: usize) -> Option<Kept> {
        let places = self.packs[pack].as_ref()?;
        let tokens = self.tokens[pack];
        let size = Inside::len(self.widths, tokens);
        let inside = places.inside.iter().map(|place| {
            place.map(|offset| Inside::cut(buf.at(offset, size), self.widths, tokens))
        });
        Some(Kept {
            inputs: self.inputs(buf, places.inputs, tokens),
            inside: inside.collect(),
        })
    }

    /// The place of packs that are forwarded again.
    pub(super) fn again(&self, buf: Both<Buf>, pack: usize) -> Kept {
        Kept {
            inputs: self.inputs(buf, 0, self.tokens[pack]),
            inside: vec![None; self.layers],
        }
    }

    fn inputs(&self, buf: Both<Buf>, offset: usize, tokens: usize) -> Vec<Buf> {
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
    use super::Plan;
    use crate::backend::{Backend, cpu};
    use crate::model::work::{Both, Widths};

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
        let width = Both {
            activations: 2,
            sums: 4,
        };
        let mut found = [0; 2];
        for budget in (0..2_000_000).step_by(10_000) {
            let plan = Plan::new(WIDTHS, 4, &tokens, budget, width);
            let least = Plan::new(WIDTHS, 4, &tokens, 0, width).len;
            assert!(plan.len.bytes(width) <= budget.max(least.bytes(width)));
            let mut backend: Box<dyn Backend> = cpu::open(Some(1)).expect("one thread");
            let buf = Both::allocate(backend.as_mut(), plan.len).expect("memory");
            let mut parts = Vec::new();
            let mut again = false;
            for pack in 0..tokens.len() {
                let Some(kept) = plan.kept(buf, pack) else {
                    again = true;
                    continue;
                };
                parts.extend(kept.inputs);
                for inside in kept.inside.iter().flatten() {
                    parts.extend([inside.qkv, inside.gate_up, inside.middle, inside.lse]);
                }
            }
            if again {
                found[0] += 1;
                parts.extend(plan.again(buf, 1).inputs);
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
