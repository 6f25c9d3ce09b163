//! What training uses on a GPU unless settings say otherwise, and the memory that a GPU's own software takes.

use crate::backend::TrainingDefaults;

/// Maximum tokens of a pack. Norms, attention's gradients and conversions fill a GPU from about 8,000 tokens on (`PERFORMANCE.md`).
const PACK_TOKENS: usize = 16 << 10;
/// Bytes that a process takes on a GPU before its first tensor: the context with its kernels and cuBLASLt's, about 0.7 GB (assumed, not measured), and cuBLASLt's
/// workspace.
pub(crate) const RESERVED: u64 = (700 << 20) + super::matmul::MAX_WORKSPACE as u64;

/// Packs of 16,384 tokens, and half of the memory that weights, gradients and moments (`resident` bytes) and the GPU's own software leave.
pub(crate) fn training_defaults(memory: u64, resident: u64) -> TrainingDefaults {
    TrainingDefaults {
        pack_tokens: PACK_TOKENS,
        activation_bytes: memory.saturating_sub(RESERVED + resident) / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_left_is_for_activations() {
        let defaults = training_defaults(80_000_000_000, 9_000_000_000);
        assert_eq!(defaults.pack_tokens, 16_384);
        assert_eq!(defaults.activation_bytes, (71_000_000_000 - RESERVED) / 2);
        assert_eq!(training_defaults(1 << 30, 9 << 30).activation_bytes, 0);
    }
}
