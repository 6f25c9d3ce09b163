//! A progress bar on stderr where that is a terminal.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over a known number of items; hidden where stderr is not a terminal.
pub(crate) fn progress_bar(length: u64, what: &'static str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length).with_prefix(what);
    // The template is a constant and valid. If it were not, the bar's default look would do.
    if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:28}] {pos}/{len} {msg} {eta}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}
