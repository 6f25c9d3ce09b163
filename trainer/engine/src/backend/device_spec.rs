//! The device that memory is planned for.

pub(crate) use super::cuda::ScratchSizes;
use super::{Dtype, ElementBytes, TrainingDefaults, cpu, cuda};

/// What the memory plan depends on. The device need not exist.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DeviceSpec {
    Cpu,
    /// A GPU with this many bytes of memory.
    Gpu(u64),
}

impl DeviceSpec {
    pub(crate) fn memory(self) -> Option<u64> {
        match self {
            Self::Cpu => crate::machine_memory::total(),
            Self::Gpu(memory) => Some(memory),
        }
    }

    pub(crate) fn element_bytes(self, dtype: Dtype) -> ElementBytes {
        match self {
            Self::Cpu => cpu::element_bytes(dtype),
            Self::Gpu(_) => cuda::element_bytes(dtype),
        }
    }

    /// Maximum number of rows of logits that are computed at once.
    pub(crate) fn logits_rows(self, vocabulary: usize) -> usize {
        match self {
            Self::Cpu => super::logits_rows(vocabulary),
            Self::Gpu(memory) => cuda::logits_rows(memory, vocabulary),
        }
    }

    /// See [`super::Backend::training_defaults`].
    pub(crate) fn training_defaults(self, resident: u64) -> TrainingDefaults {
        match self {
            Self::Cpu => super::training_defaults(self.memory(), resident),
            Self::Gpu(memory) => cuda::training_defaults(memory, resident),
        }
    }

    /// Bytes of working memory of single operations, which is retained.
    pub(crate) fn scratch_bytes(self, sizes: ScratchSizes) -> u64 {
        match self {
            Self::Cpu => 0,
            Self::Gpu(_) => sizes.bytes(),
        }
    }

    /// Bytes that the device's own software takes.
    pub(crate) fn reserved_bytes(self) -> u64 {
        match self {
            Self::Cpu => 0,
            Self::Gpu(_) => cuda::RESERVED,
        }
    }
}
