//! What the driver gives out and takes back, each dropped in its turn, and the driver's errors in words.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};

use cudarc::driver::sys;
use sys::CUresult;

use super::driver::Fault;

/// The device is lost: whatever is asked of it afterwards fails likewise.
const LOST: &[CUresult] = &[
    CUresult::CUDA_ERROR_ASSERT,
    CUresult::CUDA_ERROR_CONTAINED,
    CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
    CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
    CUresult::CUDA_ERROR_EXTERNAL_DEVICE,
    CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
    CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE,
    CUresult::CUDA_ERROR_INVALID_PC,
    CUresult::CUDA_ERROR_LAUNCH_FAILED,
    CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
    CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
    CUresult::CUDA_ERROR_MPS_CLIENT_TERMINATED,
    CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUresult::CUDA_ERROR_UNKNOWN,
];

/// An error of the driver in words. `what` completes "The GPU did not".
pub(super) fn ask(what: &str, result: CUresult) -> Result<(), Fault> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let reason = words(result);
    Err(Fault::Other(if LOST.contains(&result) {
        format!(
            "the GPU has failed ({reason}), as was seen when it was to {what}; what it held is lost. A run can be taken up again from its last checkpoint; \
             where it happens again, `nvidia-smi` and the system's log may say why"
        )
    } else if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        format!(
            "the GPU has no memory left to {what}; lower the number of sequences, the tokens of a pack or the tokens of the key/value cache, or end what else uses the GPU"
        )
    } else {
        format!("the GPU did not {what}: {reason}")
    }))
}

/// As [`ask`], of memory.
pub(super) fn ask_memory(asked: usize, result: CUresult) -> Result<(), Fault> {
    if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        return Err(Fault::Memory {
            asked: asked as u64,
        });
    }
    ask("give memory", result)
}

/// What the driver says of a result, with its name.
pub(super) fn words(result: CUresult) -> String {
    let mut text = null();
    // SAFETY: a place for a string, which the driver keeps for ever; an unknown result leaves it null.
    let told = unsafe { sys::cuGetErrorString(result, &raw mut text) };
    if told != CUresult::CUDA_SUCCESS || text.is_null() {
        return format!("{result:?}");
    }
    // SAFETY: a string of the driver's.
    let text = unsafe { CStr::from_ptr(text) };
    format!("{}, {result:?}", text.to_string_lossy())
}

/// The device's primary context, kept alive.
#[derive(Debug)]
pub(super) struct Context {
    device: sys::CUdevice,
    raw: sys::CUcontext,
}

impl Context {
    /// Retains it, and makes it this thread's.
    pub(super) fn new(device: sys::CUdevice) -> Result<Self, Fault> {
        let mut raw = null_mut();
        // SAFETY: a device of the driver's, and a place for its context.
        ask("open a context", unsafe {
            sys::cuDevicePrimaryCtxRetain(&raw mut raw, device)
        })?;
        let context = Self { device, raw };
        context.bind()?;
        Ok(context)
    }

    /// Makes it the calling thread's.
    pub(super) fn bind(&self) -> Result<(), Fault> {
        // SAFETY: a context that is retained.
        ask("take up its context", unsafe {
            sys::cuCtxSetCurrent(self.raw)
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once, released once; what was made in it is gone.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// Does things in the order in which they are asked for.
#[derive(Debug)]
pub(super) struct Stream(pub(super) sys::CUstream);

impl Stream {
    pub(super) fn new() -> Result<Self, Fault> {
        let mut raw = null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a place for a stream.
        ask("open a stream", unsafe {
            sys::cuStreamCreate(&raw mut raw, flags)
        })?;
        Ok(Self(raw))
    }

    /// Waits until all is done.
    pub(super) fn wait(&self) -> Result<(), Fault> {
        // SAFETY: a stream that lives.
        ask("finish its work", unsafe {
            sys::cuStreamSynchronize(self.0)
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::cuStreamDestroy_v2(self.0) };
    }
}

/// Loaded kernels.
#[derive(Debug)]
pub(super) struct Module(sys::CUmodule);

impl Module {
    /// Of a cubin, or of PTX with a zero at its end.
    pub(super) fn new(image: &[u8]) -> Result<Self, Fault> {
        let mut raw = null_mut();
        // SAFETY: a place for a module, and an image that tells its own length.
        ask("load the kernels", unsafe {
            sys::cuModuleLoadData(&raw mut raw, image.as_ptr().cast())
        })?;
        Ok(Self(raw))
    }

    /// A kernel by the compiler's name for it.
    pub(super) fn function(&self, name: &str) -> Result<sys::CUfunction, Fault> {
        let mut raw = null_mut();
        let name = CString::new(name).map_err(|error| Fault::Other(error.to_string()))?;
        // SAFETY: a place for a function, a module that lives, and a string.
        ask("find a kernel", unsafe {
            sys::cuModuleGetFunction(&raw mut raw, self.0, name.as_ptr())
        })?;
        Ok(raw)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded once, unloaded once.
        let _ = unsafe { sys::cuModuleUnload(self.0) };
    }
}

/// A recording that can be replayed.
#[derive(Debug)]
pub(super) struct Graph(pub(super) sys::CUgraphExec);

impl Graph {
    /// Of what a stream recorded; takes the record.
    pub(super) fn new(recorded: sys::CUgraph) -> Result<Self, Fault> {
        let mut raw = null_mut();
        // SAFETY: a place for it, and a graph that lives.
        let made = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut raw, recorded, 0) };
        // SAFETY: the graph was handed over, and is not needed any more.
        let _ = unsafe { sys::cuGraphDestroy(recorded) };
        ask("make a recording ready", made)?;
        Ok(Self(raw))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once.
        let _ = unsafe { sys::cuGraphExecDestroy(self.0) };
    }
}

/// Memory of the device.
#[derive(Debug)]
pub(super) struct Memory(pub(super) sys::CUdeviceptr);

impl Memory {
    pub(super) fn new(bytes: usize) -> Result<Self, Fault> {
        let mut raw = 0;
        // SAFETY: a place for an address.
        ask_memory(bytes, unsafe {
            sys::cuMemAlloc_v2(&raw mut raw, bytes.max(1))
        })?;
        Ok(Self(raw))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated once, freed once; the driver waits for what uses it.
        let _ = unsafe { sys::cuMemFree_v2(self.0) };
    }
}
