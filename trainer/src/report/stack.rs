//! Bars of parts that add up, as inline SVG.

use std::fmt::Write as _;

use super::axis::{Unit, format_value};
use super::chart::{COLOURS, legend};
use super::escape::html;

/// Bars, one a run, of parts that add up; for the seconds of each phase.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stack {
    /// What is shown, as a heading.
    pub(super) title: String,
    /// What it means, in a line.
    pub(super) note: String,
    /// Names of the parts; the place decides the colour.
    pub(super) parts: Vec<String>,
    /// `(label, one value a part, in seconds)`.
    pub(super) bars: Vec<(String, Vec<f64>)>,
}

impl Stack {
    /// The figure element with its heading, bars and legend.
    pub(super) fn render(&self) -> String {
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
