//! Memory that exists only as addresses. Small allocations store what the host writes to them, since a batch's indices are there.

use std::collections::BTreeMap;

use super::super::driver::{Address, Fault};

/// Largest allocation with stored content, in bytes. Weights and activations are in larger ones; what is written to them is dropped.
const MAX_STORED: usize = 64 << 20;
/// Addresses begin at multiples of this, as on a GPU.
const ALIGN: u64 = 256;

#[derive(Debug)]
struct Allocation {
    bytes: usize,
    /// What was written from the host; empty until the first time.
    content: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct AddressSpace {
    allocations: BTreeMap<Address, Allocation>,
    next: Address,
    pub(super) total: u64,
    pub(super) used: u64,
    /// The most that was used at once.
    pub(super) peak: u64,
}

impl AddressSpace {
    pub(super) fn new(total: u64) -> Self {
        Self {
            next: ALIGN,
            total,
            ..Self::default()
        }
    }

    pub(super) fn allocate(&mut self, bytes: usize) -> Result<Address, Fault> {
        let requested = bytes as u64;
        if requested > self.total - self.used {
            return Err(Fault::Memory { requested });
        }
        let address = self.next;
        self.next = (address + requested.max(1)).next_multiple_of(ALIGN);
        self.used += requested;
        self.peak = self.peak.max(self.used);
        let content = Vec::new();
        let allocation = Allocation { bytes, content };
        self.allocations.insert(address, allocation);
        Ok(address)
    }

    pub(super) fn free(&mut self, address: Address) {
        if let Some(allocation) = self.allocations.remove(&address) {
            self.used -= allocation.bytes as u64;
        }
    }

    /// Stores bytes from the host, if they go to a small allocation. Bytes outside any allocation are an error of the backend.
    pub(super) fn write(&mut self, to: Address, bytes: &[u8]) -> Result<(), Fault> {
        let allocation = self.allocations.range_mut(..=to).next_back();
        let inside = allocation.and_then(|(start, allocation)| {
            let offset = (to - start) as usize;
            (offset + bytes.len() <= allocation.bytes).then_some((offset, allocation))
        });
        let Some((offset, allocation)) = inside else {
            return Err(Fault::Other(format!(
                "{} bytes were written to {to:#x}, which lie in no allocation",
                bytes.len()
            )));
        };
        if allocation.bytes <= MAX_STORED {
            allocation.content.resize(allocation.bytes, 0);
            allocation.content[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }

    /// `count` words that the host has written.
    pub(super) fn words(&self, at: Address, count: usize) -> Option<Vec<u32>> {
        let (start, allocation) = self.allocations.range(..=at).next_back()?;
        let offset = (at - start) as usize;
        let bytes = allocation.content.get(offset..offset + 4 * count)?;
        let words = bytes.as_chunks().0.iter();
        Some(words.map(|word| u32::from_le_bytes(*word)).collect())
    }
}
