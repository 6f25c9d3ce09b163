//! The progress display of a fetch.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressStyle};

/// Receives the progress of a fetch. Files are fetched one after another.
pub trait Progress: Send + Sync {
    /// An event worth a line, such as a source that failed.
    fn note(&self, text: &str);
    /// A file begins. `done` of its `bytes` exist already.
    fn begin(&self, what: &str, bytes: Option<u64>, done: u64);
    /// More bytes of the file arrived.
    fn advance(&self, bytes: u64);
    /// The file is complete, or has failed.
    fn end(&self);
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn note(&self, _: &str) {}
    fn begin(&self, _: &str, _: Option<u64>, _: u64) {}
    fn advance(&self, _: u64) {}
    fn end(&self) {}
}

/// Lines on standard error, with a progress bar if that is a terminal.
#[derive(Debug, Default)]
pub struct Terminal {
    bar: Mutex<Option<ProgressBar>>,
}

impl Terminal {
    /// A display without a progress bar yet.
    #[must_use]
    pub fn new() -> Terminal {
        Terminal::default()
    }

    fn with_bar(&self, act: impl FnOnce(&mut Option<ProgressBar>)) {
        if let Ok(mut bar) = self.bar.lock() {
            act(&mut bar);
        }
    }
}

impl Progress for Terminal {
    fn note(&self, text: &str) {
        self.with_bar(|bar| match bar {
            Some(bar) => bar.suspend(|| print(text)),
            None => print(text),
        });
    }

    fn begin(&self, what: &str, bytes: Option<u64>, done: u64) {
        if !std::io::stderr().is_terminal() {
            let size = bytes
                .map(|n| format!(" ({})", indicatif::DecimalBytes(n)))
                .unwrap_or_default();
            print(&format!("fetching {what}{size}"));
            return;
        }
        let bar = match bytes {
            Some(bytes) => ProgressBar::new(bytes).with_style(style(
                "{msg} {bar:30} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta}",
            )),
            None => ProgressBar::new_spinner().with_style(style("{msg} {spinner} {elapsed}")),
        };
        let bar = bar.with_message(what.to_owned()).with_position(done);
        bar.enable_steady_tick(std::time::Duration::from_millis(200));
        self.with_bar(|slot| *slot = Some(bar));
    }

    fn advance(&self, bytes: u64) {
        self.with_bar(|bar| {
            if let Some(bar) = bar {
                bar.inc(bytes);
            }
        });
    }

    fn end(&self) {
        self.with_bar(|bar| {
            if let Some(bar) = bar.take() {
                bar.finish_and_clear();
            }
        });
    }
}

/// Writes a line to standard error. A closed standard error is not a failure.
fn print(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
