//! Memory that lives for one operation, or until the next batch; it grows and is kept.

use std::collections::BTreeMap;

use super::driver::{Address, Driver, Fault};

/// What a piece of memory is for; pieces with different uses may be in use at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// The current batch.
    Batch,
    /// Its tiles of keys.
    KeyTiles,
    /// A product's left operand in bf16.
    Left,
    /// Its right operand.
    Right,
    /// Partial sums.
    Partial,
    /// Row sums of attention's backward pass.
    Delta,
    /// Rows, tokens and gradients that come from the host.
    Indices,
    /// The current draws.
    Draws,
    /// What they drew.
    Drawn,
}

/// The least that is allocated.
const LEAST: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct Scratch {
    pieces: BTreeMap<Use, (Address, usize)>,
}

impl Scratch {
    /// Memory of at least so many bytes, and whether it lies elsewhere than before.
    pub(super) fn get(
        &mut self,
        driver: &mut dyn Driver,
        of: Use,
        bytes: usize,
    ) -> Result<(Address, bool), Fault> {
        if let Some((address, size)) = self.pieces.get(&of) {
            if *size >= bytes {
                return Ok((*address, false));
            }
            driver.free(*address);
            self.pieces.remove(&of);
        }
        let size = bytes.next_power_of_two().max(LEAST);
        let address = driver.allocate(size)?;
        self.pieces.insert(of, (address, size));
        Ok((address, true))
    }
}
