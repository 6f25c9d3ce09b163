//! The table of the evaluations before and after training: for the terminal, for the page, and as CSV.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use datasets::passk::{self, Counts, Estimate, no_interval, percent, points};

use crate::eval::{self, AnswerMode, Record};
use crate::record::EvalRecord;

use super::escape::csv;
use super::run_data::RunData;

/// A Pass@k before and after training.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// `Pass@1`, `Pass@8, any form`, …
    pub label: String,
    /// Estimate before training, over the tasks of which both evaluations have k judged samples.
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
    /// Mean length of a completion in tokens, before and after.
    pub tokens: (f64, f64),
    /// Fraction of truncated completions, before and after.
    pub truncated: (f64, f64),
    /// Number of samples without a verdict, before and after.
    pub masked: (usize, usize),
}

type ByTask = BTreeMap<String, Counts>;

impl Comparison {
    /// The comparison of the samples before and after, else of the first and the last evaluation during training. `None` without two evaluations.
    pub fn of(run: &RunData) -> Option<Self> {
        if !run.before.is_empty() && !run.after.is_empty() {
            let ks = run.evals.last().map(ks_of);
            return Some(Self::of_records(&run.before, &run.after, ks));
        }
        let (first, last) = (run.evals.first()?, run.evals.last()?);
        if run.evals.len() < 2 {
            return None;
        }
        Some(Self {
            rows: rows(&ks_of(last), "", &first.tasks, &last.tasks),
            tasks: last.tasks.len(),
            samples: last.samples,
            tokens: (first.length_mean, last.length_mean),
            truncated: (first.truncated, last.truncated),
            masked: (first.masked, last.masked),
        })
    }

    /// The comparison of two sets of samples of the same tasks. It has Pass@k for each of `ks`; by default for 1 and the number of samples per task.
    pub fn of_records(before: &[Record], after: &[Record], ks: Option<Vec<usize>>) -> Self {
        let counts =
            |records, reading| -> ByTask { eval::counts(records, reading).into_iter().collect() };
        let samples = after
            .iter()
            .map(|record| record.sample.sample + 1)
            .max()
            .unwrap_or(0);
        let ks = ks.unwrap_or_else(|| match samples {
            0 | 1 => vec![1],
            several => vec![1, several],
        });
        let strict = (
            counts(before, AnswerMode::AsAnswered),
            counts(after, AnswerMode::AsAnswered),
        );
        let mut table = rows(&ks, "", &strict.0, &strict.1);
        if after.iter().any(|record| record.any_form.is_some()) {
            table.extend(rows(
                &ks,
                ", any form",
                &counts(before, AnswerMode::AnyForm),
                &counts(after, AnswerMode::AnyForm),
            ));
        }
        let (b, a) = (eval::summary(before, &[]), eval::summary(after, &[]));
        Self {
            rows: table,
            tasks: strict.1.len(),
            samples,
            tokens: (b.mean_tokens, a.mean_tokens),
            truncated: (b.truncated, a.truncated),
            masked: (b.masked, a.masked),
        }
    }

    /// Label, value before and value after of the other figures; `without a verdict` only if such samples exist.
    pub(super) fn plain(&self) -> Vec<(&'static str, String, String)> {
        let number = |value: f64| format!("{value:.1}");
        let mut plain = vec![
            (
                "mean length, tokens",
                number(self.tokens.0),
                number(self.tokens.1),
            ),
            (
                "cut off at the limit",
                percent(self.truncated.0),
                percent(self.truncated.1),
            ),
        ];
        if self.masked != (0, 0) {
            plain.push((
                "without a verdict",
                self.masked.0.to_string(),
                self.masked.1.to_string(),
            ));
        }
        plain
    }

    /// The table for the terminal.
    pub fn text(&self) -> String {
        let fewest_tasks = self
            .rows
            .iter()
            .filter(|row| row.gain.interval.is_none())
            .map(|row| row.gain.tasks)
            .min();
        let heading = match fewest_tasks {
            Some(_) if self.rows.iter().all(|row| row.gain.interval.is_none()) => "after − before",
            _ => "after − before (95% interval)",
        };
        let mut lines = vec![["".into(), "before".into(), "after".into(), heading.into()]];
        for row in &self.rows {
            let mut gain = format!("{} points", points(row.gain.mean));
            if let Some(interval) = row.gain.interval {
                let _ = write!(
                    gain,
                    " ({} to {})",
                    points(interval.low),
                    points(interval.high)
                );
            }
            let tasks = some_of(&row.gain, self.tasks);
            let tasks = tasks.map_or_else(String::new, |tasks| format!(" ({tasks})"));
            lines.push([
                format!("{}{tasks}", row.label),
                percent(row.before.mean),
                percent(row.after.mean),
                gain,
            ]);
        }
        lines.extend(
            self.plain()
                .into_iter()
                .map(|(label, before, after)| [label.to_owned(), before, after, String::new()]),
        );
        let width = |column: usize| {
            lines
                .iter()
                .map(|line| line[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let (label, before, after) = (width(0), width(1), width(2));
        let mut out = String::new();
        for [a, b, c, d] in &lines {
            let line = format!("{a:<label$}   {b:>before$}   {c:>after$}   {d}");
            let _ = writeln!(out, "  {}", line.trim_end());
        }
        if let Some(tasks) = fewest_tasks {
            let _ = writeln!(out, "\n  {}, so nothing is concluded", no_interval(tasks));
        }
        out
    }
}

/// The k of each Pass@k of an evaluation.
fn ks_of(evaluation: &EvalRecord) -> Vec<usize> {
    evaluation.pass_at.keys().copied().collect()
}

/// One row for each k for which both sides have samples.
fn rows(ks: &[usize], suffix: &str, before: &ByTask, after: &ByTask) -> Vec<Row> {
    ks.iter()
        .filter_map(|&k| {
            let [before, after, gain] = paired(before, after, k)?;
            Some(Row {
                label: format!("Pass@{k}{suffix}"),
                before,
                after,
                gain,
            })
        })
        .collect()
}

/// Pass@k before and after, and after − before. All three are over the tasks of which both sides have k judged samples, so the third is the difference of the first two.
/// `None` if there is no such task.
pub(super) fn paired(before: &ByTask, after: &ByTask, k: usize) -> Option<[Estimate; 3]> {
    let pairs: Vec<(Counts, Counts)> = before
        .iter()
        .filter_map(|(task, counts)| Some((*counts, *after.get(task)?)))
        .filter(|(b, a)| b.pass_at(k).is_some() && a.pass_at(k).is_some())
        .collect();
    let (b, a): (Vec<Counts>, Vec<Counts>) = pairs.iter().copied().unzip();
    Some([
        passk::pass_at(&b, k)?,
        passk::pass_at(&a, k)?,
        passk::paired_difference(&pairs, k)?,
    ])
}

/// `23 of 24 tasks`, if a difference leaves out tasks for want of verdicts.
pub(super) fn some_of(difference: &Estimate, tasks: usize) -> Option<String> {
    (difference.tasks < tasks).then(|| format!("{} of {tasks} tasks", difference.tasks))
}

/// The table as CSV, with fractions instead of percentages; the ends of a missing interval are empty.
pub(super) fn csv_table(runs: &[(&str, Comparison)]) -> String {
    let mut out = String::from(
        "run,measure,tasks,samples,before,before_low,before_high,after,after_low,after_high,gain,gain_low,gain_high\n",
    );
    for (name, comparison) in runs {
        for row in &comparison.rows {
            let _ = write!(
                out,
                "{},{},{},{}",
                csv(name),
                csv(&row.label),
                row.gain.tasks,
                comparison.samples
            );
            for estimate in [&row.before, &row.after, &row.gain] {
                let _ = write!(out, ",{}", estimate.mean);
                match estimate.interval {
                    Some(interval) => {
                        let _ = write!(out, ",{},{}", interval.low, interval.high);
                    }
                    None => out.push_str(",,"),
                }
            }
            out.push('\n');
        }
    }
    out
}
