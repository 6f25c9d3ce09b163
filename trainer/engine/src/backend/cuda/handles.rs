//! Owners of the driver's objects, each released when it is dropped, and conversion of the driver's errors to messages.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};

use cudarc::driver::sys;
use sys::CUresult;

use super::driver::Fault;

/// Errors after which the device is lost: everything that is requested of it afterwards fails in the same way.
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

/// Turns an error of the driver into a message. `what` completes "the GPU did not".
pub(super) fn check_call(what: &str, result: CUresult) -> Result<(), Fault> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let reason = words(result);
    Err(Fault::Other(if LOST.contains(&result) {
        format!(
            "the GPU has failed ({reason}), which was detected when it was to {what}; the content of its memory is lost. Resume the run from its last checkpoint; \
             if it happens again, `nvidia-smi` and the system's log may show the reason"
        )
    } else if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        format!(
            "the GPU has no memory left to {what}; lower the number of sequences, the tokens of a pack or the tokens of the KV cache, or end other processes on the GPU"
        )
    } else {
        format!("the GPU did not {what}: {reason}")
    }))
}

/// Like [`check_call`], for an allocation.
pub(super) fn check_allocation(requested: usize, result: CUresult) -> Result<(), Fault> {
    if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        return Err(Fault::Memory {
            requested: requested as u64,
        });
    }
    check_call("allocate memory", result)
}

/// The driver's description of a result, with its name.
pub(super) fn words(result: CUresult) -> String {
    let mut text = null();
    // SAFETY: the string pointer is writable, and the driver's string lives for ever; an unknown result leaves it null.
    let status = unsafe { sys::cuGetErrorString(result, &raw mut text) };
    if status != CUresult::CUDA_SUCCESS || text.is_null() {
        return format!("{result:?}");
    }
    // SAFETY: the driver's string is valid.
    let text = unsafe { CStr::from_ptr(text) };
    format!("{}, {result:?}", text.to_string_lossy())
}

/// The device's primary context.
#[derive(Debug)]
pub(super) struct Context(sys::CUcontext);

impl Context {
    /// Retains the context until the process ends, since cuBLASLt keeps state in it beyond its handles, and makes it the current one of this thread.
    pub(super) fn new(device: sys::CUdevice) -> Result<Self, Fault> {
        let mut raw = null_mut();
        // SAFETY: the device is the driver's, and the context is writable.
        check_call("open a context", unsafe {
            sys::cuDevicePrimaryCtxRetain(&raw mut raw, device)
        })?;
        let context = Self(raw);
        context.bind()?;
        Ok(context)
    }

    /// Makes it the current context of the calling thread.
    pub(super) fn bind(&self) -> Result<(), Fault> {
        // SAFETY: the context is retained.
        check_call("use its context", unsafe { sys::cuCtxSetCurrent(self.0) })
    }
}

/// A queue of work, which is done in order.
#[derive(Debug)]
pub(super) struct Stream(pub(super) sys::CUstream);

impl Stream {
    pub(super) fn new() -> Result<Self, Fault> {
        let mut raw = null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the stream is writable.
        check_call("open a stream", unsafe {
            sys::cuStreamCreate(&raw mut raw, flags)
        })?;
        Ok(Self(raw))
    }

    /// Waits until all work is done.
    pub(super) fn wait(&self) -> Result<(), Fault> {
        // SAFETY: the stream is alive.
        check_call("finish its work", unsafe {
            sys::cuStreamSynchronize(self.0)
        })
    }

    /// Whether all work is done, or none is done any more because of a failure, which [`Stream::wait`] reports.
    pub(super) fn idle(&self) -> bool {
        // SAFETY: the stream is alive.
        let state = unsafe { sys::cuStreamQuery(self.0) };
        state != CUresult::CUDA_ERROR_NOT_READY
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
    /// Loads a cubin, or PTX with a terminating zero.
    pub(super) fn new(image: &[u8]) -> Result<Self, Fault> {
        let mut raw = null_mut();
        // SAFETY: the module is writable, and an image contains its own length.
        check_call("load the kernels", unsafe {
            sys::cuModuleLoadData(&raw mut raw, image.as_ptr().cast())
        })?;
        Ok(Self(raw))
    }

    /// A kernel by its compiled name.
    pub(super) fn function(&self, name: &str) -> Result<sys::CUfunction, Fault> {
        let mut raw = null_mut();
        let name = CString::new(name).map_err(|error| Fault::Other(error.to_string()))?;
        // SAFETY: the function is writable, the module is alive, and the string is valid.
        check_call("find a kernel", unsafe {
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
    /// Prepares what a stream recorded; consumes the record.
    pub(super) fn new(recorded: sys::CUgraph) -> Result<Self, Fault> {
        let mut raw = null_mut();
        // SAFETY: the result is writable, and the graph is alive.
        let status = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut raw, recorded, 0) };
        // SAFETY: the caller handed the graph over, and it is not used again.
        let _ = unsafe { sys::cuGraphDestroy(recorded) };
        check_call("prepare a recording", status)?;
        Ok(Self(raw))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::cuGraphExecDestroy(self.0) };
    }
}

/// Memory of the device.
#[derive(Debug)]
pub(super) struct Memory(pub(super) sys::CUdeviceptr);

impl Memory {
    pub(super) fn new(bytes: usize) -> Result<Self, Fault> {
        let mut raw = 0;
        // SAFETY: the address is writable.
        check_allocation(bytes, unsafe {
            sys::cuMemAlloc_v2(&raw mut raw, bytes.max(1))
        })?;
        Ok(Self(raw))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated once, freed once; the driver waits for work that uses it.
        let _ = unsafe { sys::cuMemFree_v2(self.0) };
    }
}
