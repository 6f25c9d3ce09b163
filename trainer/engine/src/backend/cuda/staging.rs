//! The way from the host to the device: through pinned memory, from which the device copies by itself.
//!
//! The driver would take a copy from any memory of the host's, but does not promise to be done with it when the call returns: where the device reaches the host's pages
//! itself, it may read them later. What is written here has left its place when [`Staging::write`] returns.

#![allow(unsafe_code)]

use std::ptr::{NonNull, null_mut};

use cudarc::driver::sys;

use super::driver::{Address, Fault};
use super::handles::{Stream, ask};

/// Bytes of a slot.
const SLOT: usize = 1 << 20;
/// Slots, which take turns; as many writes as there are do not wait.
const SLOTS: usize = 16;

/// Pinned memory, and for each slot an event that comes when the device has read it.
#[derive(Debug)]
pub(super) struct Staging {
    pinned: NonNull<u8>,
    read: Vec<sys::CUevent>,
    next: usize,
}

impl Staging {
    pub(super) fn new() -> Result<Self, Fault> {
        let mut pinned = null_mut();
        // SAFETY: a place for a pointer.
        ask("pin memory of the host's", unsafe {
            sys::cuMemHostAlloc(&raw mut pinned, SLOT * SLOTS, 0)
        })?;
        let pinned = NonNull::new(pinned.cast());
        let pinned = pinned.ok_or_else(|| Fault::Other("the driver pinned no memory".into()))?;
        let mut staging = Self {
            pinned,
            read: Vec::new(),
            next: 0,
        };
        for _ in 0..SLOTS {
            let mut event = null_mut();
            let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
            // SAFETY: a place for an event.
            ask("make an event", unsafe {
                sys::cuEventCreate(&raw mut event, flags)
            })?;
            staging.read.push(event);
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
            let event = self.read[self.next];
            // SAFETY: an event that lives; one that was never recorded has come.
            ask("read what was sent before", unsafe {
                sys::cuEventSynchronize(event)
            })?;
            // SAFETY: the slot lies in the pinned memory, the device has read it, and the chunk is no longer than it.
            let slot = unsafe {
                let slot = self.pinned.as_ptr().add(self.next * SLOT);
                std::ptr::copy_nonoverlapping(chunk.as_ptr(), slot, chunk.len());
                slot
            };
            // SAFETY: the slot stays as it is until the event has come; the caller says that the place is on the device.
            ask("take what was sent", unsafe {
                sys::cuMemcpyHtoDAsync_v2(at, slot.cast(), chunk.len(), stream.0)
            })?;
            // SAFETY: an event and a stream that live.
            ask("mark what was sent", unsafe {
                sys::cuEventRecord(event, stream.0)
            })?;
            self.next = (self.next + 1) % SLOTS;
            at += chunk.len() as u64;
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        for event in self.read.drain(..) {
            // SAFETY: created once, destroyed once.
            let _ = unsafe { sys::cuEventDestroy_v2(event) };
        }
        // SAFETY: allocated once, freed once; who drops this has waited for the stream.
        let _ = unsafe { sys::cuMemFreeHost(self.pinned.as_ptr().cast()) };
    }
}
