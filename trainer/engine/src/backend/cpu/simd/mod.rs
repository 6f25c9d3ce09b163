//! Sixteen f32 lanes on AVX-512, AVX2 or plain arrays, selected at run time.
//!
//! Fused multiply-adds and the order of reductions are the same on all of them, so a result does not depend on the selection.

#![allow(unsafe_code)]

pub(super) const LANES: usize = 16;

/// Instruction sets that loops are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SimdLevel {
    /// Like [`SimdLevel::Avx512`], with products of pairs of bf16.
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16,
    /// 32 registers of 16 lanes.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 16 registers of 8 lanes.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Instructions that every processor of the architecture has.
    Portable,
}

impl SimdLevel {
    /// The best level of this processor.
    pub(super) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
            {
                let pairs =
                    is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512bw");
                return if pairs {
                    Self::Avx512Bf16
                } else {
                    Self::Avx512
                };
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return Self::Avx2;
            }
        }
        Self::Portable
    }

    /// The same level without the instructions on pairs of bf16.
    pub(super) fn without_bf16(self) -> Self {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16 => Self::Avx512,
            other => other,
        }
    }

    /// Whether there are enough registers for wide tiles, as [`Lanes::WIDE`] says.
    pub(super) fn wide(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16 | Self::Avx512 => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => false,
            Self::Portable => false,
        }
    }

    /// Whether there is an instruction for products of pairs of bf16, as [`Lanes::PAIRS`] says.
    pub(super) fn multiplies_pairs(self) -> bool {
        self != self.without_bf16()
    }

    /// A name for users.
    pub(super) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16 => "AVX-512 with bf16",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "AVX2",
            Self::Portable => "portable",
        }
    }
}

/// Defines a function that runs a generic body, compiled for the instructions of the [`SimdLevel`] in its first argument. With `pairs`, it is also compiled for the
/// instructions on pairs of bf16.
macro_rules! at_level {
    ($(#[$meta:meta])* pairs fn $name:ident($($arg:ident: $ty:ty),* $(,)?) = $body:ident) => {
        $(#[$meta])*
        #[allow(unsafe_code)]
        pub(super) fn $name(level: $crate::backend::cpu::simd::SimdLevel, $($arg: $ty),*) {
            $crate::backend::cpu::simd::at_level! { fn without($($arg: $ty),*) = $body }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512bf16,avx512bw,avx512f,avx512dq,avx2,fma")]
            fn with($($arg: $ty),*) {
                $body::<$crate::backend::cpu::simd::Avx512<true>>($($arg),*)
            }
            match level {
                // SAFETY: `SimdLevel::detect` saw these features on this processor.
                #[cfg(target_arch = "x86_64")]
                $crate::backend::cpu::simd::SimdLevel::Avx512Bf16 => unsafe { with($($arg),*) },
                level => without(level, $($arg),*),
            }
        }
    };
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident) => {
        $(#[$meta])*
        #[allow(unsafe_code)]
        pub(super) fn $name(level: $crate::backend::cpu::simd::SimdLevel, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
            fn avx512($($arg: $ty),*) $(-> $ret)? {
                $body::<$crate::backend::cpu::simd::Avx512<false>>($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $ty),*) $(-> $ret)? {
                $body::<$crate::backend::cpu::simd::Avx2>($($arg),*)
            }
            match level {
                #[cfg(target_arch = "x86_64")]
                $crate::backend::cpu::simd::SimdLevel::Avx512
                | $crate::backend::cpu::simd::SimdLevel::Avx512Bf16 => {
                    // SAFETY: `SimdLevel::detect` saw these features on this processor.
                    unsafe { avx512($($arg),*) }
                }
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::backend::cpu::simd::SimdLevel::Avx2 => unsafe { avx2($($arg),*) },
                $crate::backend::cpu::simd::SimdLevel::Portable => {
                    $body::<$crate::backend::cpu::simd::Portable>($($arg),*)
                }
            }
        }
    };
}
pub(super) use at_level;

/// Sixteen f32 lanes. Values of the x86 types exist only inside functions generated by [`at_level`], where the processor has their instructions.
pub(super) trait Lanes: Copy {
    /// Whether there are enough registers for wide tiles.
    const WIDE: bool;
    /// Whether [`Lanes::add_products`] is an instruction.
    const PAIRS: bool;
    /// All lanes with the same number.
    fn splat(x: f32) -> Self;
    /// Reads 16 numbers.
    ///
    /// # Safety
    /// `p` is valid for reading 16 f32; no alignment is needed.
    unsafe fn load(p: *const f32) -> Self;
    /// Writes 16 numbers.
    ///
    /// # Safety
    /// `p` is valid for writing 16 f32; no alignment is needed.
    unsafe fn store(self, p: *mut f32);
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    /// `self · a + b`, rounded once.
    fn fma(self, a: Self, b: Self) -> Self;
    /// `self > other ? self : other`. A NaN in `other` is returned, and one in `self` is not.
    fn max(self, other: Self) -> Self;
    /// `self < other ? self : other`, with NaN as in `max`.
    fn min(self, other: Self) -> Self;
    fn sqrt(self) -> Self;
    /// Rounds to the nearest integer, ties to even.
    fn round(self) -> Self;
    /// 2^self for integers from -126 to 127.
    fn exp2_int(self) -> Self;
    /// `self < other ? yes : no`.
    fn select_lt(self, other: Self, yes: Self, no: Self) -> Self;
    /// Rounds each lane to bf16 (to nearest, ties to even), with `odd` in the upper half of the lane's bits.
    fn pair(self, odd: Self) -> Self;
    /// The first number of each lane's pair, as f32.
    fn first(self) -> Self;
    /// The second number of each lane's pair, as f32.
    fn second(self) -> Self;

    /// `self` plus the two products of each lane's pairs. Without an instruction for it, the second numbers' product is added first, and each sum is rounded.
    #[inline(always)]
    fn add_products(self, a: Self, b: Self) -> Self {
        let second = a.second().fma(b.second(), self);
        a.first().fma(b.first(), second)
    }

    /// Rounds the 32 numbers of two vectors to bf16 like [`Lanes::pair`], in order: lane 0 has the first two.
    #[inline(always)]
    fn narrow(self, next: Self) -> Self {
        let numbers = [self.array(), next.array()];
        let (mut even, mut odd) = ([0.0; LANES], [0.0; LANES]);
        let pairs = numbers.as_flattened().as_chunks::<2>().0;
        for (pair, (even, odd)) in pairs.iter().zip(even.iter_mut().zip(&mut odd)) {
            [*even, *odd] = *pair;
        }
        Self::get(&even).pair(Self::get(&odd))
    }

    /// Prefetches any address, valid or not.
    #[inline(always)]
    fn prefetch(_: *const f32) {}

    /// Reads the 16 numbers of an array.
    #[inline(always)]
    fn get(x: &[f32; LANES]) -> Self {
        // SAFETY: the array has 16 numbers.
        unsafe { Self::load(x.as_ptr()) }
    }
    /// Writes the 16 numbers to an array.
    #[inline(always)]
    fn put(self, x: &mut [f32; LANES]) {
        // SAFETY: the array has 16 numbers.
        unsafe { self.store(x.as_mut_ptr()) }
    }
    #[inline(always)]
    fn array(self) -> [f32; LANES] {
        let mut x = [0.0; LANES];
        self.put(&mut x);
        x
    }
    /// Reads the first `n < 16` lanes from memory; the others are `fill`.
    ///
    /// # Safety
    /// `p` is valid for reading `n` f32.
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize, fill: f32) -> Self {
        let mut x = [fill; LANES];
        // SAFETY: the caller's promise; `x` has more than `n` numbers.
        unsafe { std::ptr::copy_nonoverlapping(p, x.as_mut_ptr(), n) };
        Self::get(&x)
    }
    /// Writes the first `n < 16` lanes.
    ///
    /// # Safety
    /// `p` is valid for writing `n` f32.
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, n: usize) {
        let x = self.array();
        // SAFETY: the caller's promise; `x` has more than `n` numbers.
        unsafe { std::ptr::copy_nonoverlapping(x.as_ptr(), p, n) };
    }
    /// Writes the lanes `from..to` to their positions in memory that begins with lane 0.
    ///
    /// # Safety
    /// `p` is valid for writing them.
    #[inline(always)]
    unsafe fn store_part(self, p: *mut f32, from: usize, to: usize) {
        let x = self.array();
        for (lane, x) in x.iter().enumerate().take(to).skip(from) {
            // SAFETY: the caller's promise.
            unsafe { *p.add(lane) = *x };
        }
    }
    /// Transposes four columns: lane `r` of the `k`-th result is the `k`-th number of row `r`. Lanes from `rows` on are 0.
    ///
    /// # Safety
    /// `from` is valid for reading `rows ≤ 16` rows of 4 f32, `stride` apart.
    #[inline(always)]
    unsafe fn columns(from: *const f32, stride: usize, rows: usize) -> [Self; 4] {
        let mut columns = [[0.0; LANES]; 4];
        for (k, column) in columns.iter_mut().enumerate() {
            for (lane, x) in column.iter_mut().enumerate().take(rows) {
                // SAFETY: the caller's promise.
                *x = unsafe { *from.add(lane * stride + k) };
            }
        }
        [
            Self::get(&columns[0]),
            Self::get(&columns[1]),
            Self::get(&columns[2]),
            Self::get(&columns[3]),
        ]
    }
    /// Transposes a square: `to[k][lane]` is the `k`-th number of row `lane`. Lanes from `rows` on are 0.
    ///
    /// # Safety
    /// `from` is valid for reading `rows ≤ 16` rows of 16 f32, `stride` apart.
    #[inline(always)]
    unsafe fn transpose(
        from: *const f32,
        stride: usize,
        rows: usize,
        to: &mut [[f32; LANES]; LANES],
    ) {
        for (q, to) in to.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            let columns = unsafe { Self::columns(from.add(4 * q), stride, rows) };
            for (column, to) in columns.into_iter().zip(to) {
                column.put(to);
            }
        }
    }
    /// Sum of the lanes, added as a tree.
    #[inline(always)]
    fn sum(self) -> f32 {
        let mut x = self.array();
        let mut n = LANES / 2;
        while n > 0 {
            for i in 0..n {
                x[i] += x[i + n];
            }
            n /= 2;
        }
        x[0]
    }
    /// Largest lane; NaN is ignored.
    #[inline(always)]
    fn largest(self) -> f32 {
        self.array().into_iter().fold(f32::NEG_INFINITY, f32::max)
    }
    /// eˣ within 2 units in the last place; 0 below -87.3, and NaN remains NaN.
    #[inline(always)]
    fn exp(self) -> Self {
        let s = Self::splat;
        let x = s(-88.0).max(s(88.7).min(self));
        let n = x.mul(s(std::f32::consts::LOG2_E)).round();
        // Cody and Waite's method: ln 2 in two parts, the first exact in products with small integers.
        let r = n.fma(s(-0.693_359_4), x);
        let r = n.fma(s(2.121_944_4e-4), r);
        let p = s(1.987_569_1e-4)
            .fma(r, s(1.398_199_9e-3))
            .fma(r, s(8.333_452e-3))
            .fma(r, s(4.166_579_6e-2))
            .fma(r, s(1.666_666_5e-1))
            .fma(r, s(0.5));
        let y = p.fma(r.mul(r), r).add(s(1.0));
        // 2¹²⁸ is not an f32, so the last doubling is a separate multiplication.
        let half = n.mul(s(0.5)).round();
        let y = y.mul(half.exp2_int()).mul(n.sub(half).exp2_int());
        self.select_lt(s(-87.3), s(0.0), y)
    }
}

/// Lanes in an array.
#[derive(Clone, Copy)]
pub(super) struct Portable([f32; LANES]);

impl Portable {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

macro_rules! lanewise {
    ($($name:ident => $operator:tt),*) => {$(
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            self.zip(other, |a, b| a $operator b)
        }
    )*};
}

impl Lanes for Portable {
    const WIDE: bool = false;
    const PAIRS: bool = false;
    #[inline(always)]
    fn splat(x: f32) -> Self {
        Self([x; LANES])
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { p.cast::<[f32; LANES]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<[f32; LANES]>().write_unaligned(self.0) }
    }
    lanewise!(add => +, sub => -, mul => *, div => /);
    #[inline(always)]
    fn fma(self, a: Self, b: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].mul_add(a.0[i], b.0[i])))
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.zip(other, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(self.0.map(f32::sqrt))
    }
    #[inline(always)]
    fn round(self) -> Self {
        Self(self.0.map(f32::round_ties_even))
    }
    #[inline(always)]
    fn exp2_int(self) -> Self {
        Self(
            self.0
                .map(|x| f32::from_bits(((x as i32 + 127) as u32) << 23)),
        )
    }
    #[inline(always)]
    fn select_lt(self, other: Self, yes: Self, no: Self) -> Self {
        Self(std::array::from_fn(|i| {
            if self.0[i] < other.0[i] {
                yes.0[i]
            } else {
                no.0[i]
            }
        }))
    }
    #[inline(always)]
    fn pair(self, odd: Self) -> Self {
        let bf16 = |x: f32| u32::from(half::bf16::from_f32(x).to_bits());
        self.zip(odd, |even, odd| {
            f32::from_bits(bf16(even) | bf16(odd) << 16)
        })
    }
    #[inline(always)]
    fn first(self) -> Self {
        Self(self.0.map(|x| f32::from_bits(x.to_bits() << 16)))
    }
    #[inline(always)]
    fn second(self) -> Self {
        Self(self.0.map(|x| f32::from_bits(x.to_bits() & 0xFFFF_0000)))
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod amx;
#[cfg(target_arch = "x86_64")]
mod x86;
#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

/// All levels that this processor supports.
#[cfg(test)]
pub(super) fn levels() -> Vec<SimdLevel> {
    let mut all = vec![SimdLevel::Portable];
    #[cfg(target_arch = "x86_64")]
    {
        let best = SimdLevel::detect();
        if best != SimdLevel::Portable {
            all.push(SimdLevel::Avx2);
        }
        if matches!(best, SimdLevel::Avx512 | SimdLevel::Avx512Bf16) {
            all.push(SimdLevel::Avx512);
        }
        if best == SimdLevel::Avx512Bf16 {
            all.push(best);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{LANES, Lanes, levels};

    #[inline(always)]
    fn exp_body<L: Lanes>(x: &mut [f32]) {
        for chunk in x.as_chunks_mut::<LANES>().0 {
            L::get(chunk).exp().put(chunk);
        }
    }
    at_level! { fn exp(x: &mut [f32]) = exp_body }

    #[test]
    fn exp_is_accurate_to_two_units_and_the_same_at_every_level() {
        let inputs: Vec<f32> = (0..16 * 2200).map(|i| -88.0 + i as f32 * 0.005).collect();
        let mut first: Option<Vec<f32>> = None;
        for level in levels() {
            let mut special = [0.0; LANES];
            (special[0], special[1]) = (f32::NAN, f32::NEG_INFINITY);
            exp(level, &mut special);
            assert!(special[0].is_nan() && special[1..3] == [0.0, 1.0]);
            let mut y = inputs.clone();
            exp(level, &mut y);
            for (x, y) in inputs.iter().zip(&y) {
                let exact = f64::from(*x).exp();
                if *x < -87.3 {
                    assert_eq!(*y, 0.0, "exp({x})");
                } else if exact < f64::from(f32::MAX) {
                    let error = (f64::from(*y) - exact).abs() / exact;
                    assert!(error < 2.0 * f64::from(f32::EPSILON), "exp({x}) = {y}");
                }
            }
            match &first {
                None => first = Some(y),
                Some(first) => assert_eq!(first, &y, "{level:?}"),
            }
        }
    }
}
