//! Small line charts and stacked bars as inline SVG, coloured by the page's style sheet so that they follow light and dark.

use std::fmt::Write as _;

use super::escape::html;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 232.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 30.0;

/// How values are written on the axis and in the tooltips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    Number,
    /// A share of 1, written as per cent.
    Share,
    /// Seconds.
    Seconds,
}

/// One line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// `(x, y)` in order of x; a y that is not finite breaks the line.
    pub points: Vec<(f64, f64)>,
    /// 95% interval at an x: `(x, low, high)`.
    pub intervals: Vec<(f64, f64, f64)>,
}

/// Lines over the update number.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What is shown, as a heading.
    pub title: String,
    /// What it means, in a line.
    pub note: String,
    /// How values are written.
    pub unit: Unit,
    /// The lines; the place in the list decides the colour.
    pub series: Vec<Series>,
    /// Draw a mark at each point: for the few points of evaluations.
    pub marks: bool,
}

impl Chart {
    /// Whether there is anything to draw.
    pub fn is_empty(&self) -> bool {
        !self.finite().any(|_| true)
    }

    fn finite(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.series
            .iter()
            .flat_map(|s| &s.points)
            .copied()
            .filter(|(x, y)| x.is_finite() && y.is_finite())
    }

    /// The figure element with its heading, drawing and legend.
    pub fn render(&self) -> String {
        let mut out = String::new();
        let _ = write!(
            out,
            "<figure class=\"chart\"><figcaption><b>{}</b><span>{}</span></figcaption>",
            html(&self.title),
            html(&self.note)
        );
        out.push_str(&self.svg());
        if self.series.len() > 1 {
            out.push_str(&legend(self.series.iter().map(|s| s.name.as_str())));
        }
        out.push_str("</figure>\n");
        out
    }

    fn svg(&self) -> String {
        let xs = Axis::over(self.finite().map(|(x, _)| x), 6, true);
        let bounds = self
            .series
            .iter()
            .flat_map(|s| &s.intervals)
            .flat_map(|(_, low, high)| [*low, *high]);
        let ys = Axis::over(self.finite().map(|(_, y)| y).chain(bounds), 4, false);
        let x_at = |x: f64| LEFT + xs.share(x) * (WIDTH - LEFT - RIGHT);
        let y_at = |y: f64| HEIGHT - BOTTOM - ys.share(y) * (HEIGHT - TOP - BOTTOM);

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
        for tick in xs.ticks() {
            let _ = write!(
                out,
                "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x_at(tick),
                HEIGHT - BOTTOM + 18.0,
                format_tick(tick, xs.step, Unit::Number)
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
            let _ = write!(out, "<g class=\"s{}\">", i % COLOURS);
            for &(x, low, high) in &series.intervals {
                let x = x_at(x);
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
            // A mark a point while they stand apart; a tooltip in any case, for as many as a reader could hit.
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
                        x
                    );
                }
            }
            out.push_str("</g>");
        }
        out.push_str("</svg>");
        out
    }
}

/// Bars, one a run, of parts that add up; for the seconds of each phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    /// What is shown, as a heading.
    pub title: String,
    /// What it means, in a line.
    pub note: String,
    /// Names of the parts; the place decides the colour.
    pub parts: Vec<String>,
    /// `(label, one value a part, in seconds)`.
    pub bars: Vec<(String, Vec<f64>)>,
}

impl Stack {
    /// The figure element with its heading, bars and legend.
    pub fn render(&self) -> String {
        let longest = self
            .bars
            .iter()
            .map(|(_, values)| values.iter().sum::<f64>())
            .fold(0.0, f64::max);
        let mut out = format!(
            "<figure class=\"chart wide\"><figcaption><b>{}</b><span>{}</span></figcaption>\
             <div class=\"bars\">",
            html(&self.title),
            html(&self.note)
        );
        for (label, values) in &self.bars {
            let total: f64 = values.iter().sum();
            let _ = write!(
                out,
                "<div class=\"bar-label\"><span>{}</span><span class=\"num\">{}</span></div>\
                 <svg class=\"bar\" viewBox=\"0 0 1000 18\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
                html(label),
                format_value(total, Unit::Seconds),
                html(&self.title)
            );
            let mut x = 0.0;
            for (i, (part, value)) in self.parts.iter().zip(values).enumerate() {
                let width = if longest > 0.0 {
                    value / longest * 1000.0
                } else {
                    0.0
                };
                let _ = write!(
                    out,
                    "<rect class=\"p{}\" x=\"{x:.2}\" y=\"0\" width=\"{width:.2}\" height=\"18\"><title>{}: {}</title></rect>",
                    i % COLOURS,
                    html(part),
                    format_value(*value, Unit::Seconds)
                );
                x += width;
            }
            out.push_str("</svg>");
        }
        out.push_str("</div>");
        let totals: Vec<f64> = (0..self.parts.len())
            .map(|p| {
                self.bars
                    .iter()
                    .map(|(_, v)| v.get(p).copied().unwrap_or(0.0))
                    .sum()
            })
            .collect();
        let all: f64 = totals.iter().sum();
        let named: Vec<String> = self
            .parts
            .iter()
            .zip(&totals)
            .map(|(part, t)| format!("{part} {:.0}%", 100.0 * t / all.max(f64::MIN_POSITIVE)))
            .collect();
        out.push_str(&legend(named.iter().map(String::as_str)));
        out.push_str("</figure>\n");
        out
    }
}

/// Colours in the style sheet; a further series starts again with the first.
const COLOURS: usize = 6;

fn legend<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    for (i, name) in names.enumerate() {
        let _ = write!(out, "<li class=\"k{}\">{}</li>", i % COLOURS, html(name));
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

/// Round bounds around the data and the distance between ticks.
struct Axis {
    low: f64,
    high: f64,
    step: f64,
    /// Ticks beyond the last value are left out, where the axis ends at the data instead of at a tick.
    tight: bool,
}

impl Axis {
    /// `tight` ends the axis at the data and keeps whole steps; else at the next round numbers.
    fn over(values: impl Iterator<Item = f64>, ticks: usize, tight: bool) -> Self {
        let (mut low, mut high) = values
            .filter(|v| v.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
                (l.min(v), h.max(v))
            });
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        // Most of these quantities mean something against zero: keep it in view where it is near.
        if !tight && low > 0.0 && low < 0.6 * high {
            low = 0.0;
        }
        let span = (high - low).max(high.abs().max(low.abs()) * 1e-9);
        let span = if span > 0.0 { span } else { 1.0 };
        let mut step = nice(span / ticks as f64);
        if tight {
            step = step.max(1.0).round();
            let high = if high > low { high } else { low + 1.0 };
            return Self {
                low,
                high,
                step,
                tight,
            };
        }
        let low = (low / step).floor() * step;
        let high = ((high / step).ceil() * step).max(low + step);
        Self {
            low,
            high,
            step,
            tight,
        }
    }

    fn share(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        let first = (self.low / self.step).ceil() as i64;
        let last = ((self.high + if self.tight { 0.0 } else { self.step * 0.01 }) / self.step)
            .floor() as i64;
        let step = self.step;
        // At most a handful by construction; the bound is against a step lost to rounding.
        (first..=last.min(first.saturating_add(20))).map(move |i| i as f64 * step)
    }
}

/// 1, 2 or 5 times a power of ten, at least `raw`.
fn nice(raw: f64) -> f64 {
    let magnitude = 10f64.powf(raw.log10().floor());
    let lead = raw / magnitude;
    let lead = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|m| lead <= *m + 1e-9)
        .unwrap_or(10.0);
    lead * magnitude
}

fn format_tick(value: f64, step: f64, unit: Unit) -> String {
    let (value, step) = if unit == Unit::Share {
        (value * 100.0, step * 100.0)
    } else {
        (value, step)
    };
    let value = if value.abs() < step * 1e-6 {
        0.0
    } else {
        value
    };
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let text = if value != 0.0 && (value.abs() >= 1e5 || decimals > 4) {
        format!("{value:.0e}").replace('-', "\u{2212}")
    } else {
        format!("{value:.decimals$}").replace('-', "\u{2212}")
    };
    match unit {
        Unit::Number => text,
        Unit::Share => format!("{text}%"),
        Unit::Seconds => format!("{text} s"),
    }
}

/// A value as a reader wants it in a sentence.
pub fn format_value(value: f64, unit: Unit) -> String {
    let text = match unit {
        Unit::Share => format!("{:.1}%", value * 100.0),
        Unit::Seconds if value >= 7200.0 => format!("{:.1} h", value / 3600.0),
        Unit::Seconds if value >= 120.0 => {
            let whole = value.round() as u64;
            format!("{} min {:02} s", whole / 60, whole % 60)
        }
        Unit::Seconds if value >= 10.0 => format!("{value:.0} s"),
        Unit::Seconds => format!("{value:.1} s"),
        Unit::Number if value == 0.0 => "0".into(),
        Unit::Number if value.abs() >= 1e5 || value.abs() < 1e-3 => format!("{value:.2e}"),
        Unit::Number if value.abs() >= 100.0 => format!("{value:.0}"),
        Unit::Number => format!("{value:.3}"),
    };
    text.replace('-', "\u{2212}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        Chart {
            title: "loss <x>".into(),
            note: String::new(),
            unit: Unit::Number,
            series: vec![Series {
                name: "a".into(),
                points,
                intervals: vec![],
            }],
            marks: false,
        }
    }

    #[test]
    fn ticks_are_round_numbers_that_cover_the_data() {
        let axis = Axis::over([0.13, 0.87].into_iter(), 4, false);
        assert_eq!((axis.low, axis.high), (0.0, 1.0));
        let ticks: Vec<String> = axis
            .ticks()
            .map(|t| format_tick(t, axis.step, Unit::Share))
            .collect();
        assert_eq!(ticks, ["0%", "50%", "100%"]);
    }

    #[test]
    fn a_constant_a_single_point_and_nothing_at_all_still_draw() {
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
    fn a_value_that_is_not_finite_breaks_the_line_instead_of_bending_it() {
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
    fn titles_are_escaped() {
        let svg = chart(vec![(0.0, 1.0)]).render();
        assert!(svg.contains("loss &lt;x&gt;") && !svg.contains("<x>"));
    }

    #[test]
    fn values_read_as_a_sentence_would_say_them() {
        assert_eq!(format_value(0.1875, Unit::Share), "18.8%");
        assert_eq!(format_value(-0.25, Unit::Number), "\u{2212}0.250");
        assert_eq!(format_value(179.7, Unit::Seconds), "3 min 00 s");
        assert_eq!(format_value(9000.0, Unit::Seconds), "2.5 h");
    }
}
