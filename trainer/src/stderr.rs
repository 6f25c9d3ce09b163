//! Words for whoever looks on.

use std::io::Write as _;

/// Writes a line to stderr, without the control characters that a file or a service may have put into it, if anybody still reads it: Ctrl-C in `rapid train 2>&1 | tee log` ends `tee` as well, and the run has a checkpoint to make yet.
pub fn say(text: &str) {
    let text = text.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}");
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
