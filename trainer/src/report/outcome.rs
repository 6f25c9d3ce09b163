//! The outcome of training: for a single run a headline with a picture, and for every run the table of the evaluations before and after.

use std::fmt::Write as _;

use datasets::passk::{MIN_TASKS, percent, points};

use super::before_after::{Comparison, some_of};
use super::escape::html;
use super::run_data::RunData;
use super::run_labels::titles;
use super::table::{Cell, Column, Form, Table};

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

pub(super) fn count(number: usize, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {what}{s}")
}

/// The number of tasks of a run's evaluation in words, and whether they were held out.
fn tasks(run: &RunData, number: usize) -> String {
    match run.trained_on {
        None => count(number, "task"),
        Some(0) => count(number, "held-out task"),
        Some(all) if all >= number => {
            format!("{} that it was also trained on", count(number, "task"))
        }
        Some(some) => format!(
            "{}, {some} of which it was also trained on",
            count(number, "task")
        ),
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
            let verdict = if interval.is_above_zero() && run.trained_on == Some(0) {
                "The whole interval lies above zero: the model got better at tasks it was not trained on."
            } else if interval.is_above_zero() && run.trained_on.is_none() {
                "The whole interval lies above zero: the model got better at these tasks."
            } else if interval.is_above_zero() {
                "The whole interval lies above zero: the model got better, evaluated on tasks it was also trained on; this does not show how it does on other tasks."
            } else if interval.is_below_zero() {
                "The whole interval lies below zero: the model got worse."
            } else {
                "The interval contains zero, so it is undetermined whether the model got better or worse: it takes more tasks or samples."
            };
            format!(
                "{change} points, 95% interval {} to {}. {verdict}",
                points(interval.low),
                points(interval.high)
            )
        }
    };
    let all = tasks(run, comparison.tasks);
    let on = if row.gain.tasks < comparison.tasks {
        format!("{} of {all}", row.gain.tasks)
    } else {
        all
    };
    let class = if row.gain.interval.is_some() {
        "leap"
    } else {
        "leap unsure"
    };
    let _ = write!(
        out,
        "<section class=\"hero\"><p class=\"{class}\"><span class=\"from\">{}</span><span class=\"arrow\">→</span><span class=\"to\">{}</span>\
         <span class=\"what\">{} on {on}</span></p><p class=\"claim\">{claim}</p>",
        percent(row.before.mean),
        percent(row.after.mean),
        html(&row.label),
    );
    dumbbells(out, comparison);
    out.push_str("</section>\n");
}

/// The figures before and after on one scale, with their intervals.
fn dumbbells(out: &mut String, comparison: &Comparison) {
    let highest = comparison
        .rows
        .iter()
        .flat_map(|row| [row.before, row.after])
        .map(|estimate| {
            estimate
                .interval
                .map_or(estimate.mean, |interval| interval.high)
        })
        .fold(0.0, f64::max);
    let top = [0.1, 0.2, 0.4, 0.6, 0.8]
        .into_iter()
        .find(|top| highest <= *top)
        .unwrap_or(1.0);
    let position = |share: f64| 100.0 * (share / top).clamp(0.0, 1.0);
    out.push_str("<div class=\"dumbbell\">");
    for row in &comparison.rows {
        let _ = write!(
            out,
            "<div class=\"row\"><span>{}</span><div class=\"track\">",
            html(&row.label)
        );
        let sides = [("b", &row.before), ("a", &row.after)];
        for (class, interval) in sides.map(|(class, estimate)| (class, estimate.interval)) {
            let Some(interval) = interval else { continue };
            let _ = write!(
                out,
                "<i class=\"range {class}\" style=\"left:{:.2}%;width:{:.2}%\"></i>",
                position(interval.low),
                position(interval.high) - position(interval.low)
            );
        }
        for (class, estimate) in sides {
            let _ = write!(
                out,
                "<i class=\"dot {class}\" style=\"left:{:.2}%\" title=\"{}\"></i>",
                position(estimate.mean),
                percent(estimate.mean)
            );
        }
        out.push_str("</div></div>");
    }
    out.push_str("<div class=\"row\"><span></span><div class=\"scale\">");
    for quarter in 0..=4 {
        let _ = write!(
            out,
            "<span style=\"left:{}%\">{}%</span>",
            25 * quarter,
            // Two digits after the point at most: 2.5, not 2.50.
            (top * 2500.0 * f64::from(quarter)).round() / 100.0
        );
    }
    out.push_str("</div></div><p class=\"legend\"><span><i class=\"key b\"></i>before</span><span><i class=\"key a\"></i>after</span></p></div>");
}

/// The evaluations before and after training.
fn table(runs: &[RunData], compared: &[Option<Comparison>]) -> Table {
    let several = runs.len() > 1;
    let (mut note, mut rows) = (String::new(), Vec::new());
    let mut all_have_intervals = true;
    for ((run, title), comparison) in runs.iter().zip(titles(runs)).zip(compared) {
        if several {
            let _ = write!(note, "{title}: ");
        }
        let Some(comparison) = comparison else {
            note.push_str("not evaluated before and after training yet. ");
            continue;
        };
        let completions = count(comparison.samples, "completion");
        let tasks = tasks(run, comparison.tasks);
        let _ = write!(note, "{tasks}, {completions} of each. ");
        let title = if several {
            Cell::Text(title)
        } else {
            Cell::None
        };
        for row in &comparison.rows {
            all_have_intervals &= row.gain.interval.is_some();
            rows.push(vec![
                title.clone(),
                Cell::text(&row.label),
                some_of(&row.gain, comparison.tasks).map_or(Cell::None, Cell::Text),
                Cell::estimate(&row.before),
                Cell::estimate(&row.after),
                Cell::estimate(&row.gain),
            ]);
        }
        for (label, before, after) in comparison.plain() {
            rows.push(vec![
                title.clone(),
                Cell::text(label),
                Cell::None,
                Cell::Text(before),
                Cell::Text(after),
                Cell::None,
            ]);
        }
    }
    note.push_str("The small print is the 95% interval of each figure.");
    if !all_have_intervals {
        let _ = write!(
            note,
            " A figure of fewer than {MIN_TASKS} tasks has no interval and allows no conclusion."
        );
    }
    let column = |(heading, form)| Column::new(heading, "", form);
    Table {
        name: "before-after",
        title: "Before and after".into(),
        note,
        columns: [
            ("run", Form::Text),
            ("measure", Form::Text),
            ("only of", Form::Text),
            ("before, %", Form::Interval(1)),
            ("after, %", Form::Interval(1)),
            ("after − before, points", Form::Interval(1)),
        ]
        .map(column)
        .into(),
        rows,
    }
}
