use proptest::prelude::*;

use super::super::simd::{SimdLevel, levels};
use super::super::threads::Threads;
use super::{Format, Gemm, Operand, Packed, Right, blocks};
use crate::parity::device::numbers;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[path = "../../../../tests/support/tile_unit.rs"]
mod tile_unit;

fn transposed(x: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let number = |i: usize| x[i % rows * columns + i / rows];
    (0..rows * columns).map(number).collect()
}

fn product(
    level: SimdLevel,
    threads: &Threads,
    a: Operand<'_>,
    b: Operand<'_>,
    accumulate: bool,
) -> Vec<f32> {
    let (mut y, b) = (numbers(a.vectors() * b.vectors(), 9), Right::Plain(b));
    Gemm::default().run(level, threads, Format::F32, &mut y, a, b, accumulate);
    y
}

/// Emulates AMX if this processor does not have it.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn emulate_amx() {
    tile_unit::install(super::super::simd::amx::assume_available);
}

/// An element of a product on AMX's tiles. For every 32 numbers of depth, the products at even positions are summed, then those at odd positions, and both sums
/// are added to `y`.
fn chain_of_tiles(mut y: f32, a: &[f32], b: &[f32]) -> f32 {
    let rounded = |x: f32| half::bf16::from_f32(x).to_f32();
    for (a, b) in a.chunks(32).zip(b.chunks(32)) {
        let mut sums = [0.0_f32; 2];
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            sums[i % 2] += rounded(*a) * rounded(*b);
        }
        y += sums[0] + sums[1];
    }
    y
}

/// An element of a product of bf16 numbers by fused multiply-adds: of each pair, the second numbers first.
fn chain_of_pairs(a: &[f32], b: &[f32]) -> f32 {
    let rounded = |x: &f32| half::bf16::from_f32(*x).to_f32();
    let blocks = blocks(Format::Bf16, a.len()).map(|block| {
        let pairs = a[block.clone()].chunks(2).zip(b[block].chunks(2));
        pairs.fold(0.0, |sum, (a, b)| {
            let numbers = a.iter().zip(b).rev();
            numbers.fold(sum, |sum, (a, b)| rounded(a).mul_add(rounded(b), sum))
        })
    });
    blocks.reduce(|sum, block| sum + block).unwrap_or(0.0)
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_product_is_the_same_at_every_level_on_any_threads(
        rows in 1usize..70,
        columns in 1usize..100,
        depth in prop_oneof![1usize..60, 700usize..1700],
        accumulate in any::<bool>(),
    ) {
        let (a, b) = (numbers(rows * depth, 1), numbers(columns * depth, 2));
        let (at, bt) = (transposed(&a, rows, depth), transposed(&b, columns, depth));
        let sides = [
            (Operand::rows(&a, rows, depth), Operand::rows(&b, columns, depth)),
            (Operand::rows(&a, rows, depth), Operand::columns(&bt, depth, columns)),
            (Operand::columns(&at, depth, rows), Operand::columns(&bt, depth, columns)),
        ];
        let two = Threads::start(Some(2)).unwrap();
        let first = product(SimdLevel::detect(), &two, sides[0].0, sides[0].1, accumulate);
        let before = numbers(rows * columns, 9);
        for (i, y) in first.iter().enumerate() {
            let (a, b) = (&a[i / columns * depth..][..depth], &b[i % columns * depth..][..depth]);
            let exact: f64 = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            let exact = if accumulate { exact + f64::from(before[i]) } else { exact };
            prop_assert!((f64::from(*y) - exact).abs() < 1e-6 * (depth as f64).max(16.0), "{y} {exact}");
        }
        for level in levels() {
            for (a, b) in sides {
                let one = Threads::start(Some(1)).unwrap();
                let actual = product(level, &one, a, b, accumulate);
                prop_assert!(bits(&actual) == bits(&first), "{level:?}");
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_in_any_batch(
        rows in 1usize..300,
        columns in 1usize..100,
        depth in 1usize..1700,
        from in 0usize..300,
        count in 1usize..300,
        format in prop_oneof![Just(Format::F32), Just(Format::Bf16), Just(Format::Amx)],
    ) {
        if format == Format::Amx {
            emulate_amx();
        }
        let from = from % rows;
        let count = count.min(rows - from);
        let (a, b) = (numbers(rows * depth, 3), numbers(columns * depth, 4));
        let two = Threads::start(Some(2)).unwrap();
        let level = SimdLevel::detect();
        let run = |a: &[f32]| {
            let mut y = vec![0.0; a.len() / depth * columns];
            let (x, w) = (Operand::rows(a, a.len() / depth, depth), Operand::rows(&b, columns, depth));
            Gemm::default().run(level, &two, format, &mut y, x, Right::Plain(w), false);
            if format != Format::F32 {
                let mut packed = Packed::default();
                packed.fill(level, &two, format, w);
                let mut from_packed = vec![0.0; y.len()];
                let w = Right::Packed(w, &packed);
                Gemm::default().run(level, &two, format, &mut from_packed, x, w, false);
                assert_eq!(bits(&y), bits(&from_packed));
            }
            bits(&y)
        };
        let whole = run(&a);
        let part = run(&a[from * depth..(from + count) * depth]);
        prop_assert!(part == whole[from * columns..(from + count) * columns]);
    }

    #[test]
    fn a_bf16_product_equals_the_product_of_rounded_numbers(
        rows in 1usize..40,
        columns in 1usize..70,
        depth in prop_oneof![1usize..60, 700usize..1700],
    ) {
        let (a, b) = (numbers(rows * depth, 5), numbers(columns * depth, 6));
        let bt = transposed(&b, columns, depth);
        let rounded = |x: &f32| half::bf16::from_f32(*x).to_f64();
        let two = Threads::start(Some(2)).unwrap();
        let run = |level: SimdLevel, b: Operand<'_>| {
            let mut y = vec![0.0; rows * columns];
            let a = Operand::rows(&a, rows, depth);
            Gemm::default().run(level, &two, Format::Bf16, &mut y, a, Right::Plain(b), false);
            y
        };
        for level in levels() {
            let actual = run(level, Operand::rows(&b, columns, depth));
            prop_assert!(actual == run(level, Operand::columns(&bt, depth, columns)));
            for (i, y) in actual.iter().enumerate() {
                let (a, b) = (&a[i / columns * depth..][..depth], &b[i % columns * depth..][..depth]);
                if !level.multiplies_pairs() {
                    prop_assert!(y.to_bits() == chain_of_pairs(a, b).to_bits(), "{level:?}");
                }
                let exact: f64 = a.iter().zip(b).map(|(a, b)| rounded(a) * rounded(b)).sum();
                prop_assert!((f64::from(*y) - exact).abs() < 1e-6 * (depth as f64).max(16.0), "{level:?} {y} {exact}");
            }
        }
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn an_element_on_tiles_is_one_chain_for_any_operands_threads_and_level(
        rows in 1usize..70,
        columns in 1usize..70,
        depth in prop_oneof![1usize..70, 600usize..700, 1250usize..1330],
        accumulate in any::<bool>(),
        threads in 1usize..4,
    ) {
        emulate_amx();
        let (a, b) = (numbers(rows * depth, 7), numbers(columns * depth, 8));
        let (at, bt) = (transposed(&a, rows, depth), transposed(&b, columns, depth));
        let before = numbers(rows * columns, 9);
        let expected: Vec<f32> = (0..rows * columns)
            .map(|i| {
                let (a, b) = (&a[i / columns * depth..][..depth], &b[i % columns * depth..][..depth]);
                chain_of_tiles(if accumulate { before[i] } else { 0.0 }, a, b)
            })
            .collect();
        let sides = [
            (Operand::rows(&a, rows, depth), Operand::rows(&b, columns, depth)),
            (Operand::rows(&a, rows, depth), Operand::columns(&bt, depth, columns)),
            (Operand::columns(&at, depth, rows), Operand::columns(&bt, depth, columns)),
        ];
        let threads = Threads::start(Some(threads)).unwrap();
        for (level, (a, b)) in levels().into_iter().cycle().zip(sides) {
            let mut y = before.clone();
            Gemm::default().run(level, &threads, Format::Amx, &mut y, a, Right::Plain(b), accumulate);
            prop_assert!(bits(&y) == bits(&expected), "{level:?}");
        }
    }
}
