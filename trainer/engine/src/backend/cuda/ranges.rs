//! Named ranges of time for NVIDIA's profilers (NVTX), through the library that hands them to whichever profiler the process runs under.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};

use super::libraries;

/// By which a profiler says where it takes ranges.
const PROFILER: &str = "NVTX_INJECTION64_PATH";

/// NVTX's functions for ranges that lie in one another, thread by thread.
#[derive(Debug, Clone, Copy)]
pub struct Ranges {
    push: unsafe extern "C" fn(*const c_char) -> c_int,
    pop: unsafe extern "C" fn() -> c_int,
}

impl Ranges {
    /// What the profiler is told through; `None` where the process runs under none.
    ///
    /// # Errors
    /// Where there is a profiler and no library of NVTX, with the remedy.
    pub fn open() -> Result<Option<Self>, String> {
        if std::env::var_os(PROFILER).is_none_or(|path| path.is_empty()) {
            return Ok(None);
        }
        let library = libraries::nvtx()?;
        // SAFETY: the functions of these names are of these types in every version of NVTX, and the library stays open.
        let (push, pop) = unsafe {
            (
                library.get(b"nvtxRangePushA").map(|push| *push),
                library.get(b"nvtxRangePop").map(|pop| *pop),
            )
        };
        match (push, pop) {
            (Ok(push), Ok(pop)) => Ok(Some(Self { push, pop })),
            (Err(error), _) | (_, Err(error)) => Err(format!("NVTX cannot be used: {error}")),
        }
    }

    /// Begins a range inside those that this thread has begun.
    pub fn push(&self, name: &CStr) {
        // SAFETY: a string, which NVTX copies.
        let _ = unsafe { (self.push)(name.as_ptr()) };
    }

    /// Ends the range that this thread has begun last.
    pub fn pop(&self) {
        // SAFETY: without a range it only says so.
        let _ = unsafe { (self.pop)() };
    }
}
