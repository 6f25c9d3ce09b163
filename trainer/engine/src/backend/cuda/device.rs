//! [`Driver`] on a GPU, through NVIDIA's driver.
//!
//! One stream does everything in the order of the calls. What is recorded is captured from that stream; kernels and products find their memory at fixed places, so a
//! recording stays right until [`Driver::forget`].

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::null_mut;

use cudarc::driver::sys;
use sys::{CUdevice_attribute, CUfunction_attribute, CUresult};

use super::call::device_error;
use super::driver::{Address, Arg, Driver, Fault, Launch, Product, Recording};
use super::handles::{Context, Graph, Memory, Module, Stream, ask};
use super::probe::{self, GpuInfo};
use super::products::Products;
use super::staging::Staging;
use super::{compile, images, kernels};
use crate::error::EngineError;

/// Most arguments of a kernel.
const ARGS: usize = 32;
/// Bytes of shared memory that a kernel may have without being asked whether it wants more.
const SHARED: u32 = 48 << 10;

/// A GPU by its number. Compiles the kernels for it, unless an earlier start has left them in the cache folder.
///
/// # Errors
/// Where there is no such GPU, or the driver, NVRTC or cuBLASLt is missing or too old; with the remedy.
pub fn open(ordinal: usize) -> Result<Box<dyn Driver>, EngineError> {
    let found = probe::find(ordinal).map_err(|absent| EngineError::Device(absent.to_string()))?;
    let gpu = Gpu::open(found).map_err(|fault| device_error(&fault))?;
    Ok(Box::new(gpu))
}

/// A kernel.
#[derive(Debug)]
struct Function {
    raw: sys::CUfunction,
    /// Bytes of shared memory that a launch may ask for.
    shared: u32,
}

/// Fields are dropped in this order: whatever is made in the context before it.
#[derive(Debug)]
struct Gpu {
    found: GpuInfo,
    multiprocessors: u32,
    graphs: Vec<Graph>,
    /// Recordings that were to be forgotten while another was made.
    forgotten: Vec<Graph>,
    products: Products,
    staging: Staging,
    functions: HashMap<String, Function>,
    _module: Module,
    memory: HashMap<Address, Memory>,
    stream: Stream,
    /// Whether calls are being recorded.
    recording: bool,
    /// What cannot be recorded and was asked for all the same.
    unrecorded: Option<&'static str>,
    context: Context,
}

// SAFETY: the handles belong to no thread; the context is made the calling thread's before it is used, and there is one caller at a time.
unsafe impl Send for Gpu {}

impl Gpu {
    fn open(found: GpuInfo) -> Result<Self, Fault> {
        let folder = images::home().join("kernels");
        let image = compile::compiled(&folder, kernels::SOURCES, kernels::NAMES, found.target)
            .map_err(Fault::Other)?;
        let which = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let multiprocessors = probe::attribute(found.device, which).map_err(Fault::Other)?;
        let context = Context::new(found.device)?;
        let stream = Stream::new()?;
        let module = Module::new(&image.bytes)?;
        let mut functions = HashMap::new();
        for (name, lowered) in kernels::NAMES.iter().zip(&image.names) {
            let raw = module.function(lowered)?;
            let shared = SHARED.saturating_sub(declared(raw)?);
            functions.insert((*name).to_owned(), Function { raw, shared });
        }
        Ok(Self {
            multiprocessors: multiprocessors as u32,
            graphs: Vec::new(),
            forgotten: Vec::new(),
            products: Products::new(found.capability)?,
            staging: Staging::new()?,
            functions,
            _module: module,
            memory: HashMap::new(),
            stream,
            recording: false,
            unrecorded: None,
            context,
            found,
        })
    }

    /// Makes the context the calling thread's, which may have used another one since.
    fn bind(&self) -> Result<(), Fault> {
        self.context.bind()
    }

    /// As [`Gpu::bind`], before what cannot be recorded.
    fn bind_at_once(&mut self, what: &'static str) -> Result<(), Fault> {
        if self.recording {
            self.unrecorded.get_or_insert(what);
            return Err(unrecordable(what));
        }
        self.bind()
    }
}

fn unrecordable(what: &str) -> Fault {
    Fault::Other(format!(
        "{what} was asked of the GPU while its work was recorded, which is a mistake in this program"
    ))
}

/// Bytes of shared memory that a kernel declares.
fn declared(function: sys::CUfunction) -> Result<u32, Fault> {
    let which = CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
    let mut bytes = 0;
    // SAFETY: points at an int; a function of a module that lives.
    ask("tell of a kernel", unsafe {
        sys::cuFuncGetAttribute(&raw mut bytes, which, function)
    })?;
    Ok(bytes as u32)
}

impl Driver for Gpu {
    fn name(&self) -> String {
        format!("cuda:{}, {}", self.found.ordinal, self.found.name)
    }

    fn memory(&self) -> Result<(u64, u64), Fault> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: places for two sizes.
        ask("tell its memory", unsafe {
            sys::cuMemGetInfo_v2(&raw mut free, &raw mut total)
        })?;
        Ok((free as u64, total as u64))
    }

    fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    fn allocate(&mut self, bytes: usize) -> Result<Address, Fault> {
        self.bind_at_once("memory")?;
        let memory = Memory::new(bytes)?;
        let address = memory.0;
        self.memory.insert(address, memory);
        Ok(address)
    }

    fn free(&mut self, address: Address) {
        // What still uses it comes first. Where that fails, the device says so again when it is next asked for something.
        let waited = self
            .bind_at_once("giving memory back")
            .and_then(|()| self.stream.wait());
        if waited.is_ok() || !self.recording {
            self.memory.remove(&address);
        }
    }

    fn write(&mut self, to: Address, bytes: &[u8]) -> Result<(), Fault> {
        self.bind_at_once("a copy from the host")?;
        self.staging.write(&self.stream, to, bytes)
    }

    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<(), Fault> {
        self.bind_at_once("a copy to the host")?;
        if !bytes.is_empty() {
            // SAFETY: as many bytes as said, which are borrowed until the stream was waited for; the caller says that they are on the device.
            ask("send to the host", unsafe {
                sys::cuMemcpyDtoHAsync_v2(
                    bytes.as_mut_ptr().cast(),
                    from,
                    bytes.len(),
                    self.stream.0,
                )
            })?;
        }
        self.stream.wait()
    }

    fn synchronise(&mut self) -> Result<(), Fault> {
        self.bind_at_once("a wait for the device")?;
        self.stream.wait()
    }

    fn copy(&mut self, to: Address, from: Address, bytes: usize) -> Result<(), Fault> {
        self.bind()?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller says that both places are on the device.
        ask("copy", unsafe {
            sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.stream.0)
        })
    }

    fn zero(&mut self, at: Address, bytes: usize) -> Result<(), Fault> {
        self.bind()?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller says that the place is on the device; words are set where words lie.
        ask("set memory to 0", unsafe {
            if at.is_multiple_of(4) && bytes.is_multiple_of(4) {
                sys::cuMemsetD32Async(at, 0, bytes / 4, self.stream.0)
            } else {
                sys::cuMemsetD8Async(at, 0, bytes, self.stream.0)
            }
        })
    }

    fn launch(&mut self, kernel: &str, launch: Launch, args: &[Arg]) -> Result<(), Fault> {
        self.bind()?;
        let function = self.functions.get_mut(kernel);
        let function = function.ok_or_else(|| Fault::Other(format!("no kernel `{kernel}`")))?;
        if launch.shared > function.shared {
            let which = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let what = format!("give `{kernel}` {} bytes of shared memory", launch.shared);
            // SAFETY: a function of a module that lives.
            ask(&what, unsafe {
                sys::cuFuncSetAttribute(function.raw, which, launch.shared as i32)
            })?;
            function.shared = launch.shared;
        }
        assert!(args.len() <= ARGS, "a kernel has up to {ARGS} arguments");
        // Each argument lies at the beginning of 8 bytes; processors that CUDA knows are little-endian.
        let mut values = [0_u64; ARGS];
        let mut pointers: [*mut c_void; ARGS] = [null_mut(); ARGS];
        for ((value, pointer), arg) in values.iter_mut().zip(&mut pointers).zip(args) {
            *value = match *arg {
                Arg::Address(address) => address,
                Arg::Word(word) => u64::from(word),
                Arg::Size(size) => size,
                Arg::Float(float) => u64::from(float.to_bits()),
            };
            *pointer = (&raw mut *value).cast();
        }
        let [x, y, z] = launch.grid;
        // SAFETY: a function of a module that lives; the pointers are to values that live until it returns, by when they are copied. That they are what the kernel takes, the
        // backend's tests hold.
        let launched = unsafe {
            sys::cuLaunchKernel(
                function.raw,
                x,
                y,
                z,
                launch.block,
                1,
                1,
                launch.shared,
                self.stream.0,
                pointers.as_mut_ptr(),
                null_mut(),
            )
        };
        match launched {
            CUresult::CUDA_SUCCESS => Ok(()),
            failed => ask(&format!("run `{kernel}`"), failed),
        }
    }

    fn multiply(&mut self, product: &Product) -> Result<(), Fault> {
        self.bind()?;
        let made = self
            .products
            .multiply(&self.stream, product, self.recording);
        let failed = match made {
            Ok(()) => return Ok(()),
            Err(fault) => fault,
        };
        // What went wrong before it, and shows only now, is the cause.
        let earlier = match self.recording {
            true => None,
            false => self.stream.wait().err(),
        };
        Err(earlier.unwrap_or(failed))
    }

    fn record(&mut self) -> Result<bool, Fault> {
        self.bind_at_once("a recording")?;
        // Others may use other streams meanwhile, and what cuBLASLt asks of the driver beside its kernels is allowed.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: a stream that lives, and does not record.
        ask("record", unsafe {
            sys::cuStreamBeginCapture_v2(self.stream.0, mode)
        })?;
        self.recording = true;
        Ok(true)
    }

    fn recorded(&mut self) -> Result<Recording, Fault> {
        self.bind()?;
        self.recording = false;
        let mut graph = null_mut();
        // SAFETY: the stream that records, and a place for what it recorded.
        let ended = unsafe { sys::cuStreamEndCapture(self.stream.0, &raw mut graph) };
        let forgotten = std::mem::take(&mut self.forgotten);
        let mistake = self.unrecorded.take();
        let graph = ask("end a recording", ended).and_then(|()| Graph::new(graph));
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
        self.bind_at_once("a recording")?;
        let graph = self.graphs.get(recording as usize);
        let graph = graph.ok_or_else(|| Fault::Other("a recording that was forgotten".into()))?;
        // SAFETY: a graph and a stream that live.
        ask("replay a recording", unsafe {
            sys::cuGraphLaunch(graph.0, self.stream.0)
        })
    }

    fn forget(&mut self) {
        self.forgotten.append(&mut self.graphs);
        if !self.recording && self.bind().is_ok() && self.stream.wait().is_ok() {
            self.forgotten.clear();
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // What is not done is waited for, so that nothing that is freed is in use. A lost device fails at all of it, and is given back all the same.
        if self.recording {
            let _ = self.recorded();
        }
        let _ = self.bind();
        let _ = self.stream.wait();
    }
}

#[cfg(test)]
mod tests;
