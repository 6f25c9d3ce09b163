//! The host's data of a guest: everything outside its memory that the guest can see.

use std::io::Cursor;
use std::sync::Arc;

use wasmtime::{Memory, ResourceLimiter};

use super::fuel::Tank;
use super::host_call::HostCall;
use super::termination::Termination;
use super::wasi::{Clock, Files, Output, random};
use crate::{Abandoned, Limits};

/// The data of a guest's store.
pub(super) struct StoreData {
    pub(super) files: Files,
    pub(super) clock: Clock,
    pub(super) random: blake3::OutputReader,
    pub(super) stdin: Cursor<Vec<u8>>,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
    pub(super) host_call: HostCall,
    pub(super) memory_limiter: MemoryLimiter,
    pub(super) abandoned: Option<Abandoned>,
    /// The guest's fuel; `None` before it is instantiated, and while the interpreter is warmed without metering.
    pub(super) tank: Option<Tank>,
    /// The guest's linear memory; `None` before it is instantiated.
    pub(super) memory: Option<Memory>,
}

impl StoreData {
    /// The data of a new store. Guests differ only in the library's zip, the limits and who answers their requests.
    pub(super) fn new(library: Arc<[u8]>, limits: &Limits, host_call: HostCall) -> StoreData {
        StoreData {
            abandoned: None,
            files: Files::new(library),
            clock: Clock::new(),
            random: random(),
            stdin: Cursor::default(),
            stdout: Output::new(limits.output),
            stderr: Output::new(limits.output),
            host_call,
            memory_limiter: MemoryLimiter(limits.memory),
            tank: None,
            memory: None,
        }
    }
}

/// The memory limit, in bytes. A guest that requests more is stopped at once. If Python could catch a `MemoryError` instead, the outcome would depend on how near to
/// the limit each allocation is.
pub(super) struct MemoryLimiter(u64);

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired as u64 > self.0 || maximum.is_some_and(|maximum| desired > maximum) {
            return Err(Termination::Memory.into());
        }
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= 1 << 20)
    }
}
