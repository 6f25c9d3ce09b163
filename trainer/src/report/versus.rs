//! What a run has over another: the difference of their last evaluations, task by task.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use datasets::passk::{self, Counts, Estimate, percent};

use super::escape::{csv, html};
use super::marks::{letter, mark};
use super::outcome::{count, difference_cell};
use super::run_data::RunData;
use super::settings;
use crate::record::EvalRecord;

/// Two runs, by their places, and what their last evaluations say.
pub(super) struct Versus<'a> {
    first: (usize, &'a EvalRecord),
    second: (usize, &'a EvalRecord),
    /// One a k that both were evaluated for.
    rows: Vec<Row>,
    /// Keys of the configuration by which the two were evaluated otherwise.
    asked_otherwise: Vec<String>,
}

struct Row {
    k: usize,
    first: Estimate,
    second: Estimate,
    /// First − second, paired by task.
    difference: Estimate,
}

/// Why the figures of two runs are not compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unlike {
    /// By its place.
    #[error("{} has not been evaluated yet", letter(*.0))]
    NotEvaluated(usize),
    /// Tasks of either, and of both.
    #[error(
        "they were evaluated on different tasks ({first} and {second}, {both} of them the same), so their figures cannot be compared"
    )]
    Tasks {
        first: usize,
        second: usize,
        both: usize,
    },
    /// The ids are the same.
    #[error(
        "their tasks have the same ids but not the same questions and answers, so their figures cannot be compared"
    )]
    Contents,
}

impl<'a> Versus<'a> {
    fn of(runs: &'a [RunData], first: usize, second: usize) -> Result<Self, Unlike> {
        let last = |place: usize| {
            let eval = runs[place].evals.last();
            eval.ok_or(Unlike::NotEvaluated(place))
        };
        let (a, b) = (last(first)?, last(second)?);
        let ids = |eval: &EvalRecord| eval.tasks.keys().cloned().collect::<BTreeSet<String>>();
        let (of_a, of_b) = (ids(a), ids(b));
        if of_a != of_b {
            return Err(Unlike::Tasks {
                first: of_a.len(),
                second: of_b.len(),
                both: of_a.intersection(&of_b).count(),
            });
        }
        let digests = [first, second].map(|place| runs[place].eval_digest.as_ref());
        if let [Some(a), Some(b)] = digests
            && a != b
        {
            return Err(Unlike::Contents);
        }
        let rows = a.pass_at.keys().filter(|k| b.pass_at.contains_key(k));
        Ok(Self {
            first: (first, a),
            second: (second, b),
            rows: rows.filter_map(|k| Row::of(a, b, *k)).collect(),
            asked_otherwise: settings::asked_otherwise(&runs[first], &runs[second]),
        })
    }

    /// The lines of the table, under one that names the two.
    fn html(&self, out: &mut String) {
        let [(a, of_a), (b, of_b)] = [self.first, self.second];
        let after = if of_a.step == of_b.step {
            format!("after {}", count(of_a.step, "update"))
        } else {
            format!(
                "{} after {}, {} after {}",
                letter(a),
                count(of_a.step, "update"),
                letter(b),
                count(of_b.step, "update")
            )
        };
        let tasks = count(of_a.tasks.len(), "task");
        let _ = write!(
            out,
            "<tbody><tr class=\"run\"><th colspan=\"4\" scope=\"rowgroup\">{} − {}<small>{after}, on the same {tasks}</small></th></tr>",
            mark(a),
            mark(b)
        );
        for row in &self.rows {
            let _ = write!(
                out,
                "<tr><th scope=\"row\">Pass@{}</th><td class=\"num\">{}</td><td class=\"num\">{}</td>{}</tr>",
                row.k,
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
                "These tasks and samples do not tell {a} and {b} apart in Pass@{k}: the interval holds zero."
            )
        })
    }
}

impl Row {
    fn of(a: &EvalRecord, b: &EvalRecord, k: usize) -> Option<Self> {
        let (of_a, of_b): (Vec<Counts>, Vec<Counts>) = a
            .tasks
            .iter()
            .filter_map(|(task, counts)| Some((*counts, *b.tasks.get(task)?)))
            .unzip();
        let pairs: Vec<(Counts, Counts)> = of_b.iter().copied().zip(of_a.iter().copied()).collect();
        Some(Self {
            k,
            first: passk::pass_at(&of_a, k)?,
            second: passk::pass_at(&of_b, k)?,
            difference: passk::paired_difference(&pairs, k)?,
        })
    }
}

/// The first run beside each of the others.
fn pairs(runs: &[RunData]) -> Vec<(usize, Result<Versus<'_>, Unlike>)> {
    (1..runs.len())
        .map(|other| (other, Versus::of(runs, 0, other)))
        .collect()
}

/// The section; nothing for a single run.
pub(super) fn section(out: &mut String, runs: &[RunData]) {
    if runs.len() < 2 {
        return;
    }
    out.push_str(
        "<h2>One run against another</h2><p>The last evaluation of the first run less that of each other, paired by task. \
         The interval says how the difference would move with other tasks of the kind; what another seed of training would change, it does not say.</p>\n",
    );
    let pairs = pairs(runs);
    if pairs.iter().any(|(_, pair)| pair.is_ok()) {
        out.push_str("<div class=\"scroll\"><table><thead><tr><th></th><th class=\"num\">first</th><th class=\"num\">second</th><th class=\"num\">difference</th></tr></thead>");
        for (_, pair) in &pairs {
            if let Ok(versus) = pair {
                versus.html(out);
            }
        }
        out.push_str("</table></div>\n");
    }
    out.push_str("<ul class=\"notes\">");
    for (other, pair) in &pairs {
        match pair {
            Ok(versus) => {
                if let Some(verdict) = versus.verdict() {
                    let _ = write!(out, "<li>{}</li>", html(&verdict));
                }
                if !versus.asked_otherwise.is_empty() {
                    let _ = write!(
                        out,
                        "<li class=\"warning\">{} and {} were evaluated with different settings ({}), so the difference is not of training alone.</li>",
                        letter(0),
                        letter(*other),
                        html(&versus.asked_otherwise.join(", "))
                    );
                }
            }
            Err(unlike) => {
                let _ = write!(
                    out,
                    "<li class=\"warning\">No difference of {} and {}: {unlike}.</li>",
                    letter(0),
                    letter(*other)
                );
            }
        }
    }
    out.push_str("</ul>\n");
}

/// The differences as CSV, shares as numbers of 1.
pub(super) fn csv_table(runs: &[RunData]) -> String {
    let mut out =
        String::from("first,second,measure,tasks,first_value,second_value,difference,low,high\n");
    for versus in pairs(runs).into_iter().filter_map(|(_, pair)| pair.ok()) {
        let name = |place: usize| csv(&runs[place].name).into_owned();
        for row in &versus.rows {
            let interval = row.difference.interval;
            let end = |end: Option<f64>| end.map_or_else(String::new, |end| end.to_string());
            let _ = writeln!(
                out,
                "{},{},Pass@{},{},{},{},{},{},{}",
                name(versus.first.0),
                name(versus.second.0),
                row.k,
                row.difference.tasks,
                row.first.mean,
                row.second.mean,
                row.difference.mean,
                end(interval.map(|interval| interval.low)),
                end(interval.map(|interval| interval.high))
            );
        }
    }
    out
}
