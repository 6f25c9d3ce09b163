//! [`Driver`] of a device without a GPU: the kernels' sources compiled by g++ for this processor (`kernels/emulator.h`), memory from the heap, and matrix products
//! by plain loops. It is thousands of times slower than a GPU. Tests run on it, and `--device cuda:emulated` makes it available to every command.

#![allow(unsafe_code)]

mod library;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::driver::{Address, Bytes, Driver, Fault, Matrix, Product, Recording, Step};
use super::launch::{decode, encoded};
use super::step_recorder::StepRecorder;
use crate::backend::ranks::ProcessGroup;
use crate::error::EngineError;

/// Bytes of the device's memory.
pub const MEMORY: u64 = 1 << 30;
/// Number of multiprocessors, unless a test chooses another. With this number, some of the parity suite's sums are split into parts and others are not.
pub const MULTIPROCESSORS: u32 = 7;

/// Counters of the device's calls, shared with the test.
#[derive(Debug, Default)]
pub struct Counters {
    /// Number of allocated bytes.
    pub allocated: usize,
    /// Number of calls by kind: `allocate`, `write`, `launch`…
    pub calls: BTreeMap<&'static str, usize>,
    /// The kind of call that fails, and after how many of them.
    pub failing: Option<(&'static str, usize)>,
    /// The kind of call that fails in every recording.
    pub unrecordable: Option<&'static str>,
}

/// The device. Its addresses are those of this process.
#[derive(Default)]
pub struct Emulated {
    counters: Arc<Mutex<Counters>>,
    /// Whether a block's threads run from the last to the first. The results are then the same, unless a barrier is missing.
    falling: bool,
    multiprocessors: u32,
    /// Allocations, and the number of bytes requested for each.
    memory: BTreeMap<Address, (Vec<u64>, usize)>,
    recorder: StepRecorder,
    /// The ranks that this device exchanges bytes with.
    ranks: Option<Arc<dyn ProcessGroup>>,
}

impl Emulated {
    /// A device and its counters.
    pub fn open() -> (Box<dyn Driver>, Arc<Mutex<Counters>>) {
        let device = Self {
            multiprocessors: MULTIPROCESSORS,
            ..Self::default()
        };
        let counters = Arc::clone(&device.counters);
        (Box::new(device), counters)
    }

    /// A device with this number of multiprocessors; it decides how some sums are split. A block's threads run from the last to the first if `falling`.
    pub fn other(multiprocessors: u32, falling: bool) -> Box<dyn Driver> {
        Box::new(Self {
            multiprocessors,
            falling,
            ..Self::default()
        })
    }

    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&mut self, call: &'static str) -> Result<(), Fault> {
        let mut counters = self.counters();
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

    /// Where bytes lie, after checking that they are in one allocation.
    fn pointer(&self, at: Address, len: usize) -> *mut u8 {
        let below = self.memory.range(..=at).next_back();
        let (start, (_, bytes)) = below.expect("the backend uses addresses that it allocated");
        let offset = (at - start) as usize;
        assert!(offset + len <= *bytes, "{len} bytes lie in memory");
        at as *mut u8
    }

    fn bytes(&self, at: Address, len: usize) -> &[u8] {
        // SAFETY: the bytes lie in an allocation, which is initialised, and kernels run only between the device's calls.
        unsafe { std::slice::from_raw_parts(self.pointer(at, len), len) }
    }

    fn bytes_mut(&mut self, at: Address, len: usize) -> &mut [u8] {
        // SAFETY: as above; the device is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(at, len), len) }
    }

    /// The numbers of an operand, row by row as the product uses it.
    fn operand(&self, matrix: &Matrix, rows: usize, columns: usize) -> Vec<f32> {
        let (stored_rows, width) = match matrix.transposed {
            true => (columns, rows),
            false => (rows, columns),
        };
        let mut stored = vec![0.0; (stored_rows - 1) * matrix.columns + width];
        let bytes = self.bytes(matrix.address, stored.len() * matrix.format.bytes());
        decode(bytes, matrix.format, &mut stored);
        let number = |row: usize, column: usize| match matrix.transposed {
            true => stored[column * matrix.columns + row],
            false => stored[row * matrix.columns + column],
        };
        (0..rows * columns)
            .map(|i| number(i / columns, i % columns))
            .collect()
    }

    /// Panics if a recording is open: this call cannot be recorded.
    fn assert_unrecorded(&self, call: &str) {
        assert!(!self.recorder.is_open(), "no {call} in a recording");
    }

    fn compute(&mut self, step: &Step<'_>) -> Result<(), Fault> {
        match step {
            Step::Launch(kernel, launch, args) => {
                let library = library::library()?;
                // SAFETY: a test compares the backend's arguments with the kernels' parameters, and their addresses are in this device's memory.
                unsafe { library.run(kernel, *launch, args, self.falling)? }
            }
            Step::Multiply(product) => self.product(product),
            Step::Copy(to, from, len) => {
                let bytes = self.bytes(*from, *len).to_vec();
                self.bytes_mut(*to, *len).copy_from_slice(&bytes);
            }
            Step::Zero(at, len) => self.bytes_mut(*at, *len).fill(0),
        }
        Ok(())
    }

    fn product(&mut self, p: &Product) {
        assert_eq!(p.a.format, p.b.format, "operands are of one format");
        let a = self.operand(&p.a, p.rows, p.inner);
        let b = self.operand(&p.b, p.inner, p.columns);
        let mut sums = vec![0.0f32; p.rows * p.columns];
        for (sums, a) in sums
            .chunks_exact_mut(p.columns)
            .zip(a.chunks_exact(p.inner))
        {
            for (a, b) in a.iter().zip(b.chunks_exact(p.columns)) {
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum += a * b;
                }
            }
        }
        let (format, size) = (p.y.format, p.y.format.bytes());
        let mut before = vec![0.0; p.columns];
        for (row, sums) in sums.chunks_exact_mut(p.columns).enumerate() {
            let at = p.y.address + (row * p.y.columns * size) as u64;
            let to = self.bytes_mut(at, p.columns * size);
            if p.accumulate {
                decode(to, format, &mut before);
            }
            for (sum, before) in sums.iter_mut().zip(&before) {
                *sum += before;
            }
            to.copy_from_slice(&encoded(sums, format));
        }
    }
}

impl Driver for Emulated {
    fn name(&self) -> String {
        "emulated GPU".into()
    }

    fn memory(&self) -> Result<(u64, u64), Fault> {
        let allocated = self.counters().allocated as u64;
        Ok((MEMORY.saturating_sub(allocated), MEMORY))
    }

    fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    fn allocate(&mut self, bytes: usize) -> Result<Address, Fault> {
        self.assert_unrecorded("allocation");
        self.count("allocate")?;
        // Memory content is unspecified, so it is filled with conspicuous numbers.
        let block = vec![u64::MAX; bytes.div_ceil(8) + 32];
        // As on a GPU, an allocation begins at a multiple of 256.
        let address = (block.as_ptr() as Address).next_multiple_of(256);
        self.counters().allocated += bytes;
        self.memory.insert(address, (block, bytes));
        Ok(address)
    }

    fn free(&mut self, address: Address) {
        let freed = self.memory.remove(&address);
        let (_, bytes) = freed.expect("an allocation is freed once");
        self.counters().allocated -= bytes;
    }

    fn write(&mut self, to: Address, bytes: &[u8]) -> Result<(), Fault> {
        self.assert_unrecorded("write");
        self.count("write")?;
        self.bytes_mut(to, bytes.len()).copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<(), Fault> {
        self.assert_unrecorded("read");
        self.count("read")?;
        bytes.copy_from_slice(self.bytes(from, bytes.len()));
        Ok(())
    }

    fn synchronise(&mut self) -> Result<(), Fault> {
        self.assert_unrecorded("wait");
        self.count("read")
    }

    fn run(&mut self, step: Step<'_>) -> Result<(), Fault> {
        let call = match step {
            Step::Launch(..) => "launch",
            Step::Multiply(_) => "multiply",
            Step::Copy(..) => "copy",
            Step::Zero(..) => "zero",
        };
        self.count(call)?;
        if self.recorder.is_open() && self.counters().unrecordable == Some(call) {
            return Err(Fault::Other(format!("{call} cannot be recorded")));
        }
        match self.recorder.record(step) {
            Some(step) => self.compute(&step),
            None => Ok(()),
        }
    }

    fn connect(&mut self, ranks: &Arc<dyn ProcessGroup>) -> Result<bool, EngineError> {
        self.ranks = Some(Arc::clone(ranks));
        Ok(true)
    }

    fn exchange(&mut self, send: &[Bytes], receive: &[Bytes]) -> Result<(), Fault> {
        self.assert_unrecorded("exchange");
        self.count("exchange")?;
        let ranks = self.ranks.clone().expect("the device has been connected");
        let parts: Vec<&[u8]> = send
            .iter()
            .map(|part| self.bytes(part.address, part.len))
            .collect();
        let received = ranks.all_to_all(&parts);
        for (part, bytes) in receive
            .iter()
            .zip(received.map_err(|error| Fault::Ranks(error.to_string()))?)
        {
            self.bytes_mut(part.address, part.len)
                .copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn begin_recording(&mut self) -> Result<(), Fault> {
        self.count("record")?;
        if self.counters().unrecordable == Some("record") {
            return Err(Fault::Other("nothing can be recorded".into()));
        }
        self.recorder.begin();
        Ok(())
    }

    fn end_recording(&mut self) -> Result<Recording, Fault> {
        self.recorder.end()
    }

    fn replay(&mut self, recording: Recording) -> Result<(), Fault> {
        self.count("replay")?;
        for step in self.recorder.steps(recording)? {
            self.compute(&step)?;
        }
        Ok(())
    }

    fn drop_recordings(&mut self) {
        self.recorder.drop_all();
    }
}
