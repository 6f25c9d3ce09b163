//! Small line charts as inline SVG. The page's style sheet colours them, so they follow the light and the dark scheme.

use std::fmt::Write as _;

use super::axis::{Axis, ValueFormat, format_tick, format_value};
use super::escape::html;
use super::svg_file::svg_file;

pub(super) const WIDTH: f64 = 560.0;
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

/// Lines over the update number.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chart {
    /// The heading.
    pub(crate) title: String,
    /// A line that explains the quantity.
    pub(crate) note: String,
    /// The unit of the values.
    pub(crate) unit: ValueFormat,
    /// The lines; the position in the list decides the colour.
    pub(crate) series: Vec<Series>,
    /// Draws a large mark at each point: for the few points of evaluations.
    pub(crate) marks: bool,
}

impl Chart {
    /// Whether there is no point to draw.
    pub(crate) fn is_empty(&self) -> bool {
        !self.finite().any(|_| true)
    }

    fn finite(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.series
            .iter()
            .flat_map(|s| &s.points)
            .copied()
            .filter(|(x, y)| x.is_finite() && y.is_finite())
    }

    /// The figure element with its heading, drawing and legend. The ticks of the horizontal axis are whole numbers.
    pub(crate) fn render(&self) -> String {
        self.render_over(&[])
    }

    /// As [`Chart::render`], with these ticks, each an x and its label; none are whole numbers.
    pub(crate) fn render_over(&self, ticks: &[(f64, String)]) -> String {
        let mut out = String::new();
        let _ = write!(
            out,
            "<figure class=\"chart\"><figcaption><b>{}</b><span>{}</span></figcaption>",
            html(&self.title),
            html(&self.note)
        );
        out.push_str(&self.svg(ticks));
        if self.series.len() > 1 {
            out.push_str(&legend(self.series.iter().map(|s| s.name.as_str())));
        }
        out.push_str("</figure>\n");
        out
    }

    /// The drawing as a file of its own, with its heading and its legend.
    pub(crate) fn file(&self, ticks: &[(f64, String)]) -> String {
        let names: Vec<&str> = self.series.iter().map(|s| s.name.as_str()).collect();
        let names = if names.len() > 1 { &names[..] } else { &[] };
        svg_file(&self.title, &self.note, &self.svg(ticks), HEIGHT, names)
    }

    fn svg(&self, ticks: &[(f64, String)]) -> String {
        let xs = Axis::over(
            self.finite()
                .map(|(x, _)| x)
                .chain(ticks.iter().map(|(x, _)| *x)),
            6,
            true,
        );
        let bounds = self
            .series
            .iter()
            .flat_map(|s| &s.intervals)
            .flat_map(|(_, low, high)| [*low, *high]);
        let ys = Axis::over(self.finite().map(|(_, y)| y).chain(bounds), 4, false);
        let x_at = |x: f64| LEFT + xs.position(x) * (WIDTH - LEFT - RIGHT);
        let y_at = |y: f64| HEIGHT - BOTTOM - ys.position(y) * (HEIGHT - TOP - BOTTOM);

        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            html(&self.title)
        );
        for tick in ys.ticks() {
            let y = y_at(tick);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0,
                format_tick(tick, ys.step, self.unit)
            );
        }
        let whole = xs.ticks().filter(|_| ticks.is_empty()).map(|tick| {
            let label = format_tick(tick, xs.step, ValueFormat::Number);
            (tick, label)
        });
        for (tick, label) in ticks.iter().cloned().chain(whole) {
            let _ = write!(
                out,
                "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x_at(tick),
                HEIGHT - BOTTOM + 24.0,
                html(&label)
            );
        }
        let _ = write!(
            out,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
            WIDTH - RIGHT,
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM
        );
        for (i, series) in self.series.iter().enumerate() {
            let _ = write!(
                out,
                "<g class=\"s{} d{}\">",
                i % COLOURS,
                i / COLOURS % DASHES
            );
            // Offsets place intervals at the same x side by side.
            let offset = (i as f64 - (self.series.len() - 1) as f64 / 2.0).clamp(-3.0, 3.0) * 3.0;
            for &(x, low, high) in &series.intervals {
                let x = x_at(x) + offset;
                let _ = write!(
                    out,
                    "<line class=\"interval\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                    y_at(low),
                    y_at(high)
                );
            }
            let path = path(&series.points, &x_at, &y_at);
            if !path.is_empty() {
                let _ = write!(out, "<path class=\"line\" d=\"{path}\"/>");
            }
            // Points are visible while there are few enough to be apart. Up to 400 points have a tooltip; more are too dense to hit.
            let visible = self.marks || series.points.len() <= 24;
            if series.points.len() <= 400 {
                for &(x, y) in series.points.iter().filter(|(_, y)| y.is_finite()) {
                    let class = if visible { "dot" } else { "dot hidden" };
                    let _ = write!(
                        out,
                        "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{}\"><title>{}: {} at {}</title></circle>",
                        x_at(x),
                        y_at(y),
                        if self.marks { 3.6 } else { 2.4 },
                        html(&series.name),
                        format_value(y, self.unit),
                        ticks
                            .iter()
                            .find(|(tick, _)| *tick == x)
                            .map_or_else(|| x.to_string(), |(_, label)| html(label))
                    );
                }
            }
            out.push_str("</g>");
        }
        out.push_str("</svg>");
        out
    }
}

/// Number of colours in the style sheet; further series reuse them with other dashes.
pub(super) const COLOURS: usize = 6;
/// Number of dashes in the style sheet.
pub(super) const DASHES: usize = 3;

/// The legend: the names of series or parts in their colours.
pub(super) fn legend<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    for (i, name) in names.enumerate() {
        let _ = write!(
            out,
            "<li class=\"k{} d{}\">{}</li>",
            i % COLOURS,
            i / COLOURS % DASHES,
            html(name)
        );
    }
    out.push_str("</ul>");
    out
}

fn path(points: &[(f64, f64)], x_at: &dyn Fn(f64) -> f64, y_at: &dyn Fn(f64) -> f64) -> String {
    let mut out = String::new();
    let mut pen_down = false;
    for &(x, y) in points {
        if !(x.is_finite() && y.is_finite()) {
            pen_down = false;
            continue;
        }
        let _ = write!(
            out,
            "{}{:.1} {:.1}",
            if pen_down { 'L' } else { 'M' },
            x_at(x),
            y_at(y)
        );
        pen_down = true;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        Chart {
            title: "loss <x>".into(),
            note: String::new(),
            unit: ValueFormat::Number,
            series: vec![Series {
                name: "a".into(),
                points,
                intervals: vec![],
            }],
            marks: false,
        }
    }

    #[test]
    fn a_constant_a_single_point_and_an_empty_series_render() {
        for points in [
            vec![(1.0, 0.0), (2.0, 0.0)],
            vec![(3.0, 1e-7)],
            vec![],
            vec![(0.0, f64::NAN)],
        ] {
            let svg = chart(points).render();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn a_value_that_is_not_finite_breaks_the_line() {
        let svg = chart(vec![
            (0.0, 1.0),
            (1.0, f64::INFINITY),
            (2.0, 1.0),
            (3.0, 2.0),
        ])
        .render();
        let d = svg
            .split(" d=\"")
            .nth(1)
            .and_then(|d| d.split('"').next())
            .unwrap_or("");
        assert_eq!(d.matches('M').count(), 2, "{d}");
    }

    #[test]
    fn given_ticks_replace_whole_numbers() {
        let ticks = [(0.0, "H = 1".to_owned()), (3.0, "H = 8".to_owned())];
        let svg = chart(vec![(0.0, 1.0), (3.0, 2.0)]).render_over(&ticks);
        assert_eq!(svg.matches("H = 8").count(), 2, "the tick and the tooltip");
        assert!(!svg.contains(">2</text>"));
    }

    #[test]
    fn titles_are_escaped() {
        let svg = chart(vec![(0.0, 1.0)]).render();
        assert!(svg.contains("loss &lt;x&gt;") && !svg.contains("<x>"));
    }
}
