//! The study's page and its CSV file: a chart of the presets over the staleness, and a table of every estimator.

use super::estimators::PRESETS;
use super::{Row, Study};
use crate::config::Preset;
use crate::report::axis::{ValueFormat, format_value};
use crate::report::line_chart::{LineChart, Series};
use crate::report::page::{facts, page};
use crate::report::table::{Cell, Columns, Form, Table};

pub(super) fn render(study: &Study) -> String {
    let mut body = String::from(
        "<p>An estimator computes an estimate ĝ of the gradient ∇J of the policy π from a group of completions that an older policy μ sampled. Bias is |E ĝ − ∇J| / |∇J|. \
         Scale is the length of E ĝ along ∇J, and cosine the agreement of their directions (a step of AdamW forgives a scale, and no angle). Variance is the trace for one group, over |∇J|². \
         The error of an update combines bias and variance, for the mean of 32 completions. The effective sample size is that of the importance weights. Noise is what the sampling left in \
         E ĝ and in ∇J: a smaller bias cannot be told from it. Every estimate comes from the function that training uses.</p>\n",
    );
    if let Some(model) = &study.model {
        part(&mut body, "On a model", &model.rows);
        let about = [
            ("model", model.model.clone()),
            ("prompts", model.prompts.to_string()),
            ("completions without a verdict", model.masked.to_string()),
            ("|∇J|", format_value(model.norm, ValueFormat::Number)),
        ];
        facts(&mut body, &about);
    }
    part(&mut body, "On a toy, exactly", &study.toy);
    let files = ["estimator.csv", "estimator.json"].map(str::to_owned);
    let title = "What the estimators do";
    page("Study of the estimator", title, &body, &files, "")
}

pub(super) fn csv(study: &Study) -> String {
    let toy = study.toy.iter().map(|row| (Some("toy"), row));
    let model = study.model.iter().flat_map(|model| &model.rows);
    let rows = toy.chain(model.map(|row| (Some("model"), row)));
    table("", &rows.collect::<Vec<_>>()).csv()
}

/// The chart of one policy, and the table at the paper's H of 4 if it was measured, else at the nearest staleness.
fn part(out: &mut String, title: &str, rows: &[Row]) {
    let figure = chart(title, rows).figure();
    out.extend(figure.map(|figure| figure.render()));
    let staleness = rows.iter().map(|row| row.staleness);
    let nearest = staleness.min_by_key(|staleness| staleness.abs_diff(4));
    let here = rows.iter().filter(|row| Some(row.staleness) == nearest);
    let here: Vec<_> = here.map(|row| (None, row)).collect();
    table(&format!("{title}: every estimator"), &here).render(out);
}

/// The error of an update over the staleness, with a line for each preset. The toy's course `drift` is not drawn.
fn chart(title: &str, rows: &[Row]) -> LineChart {
    let line = |preset: Preset| {
        let is_drawn = |row: &&Row| row.preset == Some(preset.name()) && row.course != "drift";
        let points = rows.iter().filter(is_drawn);
        let points = points.map(|row| (row.staleness as f64, row.update_error));
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series::new(preset.name(), points)
    };
    LineChart {
        title: title.to_owned(),
        note: "error of an update, of the presets, over updates behind".into(),
        series: PRESETS.map(line).into(),
        ..LineChart::default()
    }
}

/// A table of rows, each with its policy if the table has several.
fn table(title: &str, rows: &[(Option<&str>, &Row)]) -> Table {
    let mut columns = Columns::of(rows);
    columns.add("policy", "policy", Form::Text, |row| Cell::some_text(row.0));
    columns.text("course", "course", |row| row.1.course.clone());
    columns.count("staleness", "staleness", |row| row.1.staleness);
    columns.text("factor", "factor", |row| row.1.factor.to_owned());
    columns.text("baseline", "baseline", |row| row.1.baseline.to_owned());
    columns.add("eta", "eta", Form::Text, |row| {
        Cell::some_text(row.1.eta.as_ref())
    });
    columns.add("preset", "preset", Form::Text, |row| {
        Cell::some_text(row.1.preset)
    });
    let mut number = |name: &str, of: fn(&Row) -> f64| {
        let heading = name.replace('_', " ");
        columns.number(&heading, name, 4, |row| Some(of(row.1)));
    };
    number("bias", |row| row.bias);
    number("cosine", |row| row.cosine);
    number("scale", |row| row.scale);
    number("variance", |row| row.variance);
    number("update_error", |row| row.update_error);
    number("ess", |row| row.ess);
    number("noise", |row| row.noise);
    let note = "By factor, baseline and cap, with the name of a preset.";
    columns.table("estimator", title, note)
}
