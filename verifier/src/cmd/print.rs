//! Output: results go to stdout, everything else to stderr and the log.

use std::io::{self, Write as _};

use serde::Serialize;

/// Writes a result to stdout. A closed pipe (`| head`) is not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Prints a result: as JSON, or as text for people.
pub(crate) fn print_result(
    as_json: bool,
    result: &impl Serialize,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    match as_json {
        true => print(&(serde_json::to_string_pretty(result)? + "\n")),
        false => print(&text()),
    }
}

/// Writes a line to stderr, and ignores errors.
pub(crate) fn say(text: &str) {
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}
