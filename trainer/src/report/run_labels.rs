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
    format!(
        "<span class=\"mark m{}\">{}</span>",
        index % COLOURS,
        letter(index)
    )
}

/// The title of each run in a legend: its name, after its letter if there are several runs.
pub(super) fn titles(runs: &[RunData]) -> Vec<String> {
    let several = runs.len() > 1;
    runs.iter()
        .enumerate()
        .map(|(index, run)| {
            if several {
                format!("{} · {}", letter(index), run.name)
            } else {
                run.name.clone()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::letter;

    #[test]
    fn numbers_follow_the_letters() {
        assert_eq!(
            [0, 1, 25, 26, 300].map(letter),
            ["A", "B", "Z", "27", "301"]
        );
    }
}
