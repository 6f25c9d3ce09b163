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

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    /// The name of its file, without the ending.
    pub(crate) name: &'static str,
    title: String,
    /// What the columns are.
    note: String,
    /// Its columns. The first has the names of the rows.
    columns: Vec<Column>,
}

/// A column, with a cell for each row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// The heading on the page.
    heading: String,
    /// The name in the CSV file; columns with several numbers append to it.
    name: String,
    form: Form,
    /// Whether its numbers are the paper's.
    is_paper: bool,
    cells: Vec<Cell>,
}

/// The form of a column's cells. Numbers have this many decimals, or all of their digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Number(usize),
    /// A p-value with four decimals, or in powers of ten where these would all be 0.
    P,
    /// A mean and the standard deviation over runs: two columns of the CSV file.
    Spread(usize),
    /// An estimate and the ends of its interval: three columns of the CSV file.
    Interval(usize),
}

/// Decimals of a number that has all of its digits.
pub(crate) const ALL_DIGITS: usize = usize::MAX;

/// What is in a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    /// The numbers of the column's form, as far as they are known.
    Numbers([Option<f64>; 3]),
}

/// The columns of a table with a row for each `R`.
pub(crate) struct Columns<'r, R> {
    rows: &'r [R],
    columns: Vec<Column>,
}

impl<'r, R> Columns<'r, R> {
    pub(crate) fn of(rows: &'r [R]) -> Self {
        let columns = Vec::new();
        Self { rows, columns }
    }

    /// Adds a column with the cell of each row.
    pub(crate) fn add(
        &mut self,
        heading: &str,
        name: &str,
        form: Form,
        cell: impl Fn(&R) -> Cell,
    ) -> &mut Column {
        self.columns.push(Column {
            heading: heading.to_owned(),
            name: name.to_owned(),
            form,
            is_paper: false,
            cells: self.rows.iter().map(cell).collect(),
        });
        self.columns.last_mut().expect("a column was added")
    }

    pub(crate) fn text(&mut self, heading: &str, name: &str, text: impl Fn(&R) -> String) {
        self.add(heading, name, Form::Text, |row| Cell::Text(text(row)));
    }

    pub(crate) fn count(&mut self, heading: &str, name: &str, count: impl Fn(&R) -> usize) {
        let cell = |row: &R| Cell::number(Some(count(row) as f64));
        self.add(heading, name, Form::Number(0), cell);
    }

    /// Adds a column of numbers with this many decimals.
    pub(crate) fn number(
        &mut self,
        heading: &str,
        name: &str,
        decimals: usize,
        number: impl Fn(&R) -> Option<f64>,
    ) -> &mut Column {
        let cell = |row: &R| Cell::number(number(row));
        self.add(heading, name, Form::Number(decimals), cell)
    }

    /// Adds a column of the spreads of values over runs.
    pub(crate) fn spread(
        &mut self,
        heading: &str,
        name: &str,
        decimals: usize,
        values: impl Fn(&R) -> Vec<f64>,
    ) {
        let cell = |row: &R| Cell::spread(&values(row), 1.0);
        self.add(heading, name, Form::Spread(decimals), cell);
    }

    pub(crate) fn table(
        self,
        name: &'static str,
        title: impl Into<String>,
        note: impl Into<String>,
    ) -> Table {
        Table {
            name,
            title: title.into(),
            note: note.into(),
            columns: self.columns,
        }
    }
}

impl Column {
    /// Makes it one of the paper's numbers.
    pub(crate) fn of_paper(&mut self) {
        self.is_paper = true;
        self.name = format!("paper_{}", self.name);
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
            Form::Number(ALL_DIGITS) | Form::Interval(ALL_DIGITS) => value.to_string(),
            Form::Text => rounded(value, 0),
            Form::P => rounded(value, 4),
            Form::Number(decimals) | Form::Spread(decimals) | Form::Interval(decimals) => {
                rounded(value, decimals)
            }
        }
    }
}

impl Cell {
    /// Nothing is known.
    pub(crate) const NONE: Self = Self::Numbers([None; 3]);

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn some_text(text: Option<impl Into<String>>) -> Self {
        text.map_or(Self::NONE, Self::text)
    }

    pub(crate) fn number(value: Option<f64>) -> Self {
        Self::Numbers([value, None, None])
    }

    /// The spread of values over runs, each times `unit`.
    pub(crate) fn spread(values: &[f64], unit: f64) -> Self {
        Spread::of(values).map_or(Self::NONE, |spread| {
            let sd = spread.sd.map(|sd| unit * sd);
            Self::Numbers([Some(unit * spread.mean), sd, None])
        })
    }

    /// An estimate and its interval, each times `unit`.
    pub(crate) fn interval(estimate: f64, interval: Option<Interval>, unit: f64) -> Self {
        let low = interval.map(|it| unit * it.low);
        let high = interval.map(|it| unit * it.high);
        Self::Numbers([Some(unit * estimate), low, high])
    }

    /// A share or a difference of shares in per cent, with its interval.
    pub(crate) fn estimate(estimate: &Estimate) -> Self {
        Self::interval(estimate.mean, estimate.interval, POINTS)
    }

    /// The numbers as they are printed, for each column of the CSV file; empty where nothing is known.
    fn printed(&self, form: Form) -> Vec<String> {
        let numbers = match self {
            Self::Text(text) => return vec![text.clone()],
            Self::Numbers(numbers) => numbers.iter().take(form.endings().len()),
        };
        numbers
            .map(|value| value.map_or_else(String::new, |value| form.print(value)))
            .collect()
    }

    fn html(&self, form: Form) -> String {
        if let Self::Text(text) = self {
            return html(text);
        }
        let mut printed = self.printed(form);
        for number in &mut printed {
            *number = number.replace('-', "\u{2212}");
        }
        match &printed[..] {
            [none, ..] if none.is_empty() => "<span class=\"none\">–</span>".to_owned(),
            [mean, sd] if !sd.is_empty() => format!("{mean}<small>± {sd}</small>"),
            [estimate, low, high] if !low.is_empty() => {
                format!("{estimate}<small class=\"ends\">{low} to {high}</small>")
            }
            _ => printed.swap_remove(0),
        }
    }
}

impl Table {
    /// The name of its CSV file.
    pub(crate) fn file(&self) -> String {
        format!("{}.csv", self.name)
    }

    pub(crate) fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.cells.len())
    }

    pub(crate) fn csv(&self) -> String {
        let names = self.columns.iter().flat_map(|column| {
            let endings = column.form.endings().iter();
            endings.map(|ending| format!("{}{ending}", column.name))
        });
        let mut lines = vec![names.collect::<Vec<String>>()];
        for row in 0..self.rows() {
            let columns = self.columns.iter();
            let fields = columns.flat_map(|column| column.cells[row].printed(column.form));
            lines.push(fields.collect());
        }
        let mut out = String::new();
        for line in lines {
            let fields: Vec<_> = line.iter().map(|field| csv(field)).collect();
            out.push_str(&(fields.join(",") + "\n"));
        }
        out
    }

    /// The section of the page. Columns in which nothing is known are left out. A table without rows has only the title and the note.
    pub(crate) fn render(&self, out: &mut String) {
        let (title, note) = (html(&self.title), html(&self.note));
        let _ = writeln!(out, "<h2>{title}</h2><p>{note}</p>");
        let is_known = |column: &&Column| column.cells.iter().any(|cell| *cell != Cell::NONE);
        let shown: Vec<&Column> = self.columns.iter().filter(is_known).collect();
        if shown.is_empty() {
            return;
        }
        let class = |column: &Column| {
            let form = ["num", "words"][usize::from(column.form == Form::Text)];
            let of_paper = ["", " paper"][usize::from(column.is_paper)];
            format!("{form}{of_paper}")
        };
        out.push_str("<div class=\"scroll\"><table><thead><tr>");
        for column in &shown {
            let badge = ["", "<small>paper</small>"][usize::from(column.is_paper)];
            let (class, heading) = (class(column), html(&column.heading));
            let _ = write!(out, "<th class=\"{class}\">{heading}{badge}</th>");
        }
        out.push_str("</tr></thead><tbody>");
        for row in 0..self.rows() {
            out.push_str("<tr>");
            for (number, column) in shown.iter().enumerate() {
                let text = column.cells[row].html(column.form);
                let _ = match number {
                    0 => write!(out, "<th scope=\"row\">{text}</th>"),
                    _ => write!(out, "<td class=\"{}\">{text}</td>", class(column)),
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

    type Row = (&'static str, &'static [f64], Option<Interval>, Option<f64>);

    fn table() -> Table {
        let interval = Interval {
            low: -1.0,
            high: 0.5,
        };
        let rows: [Row; 2] = [
            ("a, \"b\"", &[0.25, 0.35][..], Some(interval), Some(19.2)),
            ("c", &[0.25], None, None),
        ];
        let mut columns = Columns::of(&rows);
        columns.text("arm", "arm", |row| row.0.to_owned());
        columns.add("Pass@1", "pass", Form::Spread(1), |row| {
            Cell::spread(row.1, 100.0)
        });
        columns.add("difference", "difference", Form::Interval(2), |row| {
            row.2
                .map_or(Cell::NONE, |it| Cell::interval(-0.004, Some(it), 1.0))
        });
        columns.number("time", "time", 1, |row| row.3).of_paper();
        columns.number("never", "never", 1, |_| None);
        columns.table("t", "T", "a < b")
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
            "arm,pass,pass_sd,difference,difference_low,difference_high,paper_time,never\n\
             \"a, \"\"b\"\"\",30.0,7.1,0.00,-1.00,0.50,19.2,\n\
             c,25.0,,,,,,\n"
        );
        let mut page = String::new();
        table().render(&mut page);
        for part in [
            "30.0<small>± 7.1</small>",
            "0.00<small class=\"ends\">\u{2212}1.00 to 0.50</small>",
            "<th class=\"num paper\">time<small>paper</small></th>",
            "a &lt; b",
            "<span class=\"none\">–</span>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("never"));
    }
}
