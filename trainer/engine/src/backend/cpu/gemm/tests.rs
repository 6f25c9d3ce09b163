use proptest::prelude::*;

use super::super::simd::{SimdLevel, levels};
use super::super::threads::Threads;
use super::{Format, Gemm, Operand, Packed, Right};

fn numbers(len: usize, seed: u32) -> Vec<f32> {
    let number = |i: u32| {
        let x = (i + 1).wrapping_mul(2_654_435_761).wrapping_add(seed);
        ((x ^ (x >> 15)).wrapping_mul(0x2C1B_3C6D) >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len as u32).map(number).collect()
}

/// The transpose of a row-major matrix.
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
    let mut y = numbers(a.vectors() * b.vectors(), 9);
    Gemm::default().run(
        level,
        threads,
        Format::F32,
        &mut y,
        a,
        Right::Plain(b),
        accumulate,
    );
    y
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_product_is_correct_and_the_same_at_every_level_on_any_threads_for_any_operands(
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
        format in prop_oneof![Just(Format::F32), Just(Format::Bf16)],
    ) {
        let from = from % rows;
        let count = count.min(rows - from);
        let (a, b) = (numbers(rows * depth, 3), numbers(columns * depth, 4));
        let two = Threads::start(Some(2)).unwrap();
        let level = SimdLevel::detect();
        let run = |a: &[f32]| {
            let mut y = vec![0.0; a.len() / depth * columns];
            let (x, w) = (Operand::rows(a, a.len() / depth, depth), Operand::rows(&b, columns, depth));
            Gemm::default().run(level, &two, format, &mut y, x, Right::Plain(w), false);
            if format == Format::Bf16 {
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
        let emulated = run(SimdLevel::Portable, Operand::rows(&b, columns, depth));
        for level in levels() {
            let actual = run(level, Operand::rows(&b, columns, depth));
            prop_assert!(actual == run(level, Operand::columns(&bt, depth, columns)));
            if level.name() != "AVX-512 with bf16" {
                prop_assert!(bits(&actual) == bits(&emulated), "{level:?}");
            }
            for (i, y) in actual.iter().enumerate() {
                let (a, b) = (&a[i / columns * depth..][..depth], &b[i % columns * depth..][..depth]);
                let exact: f64 = a.iter().zip(b).map(|(a, b)| rounded(a) * rounded(b)).sum();
                prop_assert!((f64::from(*y) - exact).abs() < 1e-6 * (depth as f64).max(16.0), "{level:?} {y} {exact}");
            }
        }
    }
}
