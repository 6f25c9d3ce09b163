//! The arrangement of KV caches: all rows of the first head, then all of the next one. So a sequence's keys are read from contiguous memory, by whole pages.

#![allow(unsafe_code)]

use std::collections::BTreeSet;

use super::arena::Arena;
use super::attention::RawRows;
use crate::backend::{Buf, Purpose, Rows};

/// The blocks of KV caches.
#[derive(Default)]
pub(super) struct KvCaches(BTreeSet<u32>);

impl KvCaches {
    /// Registers a new block, if it is for a cache.
    pub(super) fn register(&mut self, block: Buf, purpose: Purpose) {
        if purpose == Purpose::Cache {
            self.0.insert(block.block);
        }
    }

    pub(super) fn release(&mut self, block: Buf) {
        self.0.remove(&block.block);
    }

    /// The first `count` rows of `heads` heads in this arrangement. The model has them as `rows`, with heads side by side. `None` if `rows` lie in no cache.
    pub(super) fn rows(
        &self,
        arena: &Arena,
        rows: Rows,
        count: usize,
        heads: usize,
        head_dim: usize,
    ) -> Option<RawRows> {
        let Rows { buf, stride } = rows;
        if !self.0.contains(&buf.block) {
            return None;
        }
        let column = buf.offset % stride;
        let all = (buf.len + column) / stride;
        let inside = count <= all && column + heads * head_dim <= stride;
        assert!(
            inside && column.is_multiple_of(head_dim),
            "a cache has these rows and heads"
        );
        // The heads before the first one take `column` of the `stride` parts of the memory.
        let from = Buf {
            offset: buf.offset - column + all * column,
            len: all * heads * head_dim,
            ..buf
        };
        Some(RawRows {
            start: arena.pointer(from),
            stride: head_dim,
            count,
            width: from.len + head_dim - all * head_dim,
            head: all * head_dim,
        })
    }
}

/// Copies the heads of the first rows of `from`, one for each of `rows`, to these rows of `to`.
pub(super) fn write(to: RawRows, from: RawRows, rows: &[usize], heads: usize, head_dim: usize) {
    let inside = rows.len() <= from.count && rows.iter().all(|row| *row < to.count);
    assert!(
        inside && from.disjoint(to),
        "rows lie in their buffers, which do not overlap"
    );
    for (i, row) in rows.iter().enumerate() {
        for head in 0..heads {
            // SAFETY: both have these rows and heads, as checked here and where they were made, and no element in common.
            unsafe {
                let x = from.start.add(i * from.stride + head * from.head);
                let y = to.start.add(row * to.stride + head * to.head);
                std::ptr::copy_nonoverlapping(x, y, head_dim);
            }
        }
    }
}
