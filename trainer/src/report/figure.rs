//! A drawing in SVG with its heading and legend, as an element of a page or a file. Colours come from the style sheet, so it follows the light and the dark scheme.

use std::fmt::Write as _;

use super::STYLE;
use super::escape::html;

/// The width of every drawing, in its own units.
pub(super) const WIDTH: f64 = 560.0;
/// Number of colours in the style sheet; further series reuse them with other dashes.
pub(super) const COLOURS: usize = 6;
/// Number of dashes in the style sheet.
const DASHES: usize = 3;

const MARGIN: f64 = 16.0;
const LINE: f64 = 18.0;
/// Characters of a line of the note in a file.
const CHARACTERS: usize = 82;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(super) title: String,
    /// A line that explains the drawing.
    pub(super) note: String,
    /// Elements of SVG, from 0 to [`WIDTH`] and from 0 to the height.
    pub(super) drawing: String,
    pub(super) height: f64,
    /// The names of series, in the order of their colours; a drawing with one series needs none.
    pub(super) names: Vec<String>,
}

/// CSS classes of a series: its colour and its dashes.
pub(super) fn class_of(series: usize) -> String {
    format!("s{} d{}", series % COLOURS, series / COLOURS % DASHES)
}

/// A text of a drawing, anchored at its `start`, `middle` or `end`.
pub(super) fn text(out: &mut String, anchor: &str, x: f64, y: f64, text: &str) {
    let _ = write!(
        out,
        "<text class=\"tick\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
        html(text)
    );
}

/// A line of a drawing, from a point to another.
pub(super) fn line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = write!(
        out,
        "<line class=\"{class}\" x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y1:.1}\" y2=\"{y2:.1}\"/>"
    );
}

impl Figure {
    /// The drawing alone, as an `svg` element.
    fn svg(&self) -> String {
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">{}</svg>",
            self.height,
            html(&self.title),
            self.drawing
        )
    }

    /// The drawing and its legend, as elements of a page.
    pub(super) fn without_heading(&self) -> String {
        let mut out = self.svg();
        if !self.names.is_empty() {
            out.push_str("<ul class=\"legend\">");
            for (series, name) in self.names.iter().enumerate() {
                let (class, name) = (class_of(series), html(name));
                let _ = write!(out, "<li class=\"{class}\"><span>{name}</span></li>");
            }
            out.push_str("</ul>");
        }
        out
    }

    /// The `figure` element of a page: heading, note, drawing and legend.
    pub(crate) fn render(&self) -> String {
        format!(
            "<figure class=\"chart\"><figcaption><b>{}</b><span>{}</span></figcaption>{}</figure>\n",
            html(&self.title),
            html(&self.note),
            self.without_heading()
        )
    }

    /// A standalone SVG file, with heading, note and legend in it.
    pub(crate) fn file(&self) -> String {
        let note = wrapped(&self.note);
        let drawing_top = MARGIN + LINE * (1.3 + note.len() as f64);
        let legend_top = drawing_top + self.height + LINE;
        let total_height = legend_top + LINE * self.names.len() as f64 + MARGIN / 2.0;
        let total_width = WIDTH + 2.0 * MARGIN;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {total_width} {total_height:.1}\" font-family=\"system-ui, sans-serif\">\n\
             <style>{STYLE} .name {{ fill: var(--ink); }} .note {{ fill: var(--soft); }} svg svg {{ overflow: visible; }}</style>\n\
             <rect width=\"100%\" height=\"100%\" style=\"fill: var(--card)\"/>\n\
             <text class=\"name\" x=\"{MARGIN}\" y=\"{:.1}\" font-size=\"15\" font-weight=\"650\">{}</text>\n",
            MARGIN + 10.0,
            html(&self.title)
        );
        for (row, words) in note.iter().enumerate() {
            let _ = writeln!(
                out,
                "<text class=\"note\" x=\"{MARGIN}\" y=\"{:.1}\" font-size=\"12\">{}</text>",
                MARGIN + 10.0 + LINE * (row as f64 + 1.0),
                html(words)
            );
        }
        let _ = writeln!(
            out,
            "<svg x=\"{MARGIN}\" y=\"{drawing_top:.1}\" width=\"{WIDTH}\" height=\"{}\">{}</svg>",
            self.height,
            self.svg()
        );
        for (series, name) in self.names.iter().enumerate() {
            let y = legend_top + LINE * series as f64;
            let _ = writeln!(
                out,
                "<g class=\"{}\"><path class=\"line\" d=\"M{MARGIN} {:.1}h18\"/></g><text class=\"note\" x=\"{}\" y=\"{y:.1}\" font-size=\"12\">{}</text>",
                class_of(series),
                y - 4.0,
                MARGIN + 24.0,
                html(name)
            );
        }
        out.push_str("</svg>\n");
        out
    }
}

/// The words of a text in lines of at most [`CHARACTERS`], with the space that ends each.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let length = word.chars().count() + 2;
        match lines.last_mut() {
            Some(line) if line.chars().count() + length <= CHARACTERS => {
                *line += &format!(" {word}");
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_names_and_nothing_from_elsewhere() {
        let figure = Figure {
            title: "a <b>".into(),
            note: ["one"; 60].join(" "),
            drawing: "<g></g>".into(),
            height: 100.0,
            names: vec!["x & y".into(), "z".into()],
        };
        let file = figure.file();
        assert!(file.starts_with("<svg xmlns=") && file.ends_with("</svg>\n"));
        for part in ["a &lt;b&gt;", "x &amp; y", "prefers-color-scheme: dark"] {
            assert!(file.contains(part), "{part}");
        }
        // Three rows and two names; the name of the format.
        let counts = ["class=\"note\"", "http"].map(|it| file.matches(it).count());
        assert_eq!(counts, [3 + 2, 1]);
    }
}
