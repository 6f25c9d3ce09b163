//! [`Driver`] on a GPU, through NVIDIA's driver.
//!
//! One stream does all work in the order of the calls. A recording is captured from that stream. Kernels and products find their memory at fixed addresses, so
//! a recording stays valid until [`Driver::drop_recordings`].

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::result::{function, graph, launch_kernel, mem_get_info, memcpy_dtod_async};
use cudarc::driver::result::{memcpy_dtoh_async, memset_d8_async, stream};
use cudarc::driver::sys::{self, CUdevice_attribute, CUfunction_attribute};

use super::driver::{Address, Arg, Bytes, Driver, Fault, Launch, Product, Recording, Step};
use super::handles::{Context, Graph, Memory, Module, Stream, check_call};
use super::matmul::CublasLt;
use super::nccl::{self, Link};
use super::probe::{self, GpuInfo};
use super::staging::Staging;
use super::{compile, kernel_cache, kernels};
use crate::backend::ranks::ProcessGroup;
use crate::error::EngineError;

/// Maximum number of arguments of a kernel.
const ARGS: usize = 32;
/// Bytes of shared memory that a kernel may use without an attribute being set.
const SHARED: u32 = 48 << 10;

/// Opens a GPU by its number. Compiles the kernels for it, unless they are in the cache folder from an earlier start.
///
/// # Errors
/// If the GPU does not exist, or the driver, NVRTC or cuBLASLt is missing or too old. The message contains the remedy.
pub fn open(ordinal: usize) -> Result<Box<dyn Driver>, EngineError> {
    let info = probe::find(ordinal).map_err(|absent| EngineError::Device(absent.to_string()))?;
    Ok(Box::new(Gpu::open(info)?))
}

#[derive(Debug)]
struct Function {
    raw: sys::CUfunction,
    /// Bytes of shared memory that a launch may request.
    shared: u32,
}

/// Rust drops fields in this order: what uses the context goes before the context.
#[derive(Debug)]
struct Gpu {
    info: GpuInfo,
    multiprocessors: u32,
    /// The connection with other ranks' GPUs.
    link: Option<Link>,
    graphs: Vec<Graph>,
    /// Recordings that were dropped while another one was being recorded.
    forgotten: Vec<Graph>,
    products: CublasLt,
    staging: Staging,
    functions: HashMap<String, Function>,
    _module: Module,
    memory: HashMap<Address, Memory>,
    stream: Stream,
    recording: bool,
    /// A call that cannot be recorded and was made while recording.
    unrecordable_call: Option<&'static str>,
    context: Context,
}

// SAFETY: the handles belong to no thread. The context is made current for the calling thread before use, and there is one caller at a time.
unsafe impl Send for Gpu {}

impl Gpu {
    fn open(info: GpuInfo) -> Result<Self, Fault> {
        let folder = kernel_cache::home().join("kernels");
        let image = compile::compiled(&folder, kernels::SOURCES, kernels::NAMES, info.target)
            .map_err(Fault::Other)?;
        let which = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let multiprocessors = probe::attribute(info.device, which)?;
        let context = Context::new(info.device)?;
        let stream = Stream::new()?;
        let module = Module::new(&image.bytes)?;
        let mut functions = HashMap::new();
        for (name, lowered) in kernels::NAMES.iter().zip(&image.names) {
            let raw = module.function(lowered)?;
            let shared = SHARED.saturating_sub(declared_shared_bytes(raw)?);
            functions.insert((*name).to_owned(), Function { raw, shared });
        }
        Ok(Self {
            multiprocessors,
            link: None,
            graphs: Vec::new(),
            forgotten: Vec::new(),
            products: CublasLt::new(info.capability)?,
            staging: Staging::new()?,
            functions,
            _module: module,
            memory: HashMap::new(),
            stream,
            recording: false,
            unrecordable_call: None,
            context,
            info,
        })
    }

    /// Makes the context current for the calling thread, in case the thread has used another one.
    fn bind(&self) -> Result<(), Fault> {
        self.context.bind()
    }

    /// Like [`Gpu::bind`], for calls that cannot be recorded.
    fn bind_unrecorded(&mut self, what: &'static str) -> Result<(), Fault> {
        if self.recording {
            self.unrecordable_call.get_or_insert(what);
            return Err(unrecordable(what));
        }
        self.bind()?;
        self.wait_for_ranks()
    }

    /// Waits for an exchange with other ranks until the deadline. The driver itself would wait without end.
    fn wait_for_ranks(&mut self) -> Result<(), Fault> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let waited = link.wait_for_ranks(|| self.stream.idle());
        waited.map_err(|why| lost(link, &why))
    }

    fn run_kernel(&mut self, kernel: &str, launch: Launch, args: &[Arg]) -> Result<(), Fault> {
        let found = self.functions.get_mut(kernel);
        let found = found.ok_or_else(|| Fault::Other(format!("no kernel `{kernel}`")))?;
        if launch.shared > found.shared {
            let which = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let what = format!("give `{kernel}` {} bytes of shared memory", launch.shared);
            // SAFETY: the function's module is alive.
            check_call(&what, unsafe {
                function::set_function_attribute(found.raw, which, launch.shared as i32)
            })?;
            found.shared = launch.shared;
        }
        assert!(args.len() <= ARGS, "a kernel has up to {ARGS} arguments");
        let mut values = [0_u64; ARGS];
        let mut pointers: [*mut c_void; ARGS] = [null_mut(); ARGS];
        for ((value, pointer), arg) in values.iter_mut().zip(&mut pointers).zip(args) {
            *value = arg.bits();
            *pointer = (&raw mut *value).cast();
        }
        let [x, y, z] = launch.grid;
        // SAFETY: the function's module is alive. The pointers are to values that live until the call returns; the driver has copied them by then. The
        // backend's tests hold that they are the kernel's arguments.
        let launched = unsafe {
            launch_kernel(
                found.raw,
                (x, y, z),
                (launch.block, 1, 1),
                launch.shared,
                self.stream.raw,
                &mut pointers,
            )
        };
        match launched {
            Ok(()) => Ok(()),
            failed => check_call(&format!("run `{kernel}`"), failed),
        }
    }

    fn run_product(&mut self, product: &Product) -> Result<(), Fault> {
        let result = self
            .products
            .multiply(&self.stream, product, self.recording);
        let failed = match result {
            Ok(()) => return Ok(()),
            Err(fault) => fault,
        };
        // The cause may be an earlier failure that shows only now.
        let earlier = match self.recording {
            true => None,
            false => self
                .wait_for_ranks()
                .and_then(|()| self.stream.wait())
                .err(),
        };
        Err(earlier.unwrap_or(failed))
    }
}

/// The end of the connection with other ranks.
fn lost(link: &Link, why: &str) -> Fault {
    Fault::Ranks(format!(
        "an exchange between the ranks' GPUs failed ({}): {why}; look for the error of another rank",
        link.name()
    ))
}

fn unrecordable(what: &str) -> Fault {
    Fault::Other(format!(
        "{what} was requested of the GPU while its work was being recorded, which is a bug in this program"
    ))
}

/// Bytes of shared memory that a kernel declares.
fn declared_shared_bytes(kernel: sys::CUfunction) -> Result<u32, Fault> {
    let which = CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
    // SAFETY: the function's module is alive.
    let bytes = unsafe { function::get_function_attribute(kernel, which) };
    Ok(check_call("report a kernel's attribute", bytes)? as u32)
}

impl Driver for Gpu {
    fn name(&self) -> String {
        format!("cuda:{}, {}", self.info.ordinal, self.info.name)
    }

    fn memory(&self) -> Result<(u64, u64), Fault> {
        self.bind()?;
        let (free, total) = check_call("report its memory", mem_get_info())?;
        Ok((free as u64, total as u64))
    }

    fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    fn allocate(&mut self, bytes: usize) -> Result<Address, Fault> {
        self.bind_unrecorded("memory")?;
        let memory = Memory::new(bytes)?;
        let address = memory.raw;
        self.memory.insert(address, memory);
        Ok(address)
    }

    fn free(&mut self, address: Address) {
        // Waits for work that still uses the memory. If waiting fails, the device reports the failure again at the next call.
        let waited = self
            .bind_unrecorded("freeing memory")
            .and_then(|()| self.stream.wait());
        if waited.is_ok() || !self.recording {
            self.memory.remove(&address);
        }
    }

    fn write(&mut self, to: Address, bytes: &[u8]) -> Result<(), Fault> {
        self.bind_unrecorded("a copy from the host")?;
        self.staging.write(&self.stream, to, bytes)
    }

    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<(), Fault> {
        self.bind_unrecorded("a copy to the host")?;
        if !bytes.is_empty() {
            // SAFETY: the bytes are borrowed until the stream has been waited for. The caller promises that the source is on the device.
            check_call("send to the host", unsafe {
                memcpy_dtoh_async(bytes, from, self.stream.raw)
            })?;
        }
        self.stream.wait()
    }

    fn synchronise(&mut self) -> Result<(), Fault> {
        self.bind_unrecorded("a wait for the device")?;
        self.stream.wait()
    }

    fn run(&mut self, step: Step<'_>) -> Result<(), Fault> {
        self.bind()?;
        match step {
            Step::Launch(kernel, launch, args) => self.run_kernel(&kernel, launch, &args),
            Step::Multiply(product) => self.run_product(&product),
            Step::Copy(_, _, 0) | Step::Zero(_, 0) => Ok(()),
            // SAFETY: the caller promises that both addresses are on the device.
            Step::Copy(to, from, bytes) => check_call("copy", unsafe {
                memcpy_dtod_async(to, from, bytes, self.stream.raw)
            }),
            // SAFETY: the caller promises that the address is on the device; words are written only to aligned addresses.
            Step::Zero(at, bytes) => check_call("set memory to 0", unsafe {
                if at.is_multiple_of(4) && bytes.is_multiple_of(4) {
                    sys::cuMemsetD32Async(at, 0, bytes / 4, self.stream.raw).result()
                } else {
                    memset_d8_async(at, 0, bytes, self.stream.raw)
                }
            }),
        }
    }

    fn connect(&mut self, ranks: &Arc<dyn ProcessGroup>) -> Result<bool, EngineError> {
        let bound = self.bind_unrecorded("a connection");
        let bound = bound.map_err(|fault| fault.to_string());
        let gpu = bound.map(|()| self.info.id);
        let connected = nccl::connect(&nccl::library(), &gpu, ranks.as_ref())?;
        if ranks.rank() == 0 {
            match &connected {
                Ok(link) => tracing::info!("GPUs exchange by {}", link.name()),
                Err(_) if nccl::is_refused() => {}
                Err(why) => tracing::warn!("GPUs exchange through the host's memory: {why}"),
            }
        }
        self.link = connected.ok();
        Ok(self.link.is_some())
    }

    fn exchange(&mut self, send: &[Bytes], receive: &[Bytes]) -> Result<(), Fault> {
        self.bind()?;
        match &mut self.link {
            Some(link) => {
                let exchanged = link.exchange(send, receive, self.stream.raw);
                exchanged.map_err(|why| lost(link, &why))
            }
            None => Err(Fault::Other("the GPU is not connected to others".into())),
        }
    }

    fn begin_recording(&mut self) -> Result<(), Fault> {
        self.bind_unrecorded("a recording")?;
        // Other threads may use other streams meanwhile, and cuBLASLt may call the driver for more than its kernels.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is alive and is not recording.
        check_call("record", unsafe {
            stream::begin_capture(self.stream.raw, mode)
        })?;
        self.recording = true;
        Ok(())
    }

    fn end_recording(&mut self) -> Result<Recording, Fault> {
        self.bind()?;
        self.recording = false;
        // SAFETY: the stream is recording.
        let ended = unsafe { stream::end_capture(self.stream.raw) };
        let forgotten = std::mem::take(&mut self.forgotten);
        let mistake = self.unrecordable_call.take();
        let graph = check_call("end a recording", ended).and_then(Graph::new);
        if !forgotten.is_empty() {
            self.stream.wait()?;
            drop(forgotten);
        }
        if let Some(what) = mistake {
            return Err(unrecordable(what));
        }
        self.graphs.push(graph?);
        Ok(self.graphs.len() as Recording - 1)
    }

    fn replay(&mut self, recording: Recording) -> Result<(), Fault> {
        self.bind_unrecorded("a recording")?;
        let recorded = self.graphs.get(recording as usize);
        let dropped = || Fault::Other("the recording has been dropped".into());
        let recorded = recorded.ok_or_else(dropped)?;
        // SAFETY: the graph and the stream are alive.
        check_call("replay a recording", unsafe {
            graph::launch(recorded.raw, self.stream.raw)
        })
    }

    fn drop_recordings(&mut self) {
        self.forgotten.append(&mut self.graphs);
        if !self.recording
            && self.bind().is_ok()
            && self.wait_for_ranks().is_ok()
            && self.stream.wait().is_ok()
        {
            self.forgotten.clear();
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // Waits for unfinished work, so that no memory is freed while in use. If the device is lost, all of this fails, and the device is released
        // nevertheless.
        if self.recording {
            let _ = self.end_recording();
        }
        let _ = self.bind();
        let _ = self.wait_for_ranks();
        let _ = self.stream.wait();
    }
}

#[cfg(test)]
mod tests;
