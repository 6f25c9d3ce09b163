//! A table with the same digits on the page and in its CSV file.

use std::fmt::Write as _;

use datasets::passk::{Estimate, Interval};

use super::axis::rounded;
use crate::escape::{csv, html};
use crate::statistics::Spread;

/// Points of accuracy per 1.
pub(crate) const POINTS: f64 = 100.0;

/// A share of the sweep file in points, with the digits that it has there: 1.25 for 0.0125.
pub(crate) fn points_as_given(share: f64) -> f64 {
    (1e6 * POINTS * share).round() / 1e6
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    /// The name of its file, without the ending.
    pub(crate) name: &'static str,
    /// The heading.
    pub(crate) title: String,
    /// What the columns are.
    pub(crate) note: String,
    /// Its columns.
    pub(crate) columns: Vec<Column>,
    /// Its rows, with a cell for each column.
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// The heading on the page.
    pub(crate) heading: String,
    /// The name in the CSV file; columns with several numbers append to it.
    pub(crate) name: String,
    /// The form of its cells.
    pub(crate) form: Form,
    /// Whether its numbers are the paper's.
    pub(crate) is_paper: bool,
}

/// The form of a column's cells. Numbers have this many decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Words.
    Text,
    /// A number.
    Number(usize),
    /// A p-value with four decimals, or in powers of ten where these would all be 0.
    P,
    /// A mean and the standard deviation over runs: two columns of the CSV file.
    Spread(usize),
    /// An estimate and the ends of its interval: three columns of the CSV file.
    Interval(usize),
}

/// What is in a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// Nothing is known.
    None,
    Text(String),
    Number(f64),
    Spread(f64, Option<f64>),
    Interval(f64, Option<Interval>),
}

impl Column {
    pub(crate) fn new(heading: impl Into<String>, name: impl Into<String>, form: Form) -> Self {
        Self {
            heading: heading.into(),
            name: name.into(),
            form,
            is_paper: false,
        }
    }

    /// A column of the paper's numbers.
    pub(crate) fn paper(heading: impl Into<String>, name: &str, form: Form) -> Self {
        Self {
            is_paper: true,
            ..Self::new(heading, format!("paper_{name}"), form)
        }
    }

    fn csv_names(&self) -> impl Iterator<Item = String> {
        let endings = self.form.endings().iter();
        endings.map(|ending| format!("{}{ending}", self.name))
    }
}

impl Form {
    /// The endings of the columns of the CSV file.
    fn endings(self) -> &'static [&'static str] {
        match self {
            Form::Text | Form::Number(_) | Form::P => &[""],
            Form::Spread(_) => &["", "_sd"],
            Form::Interval(_) => &["", "_low", "_high"],
        }
    }

    fn print(self, value: f64) -> String {
        match self {
            Form::P if value > 0.0 && value < 0.00005 => format!("{value:.0e}"),
            Form::Text => rounded(value, 0),
            Form::P => rounded(value, 4),
            Form::Number(decimals) | Form::Spread(decimals) | Form::Interval(decimals) => {
                rounded(value, decimals)
            }
        }
    }
}

impl Cell {
    /// The spread of values over runs, each times `unit`.
    pub(crate) fn spread(values: &[f64], unit: f64) -> Self {
        Spread::of(values).map_or(Self::None, |spread| {
            Self::Spread(unit * spread.mean, spread.sd.map(|sd| unit * sd))
        })
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A share or a difference of shares in per cent, with its interval.
    pub(crate) fn estimate(estimate: &Estimate) -> Self {
        let interval = estimate.interval.map(|interval| Interval {
            low: POINTS * interval.low,
            high: POINTS * interval.high,
        });
        Self::Interval(POINTS * estimate.mean, interval)
    }

    /// A number, or nothing.
    pub(crate) fn number(value: Option<f64>) -> Self {
        value.map_or(Self::None, Self::Number)
    }

    /// The numbers as they are printed, for each column of the CSV file; empty where nothing is known.
    fn printed(&self, form: Form) -> Vec<String> {
        let numbers = match self {
            Self::Text(text) => return vec![text.clone()],
            Self::None => [None; 3],
            Self::Number(value) => [Some(*value), None, None],
            Self::Spread(mean, sd) => [Some(*mean), *sd, None],
            Self::Interval(estimate, interval) => [
                Some(*estimate),
                interval.map(|interval| interval.low),
                interval.map(|interval| interval.high),
            ],
        };
        let numbers = numbers.iter().take(form.endings().len());
        numbers
            .map(|value| value.map_or_else(String::new, |value| form.print(value)))
            .collect()
    }

    fn html(&self, form: Form) -> String {
        let printed = self.printed(form);
        let typeset = |text: &String| text.replace('-', "\u{2212}");
        match (self, &printed[..]) {
            (Self::None, _) => "<span class=\"none\">–</span>".to_owned(),
            (Self::Spread(..), [mean, sd]) if !sd.is_empty() => {
                format!("{}<small>± {}</small>", typeset(mean), typeset(sd))
            }
            (Self::Interval(..), [estimate, low, high]) if !low.is_empty() => format!(
                "{}<small class=\"ends\">{} to {}</small>",
                typeset(estimate),
                typeset(low),
                typeset(high)
            ),
            (Self::Text(text), _) => html(text),
            (_, [value, ..]) => typeset(value),
            (_, []) => String::new(),
        }
    }
}

impl Table {
    /// The name of its CSV file.
    pub(crate) fn file(&self) -> String {
        format!("{}.csv", self.name)
    }

    /// The table as CSV.
    pub(crate) fn csv(&self) -> String {
        let names: Vec<String> = self.columns.iter().flat_map(Column::csv_names).collect();
        let mut out = names.join(",") + "\n";
        for row in &self.rows {
            let cells = self.columns.iter().zip(row);
            let fields = cells.flat_map(|(column, cell)| cell.printed(column.form));
            let fields: Vec<String> = fields.map(|field| csv(&field).into_owned()).collect();
            out.push_str(&(fields.join(",") + "\n"));
        }
        out
    }

    /// The section of the page. Columns in which nothing is known are left out. Of a table without rows there are the title and the note.
    pub(crate) fn render(&self, out: &mut String) {
        let (title, note) = (html(&self.title), html(&self.note));
        let _ = writeln!(out, "<h2>{title}</h2><p>{note}</p>");
        if self.rows.is_empty() {
            return;
        }
        let is_known = |number: &usize| self.rows.iter().any(|row| row[*number] != Cell::None);
        let shown: Vec<usize> = (0..self.columns.len()).filter(is_known).collect();
        let is_paper = |place: usize| self.columns[shown[place]].is_paper;
        let class = |place: usize| {
            let form = self.columns[shown[place]].form;
            let class = ["num", "words"][usize::from(form == Form::Text)];
            let first = place == 0 || !is_paper(place - 1);
            match (is_paper(place), first) {
                (false, _) => class.to_owned(),
                (true, false) => format!("{class} paper"),
                (true, true) => format!("{class} paper first"),
            }
        };
        out.push_str("<div class=\"scroll\"><table><thead><tr>");
        for (place, number) in shown.iter().enumerate() {
            let heading = html(&self.columns[*number].heading);
            let badge = if is_paper(place) {
                "<small>paper</small>"
            } else {
                ""
            };
            // The first column has the names of the rows.
            let _ = match place {
                0 => write!(out, "<th>{heading}{badge}</th>"),
                _ => write!(out, "<th class=\"{}\">{heading}{badge}</th>", class(place)),
            };
        }
        out.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            out.push_str("<tr>");
            for (place, number) in shown.iter().enumerate() {
                let text = row[*number].html(self.columns[*number].form);
                let _ = match place {
                    0 => write!(out, "<th scope=\"row\">{text}</th>"),
                    _ => write!(out, "<td class=\"{}\">{text}</td>", class(place)),
                };
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            name: "t",
            title: "T".into(),
            note: "a < b".into(),
            columns: vec![
                Column::new("arm", "arm", Form::Text),
                Column::new("Pass@1", "pass_at_1", Form::Spread(1)),
                Column::new("difference", "difference", Form::Interval(2)),
                Column::paper("time", "minutes", Form::Number(1)),
                Column::new("never", "never", Form::Number(1)),
            ],
            rows: vec![
                vec![
                    Cell::text("a, \"b\""),
                    Cell::spread(&[0.25, 0.35], 100.0),
                    Cell::Interval(
                        -0.004,
                        Some(Interval {
                            low: -1.0,
                            high: 0.5,
                        }),
                    ),
                    Cell::Number(19.2),
                    Cell::None,
                ],
                vec![
                    Cell::text("c"),
                    Cell::spread(&[0.25], 100.0),
                    Cell::None,
                    Cell::None,
                    Cell::None,
                ],
            ],
        }
    }

    #[test]
    fn a_share_keeps_its_digits_and_a_small_p_value_is_not_zero() {
        let printed = [0.02, 0.0125, 0.0025, 0.07, 0.29].map(|it| points_as_given(it).to_string());
        assert_eq!(printed, ["2", "1.25", "0.25", "7", "29"]);
        let p_values = [0.0, 3.4e-7, 0.00004, 0.00006, 0.25].map(|p| Form::P.print(p));
        assert_eq!(p_values, ["0.0000", "3e-7", "4e-5", "0.0001", "0.2500"]);
    }

    #[test]
    fn the_csv_file_has_a_column_for_each_number_and_the_page_the_same_digits() {
        assert_eq!(
            table().csv(),
            "arm,pass_at_1,pass_at_1_sd,difference,difference_low,difference_high,paper_minutes,never\n\
             \"a, \"\"b\"\"\",30.0,7.1,0.00,-1.00,0.50,19.2,\n\
             c,25.0,,,,,,\n"
        );
        let mut page = String::new();
        table().render(&mut page);
        for part in [
            "30.0<small>± 7.1</small>",
            "0.00<small class=\"ends\">\u{2212}1.00 to 0.50</small>",
            "<th class=\"num paper first\">time<small>paper</small></th>",
            "a &lt; b",
            "<span class=\"none\">–</span>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("never"));
    }
}
