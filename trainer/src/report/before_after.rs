//! The table of the evaluations before and after training: for the terminal, for the page, and as CSV.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use datasets::passk::{self, Counts, Estimate, no_interval, percent, points};

use crate::eval;
use crate::record::EvalRecord;

use super::run_data::RunData;
use super::table::{ALL_DIGITS, Cell, Columns, Form, Table};

/// A Pass@k before and after training.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// `Pass@1`, `Pass@8, any form`, …
    pub label: String,
    /// Estimate before training, over the tasks with k judged samples in both evaluations.
    pub before: Estimate,
    /// Estimate over the same tasks after training.
    pub after: Estimate,
    /// After − before over the same tasks, paired by task.
    pub gain: Estimate,
}

/// A run's figures before and after training.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Comparison {
    /// One row for each Pass@k and reading.
    pub rows: Vec<Row>,
    /// Number of evaluated tasks.
    pub tasks: usize,
    /// Samples per task.
    pub samples: usize,
    /// Other figures of the completions: what each is, before and after.
    pub others: Vec<[String; 3]>,
}

type ByTask = BTreeMap<String, Counts>;

impl Comparison {
    /// The comparison of the first and the last evaluation; of their samples in any form too, if these are recorded. `None` without two evaluations.
    pub fn of(run: &RunData) -> Option<Self> {
        let [first, .., last] = &run.evals[..] else {
            return None;
        };
        let ks: Vec<usize> = last.pass_at.keys().copied().collect();
        let mut table = rows(&ks, "", &first.tasks, &last.tasks);
        for (name, set) in &last.sets {
            let own = |eval: &EvalRecord| -> ByTask {
                let tasks = eval.tasks.iter().filter(|(id, _)| set.tasks.contains(id));
                tasks.map(|(id, counts)| (id.clone(), *counts)).collect()
            };
            table.extend(rows(&ks, &format!(", {name}"), &own(first), &own(last)));
        }
        if run.after.iter().any(|record| record.any_form.is_some()) {
            let [before, after] = [&run.before, &run.after].map(|records| -> ByTask {
                let counts = eval::counts(records, |record| record.any_form);
                counts.into_iter().collect()
            });
            table.extend(rows(&ks, ", any form", &before, &after));
        }
        let of_both =
            |what: &str, of: fn(&EvalRecord) -> String| [what.to_owned(), of(first), of(last)];
        let mut others = vec![
            of_both("mean length, tokens", |it| format!("{:.1}", it.length_mean)),
            of_both("cut off at the limit", |it| percent(it.truncated)),
        ];
        if first.masked + last.masked > 0 {
            others.push(of_both("without a verdict", |it| it.masked.to_string()));
        }
        Some(Self {
            rows: table,
            tasks: last.tasks.len(),
            samples: last.samples,
            others,
        })
    }

    /// The table for the terminal.
    pub fn text(&self) -> String {
        let without = self.rows.iter().filter(|row| row.gain.interval.is_none());
        let heading = match without.clone().count() {
            rows if rows > 0 && rows == self.rows.len() => "after − before",
            _ => "after − before (95% interval)",
        };
        let mut lines = vec![["".into(), "before".into(), "after".into(), heading.into()]];
        for row in &self.rows {
            let ends = row.gain.interval.map(|interval| {
                format!(" ({} to {})", points(interval.low), points(interval.high))
            });
            let (gain, ends) = (points(row.gain.mean), ends.unwrap_or_default());
            let tasks = some_of(&row.gain, self.tasks).map(|tasks| format!(" ({tasks})"));
            lines.push([
                format!("{}{}", row.label, tasks.unwrap_or_default()),
                percent(row.before.mean),
                percent(row.after.mean),
                format!("{gain} points{ends}"),
            ]);
        }
        let others = self.others.iter().cloned();
        lines.extend(others.map(|[what, before, after]| [what, before, after, String::new()]));
        let [label, before, after] = [0, 1, 2].map(|column: usize| {
            let widths = lines.iter().map(|line| line[column].chars().count());
            widths.max().unwrap_or(0)
        });
        let mut out = String::new();
        for [a, b, c, d] in &lines {
            let line = format!("{a:<label$}   {b:>before$}   {c:>after$}   {d}");
            let _ = writeln!(out, "  {}", line.trim_end());
        }
        if let Some(tasks) = without.map(|row| row.gain.tasks).min() {
            let _ = writeln!(out, "\n  {}, so nothing is concluded", no_interval(tasks));
        }
        out
    }
}

/// One row for each k for which both sides have samples. Its figures are over the tasks with k judged samples on both sides, so the gain is the difference of the
/// two.
pub(super) fn rows(ks: &[usize], suffix: &str, before: &ByTask, after: &ByTask) -> Vec<Row> {
    let row = |k: &usize| {
        let pairs = before.iter();
        let pairs = pairs.filter_map(|(task, counts)| Some((*counts, *after.get(task)?)));
        let is_judged = |(b, a): &(Counts, Counts)| b.pass_at(*k).and(a.pass_at(*k)).is_some();
        let pairs: Vec<(Counts, Counts)> = pairs.filter(is_judged).collect();
        let (b, a): (Vec<Counts>, Vec<Counts>) = pairs.iter().copied().unzip();
        Some(Row {
            label: format!("Pass@{k}{suffix}"),
            before: passk::pass_at(&b, *k)?,
            after: passk::pass_at(&a, *k)?,
            gain: passk::paired_difference(&pairs, *k)?,
        })
    };
    ks.iter().filter_map(row).collect()
}

/// `23 of 24 tasks`, if a difference leaves out tasks for want of verdicts.
pub(super) fn some_of(difference: &Estimate, tasks: usize) -> Option<String> {
    (difference.tasks < tasks).then(|| format!("{} of {tasks} tasks", difference.tasks))
}

/// The table as a CSV file, with fractions instead of percentages; the ends of a missing interval are empty.
pub(super) fn csv_table(runs: &[RunData]) -> Table {
    let compared = runs
        .iter()
        .filter_map(|run| Some((&run.name, Comparison::of(run)?)));
    let rows = compared.flat_map(|(name, run)| {
        let rows = run.rows.into_iter();
        rows.map(move |row| (name, run.samples, row))
    });
    let rows: Vec<(&String, usize, Row)> = rows.collect();
    let mut columns = Columns::of(&rows);
    columns.text("", "run", |row| row.0.clone());
    columns.text("", "measure", |row| row.2.label.clone());
    columns.count("", "tasks", |row| row.2.gain.tasks);
    columns.count("", "samples", |row| row.1);
    let mut estimate = |name, of: fn(&Row) -> &Estimate| {
        columns.add("", name, Form::Interval(ALL_DIGITS), |(.., row)| {
            Cell::interval(of(row).mean, of(row).interval, 1.0)
        });
    };
    estimate("before", |row| &row.before);
    estimate("after", |row| &row.after);
    estimate("gain", |row| &row.gain);
    columns.table("report-before-after", "", "")
}
