//! What the fixed order of summation costs: these products beside the `gemm` crate's, which cuts a sum by the shape at hand, on the shapes of SmolLM2-135M.
//!
//! `cargo test --release -p engine --lib -- --ignored --nocapture beside_the_gemm_crate`
//!
//! Each line is the best of five rounds in which the two take turns. Weights are used in turn as a model's layers are, so that they come from memory.
//! What it showed is in `PERFORMANCE.md`.

#![allow(unsafe_code)]

use std::time::Instant;

use gemm::Parallelism;

use super::super::lanes::Level;
use super::super::threads::Threads;
use super::{Format, Operand, Products, Right};

/// A row-major matrix, or its transpose: numbers, stride of rows, stride of columns.
type Matrix<'a> = (&'a [f32], usize, usize);

/// `y (m × n) = a (m × k) · b (k × n)`, added to `y` if `add`.
fn theirs(
    y: &mut [f32],
    [m, n, k]: [usize; 3],
    a: Matrix<'_>,
    b: Matrix<'_>,
    add: bool,
    threads: usize,
) {
    let parallelism = if threads > 1 && m * n * k > 1 << 18 {
        Parallelism::Rayon(threads)
    } else {
        Parallelism::None
    };
    // SAFETY: the slices are whole matrices of these sizes and strides.
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

/// Numbers between -1 and 1.
fn numbers(len: usize) -> Vec<f32> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

fn measure([m, n, k]: [usize; 3], level: Level, threads: &Threads) {
    let copies = ((64 << 20) / (n * k * 4)).clamp(1, 24);
    let (x, dy, weights) = (numbers(m * k), numbers(m * n), numbers(copies * n * k));
    let (mut y, mut dx, mut dw) = (vec![0.0; m * n], vec![0.0; m * k], vec![0.0; n * k]);
    let mut ours = Products::default();
    let flop = 2.0 * (m * n * k) as f64;
    let repeats = ((3e9 / flop) as usize).clamp(3, 300);
    for what in ["x·Wᵀ", "dy·W", "dyᵀ·x"] {
        let mut best = [f64::INFINITY; 2];
        for round in 0..10 {
            let began = Instant::now();
            for repeat in 0..repeats {
                let w = &weights[repeat % copies * n * k..][..n * k];
                let (size, a, b, to, add) = match what {
                    "x·Wᵀ" => ([m, n, k], (&x, false), (w, false), &mut y, false),
                    "dy·W" => ([m, k, n], (&dy, false), (w, true), &mut dx, false),
                    _ => ([n, k, m], (&dy, true), (&x[..], true), &mut dw, true),
                };
                let [rows, columns, depth] = size;
                if round % 2 == 0 {
                    let a = if a.1 {
                        (&a.0[..], 1, rows)
                    } else {
                        (&a.0[..], depth, 1)
                    };
                    let b = if b.1 {
                        (b.0, columns, 1)
                    } else {
                        (b.0, 1, depth)
                    };
                    let count = threads.count;
                    theirs(to, size, a, b, add, count);
                } else {
                    let operand = |(data, by_depth): (_, bool), vectors| match by_depth {
                        true => Operand::columns(data, depth, vectors),
                        false => Operand::rows(data, vectors, depth),
                    };
                    let (a, b) = (operand((&a.0[..], a.1), rows), operand(b, columns));
                    let b = Right::Plain(b);
                    ours.run(level, threads, Format::F32, to, a, b, add);
                }
            }
            let seconds = began.elapsed().as_secs_f64() / repeats as f64;
            best[round % 2] = best[round % 2].min(seconds);
        }
        println!(
            "{what:6} rows {m:5}, {k:4} → {n:5}: gemm {:6.1}, engine {:6.1} GFLOP/s, time × {:.2}",
            flop / best[0] / 1e9,
            flop / best[1] / 1e9,
            best[1] / best[0]
        );
    }
}

#[test]
#[ignore = "a measurement, and half a minute of both processors"]
fn beside_the_gemm_crate() {
    let (level, threads) = (Level::detect(), Threads::start(None).unwrap());
    println!("{}, {} threads", level.name(), threads.count);
    for (inputs, outputs) in [
        (576, 960),
        (576, 576),
        (576, 3072),
        (1536, 576),
        (576, 49152),
    ] {
        for rows in [1, 4, 16, 64, 256, 2048] {
            // The head computes a few hundred rows at a time.
            if rows * outputs <= 256 * 49152 {
                measure([rows, outputs, inputs], level, &threads);
            }
        }
    }
}
