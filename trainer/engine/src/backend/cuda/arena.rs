//! The device's memory: permanent allocations, and slabs that are shared by the KV cache of generation and the activations of training.
//!
//! A slab is retained when all its allocations have been released, so that a change of phase allocates and frees nothing on the device.

use super::driver::{Address, Driver, Fault};
use crate::backend::{Buf, Dtype, MemoryMeter, Purpose, insert};

/// Alignment of allocations, in bytes.
const ALIGN: usize = 256;
/// Sizes of slabs are multiples of this many bytes.
const SLAB: usize = 2 << 20;

/// An allocation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) address: Address,
    pub(super) format: Dtype,
    /// Address of a copy of the numbers in bf16, for matrix products.
    pub(super) bf16_copy: Option<Address>,
    /// Bytes of that copy.
    copy_bytes: usize,
    in_slab: bool,
    bytes: usize,
}

/// One allocation of the device, divided into blocks.
#[derive(Debug)]
struct Slab {
    address: Address,
    bytes: usize,
    /// Offset and length of the free ranges, in order.
    free: Vec<(usize, usize)>,
}

impl Slab {
    /// The smallest free range of at least `bytes` bytes: its number and its length.
    fn hole(&self, bytes: usize) -> Option<(usize, usize)> {
        let holes = self.free.iter().map(|(_, len)| *len).enumerate();
        holes
            .filter(|(_, len)| *len >= bytes)
            .min_by_key(|(_, len)| *len)
    }

    fn take(&mut self, bytes: usize) -> Option<Address> {
        let (hole, _) = self.hole(bytes)?;
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
        // Adjacent free ranges are merged.
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
    /// Counts blocks, not slabs, which are retained.
    meter: MemoryMeter,
}

impl Arena {
    pub(super) fn new(meter: MemoryMeter) -> Self {
        Self {
            meter,
            ..Self::default()
        }
    }

    /// A zeroed buffer in a format, with a copy in bf16 if `bf16_copy`.
    pub(super) fn allocate(
        &mut self,
        driver: &mut dyn Driver,
        purpose: Purpose,
        len: usize,
        format: Dtype,
        bf16_copy: bool,
    ) -> Result<Buf, Fault> {
        let bytes_of = |format: Dtype| {
            let bytes = len.checked_mul(format.bytes());
            bytes.and_then(|bytes| bytes.max(1).checked_next_multiple_of(ALIGN))
        };
        let too_large = || Fault::Memory {
            requested: u64::MAX,
        };
        let bytes = bytes_of(format).ok_or_else(too_large)?;
        let in_slab = !matches!(purpose, Purpose::Weights | Purpose::Optimiser);
        let address = if in_slab {
            self.allocate_in_slab(driver, bytes)?
        } else {
            driver.allocate(bytes)?
        };
        let mut block = Block {
            address,
            format,
            bf16_copy: None,
            copy_bytes: 0,
            in_slab,
            bytes,
        };
        self.meter.add(bytes);
        let zeroed = driver.zero(address, bytes).and_then(|()| {
            if bf16_copy {
                let bytes = bytes_of(Dtype::Bf16).ok_or_else(too_large)?;
                let copy = driver.allocate(bytes)?;
                (block.bf16_copy, block.copy_bytes) = (Some(copy), bytes);
                self.meter.add(bytes);
                driver.zero(copy, bytes)?;
            }
            Ok(())
        });
        let slot = insert(&mut self.blocks, block);
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

    fn allocate_in_slab(
        &mut self,
        driver: &mut dyn Driver,
        bytes: usize,
    ) -> Result<Address, Fault> {
        // The smallest slab that suffices, so that a large one stays whole for a large buffer of the next phase.
        let fitting = self.slabs.iter_mut().filter(|s| s.hole(bytes).is_some());
        let best = fitting.min_by_key(|slab| slab.hole(bytes).map(|(_, len)| len));
        if let Some(address) = best.and_then(|slab| slab.take(bytes)) {
            return Ok(address);
        }
        // Unused slabs are freed to make room for a new one.
        self.slabs.retain(|slab| {
            if slab.is_free() {
                driver.free(slab.address);
            }
            !slab.is_free()
        });
        let slab_bytes = bytes.next_multiple_of(SLAB);
        let mut slab = Slab {
            address: driver.allocate(slab_bytes)?,
            bytes: slab_bytes,
            free: vec![(0, slab_bytes)],
        };
        let address = slab.take(bytes);
        self.slabs.push(slab);
        address.ok_or(Fault::Memory {
            requested: bytes as u64,
        })
    }

    pub(super) fn release(&mut self, driver: &mut dyn Driver, buf: Buf) {
        let Some(block) = self.blocks[buf.block as usize].take() else {
            return;
        };
        self.meter.subtract(block.bytes + block.copy_bytes);
        if let Some(bf16_copy) = block.bf16_copy {
            driver.free(bf16_copy);
        }
        if !block.in_slab {
            driver.free(block.address);
        } else if let Some(slab) = self.slabs.iter_mut().find(|s| s.holds(block.address)) {
            slab.give(block.address, block.bytes);
        }
    }

    /// The allocation that contains a buffer.
    pub(super) fn block(&self, buf: Buf) -> &Block {
        self.blocks[buf.block as usize]
            .as_ref()
            .expect("a buffer is used while it is allocated")
    }

    /// Address of a buffer's first element.
    pub(super) fn address(&self, buf: Buf) -> Address {
        let block = self.block(buf);
        block.address + (buf.offset * block.format.bytes()) as u64
    }

    pub(super) fn format(&self, buf: Buf) -> Dtype {
        self.block(buf).format
    }

    /// Address of a buffer's elements in the bf16 copy, if there is one.
    pub(super) fn bf16_copy(&self, buf: Buf) -> Option<Address> {
        let bf16_copy = self.block(buf).bf16_copy?;
        Some(bf16_copy + (buf.offset * Dtype::Bf16.bytes()) as u64)
    }
}
