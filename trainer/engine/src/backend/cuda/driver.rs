//! What the backend asks of a device: memory, kernels by their names, matrix products, recordings.
//!
//! Everything is done in the order of the calls and may be asynchronous; [`Driver::read`] waits for what was asked before it.

use crate::backend::Dtype;

/// A place in the device's memory, in bytes.
pub type Address = u64;

/// How a number is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// 4 bytes.
    F32,
    /// The upper 2 bytes of an f32.
    Bf16,
}

impl From<Dtype> for Format {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::F32 => Self::F32,
            Dtype::Bf16 => Self::Bf16,
        }
    }
}

impl Format {
    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// Its name in the kernels.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "float",
            Self::Bf16 => "bf16",
        }
    }
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

/// How many threads run a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: u32,
    /// Bytes of shared memory beside what the kernel declares.
    pub shared: u32,
}

/// A row-major matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matrix {
    /// Its first number.
    pub address: Address,
    /// Of its numbers.
    pub format: Format,
    /// Numbers of a stored row.
    pub columns: usize,
    /// Whether its transpose is meant.
    pub transposed: bool,
}

/// `y (rows × columns) = a (rows × inner) · b (inner × columns)`, sums in f32. `a` and `b` are of one format.
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
    /// Whether it is added to what `y` holds.
    pub accumulate: bool,
}

/// Why a device did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// There is no room.
    #[error("the GPU has no {:.2} GB of memory left", *asked as f64 * 1e-9)]
    Memory {
        /// Bytes that were asked for.
        asked: u64,
    },
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

/// A recording's number.
pub type Recording = u32;

/// A device.
pub trait Driver: Send {
    /// The device in words.
    fn name(&self) -> String;
    /// Bytes of memory that are free, and all of them.
    fn memory(&self) -> Result<(u64, u64), Fault>;
    /// Processors that run a block at a time or several.
    fn multiprocessors(&self) -> u32;

    /// Memory; what it holds is not said.
    fn allocate(&mut self, bytes: usize) -> Result<Address, Fault>;
    /// Gives an allocation back.
    fn free(&mut self, address: Address);
    /// Copies from the host; the bytes may be changed when this returns.
    fn write(&mut self, to: Address, bytes: &[u8]) -> Result<(), Fault>;
    /// Copies to the host.
    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<(), Fault>;
    /// Waits until everything asked for before is done.
    fn synchronise(&mut self) -> Result<(), Fault>;
    /// Copies bytes from one place to another; they do not overlap.
    fn copy(&mut self, to: Address, from: Address, bytes: usize) -> Result<(), Fault>;
    /// Sets bytes to 0.
    fn zero(&mut self, at: Address, bytes: usize) -> Result<(), Fault>;
    /// Runs one of [`super::kernels::NAMES`].
    fn launch(&mut self, kernel: &str, launch: Launch, args: &[Arg]) -> Result<(), Fault>;
    /// Multiplies matrices.
    fn multiply(&mut self, product: &Product) -> Result<(), Fault>;

    /// Records the launches, products and copies that follow, instead of making them. `false` where the device does not.
    fn record(&mut self) -> Result<bool, Fault>;
    /// Ends a recording.
    fn recorded(&mut self) -> Result<Recording, Fault>;
    /// Does all that was recorded.
    fn replay(&mut self, recording: Recording) -> Result<(), Fault>;
    /// Drops all recordings.
    fn forget(&mut self);
}
