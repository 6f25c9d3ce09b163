//! Messages to the user on stderr, and fields of events in the log.

use std::fmt;
use std::io::Write as _;

use tracing::field::Field;
use tracing_subscriber::fmt::format::Writer;

use crate::escape;

/// Writes a line to stderr. Characters that a terminal obeys are replaced: they may come from a file or a service. Errors are ignored, because nobody may read
/// stderr any more: Ctrl-C in `rapid train 2>&1 | tee log` ends `tee` too, and the run has yet to save a checkpoint.
pub fn say(text: &str) {
    let text = escape::plain(text);
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Writes a field of an event, in one line whatever it contains.
pub fn log_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let value = escape::line(&format!("{value:?}"));
    match field.name() {
        "message" => write!(writer, "{value}"),
        // Where an event of the crate `log` comes from.
        name if name.starts_with("log.") => Ok(()),
        name => write!(writer, " {name}={value}"),
    }
}
