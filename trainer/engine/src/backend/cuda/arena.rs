//! The device's memory: what stays, and a part in which the keys of generated sequences and the activations of training take turns.
//!
//! What takes turns is cut from slabs that are kept when everything in them was given back, so that a change of phase asks nothing of the device.

use super::driver::{Address, Driver, Fault, Format};
use crate::backend::{Buf, Purpose};

/// Allocations begin at multiples of this.
const ALIGN: usize = 256;
/// Slabs are multiples of this.
const SLAB: usize = 2 << 20;

/// An allocation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) address: Address,
    pub(super) format: Format,
    /// Where the numbers are once more in bf16, for matrix products.
    pub(super) low: Option<Address>,
    /// Whether it is of a slab.
    turns: bool,
    bytes: usize,
}

/// Memory that was asked of the device as one piece.
#[derive(Debug)]
struct Slab {
    address: Address,
    bytes: usize,
    /// Offset and length of what is free, in order.
    free: Vec<(usize, usize)>,
}

impl Slab {
    fn take(&mut self, bytes: usize) -> Option<Address> {
        let hole = self.free.iter().position(|(_, len)| *len >= bytes)?;
        let (offset, len) = self.free[hole];
        if len == bytes {
            self.free.remove(hole);
        } else {
            self.free[hole] = (offset + bytes, len - bytes);
        }
        Some(self.address + offset as u64)
    }

    fn give(&mut self, address: Address, bytes: usize) {
        let offset = (address - self.address) as usize;
        let at = self.free.partition_point(|(start, _)| *start < offset);
        self.free.insert(at, (offset, bytes));
        // Holes that touch become one.
        if at + 1 < self.free.len() && offset + bytes == self.free[at + 1].0 {
            self.free[at].1 += self.free.remove(at + 1).1;
        }
        if at > 0 && self.free[at - 1].0 + self.free[at - 1].1 == offset {
            self.free[at - 1].1 += self.free.remove(at).1;
        }
    }

    fn is_free(&self) -> bool {
        self.free == [(0, self.bytes)]
    }

    fn holds(&self, address: Address) -> bool {
        (self.address..self.address + self.bytes as u64).contains(&address)
    }
}

/// All buffers of a backend.
#[derive(Debug, Default)]
pub(super) struct Arena {
    blocks: Vec<Option<Block>>,
    slabs: Vec<Slab>,
}

impl Arena {
    /// A zeroed buffer of a format; with a copy in bf16 beside it if `low`.
    pub(super) fn allocate(
        &mut self,
        driver: &mut dyn Driver,
        purpose: Purpose,
        len: usize,
        format: Format,
        low: bool,
    ) -> Result<Buf, Fault> {
        let bytes_of = |format: Format| {
            let bytes = len.checked_mul(format.bytes());
            bytes.and_then(|bytes| bytes.max(1).checked_next_multiple_of(ALIGN))
        };
        let too_large = || Fault::Memory { asked: u64::MAX };
        let bytes = bytes_of(format).ok_or_else(too_large)?;
        let turns = !matches!(purpose, Purpose::Weights | Purpose::Optimiser);
        let address = if turns {
            self.turn(driver, bytes)?
        } else {
            driver.allocate(bytes)?
        };
        let mut block = Block {
            address,
            format,
            low: None,
            turns,
            bytes,
        };
        let zeroed = driver.zero(address, bytes).and_then(|()| {
            if low {
                let bytes = bytes_of(Format::Bf16).ok_or_else(too_large)?;
                let copy = driver.allocate(bytes)?;
                block.low = Some(copy);
                driver.zero(copy, bytes)?;
            }
            Ok(())
        });
        let slot = match self.blocks.iter().position(Option::is_none) {
            Some(free) => free,
            None => {
                self.blocks.push(None);
                self.blocks.len() - 1
            }
        };
        self.blocks[slot] = Some(block);
        let buf = Buf {
            block: slot as u32,
            offset: 0,
            len,
        };
        match zeroed {
            Ok(()) => Ok(buf),
            Err(fault) => {
                self.release(driver, buf);
                Err(fault)
            }
        }
    }

    /// Memory of a slab.
    fn turn(&mut self, driver: &mut dyn Driver, bytes: usize) -> Result<Address, Fault> {
        if let Some(address) = self.slabs.iter_mut().find_map(|slab| slab.take(bytes)) {
            return Ok(address);
        }
        // What is not in use makes room for what does not fit into it.
        self.slabs.retain(|slab| {
            if slab.is_free() {
                driver.free(slab.address);
            }
            !slab.is_free()
        });
        let whole = bytes.next_multiple_of(SLAB);
        let mut slab = Slab {
            address: driver.allocate(whole)?,
            bytes: whole,
            free: vec![(0, whole)],
        };
        let address = slab.take(bytes);
        self.slabs.push(slab);
        address.ok_or(Fault::Memory {
            asked: bytes as u64,
        })
    }

    /// Gives an allocation back.
    pub(super) fn release(&mut self, driver: &mut dyn Driver, buf: Buf) {
        let Some(block) = self.blocks[buf.block as usize].take() else {
            return;
        };
        if let Some(low) = block.low {
            driver.free(low);
        }
        if !block.turns {
            driver.free(block.address);
        } else if let Some(slab) = self.slabs.iter_mut().find(|s| s.holds(block.address)) {
            slab.give(block.address, block.bytes);
        }
    }

    /// The allocation that a buffer is of.
    pub(super) fn block(&self, buf: Buf) -> &Block {
        self.blocks[buf.block as usize]
            .as_ref()
            .expect("a buffer is used while it is allocated")
    }

    /// Where a buffer begins.
    pub(super) fn address(&self, buf: Buf) -> Address {
        let block = self.block(buf);
        block.address + (buf.offset * block.format.bytes()) as u64
    }

    /// How a buffer's numbers are stored.
    pub(super) fn format(&self, buf: Buf) -> Format {
        self.block(buf).format
    }

    /// Where a buffer's numbers are once more in bf16.
    pub(super) fn low(&self, buf: Buf) -> Option<Address> {
        let low = self.block(buf).low?;
        Some(low + (buf.offset * Format::Bf16.bytes()) as u64)
    }
}
