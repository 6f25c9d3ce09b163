//! [`Driver`] of a device that computes nothing and counts the work: launches, blocks, bytes, operations, calls of the host, and the time that
//! [`DeviceModel`] predicts for them.
//!
//! It needs neither a GPU nor the memory that the work would take, so a model's true size can be counted on any machine. Numbers that it returns to the host
//! are 0.

mod attention;
mod cost;
mod device_model;
mod memory;
mod signature;
mod work;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use self::cost::Sum;
pub use self::cost::{Cost, Unit};
pub use self::device_model::{DeviceModel, H100, H200};
use self::memory::Memory;
use self::signature::Signature;
pub use self::work::{HostCalls, Launches, Line, Work};
use super::driver::{Address, Arg, Driver, Fault, Launch, Product, Recording};
use super::kernels;

/// Reads what a device has counted; another thread may own the device.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    work: Arc<Mutex<Work>>,
    peak_bytes: Arc<AtomicU64>,
}

impl Ledger {
    /// What was counted since the last call. Work after the last wait for the device is counted later.
    pub fn take(&self) -> Work {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut work)
    }

    /// The most memory that was allocated at once, in bytes.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Ordering::Relaxed)
    }
}

/// A device that counts, and the ledger with its counts.
pub fn open(model: DeviceModel) -> (Box<dyn Driver>, Ledger) {
    let ledger = Ledger::default();
    let device = Counting {
        model,
        signatures: signature::signatures(kernels::SOURCES),
        memory: Memory::new(model.memory),
        ledger: ledger.clone(),
        current: Work::default(),
        operation: "",
        recordings: Vec::new(),
        recording: None,
    };
    (Box::new(device), ledger)
}

/// A step of a recording.
#[derive(Debug, Clone)]
enum Step {
    Launch(String, Launch, Vec<Arg>),
    Multiply(Product),
    /// Bytes that are copied.
    Copy(usize),
    /// Bytes that are set to 0.
    Zero(usize),
}

struct Counting {
    model: DeviceModel,
    signatures: BTreeMap<String, Signature>,
    memory: Memory,
    ledger: Ledger,
    /// The work since the last wait.
    current: Work,
    /// The operation of the last launch.
    operation: &'static str,
    recordings: Vec<Vec<Step>>,
    recording: Option<Vec<Step>>,
}

/// The line of a kernel's launch. A kernel of several operations belongs to that of the last launch.
pub(super) fn launch_line(kernel: &str, last: &'static str) -> Line {
    (operation(kernel).unwrap_or(last), kernel.to_owned())
}

/// The line of a product, with outputs and inputs of its weight. The operation is the one that transposes these operands.
pub(super) fn product_line(product: &Product) -> Line {
    let Product {
        rows,
        columns,
        inner,
        ..
    } = *product;
    let (operation, outputs, inputs) = match (product.a.transposed, product.b.transposed) {
        (true, _) => ("linear_backward_weight", rows, columns),
        (false, true) => ("linear", columns, inner),
        (false, false) => ("linear_backward_input", inner, columns),
    };
    (operation, format!("{outputs} × {inputs}"))
}

/// The backend's operation that launches a kernel, if it is always the same one.
fn operation(kernel: &str) -> Option<&'static str> {
    let name = kernel.split('<').next().unwrap_or(kernel);
    let same = |known: &&&str| known.split('<').next() == Some(name);
    match name {
        "attention_decode" | "attention_combine" | "attention_prefill" => Some("attention"),
        _ if name.starts_with("attention") => Some("attention_backward"),
        "column_sums" => Some("bias_backward"),
        // It ends the backward passes of norms and of biases.
        "add_parts" => None,
        _ => {
            let known = kernels::NAMES.iter().find(same)?;
            known.split('<').next()
        }
    }
}

impl Counting {
    /// Ends the part of the work that the host waits for.
    fn wait(&mut self) {
        let work = std::mem::take(&mut self.current);
        let all = self.ledger.work.lock();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        if work.host.replays > 0 {
            all.longest_step = all.longest_step.max(work.seconds());
        }
        all.add(&work);
    }

    fn step(&mut self, step: Step) -> Result<(), Fault> {
        match &mut self.recording {
            Some(steps) => {
                steps.push(step);
                Ok(())
            }
            None => self.count(&step, false),
        }
    }

    fn count(&mut self, step: &Step, recorded: bool) -> Result<(), Fault> {
        // Copies and fills are the driver's, which uses the whole device.
        let all_blocks = self.model.multiprocessors.into();
        let moved = |reads: usize, writes: usize| Cost {
            reads: reads as u64,
            writes: writes as u64,
            ..Cost::default()
        };
        let (line, cost, blocks) = match step {
            Step::Launch(kernel, launch, args) => {
                let blocks = launch.grid.iter().map(|n| u64::from(*n)).product();
                let cost = self.launched(kernel, *launch, args)?;
                (launch_line(kernel, self.operation), cost, blocks)
            }
            Step::Multiply(product) => {
                let (cost, blocks) = cost::product(product, self.model.multiprocessors);
                (product_line(product), cost, blocks)
            }
            Step::Copy(bytes) => (("copy", String::new()), moved(*bytes, *bytes), all_blocks),
            Step::Zero(bytes) => (("zero", String::new()), moved(0, *bytes), all_blocks),
        };
        self.operation = line.0;
        let launches = Launches {
            launches: 1,
            recorded: recorded.into(),
            blocks,
            min_blocks: blocks,
            reads: cost.reads,
            writes: cost.writes,
            flops: cost.flops,
            seconds: self.model.seconds(&cost, blocks, recorded),
        };
        self.current.lines.entry(line).or_default().add(&launches);
        Ok(())
    }

    fn launched(&self, kernel: &str, launch: Launch, args: &[Arg]) -> Result<Cost, Fault> {
        let name = kernel.split('<').next().unwrap_or(kernel);
        let signature = self.signatures.get(name);
        let signature = signature.ok_or_else(|| Fault::Other(format!("no kernel `{kernel}`")))?;
        signature.check(kernel, args).map_err(Fault::Other)?;
        Sum::of(kernel, launch, args, signature, &self.memory).map_err(Fault::Other)
    }

    /// Counts the time of a copy between the host and the device.
    fn transferred(&mut self, bytes: usize) {
        self.current.host.seconds += bytes as f64 / self.model.host_bandwidth;
    }
}

impl Driver for Counting {
    fn name(&self) -> String {
        format!("cuda:plan, counted for one {}", self.model.name)
    }

    fn memory(&self) -> Result<(u64, u64), Fault> {
        Ok((self.memory.total - self.memory.used, self.memory.total))
    }

    fn multiprocessors(&self) -> u32 {
        self.model.multiprocessors
    }

    fn allocate(&mut self, bytes: usize) -> Result<Address, Fault> {
        self.current.host.allocations += 1;
        let address = self.memory.allocate(bytes)?;
        let peak_bytes = &self.ledger.peak_bytes;
        peak_bytes.store(self.memory.peak, Ordering::Relaxed);
        Ok(address)
    }

    fn free(&mut self, address: Address) {
        self.current.host.allocations += 1;
        self.memory.free(address);
    }

    fn write(&mut self, to: Address, bytes: &[u8]) -> Result<(), Fault> {
        self.current.host.writes += 1;
        self.current.host.written_bytes += bytes.len() as u64;
        self.transferred(bytes.len());
        self.memory.write(to, bytes)
    }

    fn read(&mut self, _from: Address, bytes: &mut [u8]) -> Result<(), Fault> {
        bytes.fill(0);
        self.current.host.reads += 1;
        self.current.host.read_bytes += bytes.len() as u64;
        self.transferred(bytes.len());
        self.wait();
        Ok(())
    }

    fn synchronise(&mut self) -> Result<(), Fault> {
        self.current.host.waits += 1;
        self.wait();
        Ok(())
    }

    fn copy(&mut self, _to: Address, _from: Address, bytes: usize) -> Result<(), Fault> {
        self.step(Step::Copy(bytes))
    }

    fn zero(&mut self, _at: Address, bytes: usize) -> Result<(), Fault> {
        self.step(Step::Zero(bytes))
    }

    fn launch(&mut self, kernel: &str, launch: Launch, args: &[Arg]) -> Result<(), Fault> {
        self.step(Step::Launch(kernel.to_owned(), launch, args.to_vec()))
    }

    fn multiply(&mut self, product: &Product) -> Result<(), Fault> {
        self.step(Step::Multiply(*product))
    }

    fn record(&mut self) -> Result<(), Fault> {
        self.recording = Some(Vec::new());
        Ok(())
    }

    fn recorded(&mut self) -> Result<Recording, Fault> {
        let steps = self.recording.take();
        let steps = steps.ok_or_else(|| Fault::Other("nothing was being recorded".into()))?;
        self.recordings.push(steps);
        Ok(self.recordings.len() as Recording - 1)
    }

    fn replay(&mut self, recording: Recording) -> Result<(), Fault> {
        let steps = self.recordings.get(recording as usize);
        let steps = steps.ok_or_else(|| Fault::Other("the recording has been dropped".into()))?;
        self.current.host.replays += 1;
        for step in steps.clone() {
            self.count(&step, true)?;
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.recordings.clear();
    }
}

#[cfg(test)]
mod tests;
