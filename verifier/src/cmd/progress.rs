//! The progress of long work: a bar if stderr is a terminal, otherwise a line for each tenth.

use indicatif::{ProgressBar, ProgressStyle};

use super::say;

/// The progress of work in equal parts. A bar is cleared when it is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// What the parts are called.
    parts: &'static str,
}

impl Progress {
    /// The progress of the work on `what`: `all` parts, with `done` of them done already.
    pub(crate) fn new(what: &str, parts: &'static str, done: usize, all: usize) -> Progress {
        let style = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} {eta}");
        let bar = ProgressBar::new(all as u64)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
            .with_message(what.to_owned())
            .with_position(done as u64);
        bar.reset_eta();
        Progress { bar, parts }
    }

    /// Counts one more part. Parts are counted one after another.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(1));
        if self.bar.is_hidden() && done * 10 / all > (done - 1) * 10 / all {
            let (what, parts) = (self.bar.message(), self.parts);
            say(&format!("{what}: {done} of {all} {parts}"));
        }
    }

    /// Writes a line to stderr, above the bar.
    pub(crate) fn say(&self, text: &str) {
        self.bar.suspend(|| say(text));
    }
}
