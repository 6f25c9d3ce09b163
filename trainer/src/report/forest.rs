//! Forest plots as inline SVG: differences with their intervals, one below the other.

use std::fmt::Write as _;

use datasets::passk::Interval;

use super::axis::{Axis, ValueFormat, format_tick, format_value};
use super::chart::WIDTH;
use super::escape::html;
use super::svg_file::{svg_file, wrapped};
use crate::statistics::Contrast;

const TOP: f64 = 8.0;
const RIGHT: f64 = 22.0;
/// What is below the rows without the legend: the ticks and the unit.
const BOTTOM: f64 = 58.0;
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
/// The length of a line in the legend, where the legend's second column begins, and the height of its rows.
const KEY: f64 = 28.0;
const COLUMN: f64 = 264.0;
const KEY_ROW: f64 = 24.0;

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
        let x_at =
            |value: f64| left + axis.position(value).clamp(0.0, 1.0) * (WIDTH - left - RIGHT);

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
                marks(difference, y, &axis, &x_at)
            );
            bottom += height;
        }

        let keys = self.keys(&axis);
        let height = bottom + BOTTOM + KEY_ROW * keys.len().div_ceil(2) as f64;
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
        legend(&mut out, &keys, bottom + 76.0);
        out.push_str("</svg>");
        (out, height)
    }

    /// The axis over 0 and everything that is drawn. Of the intervals over seeds, which are very long for two seeds, it has what is within the width of all
    /// others on either side, so that these can still be told apart.
    fn axis(&self) -> Axis {
        let values = self.rows.iter().flat_map(|(_, row)| {
            let ends = row.resampled.into_iter().flat_map(|it| [it.low, it.high]);
            let each = row.by_seed.iter().copied();
            ends.chain(each).chain([row.estimate])
        });
        let margin = self.margin.into_iter().flat_map(|it| [-it, it]);
        let others: Vec<f64> = values.chain(margin).chain([0.0]).collect();
        let low = others.iter().copied().fold(0.0, f64::min);
        let high = others.iter().copied().fold(0.0, f64::max);
        let (lowest, highest) = (2.0 * low - high, 2.0 * high - low);
        let over_seeds = self.rows.iter().filter_map(|(_, row)| row.over_seeds);
        let ends = over_seeds.flat_map(|it| [it.low.max(lowest), it.high.min(highest)]);
        Axis::over(others.iter().copied().chain(ends), 5, false)
    }

    /// The marks that are drawn, and what they mean.
    fn keys(&self, axis: &Axis) -> Vec<(String, &'static str)> {
        let intervals: Vec<Interval> = self
            .rows
            .iter()
            .filter_map(|(_, row)| row.over_seeds)
            .collect();
        let cut = intervals
            .iter()
            .any(|it| !axis.contains(it.low) || !axis.contains(it.high));
        let resampled = self.rows.iter().any(|(_, row)| row.resampled.is_some());
        let dashed = |end: End| over_seeds(End::Whole(0.0), end, 0.0);
        let keys = [
            Some(if resampled {
                (
                    estimate(KEY / 2.0, Some((0.0, KEY)), 0.0),
                    "estimate, bootstrap 95%",
                )
            } else {
                (estimate(KEY / 2.0, None, 0.0), "estimate")
            }),
            (!intervals.is_empty())
                .then(|| (dashed(End::Whole(KEY)), "t interval over seeds (95%)")),
            cut.then(|| (dashed(End::Cut(KEY)), "goes on beyond the axis")),
            Some((seeds(&[KEY / 2.0], 0.0), "each seed")),
            self.margin
                .map(|_| (band(0.0, KEY, -7.0, 7.0), "equivalence margin")),
        ];
        keys.into_iter().flatten().collect()
    }
}

/// What the marks mean, in two columns.
fn legend(out: &mut String, keys: &[(String, &'static str)], top: f64) {
    for (place, (mark, name)) in keys.iter().enumerate() {
        let x = COLUMN * (place % 2) as f64;
        let y = top + KEY_ROW * (place / 2) as f64;
        let _ = write!(
            out,
            "<g transform=\"translate({x} {:.1})\">{mark}</g>",
            y - 4.0
        );
        text(out, "start", x + KEY + 8.0, y, name);
    }
}

/// Where an end of a line is drawn.
#[derive(Debug, Clone, Copy)]
enum End {
    /// The line ends there.
    Whole(f64),
    /// The axis does, and the line goes on.
    Cut(f64),
}

impl End {
    fn x(self) -> f64 {
        let (Self::Whole(x) | Self::Cut(x)) = self;
        x
    }
}

/// The marks of a difference around this height.
fn marks(difference: &Contrast, y: f64, axis: &Axis, x_at: &dyn Fn(f64) -> f64) -> String {
    let ends = difference.resampled.map(|it| (x_at(it.low), x_at(it.high)));
    let mut out = estimate(x_at(difference.estimate), ends, y - TRACK);
    if let Some(Interval { low, high }) = difference.over_seeds {
        let end = |value: f64| {
            if axis.contains(value) {
                End::Whole(x_at(value))
            } else {
                End::Cut(x_at(value))
            }
        };
        out.push_str(&over_seeds(end(low), end(high), y));
    }
    let each: Vec<f64> = difference
        .by_seed
        .iter()
        .map(|value| x_at(*value))
        .collect();
    out.push_str(&seeds(&each, y + TRACK));
    out
}

/// The estimate as a square on its bootstrap interval between these ends, which is a solid line.
fn estimate(estimate: f64, ends: Option<(f64, f64)>, y: f64) -> String {
    let line = ends.map_or_else(String::new, |(low, high)| {
        line(End::Whole(low), End::Whole(high), y)
    });
    format!(
        "<g class=\"s0 d0\">{line}<rect class=\"dot\" x=\"{:.1}\" y=\"{:.1}\" width=\"9\" height=\"9\"/></g>",
        estimate - 4.5,
        y - 4.5
    )
}

/// The interval over seeds, a dashed line.
fn over_seeds(low: End, high: End, y: f64) -> String {
    format!("<g class=\"s1 d1\">{}</g>", line(low, high, y))
}

/// The seeds' own values, as rings.
fn seeds(values: &[f64], y: f64) -> String {
    let rings = values
        .iter()
        .map(|x| format!("<circle class=\"seed\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\"/>"));
    format!("<g class=\"s1\">{}</g>", rings.collect::<String>())
}

/// A line with a stroke at each end, so that the ends of a dashed one are seen too, or with an arrowhead where it is cut.
fn line(low: End, high: End, y: f64) -> String {
    let top = y - 4.0;
    let mark = |end: End, inwards: f64| match end {
        End::Whole(x) => format!("M{x:.1} {top:.1}v8"),
        End::Cut(x) => format!("M{:.1} {top:.1}L{x:.1} {y:.1}l{inwards} 4", x + inwards),
    };
    format!(
        "<path class=\"line\" d=\"M{:.1} {y:.1}H{:.1}{}{}\"/>",
        low.x(),
        high.x(),
        mark(low, 6.0),
        mark(high, -6.0)
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
    let intervals = [
        (difference.resampled, "by the bootstrap"),
        (difference.over_seeds, "over seeds"),
    ];
    let intervals = intervals
        .into_iter()
        .filter_map(|(interval, by)| Some(format!("{} {by}", ends(interval?))));
    let intervals = intervals.collect::<Vec<_>>().join(", ");
    let estimate = points(difference.estimate);
    if intervals.is_empty() {
        format!("{label}: {estimate} points")
    } else {
        format!("{label}: {estimate} points; 95%: {intervals}")
    }
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
            resampled: Some(interval(1.0)),
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
    fn a_very_long_interval_over_seeds_is_cut_at_the_axis() {
        let mut row = contrast(-0.05, 0.0, 0.06, &[-0.04, 0.04]);
        let mut svg_with = |low: f64, high: f64| {
            row.over_seeds = Some(Interval { low, high });
            forest(None, &[("a", &row)]).render()
        };
        let arrow_left = "l6 4";
        let arrow_right = "l-6 4";
        let name = ">goes on beyond the axis</text>";
        let whole = svg_with(-0.15, 0.15);
        assert!(!whole.contains(arrow_left) && !whole.contains(arrow_right));
        assert!(!whole.contains(name));
        let cut = svg_with(-0.51, 0.05);
        let (low, high) = (x_of(&cut, "\u{2212}20"), x_of(&cut, "5"));
        assert_near(after(&cut, " d=\"M")[1], low);
        assert_near(after(&cut, "H")[1], high);
        // The legend has one that is cut on the right.
        assert_eq!(cut.matches(arrow_left).count(), 1);
        assert_eq!(cut.matches(arrow_right).count(), 1);
        assert!(cut.contains(name));
        assert!(cut.contains("\u{2212}51.00 to 5.00 over seeds"));
    }

    #[test]
    fn a_difference_of_few_tasks_is_a_square_alone() {
        let mut row = contrast(0.0, 0.0, 0.0, &[0.0]);
        row.resampled = None;
        let svg = forest(None, &[("a", &row)]).render();
        assert!(svg.contains("<title>a: 0.00 points</title>"), "{svg}");
        assert!(svg.contains(">estimate</text>") && svg.contains("class=\"dot\""));
        assert!(!svg.contains("class=\"line\"") && !svg.contains("bootstrap"));
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
