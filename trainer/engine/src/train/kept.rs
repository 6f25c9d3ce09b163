//! Which activations a step keeps from the forward to the backward pass, within a budget; the others are computed again.

use crate::backend::Buf;
use crate::model::work::{Inside, Widths};

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

/// Places in one buffer, found before it is allocated.
#[derive(Debug, Clone, PartialEq)]
struct Places {
    inputs: usize,
    inside: Vec<Option<usize>>,
}

/// What is kept of each pack, and where.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// Elements of the buffer.
    pub(super) len: usize,
    packs: Vec<Option<Places>>,
    layers: usize,
    widths: Widths,
    tokens: Vec<usize>,
}

impl Plan {
    /// Plans for packs of so many tokens. Packs beyond the budget are forwarded again when their gradients are computed: one after another, in one place, which is
    /// there whatever the budget.
    pub(super) fn new(widths: Widths, layers: usize, tokens: &[usize], budget: u64) -> Self {
        let budget = usize::try_from(budget / 4).unwrap_or(usize::MAX);
        let inputs = |tokens: usize| (layers + 1) * stride(widths, tokens);
        let mut len = tokens.iter().copied().max().map_or(0, inputs);
        let mut packs: Vec<Option<Places>> = Vec::new();
        for (number, &n) in tokens.iter().enumerate() {
            // The first pack is in the place that is there anyway, if no other needs it.
            let all: usize = tokens.iter().map(|n| inputs(*n)).sum();
            let fits_all = number == 0 && (tokens.len() == 1 || all <= budget);
            let place = if fits_all {
                len = inputs(n);
                Some(0)
            } else if len + inputs(n) <= budget {
                len += inputs(n);
                Some(len - inputs(n))
            } else {
                None
            };
            packs.push(place.map(|inputs| Places {
                inputs,
                inside: vec![None; layers],
            }));
        }
        for (places, &n) in packs.iter_mut().zip(tokens) {
            let size = Inside::len(widths, n).next_multiple_of(ALIGN);
            for inside in places.iter_mut().flat_map(|p| &mut p.inside) {
                if len + size <= budget {
                    *inside = Some(len);
                    len += size;
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
    pub(super) fn kept(&self, buf: Buf, pack: usize) -> Option<Kept> {
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
    pub(super) fn again(&self, buf: Buf, pack: usize) -> Kept {
        Kept {
            inputs: self.inputs(buf, 0, self.tokens[pack]),
            inside: vec![None; self.layers],
        }
    }

    fn inputs(&self, buf: Buf, offset: usize, tokens: usize) -> Vec<Buf> {
        (0..=self.layers)
            .map(|i| {
                buf.at(
                    offset + i * stride(self.widths, tokens),
                    tokens * self.widths.hidden,
                )
            })
            .collect()
    }
}

fn stride(widths: Widths, tokens: usize) -> usize {
    (tokens * widths.hidden).next_multiple_of(ALIGN)
}

/// A third of the memory that this process may still take, after `reserved` bytes of it.
pub(super) fn default_budget(reserved: u64) -> u64 {
    available().map_or(UNKNOWN, |free| (free.saturating_sub(reserved) / 3).min(MOST))
}

/// Memory that the system and, where there is one, the control group leave to this process.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    let number = |file: &str| -> Option<u64> {
        let path = format!("/sys/fs/cgroup/{file}");
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    let group = number("memory.max").zip(number("memory.current"));
    let group = group.map_or(u64::MAX, |(max, used)| max.saturating_sub(used));
    Some((kib * 1024).min(group))
}
