//! The cost of the fixed order of summation: the CPU backend's matrix products compared with those of the `gemm` crate, which splits a sum by the shape at
//! hand, on the shapes of SmolLM2-135M.
//!
//! `cargo bench --workspace --bench products`
//!
//! Each line is the best of five rounds in which the two alternate, in f32. The weights of several layers are used in turn, as in a model, so that they are
//! read from memory.
//! The results are in `PERFORMANCE.md`.

#![allow(unsafe_code)]

use std::time::Instant;

use engine::EngineError;
use engine::backend::{Backend, Buf, Linear, Purpose, cpu};
use gemm::Parallelism;

/// Inputs and outputs of SmolLM2-135M's matrices; the head is last.
const MATRICES: [(usize, usize); 5] = [
    (576, 960),
    (576, 576),
    (576, 3072),
    (1536, 576),
    (576, 49152),
];
const ROWS: [usize; 6] = [1, 4, 16, 64, 256, 2048];
/// The head computes a few hundred rows at a time.
const MAX_RESULTS: usize = 256 * 49152;
/// Number of weights, more than any cache holds.
const WEIGHTS: usize = 1 << 24;

/// The product of a layer's forward pass, and the two of its backward pass.
#[derive(Clone, Copy)]
enum Product {
    Forward,
    BackwardInput,
    BackwardWeight,
}

use Product::{BackwardInput, BackwardWeight, Forward};

impl Product {
    fn name(self) -> &'static str {
        match self {
            Forward => "x·Wᵀ",
            BackwardInput => "dy·W",
            BackwardWeight => "dyᵀ·x",
        }
    }
}

/// A layer's operands and results, in this program's memory or the backend's. There are several copies of the weights.
struct Layer<T> {
    size: Linear,
    x: T,
    dy: T,
    weights: T,
    y: T,
    dx: T,
    dw: T,
}

impl<T> Layer<T> {
    /// Creates buffers of the layer's sizes.
    fn new<E>(
        size: Linear,
        copies: usize,
        mut buffer: impl FnMut(usize) -> Result<T, E>,
    ) -> Result<Self, E> {
        let Linear {
            rows,
            outputs,
            inputs,
        } = size;
        Ok(Self {
            size,
            x: buffer(rows * inputs)?,
            dy: buffer(rows * outputs)?,
            weights: buffer(copies * outputs * inputs)?,
            y: buffer(rows * outputs)?,
            dx: buffer(rows * inputs)?,
            dw: buffer(outputs * inputs)?,
        })
    }
}

impl Layer<Buf> {
    fn run(&self, backend: &mut dyn Backend, product: Product, copy: usize) {
        let size = self.size;
        let len = size.outputs * size.inputs;
        let w = self.weights.at(copy * len, len);
        match product {
            Forward => backend.linear(self.y, self.x, w, size, false),
            BackwardInput => backend.linear_backward_input(self.dx, self.dy, w, size, false),
            BackwardWeight => backend.linear_backward_weight(self.dw, self.dy, self.x, size),
        }
    }
}

impl Layer<Vec<f32>> {
    fn run(&mut self, threads: usize, product: Product, copy: usize) {
        let Linear {
            rows,
            outputs,
            inputs,
        } = self.size;
        let len = outputs * inputs;
        let (x, dy) = (&self.x[..], &self.dy[..]);
        let w = &self.weights[copy * len..][..len];
        let (y, sizes, a, b, add) = match product {
            Forward => (
                &mut self.y,
                [rows, outputs, inputs],
                (x, inputs, 1),
                (w, 1, inputs),
                false,
            ),
            BackwardInput => (
                &mut self.dx,
                [rows, inputs, outputs],
                (dy, outputs, 1),
                (w, inputs, 1),
                false,
            ),
            BackwardWeight => (
                &mut self.dw,
                [outputs, inputs, rows],
                (dy, 1, outputs),
                (x, inputs, 1),
                true,
            ),
        };
        multiply(y, sizes, a, b, add, threads);
    }
}

/// Numbers, row stride, column stride.
type Matrix<'a> = (&'a [f32], usize, usize);

/// `y (m × n) = a (m × k) · b (k × n)`; added to `y` if `add`.
fn multiply(
    y: &mut [f32],
    [m, n, k]: [usize; 3],
    a: Matrix<'_>,
    b: Matrix<'_>,
    add: bool,
    threads: usize,
) {
    assert!(y.len() == m * n && a.0.len() == m * k && b.0.len() == k * n);
    let parallelism = if threads > 1 && m * n * k > 1 << 18 {
        Parallelism::Rayon(threads)
    } else {
        Parallelism::None
    };
    // SAFETY: the slices are whole matrices of these sizes, and the strides are those of row-major or column-major storage.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            y.as_mut_ptr(),
            1,
            n as isize,
            add,
            a.0.as_ptr(),
            a.2 as isize,
            a.1 as isize,
            b.0.as_ptr(),
            b.2 as isize,
            b.1 as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// Pseudo-random numbers between -1 and 1.
fn numbers(len: usize) -> Vec<f32> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

fn measure(backend: &mut dyn Backend, threads: usize, size: Linear) -> Result<(), EngineError> {
    let Linear {
        rows,
        outputs,
        inputs,
    } = size;
    let copies = (WEIGHTS / (outputs * inputs)).clamp(1, 24);
    let mut theirs = Layer::new(size, copies, |len| Ok::<_, EngineError>(numbers(len)))?;
    let mut buffers = Vec::new();
    let ours = Layer::new(size, copies, |len| {
        let buffer = backend.allocate(Purpose::Activations, len)?;
        backend.upload(buffer, &numbers(len));
        buffers.push(buffer);
        Ok::<_, EngineError>(buffer)
    })?;
    let flop = 2.0 * (rows * outputs * inputs) as f64;
    let repeats = ((3e9 / flop) as usize).clamp(3, 300);
    for product in [Forward, BackwardInput, BackwardWeight] {
        let mut best = [f64::INFINITY; 2];
        for round in 0..10 {
            let began = Instant::now();
            for repeat in 0..repeats {
                if round % 2 == 0 {
                    theirs.run(threads, product, repeat % copies);
                } else {
                    ours.run(backend, product, repeat % copies);
                }
            }
            let seconds = began.elapsed().as_secs_f64() / repeats as f64;
            best[round % 2] = best[round % 2].min(seconds);
        }
        println!(
            "{:7} {inputs:6} {outputs:7} {rows:5} {:7.1} {:7.1} {:8.2}",
            product.name(),
            flop / best[0] / 1e9,
            flop / best[1] / 1e9,
            best[1] / best[0]
        );
    }
    for buffer in buffers {
        backend.release(buffer);
    }
    Ok(())
}

fn main() -> Result<(), EngineError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut backend = cpu::open(Some(threads))?;
    println!(
        "{}; GFLOP/s, and the engine's time by gemm's\n",
        backend.name()
    );
    println!("product inputs outputs  rows    gemm  engine  time by");
    for (inputs, outputs) in MATRICES {
        for rows in ROWS {
            if rows * outputs <= MAX_RESULTS {
                let size = Linear {
                    rows,
                    outputs,
                    inputs,
                };
                measure(backend.as_mut(), threads, size)?;
            }
        }
    }
    Ok(())
}
