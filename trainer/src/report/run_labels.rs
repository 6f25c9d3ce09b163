//! The letter and colour of each run when several are shown side by side.

use super::figure::COLOURS;
use super::run_data::RunData;

/// `A`, `B`, …, and numbers after `Z`.
pub(super) fn letter(index: usize) -> String {
    match u8::try_from(index) {
        Ok(index @ 0..26) => char::from(b'A' + index).to_string(),
        _ => (index + 1).to_string(),
    }
}

/// The letter in its run's colour, as HTML.
pub(super) fn mark(index: usize) -> String {
    let (colour, letter) = (index % COLOURS, letter(index));
    format!("<span class=\"mark m{colour}\">{letter}</span>")
}

/// The title of each run in a legend: its name, after its letter if there are several runs.
pub(super) fn titles(runs: &[RunData]) -> Vec<String> {
    if let [run] = runs {
        return vec![run.name.clone()];
    }
    let runs = runs.iter().enumerate();
    runs.map(|(index, run)| format!("{} · {}", letter(index), run.name))
        .collect()
}
