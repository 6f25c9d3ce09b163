//! The difference between the last evaluations of two runs, task by task.

use std::fmt::Write as _;

use datasets::passk;

use super::before_after::{Row, rows, some_of};
use super::config_diff::evaluation_differences;
use super::escape::html;
use super::outcome::count;
use super::run_data::RunData;
use super::run_labels::letter;
use super::table::{ALL_DIGITS, Cell, Columns, Form, POINTS, Table};
use crate::record::EvalRecord;

/// The comparison of the first run with another.
struct RunDifference<'a> {
    /// The index of the other run.
    other: usize,
    /// The last evaluations of both.
    evaluations: [&'a EvalRecord; 2],
    /// For each k for which both were evaluated, from the other run to the first.
    rows: Vec<Row>,
    /// Keys that differ and change the evaluation.
    evaluation_differences: Vec<String>,
}

impl<'a> RunDifference<'a> {
    /// The comparison, or why the figures of the two are not compared.
    fn of(runs: &'a [RunData], other: usize) -> Result<Self, String> {
        let last = |index: usize| {
            let eval = runs[index].evals.last();
            eval.ok_or_else(|| format!("{} has not been evaluated yet", letter(index)))
        };
        let (a, b) = (last(0)?, last(other)?);
        if !a.tasks.keys().eq(b.tasks.keys()) {
            let both = a.tasks.keys().filter(|id| b.tasks.contains_key(*id));
            return Err(format!(
                "they were evaluated on different tasks ({} and {}, {} of them the same), so their figures cannot be compared",
                a.tasks.len(),
                b.tasks.len(),
                both.count()
            ));
        }
        let digests = [0, other].map(|index| runs[index].eval_digest.as_ref());
        if digests.iter().all(Option::is_some) && digests[0] != digests[1] {
            let why = "their tasks have the same ids but not the same questions and answers, so their figures cannot be compared";
            return Err(why.to_owned());
        }
        let ks = a.pass_at.keys().filter(|k| b.pass_at.contains_key(k));
        let ks: Vec<usize> = ks.copied().collect();
        Ok(Self {
            other,
            evaluations: [a, b],
            rows: rows(&ks, "", &b.tasks, &a.tasks),
            evaluation_differences: evaluation_differences(&runs[0], &runs[other]),
        })
    }

    /// The two runs: `A − B`.
    fn names(&self) -> String {
        format!("{} − {}", letter(0), letter(self.other))
    }

    /// After which updates they were evaluated, and on how many tasks.
    fn about(&self) -> String {
        let [a, b] = self.evaluations.map(|eval| count(eval.step, "update"));
        let after = if a == b {
            format!("after {a}")
        } else {
            let other = letter(self.other);
            format!("{} after {a}, {other} after {b}", letter(0))
        };
        let tasks = count(self.evaluations[0].tasks.len(), "task");
        format!("{}: {after}, on the same {tasks}.", self.names())
    }

    fn verdict(&self) -> Option<String> {
        let Row { label, gain, .. } = self.rows.first()?;
        let (a, b) = (letter(0), letter(self.other));
        let Some(interval) = gain.interval else {
            let none = passk::no_interval(gain.tasks);
            return Some(format!("{a} and {b}: {none}, so nothing is concluded."));
        };
        let higher = |name: &str, side: &str| {
            format!(
                "{name} has the higher {label} of {a} and {b}: the whole interval lies {side} zero."
            )
        };
        Some(if interval.is_above_zero() {
            higher(&a, "above")
        } else if interval.is_below_zero() {
            higher(&b, "below")
        } else {
            format!(
                "It is undetermined which of {a} and {b} has the higher {label}: the interval contains zero."
            )
        })
    }
}

/// The section; nothing for a single run.
pub(super) fn section(out: &mut String, runs: &[RunData]) {
    if runs.len() < 2 {
        return;
    }
    let pairs = (1..runs.len()).map(|other| RunDifference::of(runs, other));
    let pairs: Vec<Result<RunDifference<'_>, String>> = pairs.collect();
    let rows = rows_of(pairs.iter().flatten());
    let mut columns = Columns::of(&rows);
    columns.text("runs", "", |(pair, _)| pair.names());
    columns.text("measure", "", |(_, row)| row.label.clone());
    columns.add("only of", "", Form::Text, |(pair, row)| {
        Cell::some_text(some_of(&row.gain, pair.evaluations[0].tasks.len()))
    });
    columns.number("first, %", "", 1, |(_, row)| Some(POINTS * row.after.mean));
    columns.number("second, %", "", 1, |(_, row)| {
        Some(POINTS * row.before.mean)
    });
    columns.add("difference, points", "", Form::Interval(1), |(_, row)| {
        Cell::estimate(&row.gain)
    });
    let note = "The last evaluation of the first run minus that of each other run, paired by task. \
                The interval shows how the difference may change with other tasks of the same kind, but not with another seed of training.";
    let table = columns.table("differences", "One run against another", note);
    table.render(out);
    out.push_str("<ul class=\"notes\">");
    for difference in pairs.iter().flatten() {
        let sentences = [Some(difference.about()), difference.verdict()];
        let sentences: Vec<String> = sentences.into_iter().flatten().collect();
        let _ = write!(out, "<li>{}</li>", html(&sentences.join(" ")));
    }
    for (other, pair) in (1..).zip(&pairs) {
        let (a, b) = (letter(0), letter(other));
        let warning = match pair {
            Ok(pair) if pair.evaluation_differences.is_empty() => continue,
            Ok(pair) => format!(
                "{a} and {b} were evaluated with different settings ({}), so the difference does not come from training alone.",
                pair.evaluation_differences.join(", ")
            ),
            Err(reason) => format!("No difference between {a} and {b}: {reason}."),
        };
        let _ = write!(out, "<li class=\"warning\">{}</li>", html(&warning));
    }
    out.push_str("</ul>\n");
}

/// The rows of the differences, with what they are rows of.
fn rows_of<'p>(
    pairs: impl Iterator<Item = &'p RunDifference<'p>>,
) -> Vec<(&'p RunDifference<'p>, &'p Row)> {
    let of = |pair: &'p RunDifference<'p>| pair.rows.iter().map(move |row| (pair, row));
    pairs.flat_map(of).collect()
}

/// The differences as a CSV file, with fractions instead of percentages.
pub(super) fn csv_table(runs: &[RunData]) -> Table {
    let pairs = (1..runs.len()).filter_map(|other| RunDifference::of(runs, other).ok());
    let pairs: Vec<RunDifference<'_>> = pairs.collect();
    let rows = rows_of(pairs.iter());
    let mut columns = Columns::of(&rows);
    columns.text("", "first", |_| runs[0].name.clone());
    columns.text("", "second", |(pair, _)| runs[pair.other].name.clone());
    columns.text("", "measure", |(_, row)| row.label.clone());
    let mut number = |name, of: fn(&Row) -> Option<f64>| {
        columns.number("", name, ALL_DIGITS, |(_, row)| of(row));
    };
    number("tasks", |row| Some(row.gain.tasks as f64));
    number("first_value", |row| Some(row.after.mean));
    number("second_value", |row| Some(row.before.mean));
    number("difference", |row| Some(row.gain.mean));
    number("low", |row| Some(row.gain.interval?.low));
    number("high", |row| Some(row.gain.interval?.high));
    columns.table("report-differences", "", "")
}
