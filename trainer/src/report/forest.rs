//! Forest plots as inline SVG: differences with their intervals, one below the other.

use std::fmt::Write as _;
use std::iter::once;

use datasets::passk::Interval;

use super::axis::{Axis, ValueFormat, format_tick, format_value};
use super::chart::WIDTH;
use super::escape::html;
use super::svg_file::{svg_file, wrapped};
use crate::statistics::Contrast;

const TOP: f64 = 8.0;
const RIGHT: f64 = 22.0;
/// What is below the rows: the ticks, the unit and the legend.
const BOTTOM: f64 = 106.0;
/// The least height of a row.
const ROW: f64 = 46.0;
/// From one mark of a row to the next: the estimate's, the interval over seeds, the seeds.
const TRACK: f64 = 11.0;
/// The longest line of a label, in characters.
const CHARACTERS: usize = 22;
/// The room for a character and for a line of text, by the style sheet's size of text on narrow screens, which is the largest.
const CHARACTER: f64 = 9.4;
const LINE: f64 = 19.0;
/// The gap between labels and marks.
const GAP: f64 = 12.0;
/// The length of a line in the legend, and where the legend's second column begins.
const KEY: f64 = 28.0;
const COLUMN: f64 = 264.0;

/// A row for each difference: its estimate, its two intervals, and what each seed gives.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Forest<'a> {
    /// The heading.
    pub(crate) title: String,
    /// A line that explains the differences.
    pub(crate) note: String,
    /// Differences within ± this count as none; `None` where that is not tested.
    pub(crate) margin: Option<f64>,
    /// The rows from the top: the label and the difference of Pass@1.
    pub(crate) rows: Vec<(String, &'a Contrast)>,
}

impl Forest<'_> {
    /// The figure element with its heading and its drawing.
    pub(crate) fn render(&self) -> String {
        format!(
            "<figure class=\"chart\"><figcaption><b>{}</b><span>{}</span></figcaption>{}</figure>\n",
            html(&self.title),
            html(&self.note),
            self.drawing().0
        )
    }

    /// The drawing as a file of its own, with its heading.
    pub(crate) fn file(&self) -> String {
        let (drawing, height) = self.drawing();
        svg_file(&self.title, &self.note, &drawing, height, &[])
    }

    /// The drawing with its legend, and its height.
    fn drawing(&self) -> (String, f64) {
        let labels: Vec<Vec<String>> = self.rows.iter().map(|(label, _)| lines(label)).collect();
        let longest = labels.iter().flatten().map(|line| line.chars().count());
        let left = CHARACTER * longest.max().unwrap_or(0) as f64 + GAP;
        let axis = self.axis();
        let x_at = |value: f64| left + axis.position(value) * (WIDTH - left - RIGHT);

        let mut rows = String::new();
        let mut bottom = TOP;
        for (lines, (label, difference)) in labels.iter().zip(&self.rows) {
            let height = ROW.max(LINE * lines.len() as f64 + 8.0);
            let y = bottom + height / 2.0;
            let first = y + 4.0 - LINE * (lines.len() as f64 - 1.0) / 2.0;
            for (number, line) in lines.iter().enumerate() {
                let y = first + LINE * number as f64;
                text(&mut rows, "end", left - GAP, y, line);
            }
            let _ = write!(
                rows,
                "<g><title>{}</title>{}</g>",
                html(&in_words(label, difference)),
                marks(difference, y, &x_at)
            );
            bottom += height;
        }

        let height = bottom + BOTTOM;
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
            html(&self.title)
        );
        if let Some(margin) = self.margin {
            out.push_str(&band(x_at(-margin), x_at(margin), TOP, bottom));
        }
        for tick in axis.ticks() {
            let x = x_at(tick);
            let class = if tick == 0.0 { "axis" } else { "grid" };
            let _ = write!(
                out,
                "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>"
            );
            let label = format_tick(tick, axis.step, ValueFormat::Points);
            text(&mut out, "middle", x, bottom + 24.0, &label);
        }
        let _ = write!(
            out,
            "<line class=\"axis\" x1=\"{left:.1}\" x2=\"{:.1}\" y1=\"{bottom:.1}\" y2=\"{bottom:.1}\"/>",
            WIDTH - RIGHT
        );
        let middle = f64::midpoint(left, WIDTH - RIGHT);
        text(
            &mut out,
            "middle",
            middle,
            bottom + 46.0,
            "points of Pass@1",
        );
        out.push_str(&rows);
        self.legend(&mut out, bottom + 76.0);
        out.push_str("</svg>");
        (out, height)
    }

    /// The axis over 0 and everything that is drawn.
    fn axis(&self) -> Axis {
        let values = self.rows.iter().flat_map(|(_, row)| {
            let intervals = once(row.resampled).chain(row.over_seeds);
            let ends = intervals.flat_map(|it| [it.low, it.high]);
            let each = row.by_seed.iter().copied();
            ends.chain(each).chain([row.estimate])
        });
        let margin = self.margin.into_iter().flat_map(|it| [-it, it]);
        Axis::over(values.chain(margin).chain([0.0]), 5, false)
    }

    /// What the marks mean, for those that are drawn, in two columns.
    fn legend(&self, out: &mut String, top: f64) {
        let over_seeds_known = self.rows.iter().any(|(_, row)| row.over_seeds.is_some());
        let keys = [
            Some((
                estimate(0.0, KEY / 2.0, KEY, 0.0),
                "estimate, bootstrap 95%",
            )),
            over_seeds_known.then(|| (over_seeds(0.0, KEY, 0.0), "t interval over seeds (95%)")),
            Some((seeds(&[KEY / 2.0], 0.0), "each seed")),
            self.margin
                .map(|_| (band(0.0, KEY, -7.0, 7.0), "equivalence margin")),
        ];
        for (place, (mark, name)) in keys.into_iter().flatten().enumerate() {
            let (x, y) = (COLUMN * (place % 2) as f64, top + 24.0 * (place / 2) as f64);
            let _ = write!(
                out,
                "<g transform=\"translate({x} {:.1})\">{mark}</g>",
                y - 4.0
            );
            text(out, "start", x + KEY + 8.0, y, name);
        }
    }
}

/// The marks of a difference around this height.
fn marks(difference: &Contrast, y: f64, x_at: &dyn Fn(f64) -> f64) -> String {
    let Interval { low, high } = difference.resampled;
    let mut out = estimate(x_at(low), x_at(difference.estimate), x_at(high), y - TRACK);
    if let Some(Interval { low, high }) = difference.over_seeds {
        out.push_str(&over_seeds(x_at(low), x_at(high), y));
    }
    let each: Vec<f64> = difference
        .by_seed
        .iter()
        .map(|value| x_at(*value))
        .collect();
    out.push_str(&seeds(&each, y + TRACK));
    out
}

/// The estimate as a square on its bootstrap interval, which is a solid line.
fn estimate(low: f64, estimate: f64, high: f64, y: f64) -> String {
    format!(
        "<g class=\"s0 d0\">{}<rect class=\"dot\" x=\"{:.1}\" y=\"{:.1}\" width=\"9\" height=\"9\"/></g>",
        line(low, high, y),
        estimate - 4.5,
        y - 4.5
    )
}

/// The interval over seeds, a dashed line.
fn over_seeds(low: f64, high: f64, y: f64) -> String {
    format!("<g class=\"s1 d1\">{}</g>", line(low, high, y))
}

/// The seeds' own values, as rings.
fn seeds(values: &[f64], y: f64) -> String {
    let rings = values
        .iter()
        .map(|x| format!("<circle class=\"seed\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\"/>"));
    format!("<g class=\"s1\">{}</g>", rings.collect::<String>())
}

/// A line with a stroke at each end, so that the ends of a dashed one are seen too.
fn line(low: f64, high: f64, y: f64) -> String {
    let top = y - 4.0;
    format!(
        "<path class=\"line\" d=\"M{low:.1} {y:.1}H{high:.1}M{low:.1} {top:.1}v8M{high:.1} {top:.1}v8\"/>"
    )
}

/// The differences that count as none.
fn band(low: f64, high: f64, top: f64, bottom: f64) -> String {
    format!(
        "<rect class=\"band\" x=\"{low:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
        high - low,
        bottom - top
    )
}

fn text(out: &mut String, anchor: &str, x: f64, y: f64, text: &str) {
    let _ = write!(
        out,
        "<text class=\"tick\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
        html(text)
    );
}

/// The numbers of a row, for its tooltip.
fn in_words(label: &str, difference: &Contrast) -> String {
    let points = |value: f64| format_value(value, ValueFormat::Points);
    let ends = |it: Interval| format!("{} to {}", points(it.low), points(it.high));
    let over_seeds = difference
        .over_seeds
        .map_or_else(String::new, |it| format!(", {} over seeds", ends(it)));
    format!(
        "{label}: {} points; 95%: {} by the bootstrap{over_seeds}",
        points(difference.estimate),
        ends(difference.resampled)
    )
}

/// A label in lines of at most [`CHARACTERS`]. A longer word is cut.
fn lines(label: &str) -> Vec<String> {
    let pieces = label.split(' ').flat_map(|word| {
        let letters: Vec<char> = word.chars().collect();
        let pieces = letters.chunks(CHARACTERS);
        pieces
            .map(|piece| (piece.iter().collect::<String>(), piece.len() + 1))
            .collect::<Vec<_>>()
    });
    let lines = wrapped(pieces, CHARACTERS + 1);
    lines.iter().map(|words| words.join(" ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contrast(low: f64, estimate: f64, high: f64, by_seed: &[f64]) -> Contrast {
        let interval = |factor: f64| Interval {
            low: factor * low,
            high: factor * high,
        };
        Contrast {
            estimate,
            resampled: interval(1.0),
            over_seeds: (by_seed.len() > 1).then(|| interval(0.5)),
            by_seed: by_seed.to_vec(),
        }
    }

    fn forest<'a>(margin: Option<f64>, rows: &[(&str, &'a Contrast)]) -> Forest<'a> {
        Forest {
            title: "t".into(),
            note: "n".into(),
            margin,
            rows: rows
                .iter()
                .map(|(label, row)| ((*label).to_owned(), *row))
                .collect(),
        }
    }

    /// The number after each occurrence of these words.
    fn after(svg: &str, words: &str) -> Vec<f64> {
        let ends = |c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-'));
        svg.split(words)
            .skip(1)
            .map(|rest| rest.split(ends).next().unwrap().parse().unwrap())
            .collect()
    }

    /// Where the text with these words stands.
    fn x_of(svg: &str, words: &str) -> f64 {
        let (before, _) = svg.split_once(&format!(">{words}</text>")).unwrap();
        *after(before, " x=\"").last().unwrap()
    }

    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 0.2, "{found} {expected}");
    }

    #[test]
    fn every_mark_stands_where_the_axis_has_its_value() {
        let row = contrast(-0.10, 0.05, 0.20, &[0.0, 0.10]);
        let svg = forest(Some(0.02), &[("a", &row)]).render();
        let (low, high) = (x_of(&svg, "\u{2212}10"), x_of(&svg, "20"));
        assert!(high - low > 200.0, "{low} {high}");
        let at = |points: f64| low + (high - low) * (points + 10.0) / 30.0;
        assert_near(after(&svg, "<rect class=\"dot\" x=\"")[0] + 4.5, at(5.0));
        // The first two lines are the row's, and the others the legend's.
        let lows = after(&svg, " d=\"M");
        assert_near(lows[0], at(-10.0));
        assert_near(lows[1], at(-5.0));
        let highs = after(&svg, "H");
        assert_near(highs[0], at(20.0));
        assert_near(highs[1], at(10.0));
        let seeds = after(&svg, "<circle class=\"seed\" cx=\"");
        assert_near(seeds[0], at(0.0));
        assert_near(seeds[1], at(10.0));
        let bands = after(&svg, "<rect class=\"band\" x=\"");
        assert_near(bands[0], at(-2.0));
        // The line at 0 is the first that is no grid.
        assert_near(after(&svg, "<line class=\"axis\" x1=\"")[0], at(0.0));
    }

    #[test]
    fn the_legend_has_what_is_drawn() {
        let names = [
            "estimate, bootstrap 95%",
            "t interval over seeds (95%)",
            "each seed",
            "equivalence margin",
        ];
        let legend = |margin: Option<f64>, seeds: &[f64]| {
            let row = contrast(-0.01, 0.0, 0.01, seeds);
            let svg = forest(margin, &[("a", &row)]).file();
            assert_eq!(svg.contains("class=\"band\""), margin.is_some());
            assert_eq!(svg.contains("class=\"s1 d1\""), seeds.len() > 1);
            names.map(|name| svg.contains(&format!(">{name}</text>")))
        };
        assert_eq!(legend(Some(0.02), &[0.0, 0.0]), [true; 4]);
        assert_eq!(legend(None, &[0.0]), [true, false, true, false]);
    }

    #[test]
    fn a_row_without_a_difference_renders() {
        let row = contrast(0.0, 0.0, 0.0, &[0.0, 0.0]);
        let svg = forest(None, &[("a", &row)]).render();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(svg.contains(
            "a: 0.00 points; 95%: 0.00 to 0.00 by the bootstrap, 0.00 to 0.00 over seeds"
        ));
    }

    #[test]
    fn a_label_of_any_length_is_whole_and_left_of_the_marks() {
        assert_eq!(
            lines("division by the standard deviation"),
            ["division by the", "standard deviation"]
        );
        let word = "w".repeat(50);
        assert_eq!(lines(&word).concat(), word);
        let row = contrast(-0.10, 0.0, 0.10, &[0.0, 0.0]);
        let svg = forest(None, &[(word.as_str(), &row), ("a <b>", &row)]).render();
        assert!(svg.contains(">a &lt;b&gt;</text>") && !svg.contains("a <b>"));
        let first = lines(&word).remove(0);
        let end = x_of(&svg, &first);
        assert!(end + 0.1 > CHARACTER * first.len() as f64, "{end}");
        assert!(end < x_of(&svg, "0"), "{end}");
    }
}
