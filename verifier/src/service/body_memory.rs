//! Limits the memory of request bodies and of what is parsed from them. A body counts, as far as it has arrived, until its answer is sent.
//!
//! The limit is in bytes of bodies. Each stands for up to four bytes of memory, since parsing copies texts. A value of a task may be one digit in the body, and takes some
//! 200 bytes once it is parsed. So the values of a body count in addition to its bytes.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::ProblemResponse;
use crate::pool::Full;

/// Maximum number of values of a body, keys included.
pub(super) const MAX_VALUES: usize = 4 << 20;
/// Bytes of memory that a byte of the limit stands for.
const MEMORY: usize = 4;
/// Bytes that a value counts as.
const VALUE_BYTES: usize = 200 / MEMORY;
/// Clients with long bodies must not keep out short ones. So a body over this share of all memory leaves [`RESERVE`] of it to others.
const SHORT: u32 = 64;
/// The share that is for short bodies alone.
const RESERVE: u32 = 8;
/// Number of bodies of the maximum size that fit.
const MAX_LARGE_BODIES: usize = 4;
/// Bytes of one unit of the semaphore.
const UNIT: usize = 1 << 10;

/// The memory for request bodies.
pub(super) struct BodyMemory {
    room: Arc<Semaphore>,
    /// The total size, in units.
    all: u32,
}

/// The memory of one body, until it is dropped.
pub(super) struct BodyPermit {
    held: OwnedSemaphorePermit,
    /// The total size for all bodies, in units.
    all: u32,
}

impl BodyMemory {
    /// Memory for four bodies of `largest` bytes, or for many small ones.
    pub(super) fn new(largest: usize) -> BodyMemory {
        let all = units(largest).saturating_mul(MAX_LARGE_BODIES);
        let all = u32::try_from(all).unwrap_or(u32::MAX);
        BodyMemory {
            room: Arc::new(Semaphore::new(all as usize)),
            all,
        }
    }

    /// Reserves memory for a body of up to `bytes`.
    ///
    /// # Errors
    /// [`Full`] if there is not enough now.
    pub(super) fn acquire(&self, bytes: usize) -> Result<BodyPermit, Full> {
        let requested = u32::try_from(units(bytes)).unwrap_or(u32::MAX);
        let held = Arc::clone(&self.room)
            .try_acquire_many_owned(requested.min(self.all))
            .map_err(|_| Full::NOW)?;
        Ok(BodyPermit {
            held,
            all: self.all,
        })
    }
}

impl BodyPermit {
    /// Reserves more memory, so that there is enough for `bytes`, or all of it if there are more.
    ///
    /// # Errors
    /// [`Full`] if there is not enough now.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        let requested = u32::try_from(units(bytes)).unwrap_or(u32::MAX);
        let held = u32::try_from(self.held.num_permits()).unwrap_or(u32::MAX);
        let lacking = requested.min(self.all).saturating_sub(held);
        let free = self.held.semaphore().available_permits() as u32;
        let is_alone = held + free >= self.all;
        if requested > self.all / SHORT && !is_alone && free < lacking + self.all / RESERVE {
            return Err(Full::NOW);
        }
        let more = Arc::clone(self.held.semaphore()).try_acquire_many_owned(lacking);
        self.held.merge(more.map_err(|_| Full::NOW)?);
        Ok(())
    }

    /// Reserves memory for the values of `body`, in addition to its bytes. `body` is complete and unpacked.
    ///
    /// # Errors
    /// If it has more than [`MAX_VALUES`], or there is not enough memory now.
    pub(super) fn grow_for_values(&mut self, body: &[u8]) -> Result<(), ProblemResponse> {
        let values = count_values(body);
        if values > MAX_VALUES {
            return Err(ProblemResponse::too_many_values(MAX_VALUES));
        }
        let bytes = body.len().saturating_add(values * VALUE_BYTES);
        self.grow(bytes).map_err(ProblemResponse::from)
    }

    /// Holds the memory of an answer of `bytes` instead of the body's. If the answer needs more and there is not enough, it keeps what it has.
    pub(super) fn fit_answer(&mut self, bytes: usize) {
        let bytes = bytes / MEMORY;
        let _ = self.grow(bytes);
        self.shrink(bytes);
    }

    /// Releases the memory that a body of `bytes` does not need.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let surplus = self.held.num_permits().saturating_sub(units(bytes));
        drop(self.held.split(surplus));
    }
}

/// The most values that a JSON text may have, keys included: each but the first follows a bracket, a comma or a colon.
fn count_values(json: &[u8]) -> usize {
    let mut values = 1;
    let (mut quoted, mut escaped, mut counts) = (false, false, true);
    for (at, &byte) in json.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => {
                escaped = true;
                // It may stand for a bracket, a comma or a colon.
                values += usize::from(counts);
            }
            b'"' => {
                quoted = !quoted;
                counts = !quoted || may_be_task(&json[at + 1..]);
            }
            b'[' | b'{' | b',' | b':' if counts => values += 1,
            _ => {}
        }
    }
    values
}

/// Whether the quoted text that begins here may be a task or tests in JSON, as other projects' clients send them (`compat/label.rs`). Spaces may precede its bracket,
/// and both may be escaped. A formula begins with an escaped backslash, so it does not count.
fn may_be_task(text: &[u8]) -> bool {
    let mut rest = text;
    loop {
        rest = match rest {
            [b' ', rest @ ..] | [b'\\', b'n' | b'r' | b't' | b'f', rest @ ..] => rest,
            [b'{' | b'[', ..] | [b'\\', b'u', ..] => return true,
            [first, ..] => return !first.is_ascii(),
            [] => return false,
        };
    }
}

fn units(bytes: usize) -> usize {
    bytes / UNIT + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_large_bodies_or_many_small_ones_fit() {
        let bodies = BodyMemory::new(100 * UNIT);
        let mut held: Vec<BodyPermit> = (0..MAX_LARGE_BODIES)
            .map(|_| bodies.acquire(100 * UNIT).unwrap())
            .collect();
        assert!(bodies.acquire(0).is_err());
        held[0].shrink(10 * UNIT);
        held.extend((0..9).map(|_| bodies.acquire(9 * UNIT).unwrap()));
        assert!(bodies.acquire(0).is_err());
        held.clear();
        assert!(bodies.acquire(usize::MAX).is_ok());
    }

    #[test]
    fn long_bodies_leave_memory_for_short_ones() {
        let bodies = BodyMemory::new(1_000 * UNIT);
        let mut long: Vec<BodyPermit> = (0..10).map(|_| bodies.acquire(0).unwrap()).collect();
        let mut sizes = (0..1_000_000).step_by(10 * UNIT);
        let mut grow = |size| long.iter_mut().any(|permit| permit.grow(size).is_err());
        assert!(sizes.any(&mut grow));
        let mut short = bodies.acquire(0).unwrap();
        assert!(short.grow(60 * UNIT).is_ok());
        drop(long);
        assert!(short.grow(usize::MAX).is_ok());
    }

    #[test]
    fn each_value_and_key_counts_and_the_content_of_a_text_does_not() {
        for (json, expected) in [
            ("0", 1),
            ("[0,0,[0]]", 5),
            (r#"{"a": [1, 2], "b": "x, y: [\", z"}"#, 7),
            (r#""a, b: {c}""#, 1),
            (r#""\\frac{1}{2}, \n{[1, 2]: 3}""#, 1),
            (r#"" \n\\[x, y, z\\]""#, 1),
        ] {
            assert_eq!(count_values(json.as_bytes()), expected, "{json}");
        }
    }

    #[test]
    fn the_values_of_a_task_in_a_text_count_however_it_is_written() {
        let task = r#"{"tests":[{"args":[[0,0,0,0]],"expected":0}]}"#;
        let quoted = |text: &str| serde_json::to_string(text).unwrap();
        for label in [
            quoted(task),
            quoted(&format!(" {task}")),
            quoted(&format!("\n{task}")),
            quoted(&format!("\u{3000}{task}")),
            quoted(task).replace('{', r"\u007b").replace(',', r"\u002c"),
            quoted(&format!("\n[{task}]")),
        ] {
            let text: String = serde_json::from_str(&label).unwrap();
            assert!(text.trim().starts_with(['{', '[']), "{label}");
            let values = count_values(label.as_bytes());
            assert!(values >= count_values(text.as_bytes()), "{label}");
        }
    }

    #[test]
    fn a_body_of_many_values_counts_as_more_than_its_bytes_and_at_most_as_all() {
        let bodies = BodyMemory::new(100 * UNIT);
        // 8 units of text, and 217 of values.
        let zeros = format!("[0{}]", ",0".repeat(4_432));
        let mut permit = bodies.acquire(zeros.len()).unwrap();
        permit.grow_for_values(zeros.as_bytes()).unwrap();
        assert!(bodies.acquire(200 * UNIT).is_err());
        let other = bodies.acquire(100 * UNIT).unwrap();
        let more = format!("[{}]", zeros.repeat(10));
        assert!(permit.grow_for_values(more.as_bytes()).is_err());
        drop(other);
        permit.grow_for_values(more.as_bytes()).unwrap();
        assert!(bodies.acquire(0).is_err());
    }
}
