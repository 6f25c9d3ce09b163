//! Forest plots as inline SVG: differences with their intervals, one below the other.

use std::fmt::Write as _;

use datasets::passk::Interval;

use super::axis::{Axis, ValueFormat, format_tick, format_value};
use super::chart::WIDTH;
use super::escape::html;
use super::svg_file::svg_file;
use crate::statistics::Contrast;

/// The room left and right of the axis.
const SIDE: f64 = 22.0;
/// The height of a row: its label, and below it the tracks of the estimate, of the interval over seeds, and of the seeds.
const ROW: f64 = 64.0;
const TRACK: f64 = 11.0;
/// What is below the rows: the ticks and the unit.
const BOTTOM: f64 = 58.0;

/// A row for each difference: its estimate, its two intervals, and what each seed gives.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Forest<'a> {
    /// The heading.
    pub(crate) title: String,
    /// What the differences are.
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
            html(&self.caption()),
            self.drawing()
        )
    }

    /// The drawing as a file of its own, with its heading.
    pub(crate) fn file(&self) -> String {
        svg_file(
            &self.title,
            &self.caption(),
            &self.drawing(),
            self.height(),
            &[],
        )
    }

    /// The note, and what the marks mean.
    fn caption(&self) -> String {
        let has = |interval: fn(&Contrast) -> Option<Interval>| {
            self.rows.iter().any(|(_, row)| interval(row).is_some())
        };
        let parts = [
            (true, "; square: estimate"),
            (
                has(|row| row.resampled),
                ", on its bootstrap interval (95%)",
            ),
            (
                has(|row| row.over_seeds),
                "; dashed: t interval over seeds (95%)",
            ),
            (true, "; rings: each seed"),
            (self.margin.is_some(), "; band: equivalence margin"),
        ];
        let parts = parts.iter().filter(|(is_drawn, _)| *is_drawn);
        let parts: String = parts.map(|(_, text)| *text).collect();
        format!("{}{parts}", self.note)
    }

    fn height(&self) -> f64 {
        ROW * self.rows.len() as f64 + BOTTOM
    }

    fn drawing(&self) -> String {
        let axis = self.axis();
        let x_at = |value: f64| SIDE + axis.position(value) * (WIDTH - 2.0 * SIDE);
        let bottom = self.height() - BOTTOM;
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">",
            self.height(),
            html(&self.title)
        );
        if let Some(margin) = self.margin {
            let _ = write!(
                out,
                "<rect class=\"band\" x=\"{:.1}\" y=\"0\" width=\"{:.1}\" height=\"{bottom}\"/>",
                x_at(-margin),
                x_at(margin) - x_at(-margin)
            );
        }
        for tick in axis.ticks() {
            let x = x_at(tick);
            let class = if tick == 0.0 { "axis" } else { "grid" };
            let _ = write!(
                out,
                "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{bottom}\"/>"
            );
            let label = format_tick(tick, axis.step, ValueFormat::Points);
            text(&mut out, "middle", x, bottom + 24.0, &label);
        }
        let unit = "points of Pass@1";
        text(&mut out, "middle", WIDTH / 2.0, bottom + 46.0, unit);
        for (number, (label, difference)) in self.rows.iter().enumerate() {
            let top = ROW * number as f64;
            let _ = write!(
                out,
                "<g><title>{}</title>",
                html(&in_words(label, difference))
            );
            text(&mut out, "start", 0.0, top + 18.0, label);
            marks(&mut out, difference, top + 24.0 + TRACK, &x_at);
            out.push_str("</g>");
        }
        out.push_str("</svg>");
        out
    }

    /// The axis over 0 and everything that is drawn.
    fn axis(&self) -> Axis {
        let values = self.rows.iter().flat_map(|(_, row)| {
            let intervals = [row.resampled, row.over_seeds].into_iter().flatten();
            let ends = intervals.flat_map(|it| [it.low, it.high]);
            ends.chain(row.by_seed.iter().copied())
                .chain([row.estimate])
        });
        let margin = self.margin.into_iter().flat_map(|it| [-it, it]);
        Axis::over(values.chain(margin).chain([0.0]), 5, false)
    }
}

/// The marks of a difference from this height on: the estimate as a square on its bootstrap interval, the interval over seeds dashed, and the seeds as rings.
fn marks(out: &mut String, difference: &Contrast, y: f64, x_at: &dyn Fn(f64) -> f64) {
    let line = |interval: Option<Interval>, y: f64| {
        interval.map_or_else(String::new, |interval| {
            let (low, high, top) = (x_at(interval.low), x_at(interval.high), y - 4.0);
            // Strokes at both ends, so that those of a dashed line are seen too.
            format!("<path class=\"line\" d=\"M{low:.1} {y:.1}H{high:.1}M{low:.1} {top:.1}v8M{high:.1} {top:.1}v8\"/>")
        })
    };
    let _ = write!(
        out,
        "<g class=\"s0 d0\">{}<rect class=\"dot\" x=\"{:.1}\" y=\"{:.1}\" width=\"9\" height=\"9\"/></g><g class=\"s1 d1\">{}",
        line(difference.resampled, y),
        x_at(difference.estimate) - 4.5,
        y - 4.5,
        line(difference.over_seeds, y + TRACK)
    );
    for value in &difference.by_seed {
        let _ = write!(
            out,
            "<circle class=\"seed\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.2\"/>",
            x_at(*value),
            y + 2.0 * TRACK
        );
    }
    out.push_str("</g>");
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
    let intervals = [
        (difference.resampled, "by the bootstrap"),
        (difference.over_seeds, "over seeds"),
    ];
    let intervals = intervals.into_iter().filter_map(|(interval, by)| {
        let Interval { low, high } = interval?;
        Some(format!("{} to {} {by}", points(low), points(high)))
    });
    let intervals = intervals.collect::<Vec<_>>().join(", ");
    let estimate = points(difference.estimate);
    if intervals.is_empty() {
        format!("{label}: {estimate} points")
    } else {
        format!("{label}: {estimate} points; 95%: {intervals}")
    }
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

    fn drawn(margin: Option<f64>, label: &str, row: &Contrast) -> String {
        let forest = Forest {
            title: "t".into(),
            note: "n".into(),
            margin,
            rows: vec![(label.to_owned(), row)],
        };
        forest.render()
    }

    /// The number after each occurrence of these words.
    fn after(svg: &str, words: &str) -> Vec<f64> {
        let ends = |c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-'));
        svg.split(words)
            .skip(1)
            .map(|rest| rest.split(ends).next().unwrap().parse().unwrap())
            .collect()
    }

    #[test]
    fn every_mark_stands_where_the_axis_has_its_value() {
        let row = contrast(-0.10, 0.05, 0.20, &[0.0, 0.10]);
        let svg = drawn(Some(0.02), "a <b>", &row);
        // The axis goes from −10 to 20 points.
        let width = WIDTH - 2.0 * SIDE;
        let at = |points: f64| SIDE + width * (points + 10.0) / 30.0;
        for (words, expected) in [
            ("<rect class=\"dot\" x=\"", &[at(5.0) - 4.5][..]),
            (" d=\"M", &[at(-10.0), at(-5.0)]),
            ("H", &[at(20.0), at(10.0)]),
            ("<circle class=\"seed\" cx=\"", &[at(0.0), at(10.0)]),
            ("<rect class=\"band\" x=\"", &[at(-2.0)]),
            ("<line class=\"axis\" x1=\"", &[at(0.0)]),
        ] {
            let found = after(&svg, words);
            assert_eq!(found.len(), expected.len(), "{words}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(
                    (found - expected).abs() < 0.06,
                    "{words}: {found} {expected}"
                );
            }
        }
        assert!(svg.contains(">a &lt;b&gt;</text>") && !svg.contains("a <b>"));
    }

    #[test]
    fn what_is_not_known_is_neither_drawn_nor_explained() {
        let mut row = contrast(0.0, 0.0, 0.0, &[0.0]);
        let svg = drawn(None, "a", &row);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(svg.contains("<title>a: 0.00 points; 95%: 0.00 to 0.00 by the bootstrap</title>"));
        row.resampled = None;
        let svg = drawn(None, "a", &row);
        assert!(svg.contains("<title>a: 0.00 points</title>"), "{svg}");
        assert!(svg.contains("n; square: estimate; rings: each seed<"));
        assert!(!svg.contains("class=\"line\"") && !svg.contains("class=\"band\""));
    }
}
