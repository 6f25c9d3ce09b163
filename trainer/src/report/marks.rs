//! The letter and colour by which a run is known where several stand side by side.

use super::chart::COLOURS;
use super::run_data::RunData;

/// `A`, `B`, … and numbers once the letters are used up.
pub(super) fn letter(place: usize) -> String {
    match u8::try_from(place) {
        Ok(place @ 0..26) => char::from(b'A' + place).to_string(),
        _ => (place + 1).to_string(),
    }
}

/// The letter in its run's colour, as HTML.
pub(super) fn mark(place: usize) -> String {
    format!(
        "<span class=\"mark m{}\">{}</span>",
        place % COLOURS,
        letter(place)
    )
}

/// What each run is called in a legend: its name, after its letter where there are several.
pub(super) fn titles(runs: &[RunData]) -> Vec<String> {
    let several = runs.len() > 1;
    runs.iter()
        .enumerate()
        .map(|(place, run)| {
            if several {
                format!("{} · {}", letter(place), run.name)
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
    fn letters_go_on_as_numbers() {
        assert_eq!(
            [0, 1, 25, 26, 300].map(letter),
            ["A", "B", "Z", "27", "301"]
        );
    }
}
