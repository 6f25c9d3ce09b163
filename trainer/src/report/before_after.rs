//! The table of the evaluations before and after training: for the terminal, for the page, and as CSV.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use datasets::passk::{self, Counts, Estimate, no_interval, percent, points};

use crate::eval;

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
    /// The comparison of the first and the last evaluation; of their samples in any form too, if these are recorded. `None` without two evaluations.
    pub fn of(run: &RunData) -> Option<Self> {
        let [first, .., last] = &run.evals[..] else {
            return None;
        };
        let ks: Vec<usize> = last.pass_at.keys().copied().collect();
        let mut table = rows(&ks, "", &first.tasks, &last.tasks);
        if run.after.iter().any(|record| record.any_form.is_some()) {
            let [before, after] = [&run.before, &run.after].map(|records| -> ByTask {
                let counts = eval::counts(records, |record| record.any_form);
                counts.into_iter().collect()
            });
            table.extend(rows(&ks, ", any form", &before, &after));
        }
        Some(Self {
            rows: table,
            tasks: last.tasks.len(),
            samples: last.samples,
            tokens: (first.length_mean, last.length_mean),
            truncated: (first.truncated, last.truncated),
            masked: (first.masked, last.masked),
        })
    }

    /// Label, value before and value after of the other figures; `without a verdict` only if such samples exist.
    pub(super) fn plain(&self) -> Vec<(&'static str, String, String)> {
        let pair =
            |label, pair: (f64, f64), text: fn(f64) -> String| (label, text(pair.0), text(pair.1));
        let masked = (self.masked.0 as f64, self.masked.1 as f64);
        let mut plain = vec![
            pair("mean length, tokens", self.tokens, |it| format!("{it:.1}")),
            pair("cut off at the limit", self.truncated, percent),
        ];
        plain.extend(
            (self.masked != (0, 0)).then(|| pair("without a verdict", masked, |it| it.to_string())),
        );
        plain
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
            let tasks = some_of(&row.gain, self.tasks).map(|tasks| format!(" ({tasks})"));
            lines.push([
                format!("{}{}", row.label, tasks.unwrap_or_default()),
                percent(row.before.mean),
                percent(row.after.mean),
                format!(
                    "{} points{}",
                    points(row.gain.mean),
                    ends.unwrap_or_default()
                ),
            ]);
        }
        let plain = self.plain().into_iter();
        lines.extend(plain.map(|(label, b, a)| [label.to_owned(), b, a, String::new()]));
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

/// One row for each k for which both sides have samples.
fn rows(ks: &[usize], suffix: &str, before: &ByTask, after: &ByTask) -> Vec<Row> {
    let row = |k: &usize| {
        let [before, after, gain] = paired(before, after, *k)?;
        Some(Row {
            label: format!("Pass@{k}{suffix}"),
            before,
            after,
            gain,
        })
    };
    ks.iter().filter_map(row).collect()
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
    let text = |end: Option<f64>| end.map_or_else(String::new, |end| end.to_string());
    for (name, comparison) in runs {
        for row in &comparison.rows {
            let (name, label, samples) = (csv(name), csv(&row.label), comparison.samples);
            let _ = write!(out, "{name},{label},{},{samples}", row.gain.tasks);
            for estimate in [&row.before, &row.after, &row.gain] {
                let low = text(estimate.interval.map(|interval| interval.low));
                let high = text(estimate.interval.map(|interval| interval.high));
                let _ = write!(out, ",{},{low},{high}", estimate.mean);
            }
            out.push('\n');
        }
    }
    out
}
