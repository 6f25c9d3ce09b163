//! Reads and writes a guest's linear memory at addresses from the guest. None of them is trusted.

use wasmtime::Caller;

use super::errno::{self, Errno};
use crate::protocol::Broken;
use crate::wasm::store_data::StoreData;

/// A guest's memory and its store's data, borrowed for one call.
pub(super) struct View<'a> {
    bytes: &'a mut [u8],
    pub(super) data: &'a mut StoreData,
}

impl<'a> View<'a> {
    /// # Errors
    /// A trap, if the module has not exported a memory.
    pub(super) fn of(caller: &'a mut Caller<'_, StoreData>) -> wasmtime::Result<View<'a>> {
        let memory = caller.data().memory;
        let memory = memory.ok_or(Broken::Protocol("a host call before the memory was known"))?;
        let (bytes, data) = memory.data_and_store_mut(caller);
        Ok(View { bytes, data })
    }

    pub(super) fn slice(&self, at: i32, length: i32) -> Result<&[u8], Errno> {
        let at = at as u32 as usize;
        self.bytes
            .get(at..at + length as u32 as usize)
            .ok_or(errno::FAULT)
    }

    /// The given bytes of the memory, and the store's data, as two separate borrows.
    pub(super) fn target(
        &mut self,
        at: i32,
        length: i32,
    ) -> Result<(&mut [u8], &mut StoreData), Errno> {
        let at = at as u32 as usize;
        let bytes = self.bytes.get_mut(at..at + length as u32 as usize);
        Ok((bytes.ok_or(errno::FAULT)?, self.data))
    }

    pub(super) fn write(&mut self, at: i32, bytes: &[u8]) -> Result<(), Errno> {
        let at = at as u32 as usize;
        let target = self.bytes.get_mut(at..at + bytes.len());
        target.ok_or(errno::FAULT)?.copy_from_slice(bytes);
        Ok(())
    }

    pub(super) fn write_u32(&mut self, at: i32, value: u32) -> Result<(), Errno> {
        self.write(at, &value.to_le_bytes())
    }

    pub(super) fn write_u64(&mut self, at: i32, value: u64) -> Result<(), Errno> {
        self.write(at, &value.to_le_bytes())
    }

    /// The buffer of the element `index` of an array of `iovec`s, and the store's data.
    pub(super) fn buffer(
        &mut self,
        array: i32,
        index: i32,
    ) -> Result<(&mut [u8], &mut StoreData), Errno> {
        let (at, length) = self.iovec(array, index)?;
        self.target(at, length)
    }

    /// The element `index` of an array of `iovec`s: address and length.
    pub(super) fn iovec(&self, array: i32, index: i32) -> Result<(i32, i32), Errno> {
        let entry = self.slice(array.wrapping_add(index.wrapping_mul(8)), 8)?;
        match entry.as_chunks() {
            ([at, length], []) => Ok((i32::from_le_bytes(*at), i32::from_le_bytes(*length))),
            _ => Err(errno::FAULT),
        }
    }
}
