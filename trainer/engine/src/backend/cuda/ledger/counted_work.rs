//! Counted work: what each operation launched, moved and computed, and the predicted time.

use std::collections::BTreeMap;

use serde::Serialize;

/// The launches of one kernel for one operation.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Launches {
    /// Number of launches.
    pub launches: u64,
    /// Launches that were replayed from a recording.
    pub recorded: u64,
    /// Blocks of all launches.
    pub blocks: u64,
    /// Blocks of the launch with the fewest.
    pub min_blocks: u64,
    /// Bytes read from the device's memory.
    pub reads: u64,
    /// Bytes written to it.
    pub writes: u64,
    /// Multiplications and additions.
    pub flops: u64,
    /// Predicted seconds.
    pub seconds: f64,
}

impl Launches {
    pub(super) fn add(&mut self, other: &Self) {
        self.min_blocks = match self.launches {
            0 => other.min_blocks,
            _ => self.min_blocks.min(other.min_blocks),
        };
        self.launches += other.launches;
        self.recorded += other.recorded;
        self.blocks += other.blocks;
        self.reads += other.reads;
        self.writes += other.writes;
        self.flops += other.flops;
        self.seconds += other.seconds;
    }
}

/// Calls that are not launches.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct HostCalls {
    /// Allocations of the device's memory, and the number of times that memory was freed.
    pub allocations: u64,
    /// Copies from the host.
    pub writes: u64,
    /// Bytes copied from the host.
    pub written_bytes: u64,
    /// Copies to the host. Each waits for the device.
    pub reads: u64,
    /// Bytes copied to the host.
    pub read_bytes: u64,
    /// Other waits for the device.
    pub waits: u64,
    /// Recordings that were replayed.
    pub replays: u64,
    /// Predicted seconds of the copies.
    pub seconds: f64,
}

/// The operation, and the kernel or the shape of the product's weight.
pub type Line = (&'static str, String);

/// The work of some part of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CountedWork {
    /// Launches, products, copies and fills of the device's memory.
    pub lines: BTreeMap<Line, Launches>,
    /// Calls that are not launches.
    pub host: HostCalls,
    /// Predicted seconds of the longest decoding step: the work between two waits for the device, if a recording was replayed.
    pub longest_step: f64,
}

impl CountedWork {
    pub(super) fn add(&mut self, other: &Self) {
        for (line, launches) in &other.lines {
            self.lines.entry(line.clone()).or_default().add(launches);
        }
        let (ours, theirs) = (&mut self.host, &other.host);
        ours.allocations += theirs.allocations;
        ours.writes += theirs.writes;
        ours.written_bytes += theirs.written_bytes;
        ours.reads += theirs.reads;
        ours.read_bytes += theirs.read_bytes;
        ours.waits += theirs.waits;
        ours.replays += theirs.replays;
        ours.seconds += theirs.seconds;
    }

    /// All launches together.
    pub fn total(&self) -> Launches {
        let mut total = Launches::default();
        self.lines.values().for_each(|line| total.add(line));
        total
    }

    /// The launches of an operation, whatever the kernel.
    pub fn operation(&self, operation: &str) -> Launches {
        let mut total = Launches::default();
        for ((name, _), line) in &self.lines {
            if *name == operation {
                total.add(line);
            }
        }
        total
    }

    /// Predicted seconds, copies between the host and the device included.
    pub fn seconds(&self) -> f64 {
        self.total().seconds + self.host.seconds
    }
}
