//! Horizontal charts: each row has a label, and its marks on the axis that all rows share.

use std::fmt::Write as _;

use datasets::passk::Interval;

use super::axis::{Axis, ValueFormat, format_tick};
use super::escape::html;
use super::figure::{Figure, WIDTH, class_of, line, text};
use crate::statistics::Contrast;

/// The room left and right of the axis.
const SIDE: f64 = 22.0;
/// The height of a row's label, and of each track of marks below it.
const LABEL: f64 = 24.0;
const TRACK: f64 = 18.0;
/// The height of the ticks below the rows.
const BOTTOM: f64 = 30.0;

/// A chart of rows, from the top.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowChart {
    pub(crate) title: String,
    /// A line that explains the marks.
    pub(crate) note: String,
    pub(crate) unit: ValueFormat,
    /// The names of the series in the legend.
    pub(crate) names: Vec<String>,
    /// Values within ± this are in a band.
    pub(crate) margin: Option<f64>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) label: String,
    /// The text at the right end of the label's line.
    pub(crate) total: String,
    pub(crate) marks: Vec<Mark>,
}

/// A mark: its series, its track, from 0 at the top, and its shape.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mark(pub(crate) usize, pub(crate) usize, pub(crate) Shape);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// A bar between two values, with a tooltip.
    Bar(f64, f64, String),
    Line(Interval),
    Dot(f64),
    Ring(f64),
}

impl RowChart {
    /// Differences of Pass@1, each with its label: the estimate on its bootstrap interval, below it the interval over seeds, and below that each seed. Differences within
    /// ± `margin` count as none; `None` where that is not tested.
    pub(crate) fn forest<'a>(
        title: String,
        note: &str,
        margin: Option<f64>,
        differences: impl IntoIterator<Item = (String, &'a Contrast)>,
    ) -> Self {
        let row = |(label, difference): (String, &Contrast)| {
            let seeds = difference.by_seed.iter();
            let intervals = [(0, difference.resampled), (1, difference.over_seeds)];
            let lines = intervals
                .into_iter()
                .filter_map(|(track, interval)| Some(Mark(track, track, Shape::Line(interval?))));
            Row {
                label,
                total: String::new(),
                marks: lines
                    .chain([Mark(0, 0, Shape::Dot(difference.estimate))])
                    .chain(seeds.map(|seed| Mark(2, 2, Shape::Ring(*seed))))
                    .collect(),
            }
        };
        let band = margin.map_or("", |_| "; band: equivalence margin");
        Self {
            title,
            note: format!("{note}; 95% intervals{band}"),
            unit: ValueFormat::Points,
            names: [
                "estimate and bootstrap",
                "t interval over seeds",
                "each seed",
            ]
            .map(str::to_owned)
            .into(),
            margin,
            rows: differences.into_iter().map(row).collect(),
        }
    }

    /// The chart; `None` without rows.
    pub(crate) fn figure(&self) -> Option<Figure> {
        let bottom: f64 = self.rows.iter().map(Row::height).sum();
        (bottom > 0.0).then(|| Figure {
            title: self.title.clone(),
            note: self.note.clone(),
            drawing: self.drawing(bottom),
            height: bottom + BOTTOM,
            names: self.names.clone(),
        })
    }

    fn drawing(&self, bottom: f64) -> String {
        let values = self.rows.iter().flat_map(|row| &row.marks);
        let values = values.flat_map(|mark| mark.2.values());
        let margin = self.margin.into_iter().flat_map(|it| [-it, it]);
        let axis = Axis::over(values.chain(margin).chain([0.0]), 5, false);
        let x_at = |value: f64| SIDE + axis.position(value) * (WIDTH - 2.0 * SIDE);
        let mut out = String::new();
        if let Some(margin) = self.margin {
            let (from, to) = (x_at(-margin), x_at(margin));
            rectangle(&mut out, "band", (from, to), (0.0, bottom), "");
        }
        for tick in axis.ticks() {
            let class = if tick == 0.0 { "axis" } else { "grid" };
            let x = x_at(tick);
            line(&mut out, class, (x, 0.0), (x, bottom));
            let label = format_tick(tick, axis.step, self.unit);
            text(&mut out, "middle", x, bottom + 20.0, &label);
        }
        let mut top = 0.0;
        for row in &self.rows {
            text(&mut out, "start", 0.0, top + 18.0, &row.label);
            text(&mut out, "end", WIDTH, top + 18.0, &row.total);
            for Mark(series, track, shape) in &row.marks {
                let _ = write!(out, "<g class=\"{}\">", class_of(*series));
                shape.draw(&mut out, top + LABEL + TRACK * (*track as f64 + 0.5), &x_at);
                out.push_str("</g>");
            }
            top += row.height();
        }
        out
    }
}

impl Row {
    fn height(&self) -> f64 {
        let tracks = self.marks.iter().map(|mark| mark.1 + 1).max();
        LABEL + TRACK * tracks.unwrap_or(0) as f64
    }
}

impl Shape {
    fn values(&self) -> [f64; 2] {
        match self {
            Self::Bar(from, to, _) => [*from, *to],
            Self::Line(interval) => [interval.low, interval.high],
            Self::Dot(value) | Self::Ring(value) => [*value; 2],
        }
    }

    fn draw(&self, out: &mut String, y: f64, x_at: &dyn Fn(f64) -> f64) {
        let [low, high] = self.values().map(x_at);
        let circle = |class: &str, radius: f64| {
            format!("<circle class=\"{class}\" cx=\"{low:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>")
        };
        match self {
            Self::Bar(_, _, tooltip) => {
                rectangle(out, "bar", (low, high), (y - 8.0, y + 8.0), tooltip);
            }
            Self::Line(_) => line(out, "range", (low, y), (high, y)),
            Self::Dot(_) => out.push_str(&circle("dot", 5.0)),
            Self::Ring(_) => out.push_str(&circle("seed", 3.2)),
        }
    }
}

fn rectangle(out: &mut String, class: &str, x: (f64, f64), y: (f64, f64), tooltip: &str) {
    let _ = write!(
        out,
        "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
        x.0,
        y.0,
        x.1 - x.0,
        y.1 - y.0,
        html(tooltip)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_stand_at_their_values_and_unknown_ones_are_not_drawn() {
        let interval = |low, high| Some(Interval { low, high });
        let drawn = |label: &str, margin, row: &Contrast| {
            let rows = [(label.to_owned(), row)];
            let forest = RowChart::forest("t".into(), "n", margin, rows);
            forest.figure().unwrap().render()
        };
        let mut row = Contrast {
            estimate: 0.05,
            resampled: interval(-0.10, 0.20),
            over_seeds: interval(-0.05, 0.10),
            by_seed: vec![0.0, 0.10],
            p: 0.5,
        };
        let svg = drawn("a <b>", Some(0.02), &row);
        for (element, points) in [
            ("circle class=\"dot\" cx", 5.0),
            ("line class=\"range\" x1", -10.0),
            ("line class=\"range\" x1", -5.0),
            ("circle class=\"seed\" cx", 0.0),
            ("circle class=\"seed\" cx", 10.0),
            ("rect class=\"band\" x", -2.0),
            ("line class=\"axis\" x1", 0.0),
        ] {
            // The axis goes from −10 to 20 points.
            let x = SIDE + (WIDTH - 2.0 * SIDE) * (points + 10.0) / 30.0;
            let words = format!("<{element}=\"{x:.1}\"");
            assert!(svg.contains(&words), "{words}: {svg}");
        }
        assert!(svg.contains(">a &lt;b&gt;</text>") && !svg.contains("a <b>"));
        (row.resampled, row.over_seeds) = (None, None);
        (row.estimate, row.by_seed) = (0.0, vec![0.0]);
        let svg = drawn("a", None, &row);
        for absent in ["class=\"range\"", "class=\"band\"", "NaN", "inf"] {
            assert!(!svg.contains(absent), "{absent}: {svg}");
        }
    }
}
