//! Copies from the host to the device through pinned memory, which the device reads asynchronously.
//!
//! The driver would accept a copy from any host memory, but may still read it after the call: a device that accesses the host's pages directly may do so. When
//! [`Staging::write`] returns, its bytes have been copied.

#![allow(unsafe_code)]

use std::ffi::c_void;

use cudarc::driver::DriverError;
use cudarc::driver::result::{event, free_host, malloc_host};
use cudarc::driver::sys;

use super::driver::{Address, Fault};
use super::handles::{Owned, Stream, check_call};

/// Bytes of a slot.
const SLOT: usize = 1 << 20;
/// Number of slots, which are used in turn. This many writes do not wait.
const SLOTS: usize = 16;

/// Pinned memory, and for each slot an event that completes when the device has read it. The owner waits for the stream before it drops this.
#[derive(Debug)]
pub(super) struct Staging {
    read: Vec<Owned<sys::CUevent, DriverError>>,
    pinned: Owned<*mut c_void, DriverError>,
    next: usize,
}

impl Staging {
    pub(super) fn new() -> Result<Self, Fault> {
        // SAFETY: nothing reads the memory before it has been written.
        let pinned = check_call("pin memory of the host's", unsafe {
            malloc_host(SLOT * SLOTS, 0)
        })?;
        let mut staging = Self {
            read: Vec::new(),
            pinned: Owned::of(pinned, free_host),
            next: 0,
        };
        for _ in 0..SLOTS {
            let event = event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
            let event = check_call("make an event", event)?;
            staging.read.push(Owned::of(event, event::destroy));
        }
        Ok(staging)
    }

    /// Copies to the device, in the stream's order.
    pub(super) fn write(
        &mut self,
        stream: &Stream,
        to: Address,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        let mut at = to;
        for chunk in bytes.chunks(SLOT) {
            let read = self.read[self.next].raw;
            // SAFETY: the event is alive; an event that was never recorded counts as completed.
            check_call("read the previous copy", unsafe {
                event::synchronize(read)
            })?;
            // SAFETY: the slot lies in the pinned memory, the device has read it, and the chunk is no longer than the slot.
            let slot = unsafe {
                let slot = self.pinned.raw.cast::<u8>().add(self.next * SLOT);
                std::ptr::copy_nonoverlapping(chunk.as_ptr(), slot, chunk.len());
                slot
            };
            // SAFETY: the slot does not change until the event completes, and the caller promises that the address is on the device.
            check_call("copy data from the host", unsafe {
                sys::cuMemcpyHtoDAsync_v2(at, slot.cast(), chunk.len(), stream.raw).result()
            })?;
            // SAFETY: the event and the stream are alive.
            check_call("record an event", unsafe {
                event::record(read, stream.raw)
            })?;
            self.next = (self.next + 1) % SLOTS;
            at += chunk.len() as u64;
        }
        Ok(())
    }
}
