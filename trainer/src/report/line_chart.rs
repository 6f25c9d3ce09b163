//! Line charts.

use std::fmt::Write as _;

use super::axis::{Axis, ValueFormat, format_tick, format_value};
use super::escape::html;
use super::figure::{Figure, WIDTH, class_of, line, text};

const HEIGHT: f64 = 232.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 22.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 36.0;

/// One line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    /// The name in the legend.
    pub(crate) name: String,
    /// `(x, y)` in order of x; a y that is not finite breaks the line.
    pub(crate) points: Vec<(f64, f64)>,
    /// 95% interval at an x: `(x, low, high)`.
    pub(crate) intervals: Vec<(f64, f64, f64)>,
}

impl Series {
    pub(crate) fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points,
            intervals: Vec::new(),
        }
    }
}

/// A chart of lines over whole numbers, such as the number of updates, or over given ticks.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct LineChart {
    pub(crate) title: String,
    /// A line that explains the quantity.
    pub(crate) note: String,
    pub(crate) unit: ValueFormat,
    /// The lines; the position in the list decides the colour.
    pub(crate) series: Vec<Series>,
    /// Ticks of the horizontal axis, each an x and its label; without any, they are whole numbers.
    pub(crate) ticks: Vec<(f64, String)>,
}

impl LineChart {
    fn finite(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let points = self.series.iter().flat_map(|s| &s.points).copied();
        points.filter(|(x, y)| x.is_finite() && y.is_finite())
    }

    /// The chart; `None` if there is no point to draw.
    pub(crate) fn figure(&self) -> Option<Figure> {
        let names = self.series.iter().map(|series| series.name.clone());
        self.finite().next().map(|_| Figure {
            title: self.title.clone(),
            note: self.note.clone(),
            drawing: self.drawing(),
            height: HEIGHT,
            names: names.filter(|_| self.series.len() > 1).collect(),
        })
    }

    fn drawing(&self) -> String {
        let ticks = &self.ticks;
        let xs = self.finite().map(|(x, _)| x);
        let xs = Axis::over(xs.chain(ticks.iter().map(|(x, _)| *x)), 6, true);
        let intervals = self.series.iter().flat_map(|s| &s.intervals);
        let bounds = intervals.flat_map(|(_, low, high)| [*low, *high]);
        let ys = Axis::over(self.finite().map(|(_, y)| y).chain(bounds), 4, false);
        let x_at = |x: f64| LEFT + xs.position(x) * (WIDTH - LEFT - RIGHT);
        let y_at = |y: f64| HEIGHT - BOTTOM - ys.position(y) * (HEIGHT - TOP - BOTTOM);
        let mut out = String::new();
        for tick in ys.ticks() {
            let y = y_at(tick);
            line(&mut out, "grid", (LEFT, y), (WIDTH - RIGHT, y));
            let label = format_tick(tick, ys.step, self.unit);
            text(&mut out, "end", LEFT - 8.0, y + 4.0, &label);
        }
        let whole = xs.ticks().filter(|_| ticks.is_empty());
        let whole = whole.map(|tick| (tick, format_tick(tick, xs.step, ValueFormat::Number)));
        let bottom = HEIGHT - BOTTOM;
        for (tick, label) in ticks.iter().cloned().chain(whole) {
            text(&mut out, "middle", x_at(tick), bottom + 24.0, &label);
        }
        line(&mut out, "axis", (LEFT, bottom), (WIDTH - RIGHT, bottom));
        for (number, series) in self.series.iter().enumerate() {
            let _ = write!(out, "<g class=\"{}\">", class_of(number));
            // Offsets place intervals at the same x side by side.
            let from_middle = number as f64 - (self.series.len() - 1) as f64 / 2.0;
            let offset = from_middle.clamp(-3.0, 3.0) * 3.0;
            for &(x, low, high) in &series.intervals {
                let x = x_at(x) + offset;
                line(&mut out, "interval", (x, y_at(low)), (x, y_at(high)));
            }
            let path = path(&series.points, &x_at, &y_at);
            if !path.is_empty() {
                let _ = write!(out, "<path class=\"line\" d=\"{path}\"/>");
            }
            // Points are visible while there are few enough to be apart. Up to 400 points have a tooltip; more are too dense to hit.
            let class = ["dot hidden", "dot"][usize::from(series.points.len() <= 24)];
            let points = series.points.iter().filter(|(_, y)| y.is_finite());
            for &(x, y) in points.filter(|_| series.points.len() <= 400) {
                let tick = ticks.iter().find(|(tick, _)| *tick == x);
                let _ = write!(
                    out,
                    "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}: {} at {}</title></circle>",
                    x_at(x),
                    y_at(y),
                    html(&series.name),
                    format_value(y, self.unit),
                    tick.map_or_else(|| x.to_string(), |(_, label)| html(label))
                );
            }
            out.push_str("</g>");
        }
        out
    }
}

fn path(points: &[(f64, f64)], x_at: &dyn Fn(f64) -> f64, y_at: &dyn Fn(f64) -> f64) -> String {
    let mut out = String::new();
    let mut pen = 'M';
    for &(x, y) in points {
        if x.is_finite() && y.is_finite() {
            let _ = write!(out, "{pen}{:.1} {:.1}", x_at(x), y_at(y));
            pen = 'L';
        } else {
            pen = 'M';
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_points_are_drawn_and_one_that_is_not_finite_breaks_the_line() {
        let chart = |points: &[(f64, f64)]| LineChart {
            title: "loss <x>".into(),
            series: vec![Series::new("a", points.to_vec())],
            ..LineChart::default()
        };
        let broken = [(0.0, 1.0), (1.0, f64::INFINITY), (2.0, 1.0), (3.0, 2.0)];
        for (points, lines) in [
            (&[(1.0, 0.0), (2.0, 0.0)][..], 1),
            (&[(3.0, 1e-7)], 1),
            (&broken, 2),
        ] {
            let page = chart(points).figure().unwrap().render();
            assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
            let path = page.split(" d=\"").nth(1).unwrap();
            let path = path.split('"').next().unwrap();
            assert_eq!(path.matches('M').count(), lines, "{path}");
            assert!(page.contains("loss &lt;x&gt;") && !page.contains("<x>"));
        }
        for points in [&[][..], &[(0.0, f64::NAN)]] {
            assert_eq!(chart(points).figure(), None);
        }
        let chart = LineChart {
            ticks: vec![(0.0, "H = 1".to_owned()), (3.0, "H = 8".to_owned())],
            ..chart(&[(0.0, 1.0), (3.0, 2.0)])
        };
        let page = chart.figure().unwrap().render();
        assert_eq!(page.matches("H = 8").count(), 2, "the tick and the tooltip");
        assert!(!page.contains(">2</text>"));
    }
}
