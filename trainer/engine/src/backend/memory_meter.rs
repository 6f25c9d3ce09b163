//! Counts the memory that a device's buffers take, for readers on other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of a device's buffers, and the highest number of them. Clones read the same counts.
#[derive(Debug, Clone, Default)]
pub struct MemoryMeter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    used: AtomicU64,
    peak: AtomicU64,
}

impl MemoryMeter {
    /// The highest number of bytes since the last call, or since the device was opened. What is used at the moment of a call counts for the next one.
    #[must_use]
    pub fn take_peak(&self) -> u64 {
        let used = self.0.used.load(Ordering::Relaxed);
        self.0.peak.swap(used, Ordering::Relaxed).max(used)
    }

    /// Whether both read the same device.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn add(&self, bytes: usize) {
        let before = self.0.used.fetch_add(bytes as u64, Ordering::Relaxed);
        let peak = &self.0.peak;
        peak.fetch_max(before + bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_counts_from_the_last_call() {
        let meter = MemoryMeter::default();
        let reader = meter.clone();
        meter.add(300);
        meter.add(500);
        meter.subtract(500);
        assert_eq!(reader.take_peak(), 800);
        assert_eq!(reader.take_peak(), 300);
        meter.add(100);
        meter.subtract(400);
        assert_eq!([reader.take_peak(), reader.take_peak()], [400, 0]);
        assert!(meter.is_same(&reader) && !meter.is_same(&MemoryMeter::default()));
    }
}
