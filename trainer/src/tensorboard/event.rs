//! The fields of TensorFlow's `Event` message that scalars need, as protobuf.
//!
//! The field numbers are those of `event.proto` and `summary.proto`.

use super::Entry;

/// The first event of every file.
pub(super) fn version(time: f64) -> Vec<u8> {
    let mut event = head(time, 0);
    bytes(&mut event, 3, b"brain.Event:2");
    event
}

/// `session_log { status: START }`.
pub(super) fn session_start(time: f64) -> Vec<u8> {
    let mut event = head(time, 0);
    let mut log = Vec::new();
    number(&mut log, 1, 1);
    bytes(&mut event, 7, &log);
    event
}

/// The event with all values of a step.
pub(super) fn summary(entry: &Entry) -> Vec<u8> {
    let mut summary = Vec::new();
    for (tag, value) in &entry.values {
        let mut field = Vec::new();
        bytes(&mut field, 1, tag.as_bytes());
        key(&mut field, 2, 5);
        field.extend((*value as f32).to_le_bytes());
        bytes(&mut summary, 1, &field);
    }
    let mut event = head(entry.time, entry.step);
    bytes(&mut event, 5, &summary);
    event
}

/// `wall_time` and `step`.
fn head(time: f64, step: usize) -> Vec<u8> {
    let mut event = Vec::new();
    key(&mut event, 1, 1);
    event.extend(time.to_le_bytes());
    number(&mut event, 2, step as u64);
    event
}

fn key(out: &mut Vec<u8>, field: u64, wire: u64) {
    varint(out, field << 3 | wire);
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    key(out, field, 0);
    varint(out, value);
}

fn bytes(out: &mut Vec<u8>, field: u64, content: &[u8]) {
    key(out, field, 2);
    varint(out, content.len() as u64);
    out.extend(content);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
