//! The backend's interface to a device: memory, kernels by name, matrix products, recordings.
//!
//! All calls take effect in order and may be asynchronous; [`Driver::read`] waits for all earlier ones.

use std::borrow::Cow;
use std::sync::Arc;

use crate::backend::Dtype;
use crate::backend::ranks::ProcessGroup;
use crate::error::EngineError;

/// An address in the device's memory, in bytes.
pub type Address = u64;

/// Some bytes of the device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes {
    /// Where they begin.
    pub address: Address,
    /// How many they are.
    pub len: usize,
}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arg {
    /// A pointer.
    Address(Address),
    /// `unsigned int` or `int`.
    Word(u32),
    /// `size_t`.
    Size(u64),
    /// `float`.
    Float(f32),
}

impl Arg {
    /// The 8 bytes that begin with it. All processors that CUDA supports are little-endian.
    pub(super) fn bits(self) -> u64 {
        match self {
            Self::Address(n) | Self::Size(n) => n,
            Self::Word(n) => u64::from(n),
            Self::Float(x) => u64::from(x.to_bits()),
        }
    }
}

/// The numbers of threads that run a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Number of blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads per block.
    pub block: u32,
    /// Bytes of shared memory in addition to those that the kernel declares.
    pub shared: u32,
}

/// A row-major matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matrix {
    /// Address of its first number.
    pub address: Address,
    /// Format of its numbers.
    pub format: Dtype,
    /// Number of elements of a stored row.
    pub columns: usize,
    /// Whether the product uses its transpose.
    pub transposed: bool,
}

/// `y (rows × columns) = a (rows × inner) · b (inner × columns)`, with sums in f32. `a` and `b` have the same format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product {
    /// The left operand.
    pub a: Matrix,
    /// The right operand.
    pub b: Matrix,
    /// The result, not transposed.
    pub y: Matrix,
    /// Rows of `y`.
    pub rows: usize,
    /// Columns of `y`.
    pub columns: usize,
    /// Columns of `a`, rows of `b`.
    pub inner: usize,
    /// Whether the product is added to `y`.
    pub accumulate: bool,
}

/// What a device does in order, at once or in a recording.
#[derive(Debug, Clone)]
pub enum Step<'a> {
    /// Runs one of [`super::kernels::NAMES`].
    Launch(Cow<'a, str>, Launch, Cow<'a, [Arg]>),
    /// Multiplies matrices.
    Multiply(Product),
    /// Copies bytes to the first address from the second; the ranges do not overlap.
    Copy(Address, Address, usize),
    /// Sets bytes to 0.
    Zero(Address, usize),
}

/// A failure of the device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// There is not enough memory.
    #[error("the GPU has no {:.2} GB of memory left", *requested as f64 * 1e-9)]
    Memory {
        /// Number of bytes requested.
        requested: u64,
    },
    /// Other ranks are gone, or did not answer in time.
    #[error("{0}")]
    Ranks(String),
    /// Any other failure, as a message.
    #[error("{0}")]
    Other(String),
}

/// Number of a recording.
pub type Recording = u32;

/// A device.
pub trait Driver: Send {
    /// Description of the device.
    fn name(&self) -> String;
    /// Bytes of free memory, and of all memory.
    fn memory(&self) -> Result<(u64, u64), Fault>;
    /// Number of multiprocessors. Each runs one or more blocks at a time.
    fn multiprocessors(&self) -> u32;

    /// Allocates memory with unspecified content.
    fn allocate(&mut self, bytes: usize) -> Result<Address, Fault>;
    /// Frees an allocation.
    fn free(&mut self, address: Address);
    /// Copies from the host. The bytes may be changed after it returns.
    fn write(&mut self, to: Address, bytes: &[u8]) -> Result<(), Fault>;
    /// Copies to the host.
    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<(), Fault>;
    /// Waits until all earlier calls have taken effect.
    fn synchronise(&mut self) -> Result<(), Fault>;
    /// Runs a step, or records it.
    fn run(&mut self, step: Step<'_>) -> Result<(), Fault>;

    /// Runs [`Step::Copy`].
    fn copy(&mut self, to: Address, from: Address, bytes: usize) -> Result<(), Fault> {
        self.run(Step::Copy(to, from, bytes))
    }
    /// Runs [`Step::Zero`].
    fn zero(&mut self, at: Address, bytes: usize) -> Result<(), Fault> {
        self.run(Step::Zero(at, bytes))
    }
    /// Runs [`Step::Launch`].
    fn launch(&mut self, kernel: &str, launch: Launch, args: &[Arg]) -> Result<(), Fault> {
        self.run(Step::Launch(kernel.into(), launch, args.into()))
    }
    /// Runs [`Step::Multiply`].
    fn multiply(&mut self, product: &Product) -> Result<(), Fault> {
        self.run(Step::Multiply(*product))
    }

    /// Connects this device with those of the other ranks, which all call it together. Returns whether they can [exchange](Driver::exchange) bytes.
    ///
    /// # Errors
    /// If the connection fails on any rank; [`EngineError::Ranks`] if the ranks lose each other.
    fn connect(&mut self, _ranks: &Arc<dyn ProcessGroup>) -> Result<bool, EngineError> {
        Ok(false)
    }
    /// Sends bytes to each rank's device, and receives bytes from each, in the order of ranks. Sender and receiver give the same length. The caller has
    /// [connected](Driver::connect) the device.
    fn exchange(&mut self, _send: &[Bytes], _receive: &[Bytes]) -> Result<(), Fault> {
        Err(Fault::Other("the device is not connected to others".into()))
    }

    /// Records the steps that follow, instead of running them.
    fn begin_recording(&mut self) -> Result<(), Fault>;
    /// Ends a recording.
    fn end_recording(&mut self) -> Result<Recording, Fault>;
    /// Runs all that was recorded.
    fn replay(&mut self, recording: Recording) -> Result<(), Fault>;
    /// Drops all recordings.
    fn drop_recordings(&mut self);
}
