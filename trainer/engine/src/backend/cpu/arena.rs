//! The arena's memory: aligned blocks, and the one function that turns handles into slices.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::backend::Buf;
use crate::error::EngineError;

/// Blocks begin on a cache line.
const ALIGN: usize = 64;

/// A zeroed, aligned allocation. The system provides its pages on first use: the memory is requested without our alignment, since the standard library would
/// write the zeros of aligned memory itself.
struct Block {
    allocation: NonNull<u8>,
    memory: NonNull<f32>,
    len: usize,
}

// SAFETY: a block owns its memory as a `Vec` does.
unsafe impl Send for Block {}

impl Block {
    /// Layout with room to align the elements to a cache line, wherever the allocation begins.
    fn layout(len: usize) -> Option<Layout> {
        let bytes = len.checked_mul(size_of::<f32>())?.checked_add(ALIGN)?;
        Layout::from_size_align(bytes, align_of::<f32>()).ok()
    }

    fn new(len: usize) -> Option<Self> {
        // SAFETY: the layout's size is not 0.
        let allocation = NonNull::new(unsafe { alloc_zeroed(Self::layout(len)?) })?;
        let before = allocation.as_ptr().align_offset(ALIGN);
        // SAFETY: the pointer moves by less than `ALIGN` bytes, and the allocation has `ALIGN` bytes more than the elements take.
        let memory = unsafe { allocation.add(before) }.cast();
        Some(Self {
            allocation,
            memory,
            len,
        })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.len) {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(self.allocation.as_ptr(), layout) }
        }
    }
}

/// All blocks of a backend.
#[derive(Default)]
pub(super) struct Arena {
    blocks: Vec<Option<Block>>,
}

impl Arena {
    /// Allocates a zeroed block.
    pub(super) fn allocate(&mut self, len: usize) -> Result<Buf, EngineError> {
        let block = Block::new(len).ok_or_else(|| {
            EngineError::Device(format!(
                "the system has no {:.1} GB of memory for the engine; lower the number of sequences, the tokens of a pack or the tokens of the KV cache, \
                 or take a smaller model",
                len as f64 * 4e-9
            ))
        })?;
        let slot = match self.blocks.iter().position(Option::is_none) {
            Some(free) => free,
            None => {
                self.blocks.push(None);
                self.blocks.len() - 1
            }
        };
        self.blocks[slot] = Some(block);
        Ok(Buf {
            block: slot as u32,
            offset: 0,
            len,
        })
    }

    /// Frees the block of a buffer.
    pub(super) fn release(&mut self, buf: Buf) {
        if let Some(slot) = self.blocks.get_mut(buf.block as usize) {
            *slot = None;
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
        // SAFETY: inside the allocation, as just checked.
        unsafe { block.memory.as_ptr().add(buf.offset) }
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

fn disjoint(a: Buf, b: Buf) -> bool {
    a.block != b.block || a.offset + a.len <= b.offset || b.offset + b.len <= a.offset
}

#[cfg(test)]
mod tests {
    use super::Arena;

    #[test]
    #[should_panic(expected = "overlaps")]
    fn an_output_that_overlaps_an_input_is_rejected() {
        let mut arena = Arena::default();
        let buf = arena.allocate(32).expect("32 elements");
        arena.slices([buf.at(0, 20)], [buf.at(16, 16)]);
    }

    #[test]
    fn buffers_begin_on_cache_lines_and_contain_zeros() {
        let mut arena = Arena::default();
        for len in [0, 1, 17, 100_000] {
            let buf = arena.allocate(len).expect("memory");
            assert_eq!(arena.pointer(buf).align_offset(super::ALIGN), 0);
            assert!(arena.slices([], [buf]).1[0].iter().all(|x| *x == 0.0));
        }
    }

    #[test]
    fn an_absurd_size_is_an_error() {
        assert!(Arena::default().allocate(usize::MAX / 4).is_err());
        assert!(Arena::default().allocate(usize::MAX).is_err());
    }
}
