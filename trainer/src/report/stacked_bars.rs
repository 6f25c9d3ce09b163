//! Stacked bars as inline SVG.

use std::fmt::Write as _;

use super::axis::{ValueFormat, format_value};
use super::chart::{COLOURS, DASHES, WIDTH, legend};
use super::escape::html;
use super::svg_file::svg_file;

/// Stacked bars, one for each run; for the seconds of each part of the work.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stack {
    /// The heading.
    pub(crate) title: String,
    /// A line that explains the bars.
    pub(crate) note: String,
    /// Names of the parts; the position decides the colour.
    pub(crate) parts: Vec<String>,
    /// The bars.
    pub(crate) bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bar {
    /// Its name.
    pub(crate) label: String,
    /// Its length in words.
    pub(crate) total: String,
    /// The seconds of each part.
    pub(crate) values: Vec<f64>,
    /// What is said in brackets about each part.
    pub(crate) remarks: Vec<Option<String>>,
}

impl Stack {
    /// The seconds of the longest bar.
    fn longest(&self) -> f64 {
        let sums = self.bars.iter().map(|bar| bar.values.iter().sum::<f64>());
        sums.fold(0.0, f64::max)
    }

    /// The bars as a file of its own, with their heading and their legend.
    pub(crate) fn file(&self) -> String {
        const PITCH: f64 = 44.0;
        let height = PITCH * self.bars.len() as f64;
        let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {height}\">");
        for (index, bar) in self.bars.iter().enumerate() {
            let top = PITCH * index as f64;
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"0\" y=\"{:.1}\">{}</text><text class=\"tick\" text-anchor=\"end\" x=\"{WIDTH}\" y=\"{:.1}\">{}</text>\
                 <svg class=\"bar\" x=\"0\" y=\"{:.1}\" width=\"{WIDTH}\" height=\"18\" viewBox=\"0 0 1000 18\" preserveAspectRatio=\"none\">",
                top + 12.0,
                html(&bar.label),
                top + 12.0,
                html(&bar.total),
                top + 18.0
            );
            self.parts(&mut out, bar, self.longest());
            out.push_str("</svg>");
        }
        out.push_str("</svg>");
        let names: Vec<&str> = self.parts.iter().map(String::as_str).collect();
        svg_file(&self.title, &self.note, &out, height, &names)
    }

    /// The figure element with its heading, and each bar with the percentages of its parts.
    pub(crate) fn render(&self) -> String {
        let longest = self.longest();
        let mut out = format!(
            "<figure class=\"chart wide\"><figcaption><b>{}</b><span>{}</span></figcaption>\
             <div class=\"bars\">",
            html(&self.title),
            html(&self.note)
        );
        for bar in &self.bars {
            self.bar(&mut out, bar, longest);
        }
        out.push_str("</div></figure>\n");
        out
    }

    fn bar(&self, out: &mut String, bar: &Bar, longest: f64) {
        let _ = write!(
            out,
            "<div class=\"bar-label\"><span>{}</span><span class=\"num\">{}</span></div>\
             <svg class=\"bar\" viewBox=\"0 0 1000 18\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
            html(&bar.label),
            html(&bar.total),
            html(&self.title)
        );
        self.parts(out, bar, longest);
        out.push_str("</svg>");
        let names: Vec<String> = self
            .parts
            .iter()
            .zip(whole_percents(&bar.values))
            .zip(&bar.remarks)
            .map(|((part, share), remark)| match remark {
                Some(remark) => format!("{part} {share}% ({remark})"),
                None => format!("{part} {share}%"),
            })
            .collect();
        out.push_str(&legend(names.iter().map(String::as_str)));
    }

    /// The rectangles of a bar, in a drawing 1000 wide and 18 high.
    fn parts(&self, out: &mut String, bar: &Bar, longest: f64) {
        let mut x = 0.0;
        for (i, (part, value)) in self.parts.iter().zip(&bar.values).enumerate() {
            let width = if longest > 0.0 {
                value / longest * 1000.0
            } else {
                0.0
            };
            let _ = write!(
                out,
                "<rect class=\"p{} d{}\" x=\"{x:.2}\" y=\"0\" width=\"{width:.2}\" height=\"18\"><title>{}: {}</title></rect>",
                i % COLOURS,
                i / COLOURS % DASHES,
                html(part),
                format_value(*value, ValueFormat::Seconds)
            );
            x += width;
        }
    }
}

/// The values as whole percentages of their sum, which add up to 100: those with the largest remainders are rounded up. All are 0 if the sum is 0.
fn whole_percents(values: &[f64]) -> Vec<u32> {
    let sum: f64 = values.iter().sum();
    if !(sum.is_finite() && sum > 0.0) {
        return vec![0; values.len()];
    }
    let exact: Vec<f64> = values.iter().map(|value| 100.0 * value / sum).collect();
    let mut whole: Vec<u32> = exact.iter().map(|share| share.floor() as u32).collect();
    let missing = 100_u32.saturating_sub(whole.iter().sum());
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
    for index in order.into_iter().take(missing as usize) {
        whole[index] += 1;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_largest_remainders_are_rounded_up() {
        assert_eq!(whole_percents(&[1.0, 1.0, 1.0]), [34, 33, 33]);
        assert_eq!(whole_percents(&[99.6, 0.2, 0.2]), [100, 0, 0]);
        assert_eq!(whole_percents(&[0.0, 0.0]), [0, 0]);
    }

    proptest! {
        #[test]
        fn percentages_add_up_to_a_hundred_and_none_is_off_by_one(values in prop::collection::vec(0.001f64..1e6, 1..9)) {
            let sum: f64 = values.iter().sum();
            let whole = whole_percents(&values);
            prop_assert_eq!(whole.iter().sum::<u32>(), 100);
            for (value, share) in values.iter().zip(whole) {
                prop_assert!((100.0 * value / sum - f64::from(share)).abs() < 1.0 + 1e-9);
            }
        }
    }
}
