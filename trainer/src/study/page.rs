//! The study's page and its CSV file: a chart of the presets over the staleness, and a table of every estimator.

use super::estimators::PRESETS;
use super::{Row, Study};
use crate::algo::Preset;
use crate::report::axis::{ValueFormat, format_value};
use crate::report::chart::{Chart, Series};
use crate::report::page::{Heading, facts, page};
use crate::report::table::{Cell, Column, Form, Table};

/// The page.
pub(super) fn render(study: &Study) -> String {
    let mut body = String::from(
        "<p>An estimator computes an estimate ĝ of the gradient ∇J of the policy π from a group of completions that an older policy μ sampled. Bias is |E ĝ − ∇J| / |∇J|. \
         Scale is the length of E ĝ along ∇J, and cosine the agreement of their directions (a step of AdamW forgives a scale, and no angle). Variance is the trace for one group, over |∇J|². \
         The error of an update combines bias and variance, for the mean of 32 completions. The effective sample size is that of the importance weights. Noise is what the sampling left in \
         E ĝ and in ∇J: a smaller bias cannot be told from it. Every estimate comes from the function that training uses.</p>\n",
    );
    if let Some(model) = &study.model {
        part(&mut body, "On a model", &model.rows);
        let norm = format_value(model.norm, ValueFormat::Number);
        let about = [
            ("model", model.model.clone()),
            ("prompts", model.prompts.to_string()),
            ("completions without a verdict", model.masked.to_string()),
            ("|∇J|", norm),
        ];
        facts(&mut body, &about);
    }
    part(&mut body, "On a toy, exactly", &study.toy);
    let heading = Heading {
        title: "What the estimators do",
        kicker: "Study of the estimator",
        text: "What the estimators do",
    };
    let files = ["estimator.csv", "estimator.json"].map(str::to_owned);
    page(&heading, &body, &files, "")
}

/// All rows as CSV.
pub(super) fn csv(study: &Study) -> String {
    let toy = study.toy.iter().map(|row| (Some("toy"), row));
    let model = study.model.iter().flat_map(|model| &model.rows);
    table(
        String::new(),
        toy.chain(model.map(|row| (Some("model"), row))),
    )
    .csv()
}

/// The chart of one policy, and the table at the paper's H of 4 if it was measured, else at the nearest staleness.
fn part(out: &mut String, title: &str, rows: &[Row]) {
    out.push_str(&chart(title, rows).figure().render());
    let staleness = rows.iter().map(|row| row.staleness);
    let nearest = staleness.min_by_key(|staleness| staleness.abs_diff(4));
    let here = rows.iter().filter(|row| Some(row.staleness) == nearest);
    table(
        format!("{title}: every estimator"),
        here.map(|row| (None, row)),
    )
    .render(out);
}

/// The error of an update over the staleness, with a line for each preset. The toy's course `drift` is not drawn.
fn chart(title: &str, rows: &[Row]) -> Chart {
    let line = |preset: Preset| {
        let rows = rows.iter().filter(|row| row.preset == Some(preset.name()));
        let rows = rows.filter(|row| row.course != "drift");
        let mut points: Vec<_> = rows
            .map(|row| (row.staleness as f64, row.update_error))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series {
            name: preset.name().to_owned(),
            points,
            intervals: Vec::new(),
        }
    };
    Chart {
        title: title.to_owned(),
        note: "error of an update, of the presets, over updates behind".into(),
        unit: ValueFormat::Number,
        series: PRESETS.map(line).into(),
        marks: true,
    }
}

/// A table of rows, each with the policy that it is of where a table has several.
fn table<'a>(title: String, rows: impl Iterator<Item = (Option<&'a str>, &'a Row)>) -> Table {
    let text = |text: Option<&str>| text.map_or(Cell::None, Cell::text);
    let cells = |(policy, row): (Option<&str>, &Row)| {
        vec![
            text(policy),
            Cell::text(&row.course),
            Cell::Number(row.staleness as f64),
            Cell::text(row.factor),
            Cell::text(row.baseline),
            text(row.eta.as_deref()),
            text(row.preset),
            Cell::Number(row.bias),
            Cell::Number(row.cosine),
            Cell::Number(row.scale),
            Cell::Number(row.variance),
            Cell::Number(row.update_error),
            Cell::Number(row.ess),
            Cell::Number(row.noise),
        ]
    };
    let words = "policy course staleness factor baseline eta preset";
    let words = words.split(' ').zip([Form::Text; 7]);
    let numbers = "bias cosine scale variance update_error ess noise";
    let numbers = numbers.split(' ').zip([Form::Number(4); 7]);
    let columns = words.chain(numbers);
    Table {
        name: "estimator",
        title,
        note: "By factor, baseline and cap, with the name of a preset.".into(),
        columns: columns
            .map(|(name, form)| Column::new(name.replace('_', " "), name, form))
            .collect(),
        rows: rows.map(cells).collect(),
    }
}
