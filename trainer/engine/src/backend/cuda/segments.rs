//! The table of segments: where in the store the keys of each sequence lie. It stays on the device, so that a batch sends only what is new.
//!
//! A sequence is recognised by the id of its [`KvRows`]. It keeps its place in the table, wherever its span is in a batch, until a batch does not contain it.

use std::collections::{BTreeMap, HashMap};

use crate::batch::KvRows;

/// Smallest number of segments that a place has room for.
const MIN_ROOM: usize = 8;

/// A sequence in the table.
#[derive(Debug, Default)]
struct Sequence {
    /// The kernels' `struct Segment`s: the first key's position, and its row.
    segments: Vec<[u32; 2]>,
    keys: usize,
    /// Number of ranges of rows that `segments` is made of.
    ranges: usize,
    /// Position of the last range's first key.
    position: usize,
    /// Number in the table of the first segment, and how many there is room for.
    first: usize,
    room: usize,
    /// Number of the last batch that contained the sequence.
    batch: u64,
}

impl Sequence {
    /// Adds segments for the ranges that have not been read yet. Adjacent ranges are one segment.
    fn read(&mut self, rows: &KvRows) {
        let ranges = rows.ranges();
        for (number, &(row, _)) in ranges.iter().enumerate().skip(self.ranges) {
            let before = number.checked_sub(1).map(|before| ranges[before]);
            self.position += before.map_or(0, |(_, n)| n);
            if before.is_none_or(|(first, n)| first + n != row) {
                self.segments.push([self.position as u32, row as u32]);
            }
        }
        self.ranges = ranges.len();
        self.keys = rows.len();
    }
}

/// The table, and which of its segments the device does not have yet.
#[derive(Debug, Default)]
pub(super) struct SegmentTable {
    sequences: HashMap<u64, Sequence>,
    /// Number of the current batch.
    batch: u64,
    /// Starts of free places by their room, a power of two.
    free: BTreeMap<usize, Vec<usize>>,
    end: usize,
    /// Number of segments that the table on the device has room for.
    size: usize,
    /// Sequences of the current batch with segments that the device does not have, and the first of these.
    changed: Vec<(u64, usize)>,
}

impl SegmentTable {
    /// Finds or makes a place for the rows of a span of the current batch. Returns the number of its first segment, and the number of segments.
    pub(super) fn place(&mut self, rows: &KvRows) -> [usize; 2] {
        let sequence = self.sequences.entry(rows.id()).or_default();
        let mut known = sequence.segments.len();
        sequence.read(rows);
        sequence.batch = self.batch;
        let count = sequence.segments.len();
        if count > sequence.room {
            if sequence.room > 0 {
                let free = self.free.entry(sequence.room).or_default();
                free.push(sequence.first);
            }
            sequence.room = count.next_power_of_two().max(MIN_ROOM);
            let free = self.free.get_mut(&sequence.room).and_then(Vec::pop);
            sequence.first = free.unwrap_or(self.end);
            self.end = self.end.max(sequence.first + sequence.room);
            known = 0;
        }
        if known < count {
            self.changed.push((rows.id(), known));
        }
        [sequence.first, count]
    }

    /// Ends the current batch: frees the places of sequences that it does not contain. Appends what the device has to write, three words for each segment: its
    /// number, its position and its row. Returns the number of these segments.
    pub(super) fn updates(&mut self, words: &mut Vec<u32>) -> usize {
        let batch = self.batch;
        let gone = |_: &u64, sequence: &mut Sequence| sequence.batch != batch;
        let gone = self.sequences.extract_if(gone).map(|(_, gone)| gone);
        let mut places: Vec<(usize, usize)> = gone.map(|gone| (gone.room, gone.first)).collect();
        places.sort_unstable();
        for (room, first) in places {
            self.free.entry(room).or_default().push(first);
        }
        self.batch += 1;
        if self.end > self.size {
            // The table gets new memory, so all of it is written again.
            self.size = self.end.next_power_of_two();
            self.changed = self.sequences.keys().map(|id| (*id, 0)).collect();
            self.changed.sort_unstable();
        }
        let before = words.len();
        for (id, known) in self.changed.drain(..) {
            let sequence = &self.sequences[&id];
            let segments = sequence.segments.iter().enumerate().skip(known);
            words
                .extend(segments.flat_map(|(i, segment)| {
                    [(sequence.first + i) as u32, segment[0], segment[1]]
                }));
        }
        (words.len() - before) / 3
    }

    /// Bytes of the table on the device. When they change, all of it is written again.
    pub(super) fn bytes(&self) -> usize {
        8 * self.size
    }

    /// A sequence's rows of keys in the current batch, in runs of consecutive rows: `(row, number of rows, position)`.
    pub(super) fn ranges(&self, id: u64) -> impl Iterator<Item = (usize, usize, usize)> {
        let sequence = self.sequences.get(&id);
        let (segments, keys) = sequence.map_or((&[][..], 0), |s| (&s.segments[..], s.keys));
        segments.iter().enumerate().map(move |(i, segment)| {
            let next = segments.get(i + 1).map(|next| next[0] as usize);
            let [position, row] = segment.map(|n| n as usize);
            (row, next.unwrap_or(keys) - position, position)
        })
    }

    /// Forgets what the device has.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again() {
        let mut table = SegmentTable::default();
        let mut words = Vec::new();
        for generation in 0..100 {
            let rows: Vec<KvRows> = (0..10)
                .map(|i| vec![(100 * i + generation, 16); 1 + (i + generation) % 30].into())
                .collect();
            rows.iter().for_each(|rows| {
                table.place(rows);
            });
            table.updates(&mut words);
        }
        // Two generations of ten places of 8, 16 and 32 segments.
        assert!(
            table.bytes() <= 8 * 20 * (8 + 16 + 32) * 2,
            "{}",
            table.bytes()
        );
    }
}
