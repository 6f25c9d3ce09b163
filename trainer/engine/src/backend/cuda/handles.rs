//! Owners of the driver's objects, each released when it is dropped, and conversion of the driver's errors to messages.

#![allow(unsafe_code)]

use std::ffi::CString;

use cudarc::driver::DriverError;
use cudarc::driver::result::{ctx, free_sync, graph, malloc_sync, module, primary_ctx, stream};
use cudarc::driver::sys::{self, CUresult};

use super::driver::Fault;

/// Errors after which the device is lost: all later calls fail in the same way.
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
pub(super) fn check_call<T>(what: &str, result: Result<T, DriverError>) -> Result<T, Fault> {
    result.map_err(|error| {
        let reason = describe(error);
        Fault::Other(if LOST.contains(&error.0) {
            format!(
                "the GPU has failed ({reason}), which was detected when it was to {what}; the content of its memory is lost. Resume the run from its last checkpoint; \
                 if it happens again, `nvidia-smi` and the system's log may show the reason"
            )
        } else if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            format!(
                "the GPU has no memory left to {what}; lower the number of sequences, the tokens of a pack or the tokens of the KV cache, or end other processes on the GPU"
            )
        } else {
            format!("the GPU did not {what}: {reason}")
        })
    })
}

/// The driver's description of an error, with its name.
pub(super) fn describe(error: DriverError) -> String {
    match error.error_string() {
        Ok(text) => format!("{}, {:?}", text.to_string_lossy(), error.0),
        Err(_) => format!("{:?}", error.0),
    }
}

/// An object of one of NVIDIA's libraries, which is destroyed when it is dropped.
#[derive(Debug)]
pub(super) struct Owned<T: Copy, E> {
    pub(super) raw: T,
    destroy: unsafe fn(T) -> Result<(), E>,
}

impl<T: Copy, E> Owned<T, E> {
    /// Owns an object that has just been created. `destroy` is the function that destroys such objects.
    pub(super) fn of(raw: T, destroy: unsafe fn(T) -> Result<(), E>) -> Self {
        Self { raw, destroy }
    }
}

impl<T: Copy, E> Drop for Owned<T, E> {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once, by the function for such objects.
        let _ = unsafe { (self.destroy)(self.raw) };
    }
}

/// The device's primary context.
#[derive(Debug)]
pub(super) struct Context(sys::CUcontext);

impl Context {
    /// Retains the context and makes it current for this thread. It is retained until the process ends, since cuBLASLt keeps state in it beyond its handles.
    pub(super) fn new(device: sys::CUdevice) -> Result<Self, Fault> {
        // SAFETY: the device is the driver's.
        let raw = check_call("open a context", unsafe { primary_ctx::retain(device) })?;
        let context = Self(raw);
        context.bind()?;
        Ok(context)
    }

    /// Makes it the current context of the calling thread.
    pub(super) fn bind(&self) -> Result<(), Fault> {
        // SAFETY: the context is retained.
        check_call("use its context", unsafe { ctx::set_current(self.0) })
    }
}

/// A queue of work, which is done in order.
pub(super) type Stream = Owned<sys::CUstream, DriverError>;

impl Stream {
    pub(super) fn new() -> Result<Self, Fault> {
        let raw = check_call(
            "open a stream",
            stream::create(stream::StreamKind::NonBlocking),
        )?;
        Ok(Self::of(raw, stream::destroy))
    }

    /// Waits until all work is done.
    pub(super) fn wait(&self) -> Result<(), Fault> {
        // SAFETY: the stream is alive.
        check_call("finish its work", unsafe { stream::synchronize(self.raw) })
    }

    /// Whether the stream works no more: all work is done, or a failure has ended it. [`Stream::wait`] reports the failure.
    pub(super) fn idle(&self) -> bool {
        // SAFETY: the stream is alive.
        let state = unsafe { sys::cuStreamQuery(self.raw) };
        state != CUresult::CUDA_ERROR_NOT_READY
    }
}

/// Loaded kernels.
pub(super) type Module = Owned<sys::CUmodule, DriverError>;

impl Module {
    /// Loads a cubin, or PTX with a terminating zero.
    pub(super) fn new(image: &[u8]) -> Result<Self, Fault> {
        // SAFETY: an image contains its own length.
        let raw = unsafe { module::load_data(image.as_ptr().cast()) };
        Ok(Self::of(
            check_call("load the kernels", raw)?,
            module::unload,
        ))
    }

    /// A kernel by its compiled name.
    pub(super) fn function(&self, name: &str) -> Result<sys::CUfunction, Fault> {
        let name = CString::new(name).map_err(|error| Fault::Other(error.to_string()))?;
        // SAFETY: the module is alive.
        check_call("find a kernel", unsafe {
            module::get_function(self.raw, name)
        })
    }
}

/// A recording that can be replayed.
pub(super) type Graph = Owned<sys::CUgraphExec, DriverError>;

impl Graph {
    /// Instantiates the graph that a stream recorded; consumes the record.
    pub(super) fn new(recorded: sys::CUgraph) -> Result<Self, Fault> {
        // SAFETY: the graph is alive.
        let raw = unsafe { graph::instantiate(recorded, sys::CUgraphInstantiate_flags(0)) };
        // SAFETY: the caller handed the graph over, and it is not used again.
        let _ = unsafe { graph::destroy(recorded) };
        let raw = check_call("prepare a recording", raw)?;
        Ok(Self::of(raw, graph::exec_destroy))
    }
}

/// Memory of the device. The driver frees it when work that uses it is done.
pub(super) type Memory = Owned<sys::CUdeviceptr, DriverError>;

impl Memory {
    pub(super) fn new(bytes: usize) -> Result<Self, Fault> {
        // SAFETY: nothing reads the memory before it has been written.
        match unsafe { malloc_sync(bytes.max(1)) } {
            Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Err(Fault::Memory {
                requested: bytes as u64,
            }),
            raw => Ok(Self::of(check_call("allocate memory", raw)?, free_sync)),
        }
    }
}
