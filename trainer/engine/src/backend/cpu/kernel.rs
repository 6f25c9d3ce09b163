//! How bf16 numbers are multiplied.

use super::gemm::Format;
use super::simd::SimdLevel;
#[cfg(target_arch = "x86_64")]
use super::simd::amx;
use crate::error::EngineError;

/// The arithmetic of products of bf16 numbers. Each kind has its own fixed order of sums, and so its own rounding. Products of f32 numbers are fused
/// multiply-adds on every processor, and have the same bits on all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Bf16Kernel {
    /// AMX's tiles, `tdpbf16ps`.
    Amx,
    /// Sums of two products, `vdpbf16ps`.
    Avx512Bf16,
    /// Numbers widened to f32, and fused multiply-adds; on every processor.
    Fma,
}

impl Bf16Kernel {
    /// All kinds, the fastest first.
    pub const ALL: [Self; 3] = [Self::Amx, Self::Avx512Bf16, Self::Fma];

    /// The fastest kind of this processor, by the features that it reports.
    #[must_use]
    pub fn detect() -> Self {
        let available = Self::ALL.into_iter().find(|kernel| kernel.available());
        available.unwrap_or(Self::Fma)
    }

    /// Whether this processor has the instructions.
    #[must_use]
    pub fn available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Amx => amx::available(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16 => SimdLevel::detect() == SimdLevel::Avx512Bf16,
            #[cfg(not(target_arch = "x86_64"))]
            Self::Amx | Self::Avx512Bf16 => false,
            Self::Fma => true,
        }
    }

    /// Its name in settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Amx => "amx",
            Self::Avx512Bf16 => "avx512-bf16",
            Self::Fma => "fma",
        }
    }

    /// Its instruction, for users.
    #[must_use]
    pub fn instruction(self) -> &'static str {
        match self {
            Self::Amx => "AMX's tdpbf16ps",
            Self::Avx512Bf16 => "AVX-512's vdpbf16ps",
            Self::Fma => "fused multiply-adds of f32",
        }
    }

    /// The loops and the format that compute it.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the processor does not have the instructions.
    pub(super) fn parts(self) -> Result<(SimdLevel, Format), EngineError> {
        if !self.available() {
            return Err(EngineError::Device(format!(
                "the kernel {} for bf16 numbers needs instructions that this processor does not have, and another kernel rounds sums differently; use a processor that has them, or, for new work, the kernel {} or auto",
                self.name(),
                Self::Fma.name()
            )));
        }
        let level = SimdLevel::detect();
        Ok(match self {
            Self::Amx => (level, Format::Amx),
            Self::Avx512Bf16 => (level, Format::Bf16),
            Self::Fma => (level.without_bf16(), Format::Bf16),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Dtype;
    use crate::backend::cpu::open_with;
    use crate::error::assert_says;

    #[test]
    fn a_kernel_that_the_processor_does_not_have_is_refused_in_bf16_alone() {
        assert!(Bf16Kernel::Fma.available() && Bf16Kernel::detect().available());
        for kernel in Bf16Kernel::ALL {
            assert!(open_with(Some(1), Dtype::F32, Some(kernel)).is_ok());
            let opened = open_with(Some(1), Dtype::Bf16, Some(kernel));
            assert_eq!(opened.is_ok(), kernel.available());
            if let Err(error) = opened {
                assert_says(&error.to_string(), &[kernel.name(), "fma or auto"]);
            }
        }
    }
}
