//! The study's page: for each policy, charts of the presets over the staleness, and a table of every estimator.

use std::fmt::Write as _;

use super::estimators::PRESETS;
use super::{Quality, Row, Study};
use crate::algo::Preset;
use crate::escape::html;
use crate::report::axis::{ValueFormat, format_value};
use crate::report::chart::{Chart, Series};
use crate::report::page::{Heading, page};
use crate::report::table::{Cell, Column, Form, Table};

/// The numbers of the quality that are drawn.
pub(super) const DRAWN: [&str; 5] = ["bias", "cosine", "scale", "update_error", "ess"];
/// The decimals of the table.
const DECIMALS: usize = 3;

/// The page.
pub(super) fn render(study: &Study) -> String {
    let mut body = String::from(
        "<p>An estimator computes an estimate ĝ of the gradient ∇J of the policy π from a group of completions that an older policy μ sampled. Bias is |E ĝ − ∇J| / |∇J|. \
         Scale is the length of E ĝ along ∇J, and cosine the agreement of their directions (a step of AdamW forgives a scale, and no angle). Variance is the trace for one group, over |∇J|². \
         The error of an update combines both, for the mean of 32 completions. The effective sample size is that of the factors. Every estimate comes from the function that \
         training uses.</p>\n",
    );
    if let Some(model) = &study.model {
        let r = &model.reference;
        let number = |value| format_value(value, ValueFormat::Number);
        let share = |value| format_value(value, ValueFormat::Share);
        let _ = writeln!(
            body,
            "<h2>On a model: {}</h2><p>{} prompts of {}, {} groups of {} from each behaviour model. The gradient over these prompts is estimated from {} completions of the policy itself ({} without a verdict), \
             mean reward {}: |∇J| = {} ± {}, with noise of {} of its length. Gradients are sketched to {} numbers. Small print: standard errors.</p>",
            html(&model.model),
            model.prompts,
            html(&model.dataset),
            model.groups,
            model.plan.group_size,
            r.completions,
            r.masked,
            share(r.reward),
            number(r.norm),
            number(r.norm_error),
            share(r.noise),
            model.plan.sketch,
        );
        part(&mut body, &model.rows);
    }
    let toy = &study.toy;
    let _ = writeln!(
        body,
        "<h2>On a toy, exactly</h2><p>{} prompts with {} completions each, softmax policies with {} parameters per prompt. Every group that can be sampled is enumerated, so the \
         numbers are exact. The behaviour policy is the policy some updates ago (updates); an update moves a logit by {} in root mean square, along the gradient and twice as far at random. \
         Or it is at this distance in a random direction (drift).</p>",
        toy.values.len(),
        toy.completions,
        toy.parameters,
        toy.toy.update,
    );
    part(&mut body, &toy.rows);
    let heading = Heading {
        title: "What the estimators do",
        kicker: "Study of the estimator",
        text: "What the estimators do",
    };
    let files = ["estimator.csv", "estimator.json"].map(str::to_owned);
    page(&heading, &body, &files, "")
}

/// The charts and the table of one policy.
fn part(out: &mut String, rows: &[Row]) {
    out.push_str("<div class=\"charts below\">\n");
    for name in DRAWN {
        out.push_str(&chart(name, rows).render());
    }
    out.push_str("</div>\n");
    // The paper's H of 4 if it was measured, else the nearest.
    let staleness = rows.iter().map(|row| row.staleness);
    let nearest = staleness.min_by_key(|staleness| staleness.abs_diff(4));
    table(rows, nearest.unwrap_or(0)).render(out);
}

/// A number of the quality over the staleness, with a line for each preset. The toy's course `drift` is not drawn.
fn chart(name: &str, rows: &[Row]) -> Chart {
    let line = |preset: Preset| {
        let of_preset =
            |row: &&Row| row.setting.preset == Some(preset.name()) && row.course != "drift";
        let mut rows: Vec<&Row> = rows.iter().filter(of_preset).collect();
        rows.sort_by_key(|row| row.staleness);
        let point = |row: &Row| (row.staleness as f64, row.quality.get(name));
        let interval = |row: &&Row| {
            let error = 1.96 * row.errors?.get(name);
            let (x, y) = point(row);
            Some((x, y - error, y + error))
        };
        Series {
            name: preset.name().to_owned(),
            points: rows.iter().map(|row| point(row)).collect(),
            intervals: rows.iter().filter_map(interval).collect(),
        }
    };
    Chart {
        title: name.replace('_', " "),
        note: "of the presets, over updates behind".into(),
        unit: ValueFormat::Number,
        series: PRESETS.map(line).into(),
        marks: true,
    }
}

/// Every estimator at this staleness.
fn table(rows: &[Row], staleness: usize) -> Table {
    let row = |row: &Row| {
        let setting = &row.setting;
        let errors = row.errors.map(|errors| errors.0);
        let numbers = row.quality.0.into_iter().enumerate();
        let numbers = numbers.map(|(i, value)| Cell::Spread(value, errors.map(|it| it[i])));
        let words = [
            Cell::text(setting.factor),
            Cell::text(setting.baseline),
            setting
                .eta
                .map_or(Cell::None, |eta| Cell::Text(eta.to_string())),
            setting.preset.map_or(Cell::None, Cell::text),
            Cell::text(&row.course),
        ];
        words.into_iter().chain(numbers).collect()
    };
    let words = ["factor", "baseline", "η", "preset", "behaviour policy"];
    let words = words.map(|name| Column::new(name, "", Form::Text));
    let numbers =
        Quality::NAMES.map(|it| Column::new(it.replace('_', " "), "", Form::Spread(DECIMALS)));
    let here = rows.iter().filter(|row| row.staleness == staleness);
    Table {
        name: "estimators",
        title: format!("Every estimator, {staleness} updates behind"),
        note: "By factor, baseline and cap, with the name of a preset.".into(),
        columns: words.into_iter().chain(numbers).collect(),
        rows: here.map(row).collect(),
    }
}
