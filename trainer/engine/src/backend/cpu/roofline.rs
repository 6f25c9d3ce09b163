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

/// Number of rounds, of which the best counts. On a shared machine, other processes may slow some rounds down.
const ROUNDS: usize = 7;
/// Number of independent chains of multiply-adds: more than latency times units on any processor, fewer than registers.
#[cfg(target_arch = "x86_64")]
const CHAINS: usize = 12;
/// Iterations of a round's loop, which takes at least ten milliseconds.
const TURNS: usize = 8_000_000;
/// Bytes that all threads together copy in a round, more than any cache holds. `PIECES` are the minimum and maximum for each thread.
const COPIED: usize = 512 << 20;
const PIECES: (usize, usize) = (4 << 20, 128 << 20);

/// The fastest multiply-add instruction for a number format.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Peak {
    /// Its name in assembly language.
    pub instruction: &'static str,
    /// Its rate on all threads together, with a multiply-add counted as two operations.
    pub gflop_per_s: f64,
}

/// One way to multiply and add: its name, the operations of one iteration, and a loop of a given number of iterations.
#[derive(Clone, Copy)]
struct Way {
    instruction: &'static str,
    flop_per_turn: f64,
    turn: unsafe fn(usize),
}

/// The highest rate of operations that `threads` threads reach with numbers of `dtype`, for each instruction that this processor has for them; the fastest
/// first. Products of bf16 numbers may also be computed in f32.
#[must_use]
pub fn arithmetic(dtype: Dtype, threads: usize) -> Vec<Peak> {
    let mut peaks: Vec<Peak> = ways(dtype)
        .into_iter()
        .map(|way| {
            // SAFETY: `ways` lists only what this processor supports.
            let seconds = shortest_time(vec![(); threads], |()| unsafe { (way.turn)(TURNS) });
            Peak {
                instruction: way.instruction,
                gflop_per_s: threads as f64 * way.flop_per_turn * TURNS as f64 / seconds / 1e9,
            }
        })
        .collect();
    peaks.sort_by(|a, b| b.gflop_per_s.total_cmp(&a.gflop_per_s));
    peaks
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

/// The shortest time from the first thread's start to the last one's end, in which each thread runs `work` once on its own item.
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

#[cfg(target_arch = "x86_64")]
fn ways(dtype: Dtype) -> Vec<Way> {
    let mut ways = vec![PORTABLE];
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        ways.push(Way {
            instruction: "vfmadd231ps on 256 bits",
            flop_per_turn: (CHAINS * 8 * 2) as f64,
            turn: x86::fma_256,
        });
    }
    if is_x86_feature_detected!("avx512f") {
        ways.push(Way {
            instruction: "vfmadd231ps on 512 bits",
            flop_per_turn: (CHAINS * 16 * 2) as f64,
            turn: x86::fma_512,
        });
    }
    if dtype == Dtype::Bf16 {
        if is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512f") {
            ways.push(Way {
                instruction: "vdpbf16ps",
                flop_per_turn: (CHAINS * 32 * 2) as f64,
                turn: x86::dot_bf16,
            });
        }
        if amx::available() {
            ways.push(Way {
                instruction: "tdpbf16ps",
                flop_per_turn: (x86::TILE_CHAINS * 16 * 16 * 32 * 2) as f64,
                turn: x86::tile_bf16,
            });
        }
    }
    ways
}

#[cfg(not(target_arch = "x86_64"))]
fn ways(_: Dtype) -> Vec<Way> {
    vec![PORTABLE]
}

/// Plain loops, as compiled.
const PORTABLE: Way = Way {
    instruction: "the compiler's multiply-add",
    flop_per_turn: (PORTABLE_LANES * 2) as f64,
    turn: portable,
};
const PORTABLE_LANES: usize = 64;

fn portable(turns: usize) {
    let (a, b) = (black_box([0.5_f32; PORTABLE_LANES]), black_box(1e-3_f32));
    let mut sums = black_box([0.0_f32; PORTABLE_LANES]);
    for _ in 0..turns {
        for (sum, a) in sums.iter_mut().zip(&a) {
            // On other architectures a fused multiply-add may be a call of the mathematical library.
            #[cfg(target_arch = "aarch64")]
            {
                *sum = a.mul_add(b, *sum);
            }
            #[cfg(not(target_arch = "aarch64"))]
            {
                *sum += a * b;
            }
        }
    }
    black_box(sums);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::*;
    use std::hint::black_box;

    use super::super::simd::amx::Tiles;
    use super::CHAINS;

    /// Number of tiles that contain sums; two more contain the factors.
    pub(super) const TILE_CHAINS: usize = 6;

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn fma_256(turns: usize) {
        let (a, b) = (
            _mm256_set1_ps(black_box(0.5)),
            _mm256_set1_ps(black_box(1e-3)),
        );
        let mut sums = [_mm256_set1_ps(black_box(0.0)); CHAINS];
        for _ in 0..turns {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(a, b, *sum);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn fma_512(turns: usize) {
        let (a, b) = (
            _mm512_set1_ps(black_box(0.5)),
            _mm512_set1_ps(black_box(1e-3)),
        );
        let mut sums = [_mm512_set1_ps(black_box(0.0)); CHAINS];
        for _ in 0..turns {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(a, b, *sum);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx512bf16,avx512f")]
    pub(super) fn dot_bf16(turns: usize) {
        let pairs = |x: f32| _mm512_cvtne2ps_pbh(_mm512_set1_ps(x), _mm512_set1_ps(x));
        let (a, b) = (pairs(black_box(0.5)), pairs(black_box(1e-3)));
        let mut sums = [_mm512_set1_ps(black_box(0.0)); CHAINS];
        for _ in 0..turns {
            for sum in &mut sums {
                *sum = _mm512_dpbf16_ps(*sum, a, b);
            }
        }
        black_box(sums);
    }

    /// # Safety
    /// The processor has AMX.
    pub(super) unsafe fn tile_bf16(turns: usize) {
        let _tiles = Tiles::configure();
        // 0.5 in bf16.
        let factors = black_box([0x3f00_u16; 16 * 32]);
        // SAFETY: the tiles are configured, and the factors fill one.
        unsafe {
            asm!(
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_instruction_runs_on_this_processor() {
        for dtype in [Dtype::F32, Dtype::Bf16] {
            for way in ways(dtype) {
                // SAFETY: `ways` lists only what this processor supports.
                unsafe { (way.turn)(1000) };
            }
        }
    }

    #[test]
    fn a_measured_bound_names_its_instruction() {
        let bounds = arithmetic(Dtype::F32, 1);
        let measured = |bound: &Peak| bound.gflop_per_s > 0.0 && !bound.instruction.is_empty();
        assert!(
            !bounds.is_empty() && bounds.iter().all(measured),
            "{bounds:?}"
        );
    }
}
