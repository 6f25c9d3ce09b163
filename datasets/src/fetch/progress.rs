//! The progress display of a fetch.

use std::io::Write as _;
use std::time::Duration;

use indicatif::{DecimalBytes, ProgressBar, ProgressStyle};

/// Receives the progress of a fetch. Files are fetched one after another.
pub(super) trait Progress: Send + Sync {
    /// An event worth a line, such as a source that failed.
    fn note(&self, _text: &str) {}
    /// A file begins. `done` of its `bytes` exist already.
    fn begin(&self, _what: &str, _bytes: Option<u64>, _done: u64) {}
    /// More bytes of the file arrived.
    fn advance(&self, _bytes: u64) {}
    /// The file is complete, or has failed.
    fn end(&self) {}
}

/// Lines on standard error, with a progress bar if that is a terminal.
pub(super) struct Terminal(ProgressBar);

impl Default for Terminal {
    fn default() -> Terminal {
        let bar = ProgressBar::no_length();
        // No bar is drawn before a file begins.
        bar.finish_and_clear();
        Terminal(bar)
    }
}

impl Progress for Terminal {
    fn note(&self, text: &str) {
        self.0.suspend(|| print(text));
    }

    fn begin(&self, what: &str, bytes: Option<u64>, done: u64) {
        if self.0.is_hidden() {
            let size = bytes.map(|n| format!(" ({})", DecimalBytes(n)));
            print(&format!("fetching {what}{}", size.unwrap_or_default()));
            return;
        }
        self.0.reset();
        match bytes {
            Some(bytes) => self.0.set_length(bytes),
            None => self.0.unset_length(),
        }
        let template = match bytes {
            Some(_) => {
                "{msg} {bar:30} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta}"
            }
            None => "{msg} {spinner} {elapsed}",
        };
        let style = ProgressStyle::with_template(template);
        self.0
            .set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        self.0.set_message(what.to_owned());
        self.0.set_position(done);
        self.0.enable_steady_tick(Duration::from_millis(200));
    }

    fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}

/// Writes a line to standard error. A closed standard error is not a failure.
fn print(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
