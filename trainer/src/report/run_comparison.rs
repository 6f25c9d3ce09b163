//! The difference between the last evaluations of two runs, task by task.

use std::fmt::Write as _;

use datasets::passk::{self, Estimate};

use super::before_after::{paired, some_of};
use super::escape::{csv, html};
use super::outcome::count;
use super::run_data::RunData;
use super::run_labels::letter;
use super::settings;
use super::table::{Cell, Column, Form, POINTS, Table};
use crate::record::EvalRecord;

/// The comparison of the first run with another.
struct RunDifference<'a> {
    /// The index of the other run.
    other: usize,
    /// The last evaluations of both.
    evaluations: [&'a EvalRecord; 2],
    /// For each k for which both were evaluated: Pass@k of the first and of the other, over the tasks of which both have k judged samples, and first − other, paired by task.
    rows: Vec<(usize, [Estimate; 3])>,
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
        let row = |k: &usize| {
            let [second, first, difference] = paired(&b.tasks, &a.tasks, *k)?;
            Some((*k, [first, second, difference]))
        };
        let ks = a.pass_at.keys().filter(|k| b.pass_at.contains_key(k));
        Ok(Self {
            other,
            evaluations: [a, b],
            rows: ks.filter_map(row).collect(),
            evaluation_differences: settings::evaluation_differences(&runs[0], &runs[other]),
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

    fn cells(&self) -> impl Iterator<Item = Vec<Cell>> {
        self.rows.iter().map(|(k, [first, second, difference])| {
            let tasks = some_of(difference, self.evaluations[0].tasks.len());
            vec![
                Cell::Text(self.names()),
                Cell::Text(format!("Pass@{k}")),
                tasks.map_or(Cell::None, Cell::Text),
                Cell::Number(POINTS * first.mean),
                Cell::Number(POINTS * second.mean),
                Cell::estimate(difference),
            ]
        })
    }

    fn verdict(&self) -> Option<String> {
        let (k, [_, _, difference]) = self.rows.first()?;
        let (a, b) = (letter(0), letter(self.other));
        let Some(interval) = difference.interval else {
            let none = passk::no_interval(difference.tasks);
            return Some(format!("{a} and {b}: {none}, so nothing is concluded."));
        };
        let higher = |name: &str, side: &str| {
            format!(
                "{name} has the higher Pass@{k} of {a} and {b}: the whole interval lies {side} zero."
            )
        };
        Some(if interval.is_above_zero() {
            higher(&a, "above")
        } else if interval.is_below_zero() {
            higher(&b, "below")
        } else {
            format!(
                "It is undetermined which of {a} and {b} has the higher Pass@{k}: the interval contains zero."
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
    let compared = || pairs.iter().flatten();
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
        rows: compared().flat_map(RunDifference::cells).collect(),
    };
    table.render(out);
    out.push_str("<ul class=\"notes\">");
    for difference in compared() {
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

/// The differences as CSV, with fractions instead of percentages.
pub(super) fn csv_table(runs: &[RunData]) -> String {
    let mut out =
        String::from("first,second,measure,tasks,first_value,second_value,difference,low,high\n");
    let text = |end: Option<f64>| end.map_or_else(String::new, |end| end.to_string());
    for pair in (1..runs.len()).filter_map(|other| RunDifference::of(runs, other).ok()) {
        let names = [0, pair.other].map(|index| csv(&runs[index].name));
        for (k, [first, second, difference]) in &pair.rows {
            let _ = writeln!(
                out,
                "{},Pass@{k},{},{},{},{},{},{}",
                names.join(","),
                difference.tasks,
                first.mean,
                second.mean,
                difference.mean,
                text(difference.interval.map(|interval| interval.low)),
                text(difference.interval.map(|interval| interval.high))
            );
        }
    }
    out
}
