//! Tables that are declared column by column: a heading, and the cell of each row.

use crate::report::table::{Cell, Column, Form, Table};

/// The cell of a row that is about this.
type CellOf<'a, R> = Box<dyn Fn(&R) -> Cell + 'a>;

/// The columns of a table whose rows are about an `R` each.
pub(super) struct Columns<'a, R>(Vec<(Column, CellOf<'a, R>)>);

impl<'a, R> Columns<'a, R> {
    /// The first column, which has the names of the rows.
    pub(super) fn of(heading: &str, name: &str, text: impl Fn(&R) -> String + 'a) -> Self {
        let mut columns = Self(Vec::new());
        columns.text(heading, name, text);
        columns
    }

    pub(super) fn text(&mut self, heading: &str, name: &str, text: impl Fn(&R) -> String + 'a) {
        self.ours(heading, name, Form::Text, move |row| Cell::text(text(row)));
    }

    pub(super) fn count(&mut self, heading: &str, name: &str, count: impl Fn(&R) -> usize + 'a) {
        let cell = move |row: &R| Cell::Number(count(row) as f64);
        self.ours(heading, name, Form::Number(0), cell);
    }

    /// A p-value.
    pub(super) fn p(&mut self, heading: &str, name: &str, p: impl Fn(&R) -> Option<f64> + 'a) {
        self.ours(heading, name, Form::P, move |row| Cell::number(p(row)));
    }

    pub(super) fn ours(
        &mut self,
        heading: &str,
        name: &str,
        form: Form,
        cell: impl Fn(&R) -> Cell + 'a,
    ) {
        let column = Column::new(heading, name, form);
        self.0.push((column, Box::new(cell)));
    }

    /// A column of the paper's numbers.
    pub(super) fn papers(
        &mut self,
        heading: &str,
        name: &str,
        form: Form,
        cell: impl Fn(&R) -> Cell + 'a,
    ) {
        let column = Column::paper(heading, name, form);
        self.0.push((column, Box::new(cell)));
    }

    /// The table with these rows.
    pub(super) fn table(
        self,
        name: &'static str,
        title: impl Into<String>,
        note: impl Into<String>,
        rows: impl IntoIterator<Item = R>,
    ) -> Table {
        let cells = |row: R| self.0.iter().map(|(_, cell)| cell(&row)).collect();
        Table {
            name,
            title: title.into(),
            note: note.into(),
            rows: rows.into_iter().map(cells).collect(),
            columns: self.0.into_iter().map(|(column, _)| column).collect(),
        }
    }
}
