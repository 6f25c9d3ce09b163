//! The arena's memory: blocks, kept for the next allocations, and the function that turns handles into slices.

#![allow(unsafe_code)]

use memmap2::{MmapMut, MmapRaw};

use crate::backend::{Buf, Purpose, insert};
use crate::error::EngineError;

/// Memory from the system, which provides zeroed pages at their first use. It begins on a page, and so on a cache line.
struct Block {
    map: MmapRaw,
    /// Elements in use.
    len: usize,
}

impl Block {
    fn zeroed(len: usize) -> Option<Self> {
        let map = MmapMut::map_anon(len.checked_mul(size_of::<f32>())?).ok()?;
        Some(Self {
            map: map.into(),
            len,
        })
    }

    fn capacity(&self) -> usize {
        self.map.len() / size_of::<f32>()
    }

    /// Changes the capacity, but not to 0 and not below the elements in use. Keeps the pages where the system can. `None` if there is no memory.
    fn resize(&mut self, capacity: usize) -> Option<()> {
        let bytes = capacity.checked_mul(size_of::<f32>())?;
        #[cfg(target_os = "linux")]
        {
            let may_move = memmap2::RemapOptions::new().may_move(true);
            // SAFETY: nobody has a slice of this memory, since slices borrow the arena.
            unsafe { self.map.remap(bytes, may_move) }.ok()
        }
        #[cfg(not(target_os = "linux"))]
        {
            let mut map = MmapMut::map_anon(bytes).ok()?;
            // SAFETY: inside the mapping, and nobody writes to it meanwhile.
            let used = unsafe {
                std::slice::from_raw_parts(self.map.as_ptr(), self.len * size_of::<f32>())
            };
            map[..used.len()].copy_from_slice(used);
            self.map = map.into();
            Some(())
        }
    }
}

/// All blocks of a backend. The system takes long to provide pages, so a released block is kept for the next allocations. All blocks together have room for at
/// most `peak` elements.
#[derive(Default)]
pub(super) struct Arena {
    blocks: Vec<Option<Block>>,
    /// Released blocks.
    free: Vec<Block>,
    /// The most elements that were in use at one time.
    peak: usize,
}

impl Arena {
    /// Allocates a block. It is zeroed where [`Backend::allocate`](crate::backend::Backend::allocate) promises that. Otherwise it is the released block that
    /// fits best, if there is one.
    pub(super) fn allocate(&mut self, purpose: Purpose, len: usize) -> Result<Buf, EngineError> {
        let recyclable = match purpose {
            Purpose::Weights | Purpose::Optimiser => None,
            Purpose::Cache | Purpose::Activations | Purpose::Sums => self.best_released(len),
        };
        let Some(best) = recyclable else {
            self.make_room(len, len);
            let block = Block::zeroed(len).ok_or_else(|| no_memory(len))?;
            return Ok(self.insert(block));
        };
        let mut block = self.free.swap_remove(best);
        let capacity = self.make_room(len, block.capacity().max(len));
        if capacity != block.capacity() {
            block.resize(capacity).ok_or_else(|| no_memory(len))?;
        }
        block.len = len;
        let buf = self.insert(block);
        if cfg!(test) {
            // NaN shows in the tests if someone reads what they have not written.
            self.slices([buf], []).0[0].fill(f32::NAN);
        }
        Ok(buf)
    }

    /// The released block to use for `len` elements. If all are too small, the largest one grows.
    fn best_released(&self, len: usize) -> Option<usize> {
        let blocks = 0..self.free.len();
        let best = blocks.min_by_key(|i| {
            let capacity = self.free[*i].capacity();
            (capacity < len, capacity.abs_diff(len))
        });
        best.filter(|_| len > 0)
    }

    /// Takes unused memory from the other blocks, to make room for a block of `len` elements with a capacity of `wanted`. Returns the capacity that it can
    /// have, at least `len`.
    fn make_room(&mut self, len: usize, wanted: usize) -> usize {
        let peak = self.peak.max(self.in_use().saturating_add(len));
        let mut excess = self.held().saturating_add(wanted).saturating_sub(peak);
        self.free.retain_mut(|block| {
            let cut = excess.min(block.capacity());
            excess -= cut;
            let rest = block.capacity() - cut;
            rest > 0 && (cut == 0 || block.resize(rest).is_some())
        });
        for block in self.blocks.iter_mut().flatten() {
            let cut = excess.min(block.capacity() - block.len);
            if cut > 0 && block.resize(block.capacity() - cut).is_some() {
                excess -= cut;
            }
        }
        len.max(wanted.saturating_sub(excess))
    }

    /// Number of elements that all blocks have room for.
    fn held(&self) -> usize {
        let blocks = self.blocks.iter().flatten().chain(&self.free);
        blocks.map(Block::capacity).sum()
    }

    fn in_use(&self) -> usize {
        self.blocks.iter().flatten().map(|block| block.len).sum()
    }

    fn insert(&mut self, block: Block) -> Buf {
        let len = block.len;
        let slot = insert(&mut self.blocks, block);
        self.peak = self.peak.max(self.in_use());
        Buf {
            block: slot as u32,
            offset: 0,
            len,
        }
    }

    pub(super) fn release(&mut self, buf: Buf) {
        if let Some(slot) = self.blocks.get_mut(buf.block as usize)
            && let Some(mut block) = slot.take()
        {
            block.len = 0;
            if block.capacity() > 0 {
                self.free.push(block);
            }
        }
    }

    /// Pointer to a buffer's first element. Checks that the whole buffer lies in its block.
    pub(super) fn pointer(&self, buf: Buf) -> *mut f32 {
        let block = self
            .blocks
            .get(buf.block as usize)
            .and_then(Option::as_ref)
            .expect("a buffer is used between its allocation and its release");
        assert!(
            buf.offset + buf.len <= block.len,
            "a buffer lies in its block"
        );
        // SAFETY: inside the mapping, as just checked.
        unsafe { block.map.as_mut_ptr().cast::<f32>().add(buf.offset) }
    }

    /// Slices to write and slices to read. A slice to write overlaps no other slice.
    pub(super) fn slices<const W: usize, const R: usize>(
        &mut self,
        write: [Buf; W],
        read: [Buf; R],
    ) -> ([&mut [f32]; W], [&[f32]; R]) {
        for (i, a) in write.iter().enumerate() {
            let others = write[i + 1..].iter().chain(&read);
            assert!(
                others.into_iter().all(|b| disjoint(*a, *b)),
                "an operation's output overlaps another operand"
            );
        }
        (
            // SAFETY: inside live blocks (`pointer`), borrowed from `self`, and disjoint from all others, as just checked.
            write.map(|b| unsafe { std::slice::from_raw_parts_mut(self.pointer(b), b.len) }),
            // SAFETY: as above; slices to read may overlap each other.
            read.map(|b| unsafe { std::slice::from_raw_parts(self.pointer(b), b.len) }),
        )
    }
}

fn no_memory(len: usize) -> EngineError {
    EngineError::Device(format!(
        "the system has no {:.1} GB of memory for the engine; lower the number of sequences, the tokens of a pack or the tokens of the KV cache, or take a smaller \
         model",
        len as f64 * 4e-9
    ))
}

fn disjoint(a: Buf, b: Buf) -> bool {
    a.block != b.block || a.offset + a.len <= b.offset || b.offset + b.len <= a.offset
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Arena;
    use crate::backend::Purpose::{Activations, Cache, Weights};

    #[test]
    #[should_panic(expected = "overlaps")]
    fn an_output_that_overlaps_an_input_is_rejected() {
        let mut arena = Arena::default();
        let buf = arena.allocate(Activations, 32).expect("32 elements");
        arena.slices([buf.at(0, 20)], [buf.at(16, 16)]);
    }

    #[test]
    fn buffers_begin_on_cache_lines_and_new_ones_contain_zeros() {
        let mut arena = Arena::default();
        for len in [0, 1, 17, 100_000] {
            for buf in [arena.allocate(Cache, len), arena.allocate(Weights, len)] {
                let buf = buf.expect("memory");
                assert_eq!(arena.pointer(buf).align_offset(64), 0);
                assert!(arena.slices([], [buf]).1[0].iter().all(|x| *x == 0.0));
            }
        }
    }

    proptest! {
        /// For allocations and releases in any order, buffers keep their content, and all blocks together have room for no more than was once in use.
        #[test]
        fn buffers_keep_their_content_and_the_memory_stays_below_its_peak(
            steps in proptest::collection::vec((prop_oneof![0_usize..3, 0_usize..20_000], 0..5, any::<prop::sample::Index>()), 1..60)
        ) {
            let mut arena = Arena::default();
            let mut live: Vec<(crate::backend::Buf, f32)> = Vec::new();
            let mut peak = 0;
            for (number, (len, choice, which)) in steps.into_iter().enumerate() {
                if choice < 2 && !live.is_empty() {
                    let (buf, _) = live.swap_remove(which.index(live.len()));
                    arena.release(buf);
                } else {
                    let zeroed = choice == 4;
                    let purpose = if zeroed { Weights } else { Cache };
                    let buf = arena.allocate(purpose, len).unwrap();
                    if zeroed {
                        prop_assert!(arena.slices([], [buf]).1[0].iter().all(|x| *x == 0.0));
                    }
                    arena.slices([buf], []).0[0].fill(number as f32);
                    live.push((buf, number as f32));
                }
                peak = peak.max(live.iter().map(|(buf, _)| buf.len()).sum());
                prop_assert!(arena.held() <= peak, "{} of {peak}", arena.held());
                for (buf, value) in &live {
                    prop_assert!(arena.slices([], [*buf]).1[0].iter().all(|x| x == value));
                }
            }
        }
    }

    #[test]
    fn an_absurd_size_is_an_error() {
        for len in [usize::MAX / 4, usize::MAX] {
            assert!(Arena::default().allocate(Activations, len).is_err());
        }
    }
}
