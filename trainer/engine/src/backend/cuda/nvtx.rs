//! Named time ranges for NVIDIA's profilers (NVTX). A library passes them to the profiler under which the process runs.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};

use super::libraries;

/// The environment variable by which a profiler names this library.
const PROFILER: &str = "NVTX_INJECTION64_PATH";

/// NVTX's functions for nested ranges, which are separate for each thread.
#[derive(Debug, Clone, Copy)]
pub struct Ranges {
    push: unsafe extern "C" fn(*const c_char) -> c_int,
    pop: unsafe extern "C" fn() -> c_int,
}

impl Ranges {
    /// Opens NVTX; `None` if the process does not run under a profiler.
    ///
    /// # Errors
    /// If there is a profiler but no NVTX library. The message contains the remedy.
    pub fn open() -> Result<Option<Self>, String> {
        if std::env::var_os(PROFILER).is_none_or(|path| path.is_empty()) {
            return Ok(None);
        }
        let library = libraries::nvtx()?;
        // SAFETY: the functions of these names have these types in every version of NVTX, and the library stays open.
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

    /// Begins a range inside this thread's open ranges.
    pub fn push(&self, name: &CStr) {
        // SAFETY: a string, which NVTX copies.
        let _ = unsafe { (self.push)(name.as_ptr()) };
    }

    /// Ends the range that this thread began last.
    pub fn pop(&self) {
        // SAFETY: without an open range it only returns an error.
        let _ = unsafe { (self.pop)() };
    }
}
