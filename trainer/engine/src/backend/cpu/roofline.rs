//! Upper bounds of the processor's arithmetic and of the memory, measured without any of the engine's products: multiply-adds on registers alone, and the
//! standard library's copy. A percentage of these bounds is the share of the machine that is used; a percentage of our own product's rate would not be.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::sync::Barrier;
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use super::super::Dtype;
#[cfg(target_arch = "x86_64")]
use super::simd::amx;
use super::simd::{LANES, Lanes, SimdLevel, at_level};

/// Number of rounds; the fastest counts. On a shared machine, other processes may slow some rounds down.
const ROUNDS: usize = 7;
/// Numbers of independent chains of multiply-adds, with 32 registers and with 16: more than latency times units, fewer than registers.
const WIDE_CHAINS: usize = 12;
const CHAINS: usize = 6;
/// Iterations of a round's loop, which takes at least ten milliseconds.
const TURNS: usize = 8_000_000;
/// Bytes that all threads together copy in a round, more than any cache holds. `PIECES` are the minimum and maximum for each thread.
const COPIED: usize = 512 << 20;
const PIECES: (usize, usize) = (4 << 20, 128 << 20);

/// GFLOP/s of `threads` threads together, with this processor's widest multiply-add instruction for numbers of `dtype`, which may be one for f32; and its name
/// in assembly language. A multiply-add counts as two operations.
#[must_use]
pub fn arithmetic(dtype: Dtype, threads: usize) -> (f64, &'static str) {
    let level = match dtype {
        Dtype::F32 => SimdLevel::detect().without_bf16(),
        Dtype::Bf16 => SimdLevel::detect(),
    };
    #[cfg(target_arch = "x86_64")]
    if dtype == Dtype::Bf16 && amx::available() {
        // SAFETY: the processor has AMX.
        let rate = rate(TILE_FLOP, threads, || unsafe { multiply_tiles(TURNS) });
        return (rate, "tdpbf16ps");
    }
    let instruction = match level {
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512Bf16 => "vdpbf16ps",
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512 => "vfmadd231ps on 512 bits",
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx2 => "vfmadd231ps on 256 bits",
        SimdLevel::Portable => {
            let rate = rate(2 * PORTABLE_CHAINS, threads, || {
                multiply_add_portably(TURNS);
            });
            return (rate, "the compiler's multiply-add");
        }
    };
    let chains = if level.wide() { WIDE_CHAINS } else { CHAINS };
    let products = if level.multiplies_pairs() { 2 } else { 1 };
    let flop = chains * LANES * products * 2;
    (
        rate(flop, threads, || multiply_add(level, TURNS)),
        instruction,
    )
}

/// GFLOP/s of a loop of [`TURNS`] iterations with `flop` operations each.
fn rate(flop: usize, threads: usize, turns: impl Fn() + Sync) -> f64 {
    let seconds = shortest_time(vec![(); threads], |()| turns());
    (threads * flop * TURNS) as f64 / seconds / 1e9
}

/// GB/s, read and written together, of copies on `threads` threads between memory that is in no cache.
#[must_use]
pub fn copies(threads: usize) -> f64 {
    let piece = (COPIED / threads.max(1)).clamp(PIECES.0, PIECES.1);
    let pieces = vec![(vec![1_u8; piece], vec![2_u8; piece]); threads];
    let seconds = shortest_time(pieces, |(from, to)| {
        to.copy_from_slice(black_box(from));
        black_box(to);
    });
    (2 * threads * piece) as f64 / seconds / 1e9
}

/// The shortest time of all rounds, from the first thread's start to the last one's end. In a round, each thread runs `work` once on its own item.
fn shortest_time<T: Send>(mut own: Vec<T>, work: impl Fn(&mut T) + Sync) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let barrier = Barrier::new(own.len());
        let timed = |own| {
            barrier.wait();
            let began = Instant::now();
            work(own);
            (began, Instant::now())
        };
        let (began, ended): (Vec<Instant>, Vec<Instant>) = std::thread::scope(|scope| {
            let threads: Vec<_> = own
                .iter_mut()
                .map(|own| scope.spawn(|| timed(own)))
                .collect();
            let joined = threads.into_iter().map(ScopedJoinHandle::join);
            joined
                .map(|times| times.expect("arithmetic and copies do not panic"))
                .unzip()
        });
        if let (Some(first), Some(last)) = (began.iter().min(), ended.iter().max()) {
            best = best.min((*last - *first).as_secs_f64());
        }
    }
    best
}

#[inline(always)]
fn multiply_add_body<L: Lanes>(turns: usize) {
    if L::WIDE {
        multiply_add_chains::<L, WIDE_CHAINS>(turns);
    } else {
        multiply_add_chains::<L, CHAINS>(turns);
    }
}

#[inline(always)]
fn multiply_add_chains<L: Lanes, const COUNT: usize>(turns: usize) {
    let factor = |x: f32| {
        let x = L::splat(black_box(x));
        if L::PAIRS { x.pair(x) } else { x }
    };
    let (a, b) = (factor(0.5), factor(1e-3));
    let mut sums = [L::splat(black_box(0.0)); COUNT];
    for _ in 0..turns {
        for sum in &mut sums {
            *sum = if L::PAIRS {
                sum.add_products(a, b)
            } else {
                a.fma(b, *sum)
            };
        }
    }
    black_box(sums);
}

at_level! {
    /// Multiply-adds on registers alone.
    pairs fn multiply_add(turns: usize) = multiply_add_body
}

/// Single numbers that fill the registers, but for two.
const PORTABLE_CHAINS: usize = if cfg!(target_arch = "aarch64") {
    96
} else {
    56
};

/// Multiply-adds of single numbers, as compiled for every processor of the architecture.
fn multiply_add_portably(turns: usize) {
    let (a, b) = (black_box(0.5_f32), black_box(1e-3_f32));
    let mut sums = black_box([0.0_f32; PORTABLE_CHAINS]);
    for _ in 0..turns {
        for sum in &mut sums {
            // On other architectures a fused multiply-add may be a call of the mathematical library.
            *sum = match cfg!(target_arch = "aarch64") {
                true => sum.mul_add(a, b),
                false => *sum * a + b,
            };
        }
    }
    black_box(sums);
}

/// Operations of an iteration of [`multiply_tiles`].
#[cfg(target_arch = "x86_64")]
const TILE_FLOP: usize = 6 * 16 * 16 * 32 * 2;

/// Products of tiles on registers alone: six tiles contain sums, and two the factors.
///
/// # Safety
/// The processor has AMX.
#[cfg(target_arch = "x86_64")]
unsafe fn multiply_tiles(turns: usize) {
    let _tiles = amx::Tiles::configure();
    // 0.5 in bf16.
    let factors = black_box([0x3f00_u16; 16 * 32]);
    // SAFETY: the tiles are configured, and the factors fill one.
    unsafe {
        std::arch::asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "tilezero tmm4",
            "tilezero tmm5",
            "tileloadd tmm6, [{factors} + {stride}]",
            "tileloadd tmm7, [{factors} + {stride}]",
            "2:",
            "tdpbf16ps tmm0, tmm6, tmm7",
            "tdpbf16ps tmm1, tmm6, tmm7",
            "tdpbf16ps tmm2, tmm6, tmm7",
            "tdpbf16ps tmm3, tmm6, tmm7",
            "tdpbf16ps tmm4, tmm6, tmm7",
            "tdpbf16ps tmm5, tmm6, tmm7",
            "dec {turns}",
            "jnz 2b",
            factors = in(reg) factors.as_ptr(),
            stride = in(reg) 64_usize,
            turns = inout(reg) turns.max(1) => _,
            options(nostack, readonly),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::simd::levels;
    use super::*;

    #[test]
    fn every_instruction_runs_and_a_measured_bound_names_its_own() {
        for level in levels() {
            multiply_add(level, 1000);
        }
        multiply_add_portably(1000);
        #[cfg(target_arch = "x86_64")]
        if amx::available() {
            // SAFETY: the processor has AMX.
            unsafe { multiply_tiles(1000) };
        }
        let (rate, instruction) = arithmetic(Dtype::F32, 1);
        assert!(rate > 0.0 && !instruction.is_empty(), "{rate}");
    }
}
