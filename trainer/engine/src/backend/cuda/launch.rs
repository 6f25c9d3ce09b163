//! The backend's calls of its device. The first fault is stored, and no more calls are made until it has been reported.

use std::borrow::Cow;

use half::bf16;

use super::batch::BatchPlan;
use super::driver::{Address, Arg, Driver, Fault, Launch, Matrix, Product};
use super::scratch::Use;
use super::{ADDED_COLUMNS, BLOCK, Cuda, ROW};
use crate::backend::{Buf, Dtype, Rows};
use crate::batch::Batch;
use crate::config::Activation;
use crate::error::EngineError;

/// Work is divided into this many blocks per multiprocessor, so that all of them have work to the end.
const BLOCKS_EACH: u32 = 4;
/// Maximum number of blocks over elements. Beyond it, each block processes several parts.
const BLOCKS: u64 = 16 * 1024;

pub(super) fn word(n: usize) -> Arg {
    Arg::Word(u32::try_from(n).expect("sizes are planned to fit"))
}

pub(super) fn size(n: usize) -> Arg {
    Arg::Size(n as u64)
}

impl From<Fault> for EngineError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Memory { .. } => Self::Device(format!(
                "{fault}; lower the number of sequences, the tokens of a pack or the tokens of the KV cache, or take a smaller model"
            )),
            Fault::Ranks(what) => Self::Ranks(what),
            Fault::Other(what) => Self::Device(what),
        }
    }
}

/// Number of consecutive numbers that a thread of most kernels over elements processes at once.
const PACK: usize = 4;
/// Maximum number of blocks in the second dimension of a grid.
const MAX_GRID_Y: usize = 65_535;

/// Like [`elementwise`], but each thread processes [`PACK`] numbers at once.
pub(super) fn packs(n: usize) -> Launch {
    elementwise(n.div_ceil(PACK))
}

/// A launch with a block for each part of a row. Each thread processes [`PACK`] numbers of the part at once.
pub(super) fn parts_of_rows(rows: usize, width: usize) -> Launch {
    let parts = width.div_ceil(PACK * BLOCK as usize);
    blocks([parts, rows.min(MAX_GRID_Y), 1], BLOCK)
}

/// A launch with as many blocks of [`BLOCK`] threads as the elements need.
pub(super) fn elementwise(n: usize) -> Launch {
    let blocks = n.div_ceil(BLOCK as usize) as u64;
    Launch {
        grid: [blocks.clamp(1, BLOCKS) as u32, 1, 1],
        block: BLOCK,
        shared: 0,
    }
}

pub(super) fn blocks(grid: [usize; 3], block: u32) -> Launch {
    Launch {
        grid: grid.map(|n| u32::try_from(n).expect("sizes are planned to fit")),
        block,
        shared: 0,
    }
}

/// Converts numbers to their storage format. All processors that CUDA supports are little-endian, as the device is.
pub(super) fn encoded(values: &[f32], format: Dtype) -> Cow<'_, [u8]> {
    match format {
        Dtype::F32 => bytemuck::cast_slice(values).into(),
        Dtype::Bf16 => {
            let numbers = values.iter();
            let bytes = numbers.flat_map(|x| bf16::from_f32(*x).to_le_bytes());
            bytes.collect::<Vec<u8>>().into()
        }
    }
}

/// Converts numbers from their storage format.
pub(super) fn decode(bytes: &[u8], format: Dtype, values: &mut [f32]) {
    match format {
        Dtype::F32 => {
            for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
                *value = f32::from_le_bytes(*bytes);
            }
        }
        Dtype::Bf16 => {
            for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
                *value = bf16::from_le_bytes(*bytes).to_f32();
            }
        }
    }
}

/// Number of blocks that keep this many multiprocessors busy.
pub(super) fn occupying_blocks(multiprocessors: u32) -> usize {
    (BLOCKS_EACH * multiprocessors) as usize
}

impl Cuda {
    pub(super) fn occupying_blocks(&self) -> usize {
        occupying_blocks(self.driver.multiprocessors())
    }

    /// Returns the value of a successful call. Otherwise stores the fault, if it is the first, and returns `None`.
    pub(super) fn store_fault<T>(&mut self, result: Result<T, Fault>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(fault) => {
                self.fault.get_or_insert(fault);
                None
            }
        }
    }

    /// Reports and clears the stored fault.
    pub(super) fn check(&mut self) -> Result<(), EngineError> {
        match self.fault.take() {
            Some(fault) => Err(fault.into()),
            None => Ok(()),
        }
    }

    /// Makes a call of the device, unless a fault is stored.
    pub(super) fn request(&mut self, call: impl FnOnce(&mut dyn Driver) -> Result<(), Fault>) {
        if self.fault.is_none() {
            let result = call(self.driver.as_mut());
            self.store_fault(result);
        }
    }

    /// Launches a kernel, unless the grid is empty.
    pub(super) fn launch(&mut self, kernel: &str, launch: Launch, args: &[Arg]) {
        self.converted = None;
        if !launch.grid.contains(&0) {
            self.request(|driver| driver.launch(kernel, launch, args));
        }
    }

    /// Like [`Cuda::launch`], for a kernel's instance with some formats.
    pub(super) fn launch_for(
        &mut self,
        kernel: &str,
        formats: &[Dtype],
        launch: Launch,
        args: &[Arg],
    ) {
        let name = |format: &Dtype| match format {
            Dtype::F32 => "float",
            Dtype::Bf16 => "bf16",
        };
        let names: Vec<&str> = formats.iter().map(name).collect();
        self.launch(&format!("{kernel}<{}>", names.join(", ")), launch, args);
    }

    pub(super) fn at(&self, buf: Buf) -> Arg {
        Arg::Address(self.arena.address(buf))
    }

    /// The address and the stride of rows, after checking that they lie in their buffer.
    pub(super) fn rows(&self, rows: Rows, count: usize, width: usize) -> [Arg; 2] {
        let reach = count.saturating_sub(1) * rows.stride + width;
        assert!(
            count == 0 || reach <= rows.buf.len(),
            "rows lie in their buffer"
        );
        [self.at(rows.buf), size(rows.stride)]
    }

    pub(super) fn format(&self, buf: Buf) -> Dtype {
        self.arena.format(buf)
    }

    /// Memory for one use; `None` after a fault.
    pub(super) fn scratch(&mut self, usage: Use, bytes: usize) -> Option<Address> {
        if self.fault.is_some() {
            return None;
        }
        let result = self.scratch.get(self.driver.as_mut(), usage, bytes);
        if !matches!(result, Ok((_, false))) {
            // Memory that recordings and conversions may refer to has moved, or has been freed.
            self.converted = None;
            self.driver.drop_recordings();
            self.recordings.passes.values_mut().for_each(|r| *r = None);
        }
        if result.is_err() {
            // Completed passes are no longer valid either.
            self.recordings.passes.clear();
        }
        self.store_fault(result).map(|(address, _)| address)
    }

    /// Sends words to memory for one use.
    pub(super) fn send(&mut self, usage: Use, words: &[u32]) -> Option<Address> {
        let bytes: &[u8] = bytemuck::cast_slice(words);
        let address = self.scratch(usage, bytes.len())?;
        let written = self.driver.write(address, bytes);
        self.store_fault(written)?;
        Some(address)
    }

    /// Sends a batch, and brings the table of segments up to date with it.
    pub(super) fn send_batch(&mut self, batch: &Batch, tokens: usize) {
        let mut words = std::mem::take(&mut self.words);
        let mut plan = BatchPlan::new(batch, tokens, &mut self.segments, &mut words);
        let address = self.send(Use::Batch, &words);
        self.words = words;
        let table = self.scratch(Use::Segments, self.segments.bytes());
        let (Some(address), Some(table)) = (address, table) else {
            return;
        };
        (plan.address, plan.segments) = (address, table);
        let args = [
            Arg::Address(table),
            Arg::Address(plan.new_segments()),
            word(plan.updates),
        ];
        if plan.updates > 0 {
            self.launch("set_segments", elementwise(plan.updates), &args);
        }
        self.plan = plan;
    }

    /// Launches a kernel that moves rows; `rows` are their indices in the larger of the two buffers.
    pub(super) fn move_rows(
        &mut self,
        kernel: &str,
        [to, from]: [Buf; 2],
        rows: &[usize],
        width: usize,
    ) {
        let words: Vec<u32> = rows.iter().map(|row| *row as u32).collect();
        let Some(indices) = self.send(Use::Indices, &words) else {
            return;
        };
        let args = [
            self.at(to),
            self.at(from),
            Arg::Address(indices),
            word(rows.len()),
            word(width),
        ];
        let formats = [to, from].map(|buf| self.format(buf));
        self.launch_for(kernel, &formats, blocks([rows.len(), 1, 1], ROW), &args);
    }

    /// Converts numbers from one format to another.
    pub(super) fn convert(&mut self, to: (Address, Dtype), from: (Address, Dtype), n: usize) {
        let args = [Arg::Address(to.0), Arg::Address(from.0), size(n)];
        self.launch_for("convert", &[to.1, from.1], packs(n), &args);
    }

    /// Updates the bf16 copy of weights that have changed.
    pub(super) fn changed(&mut self, buf: Buf) {
        self.converted = None;
        if let Some(bf16_copy) = self.arena.bf16_copy(buf) {
            let from = (self.arena.address(buf), Dtype::F32);
            self.convert((bf16_copy, Dtype::Bf16), from, buf.len());
        }
    }

    /// The address of a buffer's first `n` numbers in the format of products, converted if necessary.
    pub(super) fn operand(&mut self, usage: Use, buf: Buf, n: usize) -> Option<Address> {
        let buf = buf.at(0, n);
        let (address, format) = (self.arena.address(buf), self.format(buf));
        if format == self.activations {
            return Some(address);
        }
        if let Some(bf16_copy) = self.arena.bf16_copy(buf) {
            return Some(bf16_copy);
        }
        let copy = self.scratch(usage, n * self.activations.bytes())?;
        // A gradient is the left operand of two products, one after the other.
        if usage != Use::Left || self.converted != Some(buf) {
            self.convert((copy, self.activations), (address, format), n);
            let is_converted = usage == Use::Left && self.fault.is_none();
            self.converted = is_converted.then_some(buf);
        }
        Some(copy)
    }

    /// `y (rows × columns) = a · b`. Each operand is a buffer, the number of columns of its stored rows, and whether its transpose is used.
    pub(super) fn multiply(
        &mut self,
        y: Buf,
        a: (Buf, usize, bool),
        b: (Buf, usize, bool),
        [rows, columns, inner]: [usize; 3],
        accumulate: bool,
    ) {
        if rows * columns * inner == 0 {
            return;
        }
        let y_matrix = Matrix {
            address: self.arena.address(y.at(0, rows * columns)),
            format: self.format(y),
            columns,
            transposed: false,
        };
        let left = self.operand(Use::Left, a.0, rows * inner);
        let right = self.operand(Use::Right, b.0, inner * columns);
        let (Some(left), Some(right)) = (left, right) else {
            return;
        };
        let matrix = |address, columns, transposed| Matrix {
            address,
            format: self.activations,
            columns,
            transposed,
        };
        let product = Product {
            a: matrix(left, a.1, a.2),
            b: matrix(right, b.1, b.2),
            y: y_matrix,
            rows,
            columns,
            inner,
            accumulate,
        };
        self.request(|driver| driver.multiply(&product));
        // The product may have been written over what it was computed from.
        self.converted = self.converted.filter(|from| from.block != y.block);
    }

    /// Copies numbers to the host.
    pub(super) fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<(), EngineError> {
        self.check()?;
        self.driver.read(from, bytes)?;
        Ok(())
    }

    /// Launches a gate's kernel with its two buffers.
    pub(super) fn launch_gate(
        &mut self,
        kernel: &str,
        [to, from]: [Buf; 2],
        rows: usize,
        width: usize,
        activation: Activation,
    ) {
        let number = match activation {
            Activation::Silu => 0,
            Activation::GeluTanh => 1,
        };
        let mut args = vec![self.at(to), self.at(from), word(rows), word(width)];
        args.push(Arg::Word(number));
        let launch = parts_of_rows(rows, width);
        self.launch_for(kernel, &[self.format(to)], launch, &args);
    }

    /// Adds up partial sums, each of `y`'s width.
    pub(super) fn add_parts(&mut self, y: Buf, partial: Address, parts: usize) {
        let width = y.len();
        let args = [self.at(y), Arg::Address(partial), word(parts), word(width)];
        let launch = blocks([width.div_ceil(ADDED_COLUMNS), 1, 1], BLOCK);
        self.launch("add_parts", launch, &args);
    }
}
