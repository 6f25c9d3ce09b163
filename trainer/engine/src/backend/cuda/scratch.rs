//! Memory that lives for one operation, or until the next batch. It grows and is then retained.

use std::collections::BTreeMap;

use super::driver::{Address, Driver, Fault};

/// The use of a piece of memory. Detokenizer of different uses may be in use at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// The current batch.
    Batch,
    /// The table of segments.
    Segments,
    /// The current batch's tiles of keys.
    KeyTiles,
    /// A product's left operand in bf16.
    Left,
    /// A product's right operand in bf16.
    Right,
    /// Partial sums.
    Partial,
    /// Row sums of attention's backward pass.
    Delta,
    /// Rows, tokens and gradients that come from the host.
    Indices,
    /// The current draws.
    Draws,
    /// The tokens sampled for the current draws.
    Sampled,
}

/// Smallest allocation, in bytes.
const MIN_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct Scratch {
    pieces: BTreeMap<Use, (Address, usize)>,
}

impl Scratch {
    /// Memory of at least `bytes` bytes, and whether its address has changed.
    pub(super) fn get(
        &mut self,
        driver: &mut dyn Driver,
        usage: Use,
        bytes: usize,
    ) -> Result<(Address, bool), Fault> {
        if let Some((address, size)) = self.pieces.get(&usage) {
            if *size >= bytes {
                return Ok((*address, false));
            }
            driver.free(*address);
            self.pieces.remove(&usage);
        }
        let size = bytes.next_power_of_two().max(MIN_BYTES);
        let address = driver.allocate(size)?;
        self.pieces.insert(usage, (address, size));
        Ok((address, true))
    }
}
