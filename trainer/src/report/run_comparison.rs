//! The difference between the last evaluations of two runs, task by task.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use datasets::passk::{self, Estimate};

use super::before_after::{self, some_of};
use super::escape::{csv, html};
use super::outcome::count;
use super::run_data::RunData;
use super::run_labels::letter;
use super::settings;
use super::table::{Cell, Column, Form, POINTS, Table};
use crate::record::EvalRecord;

/// The comparison of two runs, each with its index and its last evaluation.
pub(super) struct RunDifference<'a> {
    first: (usize, &'a EvalRecord),
    second: (usize, &'a EvalRecord),
    /// One row for each k for which both were evaluated.
    rows: Vec<Row>,
    /// Keys that differ and change the evaluation.
    evaluation_differences: Vec<String>,
}

struct Row {
    k: usize,
    /// Over the tasks of which both runs have k judged samples, as the others.
    first: Estimate,
    second: Estimate,
    /// First − second, paired by task.
    difference: Estimate,
}

/// Why the figures of two runs are not compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Incomparable {
    /// The index of the run.
    #[error("{} has not been evaluated yet", letter(*.0))]
    NotEvaluated(usize),
    /// The numbers of tasks of each run, and of the tasks that both have.
    #[error(
        "they were evaluated on different tasks ({first} and {second}, {both} of them the same), so their figures cannot be compared"
    )]
    Tasks {
        first: usize,
        second: usize,
        both: usize,
    },
    /// The tasks have the same ids and other contents.
    #[error(
        "their tasks have the same ids but not the same questions and answers, so their figures cannot be compared"
    )]
    Contents,
}

impl<'a> RunDifference<'a> {
    fn of(runs: &'a [RunData], first: usize, second: usize) -> Result<Self, Incomparable> {
        let last = |index: usize| {
            let eval = runs[index].evals.last();
            eval.ok_or(Incomparable::NotEvaluated(index))
        };
        let (a, b) = (last(first)?, last(second)?);
        let ids = |eval: &EvalRecord| eval.tasks.keys().cloned().collect::<BTreeSet<String>>();
        let (ids_a, ids_b) = (ids(a), ids(b));
        if ids_a != ids_b {
            return Err(Incomparable::Tasks {
                first: ids_a.len(),
                second: ids_b.len(),
                both: ids_a.intersection(&ids_b).count(),
            });
        }
        let digests = [first, second].map(|index| runs[index].eval_digest.as_ref());
        if let [Some(a), Some(b)] = digests
            && a != b
        {
            return Err(Incomparable::Contents);
        }
        let rows = a.pass_at.keys().filter(|k| b.pass_at.contains_key(k));
        Ok(Self {
            first: (first, a),
            second: (second, b),
            rows: rows.filter_map(|k| Row::of(a, b, *k)).collect(),
            evaluation_differences: settings::evaluation_differences(&runs[first], &runs[second]),
        })
    }

    /// The two runs: `A − B`.
    fn names(&self) -> String {
        format!("{} − {}", letter(self.first.0), letter(self.second.0))
    }

    /// After which updates they were evaluated, and on how many tasks.
    fn about(&self) -> String {
        let [(a, eval_a), (b, eval_b)] = [self.first, self.second];
        let updates = [eval_a, eval_b].map(|eval| count(eval.step, "update"));
        let after = if eval_a.step == eval_b.step {
            format!("after {}", updates[0])
        } else {
            let [a, b] = [a, b].map(letter);
            format!("{a} after {}, {b} after {}", updates[0], updates[1])
        };
        let tasks = count(eval_a.tasks.len(), "task");
        format!("{}: {after}, on the same {tasks}.", self.names())
    }

    fn rows(&self) -> impl Iterator<Item = Vec<Cell>> {
        self.rows.iter().map(|row| {
            let tasks = some_of(&row.difference, self.first.1.tasks.len());
            vec![
                Cell::Text(self.names()),
                Cell::Text(format!("Pass@{}", row.k)),
                tasks.map_or(Cell::None, Cell::Text),
                Cell::Number(POINTS * row.first.mean),
                Cell::Number(POINTS * row.second.mean),
                Cell::estimate(&row.difference),
            ]
        })
    }

    fn verdict(&self) -> Option<String> {
        let row = self.rows.first()?;
        let (a, b) = (letter(self.first.0), letter(self.second.0));
        let Some(interval) = row.difference.interval else {
            return Some(format!(
                "{a} and {b}: {}, so nothing is concluded.",
                passk::no_interval(row.difference.tasks)
            ));
        };
        let k = row.k;
        Some(if interval.is_above_zero() {
            format!(
                "{a} has the higher Pass@{k} of {a} and {b}: the whole interval lies above zero."
            )
        } else if interval.is_below_zero() {
            format!(
                "{b} has the higher Pass@{k} of {a} and {b}: the whole interval lies below zero."
            )
        } else {
            format!(
                "It is undetermined which of {a} and {b} has the higher Pass@{k}: the interval contains zero."
            )
        })
    }
}

impl Row {
    fn of(a: &EvalRecord, b: &EvalRecord, k: usize) -> Option<Self> {
        let [second, first, difference] = before_after::paired(&b.tasks, &a.tasks, k)?;
        Some(Self {
            k,
            first,
            second,
            difference,
        })
    }
}

/// The comparisons of the first run with each of the others.
fn pairs(runs: &[RunData]) -> Vec<(usize, Result<RunDifference<'_>, Incomparable>)> {
    (1..runs.len())
        .map(|other| (other, RunDifference::of(runs, 0, other)))
        .collect()
}

/// The section; nothing for a single run.
pub(super) fn section(out: &mut String, runs: &[RunData]) {
    if runs.len() < 2 {
        return;
    }
    let pairs = pairs(runs);
    let compared = || pairs.iter().filter_map(|(_, pair)| pair.as_ref().ok());
    let column = |(heading, form)| Column::new(heading, "", form);
    let table = Table {
        name: "differences",
        title: "One run against another".into(),
        note: "The last evaluation of the first run minus that of each other run, paired by task. \
               The interval shows how the difference may change with other tasks of the same kind, but not with another seed of training.".into(),
        columns: [
            ("runs", Form::Text),
            ("measure", Form::Text),
            ("only of", Form::Text),
            ("first, %", Form::Number(1)),
            ("second, %", Form::Number(1)),
            ("difference, points", Form::Interval(1)),
        ]
        .map(column)
        .into(),
        rows: compared().flat_map(RunDifference::rows).collect(),
    };
    table.render(out);
    out.push_str("<ul class=\"notes\">");
    for difference in compared() {
        let sentences = [Some(difference.about()), difference.verdict()];
        let sentences: Vec<String> = sentences.into_iter().flatten().collect();
        let _ = write!(out, "<li>{}</li>", html(&sentences.join(" ")));
    }
    for (other, pair) in &pairs {
        let (a, b) = (letter(0), letter(*other));
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

/// The differences as CSV, with fractions instead of percentages.
pub(super) fn csv_table(runs: &[RunData]) -> String {
    let mut out =
        String::from("first,second,measure,tasks,first_value,second_value,difference,low,high\n");
    for difference in pairs(runs).into_iter().filter_map(|(_, pair)| pair.ok()) {
        let name = |index: usize| csv(&runs[index].name).into_owned();
        for row in &difference.rows {
            let interval = row.difference.interval;
            let text = |end: Option<f64>| end.map_or_else(String::new, |end| end.to_string());
            let _ = writeln!(
                out,
                "{},{},Pass@{},{},{},{},{},{},{}",
                name(difference.first.0),
                name(difference.second.0),
                row.k,
                row.difference.tasks,
                row.first.mean,
                row.second.mean,
                row.difference.mean,
                text(interval.map(|interval| interval.low)),
                text(interval.map(|interval| interval.high))
            );
        }
    }
    out
}
