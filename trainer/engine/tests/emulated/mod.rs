//! A device without a GPU: the kernels' sources compiled by g++ for this processor (`kernels/emulator.h`), memory from the heap, and matrix products by plain
//! loops.

#![allow(dead_code, unsafe_code, clippy::unwrap_used, clippy::mut_from_ref)]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use engine::backend::cuda::driver::{
    Address, Arg, Driver, Fault, Format, Launch, Matrix, Product, Recording,
};
use engine::backend::cuda::kernels;
use half::bf16;

type Emulate =
    unsafe extern "C" fn(*const c_char, *const [u32; 3], u32, u32, *const *const c_void) -> c_int;
type Error = unsafe extern "C" fn() -> *const c_char;
type Falling = unsafe extern "C" fn(c_int);

/// The compiled kernels. They run on one thread at a time.
struct Library {
    emulate: Emulate,
    error: Error,
    falling: Falling,
    running: Mutex<()>,
}

/// Compiles the kernels once for each content, into cargo's folder for tests.
fn compiled() -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let mut program = String::from("#include \"emulator.h\"\n");
    for (name, _) in kernels::SOURCES {
        writeln!(program, "#include \"{name}\"").unwrap();
    }
    for name in kernels::NAMES {
        writeln!(program, "KERNEL({name})").unwrap();
    }
    program.push_str("#include \"emulator.cpp\"\n");
    let mut digest = blake3::Hasher::new();
    digest.update(program.as_bytes());
    for (_, text) in kernels::SOURCES {
        digest.update(text.as_bytes());
    }
    for file in ["emulator.h", "emulator.cpp"] {
        digest.update(&std::fs::read(sources.join(file)).unwrap());
    }
    let name = digest.finalize().to_hex()[..16].to_owned();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let library = folder.join(format!("kernels-{name}.so"));
    if !library.exists() {
        let own = format!("{name}-{}", std::process::id());
        let source = folder.join(format!("kernels-{own}.cpp"));
        let temporary = folder.join(format!("kernels-{own}.so"));
        std::fs::write(&source, program).unwrap();
        let output = Command::new("g++")
            .args(["-std=c++17", "-O2", "-shared", "-fPIC", "-o"])
            .args([&temporary, &source])
            .arg("-I")
            .arg(&sources)
            .output()
            .expect("g++ is installed (apt-get install g++)");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{message}");
        std::fs::remove_file(source).unwrap();
        std::fs::rename(temporary, &library).unwrap();
    }
    library
}

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // SAFETY: the library was built from the sources beside this test, and exports these functions.
        unsafe {
            let library = libloading::Library::new(compiled()).unwrap();
            let emulate = *library.get::<Emulate>(b"emulate").unwrap();
            let error = *library.get::<Error>(b"emulator_error").unwrap();
            let falling = *library.get::<Falling>(b"emulator_falling").unwrap();
            // The library stays loaded.
            std::mem::forget(library);
            Library {
                emulate,
                error,
                falling,
                running: Mutex::new(()),
            }
        }
    })
}

/// Counters of the device's calls, shared with the test.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Number of allocated bytes.
    pub(crate) allocated: usize,
    /// Number of calls by kind: `allocate`, `write`, `launch`…
    pub(crate) calls: BTreeMap<&'static str, usize>,
    /// The kind of call that fails, and after how many of them.
    pub(crate) failing: Option<(&'static str, usize)>,
    /// The kind of call that fails in every recording.
    pub(crate) unrecordable: Option<&'static str>,
}

/// A step of a recording.
#[derive(Clone)]
enum Step {
    Launch(String, Launch, Vec<Arg>),
    Multiply(Product),
    Copy(Address, Address, usize),
    Zero(Address, usize),
}

/// The device. Its addresses are those of this process.
pub(crate) struct Emulated {
    counters: Arc<Mutex<Counters>>,
    /// Whether a block's threads run from the last to the first. The results are then the same, unless a barrier is missing.
    falling: bool,
    multiprocessors: u32,
    /// Allocations, and the number of bytes requested for each.
    memory: BTreeMap<Address, (Vec<u64>, usize)>,
    recordings: Vec<Vec<Step>>,
    recording: Option<Vec<Step>>,
}

impl Default for Emulated {
    fn default() -> Self {
        Self {
            counters: Arc::default(),
            falling: false,
            // Some of the parity suite's sums are then computed in parts, and others are not.
            multiprocessors: 7,
            memory: BTreeMap::new(),
            recordings: Vec::new(),
            recording: None,
        }
    }
}

impl Emulated {
    /// A device and its counters.
    pub(crate) fn open() -> (Box<dyn Driver>, Arc<Mutex<Counters>>) {
        let device = Self::default();
        let counters = Arc::clone(&device.counters);
        (Box::new(device), counters)
    }

    /// A device whose threads run from the last to the first.
    pub(crate) fn falling() -> Box<dyn Driver> {
        Box::new(Self {
            falling: true,
            ..Self::default()
        })
    }

    pub(crate) fn with_multiprocessors(multiprocessors: u32) -> Box<dyn Driver> {
        Box::new(Self {
            multiprocessors,
            ..Self::default()
        })
    }

    fn count(&mut self, call: &'static str) -> Result<(), Fault> {
        let mut counters = self.counters.lock().unwrap();
        let number = counters.calls.entry(call).or_default();
        *number += 1;
        let number = *number;
        match counters.failing {
            Some((kind, after)) if kind == call && number > after => {
                Err(Fault::Other(format!("{call} number {number} fails")))
            }
            _ => Ok(()),
        }
    }

    /// The bytes at an address, which must lie in one allocation.
    fn bytes(&self, at: Address, len: usize) -> &mut [u8] {
        let below = self.memory.range(..=at).next_back();
        let (start, (_, bytes)) = below.expect("an address");
        let offset = (at - start) as usize;
        assert!(offset + len <= *bytes, "{len} bytes lie in memory");
        // SAFETY: the bytes lie in the allocation, which nothing else refers to while this device works.
        unsafe { std::slice::from_raw_parts_mut(at as *mut u8, len) }
    }

    fn number(&self, matrix: &Matrix, row: usize, column: usize) -> f32 {
        let (row, column) = if matrix.transposed {
            (column, row)
        } else {
            (row, column)
        };
        let at = (row * matrix.columns + column) * matrix.format.bytes();
        let bytes = self.bytes(matrix.address + at as u64, matrix.format.bytes());
        match matrix.format {
            Format::F32 => f32::from_le_bytes(bytes.try_into().unwrap()),
            Format::Bf16 => bf16::from_le_bytes(bytes.try_into().unwrap()).to_f32(),
        }
    }

    fn operand(&self, matrix: &Matrix, rows: usize, columns: usize) -> Vec<f32> {
        (0..rows * columns)
            .map(|i| self.number(matrix, i / columns, i % columns))
            .collect()
    }

    fn run(&mut self, step: &Step) -> Result<(), Fault> {
        match step {
            Step::Launch(kernel, launch, args) => self.emulate(kernel, *launch, args)?,
            Step::Multiply(product) => self.product(product),
            Step::Copy(to, from, len) => {
                let bytes = self.bytes(*from, *len).to_vec();
                self.bytes(*to, *len).copy_from_slice(&bytes);
            }
            Step::Zero(at, len) => self.bytes(*at, *len).fill(0),
        }
        Ok(())
    }

    fn emulate(&self, kernel: &str, launch: Launch, args: &[Arg]) -> Result<(), Fault> {
        // The bytes of each argument, and pointers to them.
        let values: Vec<[u8; 8]> = args
            .iter()
            .map(|arg| match arg {
                Arg::Address(n) | Arg::Size(n) => n.to_ne_bytes(),
                Arg::Word(n) => u64::from(*n).to_ne_bytes(),
                Arg::Float(x) => u64::from(x.to_bits()).to_ne_bytes(),
            })
            .collect();
        let values: Vec<u64> = values.into_iter().map(u64::from_ne_bytes).collect();
        let pointers: Vec<*const c_void> = values
            .iter()
            .map(|value| (&raw const *value).cast())
            .collect();
        let name = CString::new(kernel).unwrap();
        let library = library();
        let _running = library.running.lock().unwrap();
        // SAFETY: the arguments are those of the kernel, and their addresses lie in this device's memory.
        let code = unsafe {
            (library.falling)(c_int::from(self.falling));
            (library.emulate)(
                name.as_ptr(),
                &raw const launch.grid,
                launch.block,
                launch.shared,
                pointers.as_ptr(),
            )
        };
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the text lives as long as the library.
        let message = unsafe { CStr::from_ptr((library.error)()) };
        Err(Fault::Other(format!(
            "the kernel {kernel}: {}",
            message.to_string_lossy()
        )))
    }

    fn product(&mut self, p: &Product) {
        assert_eq!(p.a.format, p.b.format, "operands are of one format");
        let a = self.operand(&p.a, p.rows, p.inner);
        let b = self.operand(&p.b, p.inner, p.columns);
        let mut y = vec![0.0f32; p.rows * p.columns];
        for (y, a) in y.chunks_exact_mut(p.columns).zip(a.chunks_exact(p.inner)) {
            for (a, b) in a.iter().zip(b.chunks_exact(p.columns)) {
                for (y, b) in y.iter_mut().zip(b) {
                    *y += a * b;
                }
            }
        }
        let width = p.y.format.bytes();
        for (i, sum) in y.iter().enumerate() {
            let (row, column) = (i / p.columns, i % p.columns);
            let before = if p.accumulate {
                self.number(&p.y, row, column)
            } else {
                0.0
            };
            let at = p.y.address + ((row * p.y.columns + column) * width) as u64;
            let to = self.bytes(at, width);
            match p.y.format {
                Format::F32 => to.copy_from_slice(&(sum + before).to_le_bytes()),
                Format::Bf16 => to.copy_from_slice(&bf16::from_f32(sum + before).to_le_bytes()),
            }
        }
    }

    /// Runs a step, or records it.
    fn step(&mut self, call: &'static str, step: Step) -> Result<(), Fault> {
        self.count(call)?;
        match &mut self.recording {
            Some(_) if self.counters.lock().unwrap().unrecordable == Some(call) => {
                Err(Fault::Other(format!("{call} cannot be recorded")))
            }
            Some(steps) => {
                steps.push(step);
                Ok(())
            }
            None => self.run(&step),
        }
    }
}

impl Driver for Emulated {
    fn name(&self) -> String {
        "emulated GPU".into()
    }

    fn memory(&self) -> Result<(u64, u64), Fault> {
        Ok((1 << 30, 1 << 30))
    }

    fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    fn allocate(&mut self, bytes: usize) -> Result<Address, Fault> {
        assert!(
            self.recording.is_none(),
            "nothing is allocated in a recording"
        );
        self.count("allocate")?;
        // Memory content is unspecified, so it is filled with conspicuous numbers.
        let block = vec![u64::MAX; bytes.div_ceil(8) + 32];
        // As on a GPU, an allocation begins at a multiple of 256.
        let address = (block.as_ptr() as Address).next_multiple_of(256);
        self.counters.lock().unwrap().allocated += bytes;
        self.memory.insert(address, (block, bytes));
        Ok(address)
    }

    fn free(&mut self, address: Address) {
        let (_, bytes) = self.memory.remove(&address).expect("freed once");
        self.counters.lock().unwrap().allocated -= bytes;
    }

    fn write(&mut self, to: Address, bytes: &[u8]) -> Result<(), Fault> {
        assert!(self.recording.is_none(), "nothing is sent in a recording");
        self.count("write")?;
        self.bytes(to, bytes.len()).copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<(), Fault> {
        assert!(self.recording.is_none(), "nothing is read in a recording");
        self.count("read")?;
        bytes.copy_from_slice(self.bytes(from, bytes.len()));
        Ok(())
    }

    fn synchronise(&mut self) -> Result<(), Fault> {
        assert!(self.recording.is_none(), "nothing waits in a recording");
        self.count("read")
    }

    fn copy(&mut self, to: Address, from: Address, bytes: usize) -> Result<(), Fault> {
        self.step("copy", Step::Copy(to, from, bytes))
    }

    fn zero(&mut self, at: Address, bytes: usize) -> Result<(), Fault> {
        self.step("zero", Step::Zero(at, bytes))
    }

    fn launch(&mut self, kernel: &str, launch: Launch, args: &[Arg]) -> Result<(), Fault> {
        let step = Step::Launch(kernel.to_owned(), launch, args.to_vec());
        self.step("launch", step)
    }

    fn multiply(&mut self, product: &Product) -> Result<(), Fault> {
        self.step("multiply", Step::Multiply(*product))
    }

    fn record(&mut self) -> Result<bool, Fault> {
        self.count("record")?;
        if self.counters.lock().unwrap().unrecordable == Some("record") {
            return Err(Fault::Other("nothing can be recorded".into()));
        }
        self.recording = Some(Vec::new());
        Ok(true)
    }

    fn recorded(&mut self) -> Result<Recording, Fault> {
        let steps = self.recording.take().expect("a recording");
        self.recordings.push(steps);
        Ok(self.recordings.len() as Recording - 1)
    }

    fn replay(&mut self, recording: Recording) -> Result<(), Fault> {
        self.count("replay")?;
        for step in self.recordings[recording as usize].clone() {
            self.run(&step)?;
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.recordings.clear();
    }
}
