//! [`Driver`] of a device that computes nothing and counts the work: launches, blocks, bytes, operations, and calls of the host. [`DeviceModel`] predicts the
//! time.
//!
//! It needs neither a GPU nor the memory that the work would take, so a model's true size can be counted on any machine. Numbers that it returns to the host
//! are 0.

mod address_space;
mod attention;
mod cost;
mod counted_work;
mod device_model;
mod signature;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use self::address_space::AddressSpace;
use self::cost::CostSum;
pub use self::cost::{Cost, Unit};
pub use self::counted_work::{CountedWork, HostCalls, Launches, Line};
pub use self::device_model::{DeviceModel, H100, H200};
use self::signature::Signature;
use super::driver::{Address, Arg, Driver, Fault, Launch, Product, Recording, Step};
use super::kernels;
use super::step_recorder::StepRecorder;

/// Reads what a device has counted; another thread may own the device.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    work: Arc<Mutex<CountedWork>>,
    peak_bytes: Arc<AtomicU64>,
}

impl Ledger {
    /// What was counted since the last call. Work after the last wait for the device is counted later.
    pub fn take(&self) -> CountedWork {
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
        memory: AddressSpace::new(model.memory),
        ledger: ledger.clone(),
        current: CountedWork::default(),
        operation: "",
        recorder: StepRecorder::default(),
    };
    (Box::new(device), ledger)
}

struct Counting {
    model: DeviceModel,
    signatures: BTreeMap<String, Signature>,
    memory: AddressSpace,
    ledger: Ledger,
    /// The work since the last wait.
    current: CountedWork,
    /// The operation of the last step.
    operation: &'static str,
    recorder: StepRecorder,
}

/// The line of a step. A kernel of several operations belongs to that of the last step.
pub(super) fn line(step: &Step<'_>, last: &'static str) -> Line {
    match step {
        Step::Launch(kernel, ..) => (operation(kernel).unwrap_or(last), kernel.to_string()),
        Step::Multiply(product) => product_line(product),
        Step::Copy(..) => ("copy", String::new()),
        Step::Zero(..) => ("zero", String::new()),
    }
}

/// The line of a product, with outputs and inputs of its weight. The operation is the one that transposes these operands.
fn product_line(product: &Product) -> Line {
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

    fn count(&mut self, step: &Step<'_>, recorded: bool) -> Result<(), Fault> {
        // Copies and fills are the driver's, which uses the whole device.
        let all_blocks = self.model.multiprocessors.into();
        let moved = |reads: usize, writes: usize| Cost {
            reads: reads as u64,
            writes: writes as u64,
            ..Cost::default()
        };
        let (cost, blocks) = match step {
            Step::Launch(kernel, launch, args) => {
                let blocks = launch.grid.iter().map(|n| u64::from(*n)).product();
                (self.launched(kernel, *launch, args)?, blocks)
            }
            Step::Multiply(product) => cost::product(product, self.model.multiprocessors),
            Step::Copy(_, _, bytes) => (moved(*bytes, *bytes), all_blocks),
            Step::Zero(_, bytes) => (moved(0, *bytes), all_blocks),
        };
        let line = line(step, self.operation);
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
        CostSum::of(kernel, launch, args, signature, &self.memory).map_err(Fault::Other)
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

    fn run(&mut self, step: Step<'_>) -> Result<(), Fault> {
        match self.recorder.record(step) {
            Some(step) => self.count(&step, false),
            None => Ok(()),
        }
    }

    fn begin_recording(&mut self) -> Result<(), Fault> {
        self.recorder.begin();
        Ok(())
    }

    fn end_recording(&mut self) -> Result<Recording, Fault> {
        self.recorder.end()
    }

    fn replay(&mut self, recording: Recording) -> Result<(), Fault> {
        let steps = self.recorder.steps(recording)?;
        self.current.host.replays += 1;
        for step in steps {
            self.count(&step, true)?;
        }
        Ok(())
    }

    fn drop_recordings(&mut self) {
        self.recorder.drop_all();
    }
}

#[cfg(test)]
mod tests;
