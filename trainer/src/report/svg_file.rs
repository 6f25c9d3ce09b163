//! A drawing as an SVG file of its own, which has the style sheet in it and follows the light and the dark scheme.

use std::fmt::Write as _;

use super::STYLE;
use super::chart::{COLOURS, DASHES, WIDTH};
use super::escape::html;

const MARGIN: f64 = 16.0;
const LINE: f64 = 18.0;
/// Characters of a line of the note, or of a row of the legend.
const CHARACTERS: usize = 82;

/// The file: a heading, a note, the drawing (an `svg` element of this height, in units of which [`WIDTH`] fit side by side) and the names of the series in their colours.
pub(super) fn svg_file(
    title: &str,
    note: &str,
    drawing: &str,
    height: f64,
    names: &[&str],
) -> String {
    let words = note.split(' ').map(|word| (word, word.chars().count() + 1));
    let note = wrapped(words, CHARACTERS);
    let legend = wrapped(
        names
            .iter()
            .enumerate()
            .map(|(i, name)| ((i, *name), name.chars().count() + 5)),
        CHARACTERS,
    );
    let drawing_top = MARGIN + LINE * (1.3 + note.len() as f64);
    let legend_top = drawing_top + height + LINE;
    let total_height = legend_top + LINE * legend.len() as f64 + MARGIN / 2.0;
    let total_width = WIDTH + 2.0 * MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {total_width} {total_height:.1}\" font-family=\"system-ui, sans-serif\">\n\
         <style>{STYLE} .name {{ fill: var(--ink); }} .note {{ fill: var(--soft); }} svg svg {{ overflow: visible; }}</style>\n\
         <rect width=\"100%\" height=\"100%\" style=\"fill: var(--card)\"/>\n\
         <text class=\"name\" x=\"{MARGIN}\" y=\"{:.1}\" font-size=\"15\" font-weight=\"650\">{}</text>\n",
        MARGIN + 10.0,
        html(title)
    );
    for (row, words) in note.iter().enumerate() {
        let _ = writeln!(
            out,
            "<text class=\"note\" x=\"{MARGIN}\" y=\"{:.1}\" font-size=\"12\">{}</text>",
            MARGIN + 10.0 + LINE * (row as f64 + 1.0),
            html(&words.join(" "))
        );
    }
    let _ = writeln!(
        out,
        "<svg x=\"{MARGIN}\" y=\"{drawing_top:.1}\" width=\"{WIDTH}\" height=\"{height}\">{drawing}</svg>"
    );
    for (row, entries) in legend.iter().enumerate() {
        let y = legend_top + LINE * row as f64;
        let mut x = MARGIN;
        for (i, name) in entries {
            let _ = writeln!(
                out,
                "<g class=\"s{} d{}\"><path class=\"line\" d=\"M{x:.1} {:.1}h18\"/></g><text class=\"note\" x=\"{:.1}\" y=\"{y:.1}\" font-size=\"12\">{}</text>",
                i % COLOURS,
                i / COLOURS % DASHES,
                y - 4.0,
                x + 24.0,
                html(name)
            );
            x += 24.0 + 6.6 * (name.chars().count() + 2) as f64;
        }
    }
    out.push_str("</svg>\n");
    out
}

/// Items in rows of at most this length, each item with its length.
fn wrapped<T>(items: impl Iterator<Item = (T, usize)>, longest: usize) -> Vec<Vec<T>> {
    let mut rows: Vec<Vec<T>> = Vec::new();
    let mut length = usize::MAX;
    for (item, characters) in items {
        if length.saturating_add(characters) > longest {
            rows.push(Vec::new());
            length = 0;
        }
        length += characters;
        rows.last_mut().expect("a row was begun").push(item);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_names_and_nothing_from_elsewhere() {
        let file = svg_file("a <b>", "some words", "<svg></svg>", 100.0, &["x & y", "z"]);
        assert!(file.starts_with("<svg xmlns=") && file.ends_with("</svg>\n"));
        for part in [
            "a &lt;b&gt;",
            "some words",
            "x &amp; y",
            "prefers-color-scheme: dark",
        ] {
            assert!(file.contains(part), "{part}");
        }
        assert_eq!(file.matches("http").count(), 1, "the name of the format");
    }

    #[test]
    fn rows_are_filled_in_order() {
        let words = ["one"; 60];
        let rows = wrapped(words.iter().map(|word| (word, 4)), CHARACTERS);
        assert_eq!(rows.iter().map(Vec::len).collect::<Vec<_>>(), [20, 20, 20]);
        assert!(wrapped(std::iter::empty::<((), usize)>(), CHARACTERS).is_empty());
    }
}
