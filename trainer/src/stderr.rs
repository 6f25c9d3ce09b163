//! Words for whoever looks on.

use std::io::Write as _;

/// Writes a line to stderr, if anybody still reads it: Ctrl-C in `rapid train 2>&1 | tee log` ends `tee` as well, and the run has a checkpoint to make yet.
pub fn say(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
