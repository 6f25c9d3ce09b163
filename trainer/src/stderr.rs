//! Messages to the user on stderr.

use std::io::Write as _;

/// Writes a line to stderr. Control characters, which may come from a file or a service, are replaced. Errors are ignored, because nobody may read stderr any more: Ctrl-C
/// in `rapid train 2>&1 | tee log` ends `tee` too, and the run has yet to save a checkpoint.
pub fn say(text: &str) {
    let text = text.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}");
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
