//! The difference between the last evaluations of two runs, task by task.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use datasets::passk::{self, Estimate, percent};

use super::escape::{csv, html};
use super::outcome::{count, difference_cell, small_tasks};
use super::run_data::RunData;
use super::run_labels::{letter, mark};
use super::settings;
use super::table;
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

    /// The rows of the table, under a heading line that names the two runs.
    fn html(&self, out: &mut String) {
        let [(a, eval_a), (b, eval_b)] = [self.first, self.second];
        let after = if eval_a.step == eval_b.step {
            format!("after {}", count(eval_a.step, "update"))
        } else {
            format!(
                "{} after {}, {} after {}",
                letter(a),
                count(eval_a.step, "update"),
                letter(b),
                count(eval_b.step, "update")
            )
        };
        let tasks = count(eval_a.tasks.len(), "task");
        let _ = write!(
            out,
            "<tbody><tr class=\"run\"><th colspan=\"4\" scope=\"rowgroup\">{} − {}<small>{after}, on the same {tasks}</small></th></tr>",
            mark(a),
            mark(b)
        );
        for row in &self.rows {
            let _ = write!(
                out,
                "<tr><th scope=\"row\">Pass@{}{}</th><td class=\"num\">{}</td><td class=\"num\">{}</td>{}</tr>",
                row.k,
                small_tasks(&row.difference, eval_a.tasks.len()),
                percent(row.first.mean),
                percent(row.second.mean),
                difference_cell(&row.difference)
            );
        }
        out.push_str("</tbody>");
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
        let [second, first, difference] = table::paired(&b.tasks, &a.tasks, k)?;
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
    out.push_str(
        "<h2>One run against another</h2><p>The last evaluation of the first run minus that of each other run, paired by task. \
         The interval shows how the difference may change with other tasks of the same kind, but not with another seed of training.</p>\n",
    );
    let pairs = pairs(runs);
    if pairs.iter().any(|(_, pair)| pair.is_ok()) {
        out.push_str("<div class=\"scroll\"><table><thead><tr><th></th><th class=\"num\">first</th><th class=\"num\">second</th><th class=\"num\">difference</th></tr></thead>");
        for (_, pair) in &pairs {
            if let Ok(difference) = pair {
                difference.html(out);
            }
        }
        out.push_str("</table></div>\n");
    }
    out.push_str("<ul class=\"notes\">");
    for (other, pair) in &pairs {
        match pair {
            Ok(difference) => {
                if let Some(verdict) = difference.verdict() {
                    let _ = write!(out, "<li>{}</li>", html(&verdict));
                }
                if !difference.evaluation_differences.is_empty() {
                    let _ = write!(
                        out,
                        "<li class=\"warning\">{} and {} were evaluated with different settings ({}), so the difference does not come from training alone.</li>",
                        letter(0),
                        letter(*other),
                        html(&difference.evaluation_differences.join(", "))
                    );
                }
            }
            Err(reason) => {
                let _ = write!(
                    out,
                    "<li class=\"warning\">No difference between {} and {}: {reason}.</li>",
                    letter(0),
                    letter(*other)
                );
            }
        }
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
