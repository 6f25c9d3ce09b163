//! A progress bar on stderr where that is a terminal.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over a known number of things; hidden where stderr is no terminal.
pub(crate) fn bar(length: u64, what: &'static str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length).with_prefix(what);
    // The template is a constant of this program; a bar of another look would do as well.
    if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:28}] {pos}/{len} {msg} {eta}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}
