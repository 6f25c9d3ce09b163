//! The outcome of training: for a single run a headline with a picture, and for every run the table of the evaluations before and after.

use std::fmt::Write as _;

use datasets::passk::{Estimate, MIN_TASKS, percent, points};

use super::axis::ValueFormat;
use super::before_after::{self, Comparison, some_of};
use super::escape::html;
use super::row_chart::{Mark, Row, RowChart, Shape};
use super::run_data::RunData;
use super::run_labels::titles;
use super::table::{self, Cell, Columns, Table};

/// The section for one run or several.
pub(super) fn section(out: &mut String, runs: &[RunData]) {
    let compared: Vec<Option<Comparison>> = runs.iter().map(Comparison::of).collect();
    if compared.iter().all(Option::is_none) {
        out.push_str("<section class=\"hero\"><p class=\"claim\">There is no evaluation before and after training to compare yet.</p></section>\n");
        return;
    }
    if let ([run], [Some(comparison)]) = (runs, &compared[..])
        && !comparison.rows.is_empty()
    {
        hero(out, run, comparison);
    }
    table(runs, &compared).render(out);
}

/// `1 task`, `2 tasks`.
pub fn count(number: usize, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {what}{s}")
}

/// The number of tasks of a run's evaluation in words, and whether they were held out.
pub(super) fn tasks(run: &RunData, number: usize) -> String {
    let tasks = count(number, "task");
    match run.trained_on {
        None => tasks,
        Some(0) => count(number, "held-out task"),
        Some(all) if all >= number => format!("{tasks} that it was also trained on"),
        Some(some) => format!("{tasks}, {some} of which it was also trained on"),
    }
}

fn hero(out: &mut String, run: &RunData, comparison: &Comparison) {
    let row = &comparison.rows[0];
    let change = points(row.gain.mean);
    let claim = match row.gain.interval {
        None => format!(
            "{change} points, and no conclusion: with {}, fewer than {MIN_TASKS}, there is neither an interval nor a verdict. Hold out {MIN_TASKS} tasks or more.",
            count(row.gain.tasks, "task")
        ),
        Some(interval) => {
            let verdict = match run.trained_on {
                Some(0) if interval.is_above_zero() => {
                    "The whole interval lies above zero: the model got better at tasks it was not trained on."
                }
                None if interval.is_above_zero() => {
                    "The whole interval lies above zero: the model got better at these tasks."
                }
                _ if interval.is_above_zero() => {
                    "The whole interval lies above zero: the model got better, evaluated on tasks it was also trained on; this does not show how it does on other tasks."
                }
                _ if interval.is_below_zero() => {
                    "The whole interval lies below zero: the model got worse."
                }
                _ => {
                    "The interval contains zero, so it is undetermined whether the model got better or worse: it takes more tasks or samples."
                }
            };
            let ends = [interval.low, interval.high].map(points).join(" to ");
            format!("{change} points, 95% interval {ends}. {verdict}")
        }
    };
    let some = (row.gain.tasks < comparison.tasks).then(|| format!("{} of ", row.gain.tasks));
    let unsure = ["", " unsure"][usize::from(row.gain.interval.is_none())];
    let _ = writeln!(
        out,
        "<section class=\"hero\"><p class=\"leap{unsure}\"><span class=\"from\">{}</span><span class=\"arrow\">→</span><span class=\"to\">{}</span>\
         <span class=\"what\">{} on {}{}</span></p><p class=\"claim\">{claim}</p>{}</section>",
        percent(row.before.mean),
        percent(row.after.mean),
        html(&row.label),
        some.unwrap_or_default(),
        tasks(run, comparison.tasks),
        picture(comparison)
    );
}

/// The figures before and after on one scale, with their intervals.
fn picture(comparison: &Comparison) -> String {
    let marks = |(series, estimate): (usize, &Estimate)| {
        let interval = estimate.interval.map(Shape::Line);
        let shapes = interval.into_iter().chain([Shape::Dot(estimate.mean)]);
        let marks = shapes.map(|shape| Mark(series, 0, shape));
        marks.collect::<Vec<Mark>>()
    };
    let row = |row: &before_after::Row| Row {
        label: row.label.clone(),
        total: format!("{} → {}", percent(row.before.mean), percent(row.after.mean)),
        marks: [(0, &row.before), (1, &row.after)]
            .into_iter()
            .flat_map(marks)
            .collect(),
    };
    let rows = RowChart {
        title: "Before and after".into(),
        note: String::new(),
        unit: ValueFormat::Share,
        names: ["before", "after"].map(str::to_owned).into(),
        margin: None,
        rows: comparison.rows.iter().map(row).collect(),
    };
    rows.figure()
        .map_or_else(String::new, |figure| figure.without_heading())
}

/// The evaluations before and after training.
fn table(runs: &[RunData], compared: &[Option<Comparison>]) -> Table {
    // Run, measure, tasks, before, after, gain.
    let (mut note, mut rows) = (String::new(), Vec::<[Cell; 6]>::new());
    let mut all_have_intervals = true;
    for ((run, title), comparison) in runs.iter().zip(titles(runs)).zip(compared) {
        let several = (runs.len() > 1).then_some(title);
        if let Some(title) = &several {
            let _ = write!(note, "{title}: ");
        }
        let Some(comparison) = comparison else {
            note.push_str("not evaluated before and after training yet. ");
            continue;
        };
        let completions = count(comparison.samples, "completion");
        let tasks = tasks(run, comparison.tasks);
        let _ = write!(note, "{tasks}, {completions} of each. ");
        let title = Cell::some_text(several);
        for row in &comparison.rows {
            all_have_intervals &= row.gain.interval.is_some();
            let some = Cell::some_text(some_of(&row.gain, comparison.tasks));
            let [before, after, gain] = [&row.before, &row.after, &row.gain].map(Cell::estimate);
            let label = Cell::text(&row.label);
            rows.push([title.clone(), label, some, before, after, gain]);
        }
        for other in &comparison.others {
            let [label, before, after] = other.clone().map(Cell::Text);
            rows.push([title.clone(), label, Cell::NONE, before, after, Cell::NONE]);
        }
    }
    note.push_str("The small print is the 95% interval of each figure.");
    if !all_have_intervals {
        let _ = write!(
            note,
            " A figure of fewer than {MIN_TASKS} tasks has no interval and allows no conclusion."
        );
    }
    let mut columns = Columns::of(&rows);
    for (number, (heading, form)) in [
        ("run", table::Form::Text),
        ("measure", table::Form::Text),
        ("only of", table::Form::Text),
        ("before, %", table::Form::Interval(1)),
        ("after, %", table::Form::Interval(1)),
        ("after − before, points", table::Form::Interval(1)),
    ]
    .into_iter()
    .enumerate()
    {
        columns.add(heading, "", form, |row| row[number].clone());
    }
    columns.table("before-after", "Before and after", note)
}
