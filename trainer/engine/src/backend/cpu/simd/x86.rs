//! Lanes in the registers of x86 processors.

use super::{LANES, Lanes};
use std::arch::x86_64::*;

// SAFETY of every block in this module: values of these types exist only inside functions compiled for their instructions (see `Lanes`), and
// pointers are the callers' promise.

/// One register, with or without products of pairs of bf16.
#[derive(Clone, Copy)]
pub(in super::super) struct Avx512<const BF16: bool>(__m512);

/// Two registers.
#[derive(Clone, Copy)]
pub(in super::super) struct Avx2(__m256, __m256);

macro_rules! binary {
    ($($name:ident => $one:ident),*) => {$(
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            // SAFETY: see the module's beginning.
            unsafe { Self($one(self.0, other.0)) }
        }
    )*};
    ($($name:ident => 2 $one:ident),*) => {$(
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            // SAFETY: see the module's beginning.
            unsafe { Self($one(self.0, other.0), $one(self.1, other.1)) }
        }
    )*};
}

impl<const BF16: bool> Lanes for Avx512<BF16> {
    const WIDE: bool = true;
    const PAIRS: bool = BF16;
    #[inline(always)]
    fn prefetch(p: *const f32) {
        // SAFETY: see the module's beginning; a prefetch reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: see the module's beginning.
        unsafe { Self(_mm512_set1_ps(x)) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: see the module's beginning.
        unsafe { Self(_mm512_loadu_ps(p)) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: see the module's beginning.
        unsafe { _mm512_storeu_ps(p, self.0) }
    }
    binary!(add => _mm512_add_ps, sub => _mm512_sub_ps, mul => _mm512_mul_ps, div => _mm512_div_ps, max => _mm512_max_ps, min => _mm512_min_ps);
    #[inline(always)]
    fn fma(self, a: Self, b: Self) -> Self {
        // SAFETY: see the module's beginning.
        unsafe { Self(_mm512_fmadd_ps(self.0, a.0, b.0)) }
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        // SAFETY: see the module's beginning.
        unsafe { Self(_mm512_sqrt_ps(self.0)) }
    }
    #[inline(always)]
    fn round(self) -> Self {
        // SAFETY: see the module's beginning.
        unsafe {
            Self(_mm512_roundscale_ps::<
                { _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC },
            >(self.0))
        }
    }
    #[inline(always)]
    fn exp2_int(self) -> Self {
        // SAFETY: see the module's beginning.
        unsafe {
            let n = _mm512_add_epi32(_mm512_cvtps_epi32(self.0), _mm512_set1_epi32(127));
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(n)))
        }
    }
    #[inline(always)]
    fn select_lt(self, other: Self, yes: Self, no: Self) -> Self {
        // SAFETY: see the module's beginning.
        unsafe {
            let less = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, other.0);
            Self(_mm512_mask_blend_ps(less, no.0, yes.0))
        }
    }
    #[inline(always)]
    fn pair(self, odd: Self) -> Self {
        // SAFETY: see the module's beginning.
        unsafe {
            if BF16 {
                let low = _mm512_cvtneps_pbh(self.0);
                let high = _mm512_cvtneps_pbh(odd.0);
                let low = _mm512_cvtepu16_epi32(std::mem::transmute::<__m256bh, __m256i>(low));
                let high = _mm512_cvtepu16_epi32(std::mem::transmute::<__m256bh, __m256i>(high));
                let both = _mm512_or_si512(low, _mm512_slli_epi32::<16>(high));
                return Self(_mm512_castsi512_ps(both));
            }
            let (low, high) = (rounded512(self.0), rounded512(odd.0));
            let mask = _mm512_set1_epi32(0xFFFF_0000_u32 as i32);
            let both = _mm512_or_si512(_mm512_srli_epi32::<16>(low), _mm512_and_si512(high, mask));
            Self(_mm512_castsi512_ps(both))
        }
    }
    #[inline(always)]
    fn narrow(self, next: Self) -> Self {
        // SAFETY: see the module's beginning.
        unsafe {
            if BF16 {
                let both = _mm512_cvtne2ps_pbh(next.0, self.0);
                return Self(_mm512_castsi512_ps(
                    std::mem::transmute::<__m512bh, __m512i>(both),
                ));
            }
            // The upper half of each rounded number, in order.
            let order = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
            let (first, second) = (rounded512(self.0), rounded512(next.0));
            let even = _mm512_permutex2var_epi32(first, order, second);
            let odd = _mm512_add_epi32(order, _mm512_set1_epi32(1));
            let odd = _mm512_permutex2var_epi32(first, odd, second);
            let mask = _mm512_set1_epi32(0xFFFF_0000_u32 as i32);
            let both = _mm512_or_si512(_mm512_srli_epi32::<16>(even), _mm512_and_si512(odd, mask));
            Self(_mm512_castsi512_ps(both))
        }
    }
    #[inline(always)]
    fn add_products(self, a: Self, b: Self) -> Self {
        // SAFETY: see the module's beginning.
        unsafe {
            if BF16 {
                let (a, b) = (
                    std::mem::transmute::<__m512, __m512bh>(a.0),
                    std::mem::transmute::<__m512, __m512bh>(b.0),
                );
                return Self(_mm512_dpbf16_ps(self.0, a, b));
            }
        }
        let second = a.second().fma(b.second(), self);
        a.first().fma(b.first(), second)
    }
    #[inline(always)]
    fn first(self) -> Self {
        // SAFETY: see the module's beginning.
        unsafe {
            let bits = _mm512_slli_epi32::<16>(_mm512_castps_si512(self.0));
            Self(_mm512_castsi512_ps(bits))
        }
    }
    #[inline(always)]
    fn second(self) -> Self {
        // SAFETY: see the module's beginning.
        unsafe {
            let mask = _mm512_set1_epi32(0xFFFF_0000_u32 as i32);
            let bits = _mm512_and_si512(_mm512_castps_si512(self.0), mask);
            Self(_mm512_castsi512_ps(bits))
        }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize, fill: f32) -> Self {
        // SAFETY: see the module's beginning; masked lanes are not read.
        unsafe {
            Self(_mm512_mask_loadu_ps(
                _mm512_set1_ps(fill),
                (1u16 << n) - 1,
                p,
            ))
        }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, n: usize) {
        // SAFETY: see the module's beginning; masked lanes are not written.
        unsafe { _mm512_mask_storeu_ps(p, (1u16 << n) - 1, self.0) }
    }
    #[inline(always)]
    unsafe fn store_part(self, p: *mut f32, from: usize, to: usize) {
        // SAFETY: see the module's beginning; masked lanes are not written.
        unsafe { _mm512_mask_storeu_ps(p, ((1u32 << to) - (1u32 << from)) as u16, self.0) }
    }
    #[inline(always)]
    unsafe fn columns(from: *const f32, stride: usize, rows: usize) -> [Self; 4] {
        // SAFETY: see the module's beginning; rows from `rows` on are not read.
        unsafe {
            // Rows r, r + 4, r + 8 and r + 12 side by side, so that four squares of 4 × 4 are transposed at once.
            let mut group = [_mm512_setzero_ps(); 4];
            for (r, group) in group.iter_mut().enumerate() {
                // If there is no such row, the address is not used.
                let p = from.wrapping_add(r * stride);
                if rows == LANES {
                    let x = _mm512_castps128_ps512(_mm_loadu_ps(p));
                    let x = _mm512_insertf32x4::<1>(x, _mm_loadu_ps(p.add(4 * stride)));
                    let x = _mm512_insertf32x4::<2>(x, _mm_loadu_ps(p.add(8 * stride)));
                    *group = _mm512_insertf32x4::<3>(x, _mm_loadu_ps(p.add(12 * stride)));
                    continue;
                }
                if r < rows {
                    *group = _mm512_zextps128_ps512(_mm_loadu_ps(p));
                }
                if r + 4 < rows {
                    *group = _mm512_insertf32x4::<1>(*group, _mm_loadu_ps(p.add(4 * stride)));
                }
                if r + 8 < rows {
                    *group = _mm512_insertf32x4::<2>(*group, _mm_loadu_ps(p.add(8 * stride)));
                }
                if r + 12 < rows {
                    *group = _mm512_insertf32x4::<3>(*group, _mm_loadu_ps(p.add(12 * stride)));
                }
            }
            let low = _mm512_castps_pd(_mm512_unpacklo_ps(group[0], group[1]));
            let high = _mm512_castps_pd(_mm512_unpackhi_ps(group[0], group[1]));
            let low2 = _mm512_castps_pd(_mm512_unpacklo_ps(group[2], group[3]));
            let high2 = _mm512_castps_pd(_mm512_unpackhi_ps(group[2], group[3]));
            [
                Self(_mm512_castpd_ps(_mm512_unpacklo_pd(low, low2))),
                Self(_mm512_castpd_ps(_mm512_unpackhi_pd(low, low2))),
                Self(_mm512_castpd_ps(_mm512_unpacklo_pd(high, high2))),
                Self(_mm512_castpd_ps(_mm512_unpackhi_pd(high, high2))),
            ]
        }
    }
}

/// Rounds to bf16 in the upper half of the bits; the lower half has no meaning. NaN stays NaN.
#[inline(always)]
unsafe fn rounded512(x: __m512) -> __m512i {
    // SAFETY: see the module's beginning.
    unsafe {
        let bits = _mm512_castps_si512(x);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let up = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF));
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
        let quiet = _mm512_set1_epi32(0x7FC0_0000);
        _mm512_mask_mov_epi32(_mm512_add_epi32(bits, up), nan, quiet)
    }
}

/// Like [`rounded512`].
#[inline(always)]
unsafe fn rounded256(x: __m256) -> __m256i {
    // SAFETY: see the module's beginning.
    unsafe {
        let bits = _mm256_castps_si256(x);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
        let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
        let quiet = _mm256_set1_epi32(0x7FC0_0000);
        _mm256_blendv_epi8(_mm256_add_epi32(bits, up), quiet, nan)
    }
}

/// Pairs of the lanes of two halves.
#[inline(always)]
unsafe fn pair256(even: __m256, odd: __m256) -> __m256 {
    // SAFETY: see the module's beginning.
    unsafe {
        let mask = _mm256_set1_epi32(0xFFFF_0000_u32 as i32);
        let low = _mm256_srli_epi32::<16>(rounded256(even));
        _mm256_castsi256_ps(_mm256_or_si256(
            low,
            _mm256_and_si256(rounded256(odd), mask),
        ))
    }
}

impl Lanes for Avx2 {
    const WIDE: bool = false;
    const PAIRS: bool = false;
    #[inline(always)]
    fn prefetch(p: *const f32) {
        // SAFETY: see the module's beginning; a prefetch reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: see the module's beginning.
        unsafe { Self(_mm256_set1_ps(x), _mm256_set1_ps(x)) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: see the module's beginning.
        unsafe { Self(_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: see the module's beginning.
        unsafe {
            _mm256_storeu_ps(p, self.0);
            _mm256_storeu_ps(p.add(8), self.1);
        }
    }
    binary!(add => 2 _mm256_add_ps, sub => 2 _mm256_sub_ps, mul => 2 _mm256_mul_ps, div => 2 _mm256_div_ps, max => 2 _mm256_max_ps, min => 2 _mm256_min_ps);
    #[inline(always)]
    fn fma(self, a: Self, b: Self) -> Self {
        // SAFETY: see the module's beginning.
        unsafe {
            Self(
                _mm256_fmadd_ps(self.0, a.0, b.0),
                _mm256_fmadd_ps(self.1, a.1, b.1),
            )
        }
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        // SAFETY: see the module's beginning.
        unsafe { Self(_mm256_sqrt_ps(self.0), _mm256_sqrt_ps(self.1)) }
    }
    #[inline(always)]
    fn round(self) -> Self {
        const HOW: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        // SAFETY: see the module's beginning.
        unsafe {
            Self(
                _mm256_round_ps::<HOW>(self.0),
                _mm256_round_ps::<HOW>(self.1),
            )
        }
    }
    #[inline(always)]
    fn exp2_int(self) -> Self {
        // SAFETY: see the module's beginning.
        unsafe {
            let a = _mm256_add_epi32(_mm256_cvtps_epi32(self.0), _mm256_set1_epi32(127));
            let b = _mm256_add_epi32(_mm256_cvtps_epi32(self.1), _mm256_set1_epi32(127));
            let a = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(a));
            Self(a, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(b)))
        }
    }
    #[inline(always)]
    fn select_lt(self, other: Self, yes: Self, no: Self) -> Self {
        // SAFETY: see the module's beginning.
        unsafe {
            let a = _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, other.0);
            let b = _mm256_cmp_ps::<_CMP_LT_OQ>(self.1, other.1);
            Self(
                _mm256_blendv_ps(no.0, yes.0, a),
                _mm256_blendv_ps(no.1, yes.1, b),
            )
        }
    }
    #[inline(always)]
    fn pair(self, odd: Self) -> Self {
        // SAFETY: see the module's beginning.
        unsafe { Self(pair256(self.0, odd.0), pair256(self.1, odd.1)) }
    }
    #[inline(always)]
    fn first(self) -> Self {
        // SAFETY: see the module's beginning.
        unsafe {
            let first = |x| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_castps_si256(x)));
            Self(first(self.0), first(self.1))
        }
    }
    #[inline(always)]
    fn second(self) -> Self {
        // SAFETY: see the module's beginning.
        unsafe {
            let mask = _mm256_castsi256_ps(_mm256_set1_epi32(0xFFFF_0000_u32 as i32));
            Self(_mm256_and_ps(self.0, mask), _mm256_and_ps(self.1, mask))
        }
    }
    #[inline(always)]
    unsafe fn columns(from: *const f32, stride: usize, rows: usize) -> [Self; 4] {
        // SAFETY: the caller's promise; the second half has the rows from 8 on.
        unsafe {
            let first = columns256(from, stride, rows);
            let second = from.wrapping_add(8 * stride);
            let second = columns256(second, stride, rows.saturating_sub(8));
            [
                Self(first[0], second[0]),
                Self(first[1], second[1]),
                Self(first[2], second[2]),
                Self(first[3], second[3]),
            ]
        }
    }
}

/// Like [`Lanes::columns`], for up to 8 rows.
#[inline(always)]
unsafe fn columns256(from: *const f32, stride: usize, rows: usize) -> [__m256; 4] {
    // SAFETY: see the module's beginning; rows from `rows` on are not read.
    unsafe {
        // Rows r and r + 4 side by side, so that two squares of 4 × 4 are transposed at once.
        let mut group = [_mm256_setzero_ps(); 4];
        for (r, group) in group.iter_mut().enumerate() {
            // If there is no such row, the address is not used.
            let p = from.wrapping_add(r * stride);
            if rows >= 8 {
                let x = _mm256_castps128_ps256(_mm_loadu_ps(p));
                *group = _mm256_insertf128_ps::<1>(x, _mm_loadu_ps(p.add(4 * stride)));
                continue;
            }
            if r < rows {
                *group = _mm256_zextps128_ps256(_mm_loadu_ps(p));
            }
            if r + 4 < rows {
                *group = _mm256_insertf128_ps::<1>(*group, _mm_loadu_ps(p.add(4 * stride)));
            }
        }
        let low = _mm256_castps_pd(_mm256_unpacklo_ps(group[0], group[1]));
        let high = _mm256_castps_pd(_mm256_unpackhi_ps(group[0], group[1]));
        let low2 = _mm256_castps_pd(_mm256_unpacklo_ps(group[2], group[3]));
        let high2 = _mm256_castps_pd(_mm256_unpackhi_ps(group[2], group[3]));
        [
            _mm256_castpd_ps(_mm256_unpacklo_pd(low, low2)),
            _mm256_castpd_ps(_mm256_unpackhi_pd(low, low2)),
            _mm256_castpd_ps(_mm256_unpacklo_pd(high, high2)),
            _mm256_castpd_ps(_mm256_unpackhi_pd(high, high2)),
        ]
    }
}
