//! [`Driver`] that measures what each kernel, product, copy and fill takes, by waiting for the device after it.
//!
//! It records nothing, so decoding runs call by call. The time of an empty call and its wait is measured first, and subtracted. What remains is exact for what
//! takes much longer than that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::driver::{Address, Driver, Fault, Recording, Step};
use super::ledger::{Line, line};

/// Empty calls that are measured.
const EMPTY_CALLS: usize = 100;

/// By operation and kernel, as the ledger names them: the number of calls, and their seconds.
type Measured = BTreeMap<Line, (u64, f64)>;

/// Reads what a device has measured; another thread may own the device.
#[derive(Debug, Clone, Default)]
pub struct Profile(Arc<Mutex<Measured>>);

impl Profile {
    /// What was measured since the last call.
    pub fn take(&self) -> Measured {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut lines)
    }
}

/// A device that measures another one's calls.
///
/// # Errors
/// If the device fails.
pub fn open(mut device: Box<dyn Driver>) -> Result<(Box<dyn Driver>, Profile), Fault> {
    let memory = device.allocate(4)?;
    let mut overhead = f64::INFINITY;
    for _ in 0..EMPTY_CALLS {
        device.synchronise()?;
        let began = Instant::now();
        device.zero(memory, 4)?;
        device.synchronise()?;
        overhead = overhead.min(began.elapsed().as_secs_f64());
    }
    device.free(memory);
    let profile = Profile::default();
    let profiled = Profiled {
        device,
        overhead,
        profile: profile.clone(),
        operation: "",
    };
    Ok((Box::new(profiled), profile))
}

struct Profiled {
    device: Box<dyn Driver>,
    /// Seconds that an empty call takes, and the wait for it.
    overhead: f64,
    profile: Profile,
    /// The operation of the last step.
    operation: &'static str,
}

impl Driver for Profiled {
    fn name(&self) -> String {
        self.device.name()
    }

    fn memory(&self) -> Result<(u64, u64), Fault> {
        self.device.memory()
    }

    fn multiprocessors(&self) -> u32 {
        self.device.multiprocessors()
    }

    fn allocate(&mut self, bytes: usize) -> Result<Address, Fault> {
        self.device.allocate(bytes)
    }

    fn free(&mut self, address: Address) {
        self.device.free(address);
    }

    fn write(&mut self, to: Address, bytes: &[u8]) -> Result<(), Fault> {
        self.device.write(to, bytes)
    }

    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<(), Fault> {
        self.device.read(from, bytes)
    }

    fn synchronise(&mut self) -> Result<(), Fault> {
        self.device.synchronise()
    }

    fn run(&mut self, step: Step<'_>) -> Result<(), Fault> {
        let line = line(&step, self.operation);
        self.operation = line.0;
        self.device.synchronise()?;
        let began = Instant::now();
        self.device.run(step)?;
        self.device.synchronise()?;
        let seconds = began.elapsed().as_secs_f64() - self.overhead;
        let lines = self.profile.0.lock();
        let mut lines = lines.unwrap_or_else(PoisonError::into_inner);
        let (calls, sum) = lines.entry(line).or_default();
        *calls += 1;
        *sum += seconds.max(0.0);
        Ok(())
    }

    fn begin_recording(&mut self) -> Result<(), Fault> {
        Err(Fault::Other("calls are measured one by one".into()))
    }

    fn end_recording(&mut self) -> Result<Recording, Fault> {
        self.device.end_recording()
    }

    fn replay(&mut self, recording: Recording) -> Result<(), Fault> {
        self.device.replay(recording)
    }

    fn drop_recordings(&mut self) {
        self.device.drop_recordings();
    }
}
