//! The study's page: the questions about the estimators, each with a text, charts and a table. The page is self-contained.

use std::fmt::Write as _;

use super::Study;
use super::questions::{Curve, QUESTIONS, Question};
use super::rows::{Level, Row};
use crate::escape::html;
use crate::report::STYLE;
use crate::report::axis::{ValueFormat, format_value};
use crate::report::chart::{Chart, Series};

/// Rows of one policy, one course of behaviour policies and one group size, which a chart compares.
struct View<'a> {
    levels: Vec<&'a Level>,
    rows: Vec<&'a Row>,
}

impl<'a> View<'a> {
    fn of(course: Option<&str>, levels: &'a [Level], rows: &'a [Row]) -> Self {
        let matches = |name: &str, staleness: usize| {
            // At a staleness of 0, all courses are the same.
            course.is_none_or(|course| course == name || staleness == 0)
        };
        // An estimator is one line of a chart, so its points are of one size.
        let group_size = rows.first().map(|row| row.group_size);
        Self {
            levels: levels
                .iter()
                .filter(|l| matches(&l.course, l.staleness))
                .collect(),
            rows: rows
                .iter()
                .filter(|r| matches(&r.course, r.staleness) && Some(r.group_size) == group_size)
                .collect(),
        }
    }

    /// The staleness that tables show: the paper's H of 4 if it was measured, else the nearest.
    fn table_staleness(&self) -> usize {
        let all = self.levels.iter().map(|level| level.staleness);
        all.min_by_key(|staleness| staleness.abs_diff(4))
            .unwrap_or(0)
    }

    /// The rows of an estimator in the order of their staleness, which several behaviour models may share.
    fn rows(&self, line: &Curve) -> Vec<&'a Row> {
        let rows = self.rows.iter().copied();
        let mut rows: Vec<&Row> = rows.filter(|row| line.matches(&row.names)).collect();
        rows.sort_by_key(|row| row.staleness);
        rows
    }
}

/// The page. `files` are the names of the files beside it.
pub(super) fn render(study: &Study, files: &[&str]) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>What the estimators do · rapid</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <p class=\"kicker\">Study of the estimator</p>\n<h1>What the estimators do</h1>\n"
    );
    out.push_str(
        "<p>An estimator computes an estimate ĝ of the gradient ∇J of the policy π from a group of completions that an older policy μ sampled. Bias is |E ĝ − ∇J| / |∇J|. \
         Scale is the length of E ĝ along ∇J, and cosine the agreement of their directions (a step of AdamW forgives a scale, and no angle). Variance is the trace for one group, over |∇J|². \
         The error of an update combines both, for the mean of 32 completions. The effective sample size is that of the factors. Every estimate comes from the function that \
         training uses.</p>\n",
    );
    if let Some(model) = &study.model {
        let r = &model.reference;
        let _ = writeln!(
            out,
            "<h2>On a model: {}</h2><p>{} prompts of {}, {} groups of {} from each behaviour model. The gradient over these prompts is estimated from {} completions of the policy itself ({} without a verdict), \
             mean reward {}: |∇J| = {} ± {}, with noise of {} of its length. Gradients are sketched to {} numbers. Small print: standard errors.</p>",
            html(&model.model),
            model.prompts,
            html(&model.dataset),
            model.groups,
            model.plan.group_size,
            r.completions,
            r.masked,
            format_value(r.reward, ValueFormat::Share),
            format_value(r.norm, ValueFormat::Number),
            format_value(r.norm_error, ValueFormat::Number),
            format_value(r.noise, ValueFormat::Share),
            model.plan.sketch,
        );
        part(&mut out, &View::of(None, &model.levels, &model.rows));
    }
    let toy = &study.toy;
    let _ = writeln!(
        out,
        "<h2>On a toy, exactly</h2><p>{} prompts with {} completions each, softmax policies with {} parameters per prompt, groups of {}. Every group that can be sampled is enumerated, so the \
         numbers are exact. The behaviour policy is the policy some updates ago; an update moves a logit by {} in root mean square, along the gradient and twice as far at random.</p>",
        toy.values.len(),
        toy.completions,
        toy.parameters,
        toy.toy.group_sizes.first().copied().unwrap_or_default(),
        toy.toy.update,
    );
    part(&mut out, &View::of(Some("updates"), &toy.levels, &toy.rows));
    out.push_str("<details><summary>The same with the behaviour policy at this distance in a random direction</summary>\n");
    part(&mut out, &View::of(Some("drift"), &toy.levels, &toy.rows));
    out.push_str("</details>\n<footer><p>All numbers: ");
    for (index, file) in files.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        let _ = write!(out, "{comma}<a href=\"{file}\">{file}</a>");
    }
    let _ = writeln!(
        out,
        ". Made by rapid {}.</p></footer>\n</main>\n</body>\n</html>",
        env!("CARGO_PKG_VERSION")
    );
    out
}

fn part(out: &mut String, view: &View<'_>) {
    levels(out, view);
    for question in QUESTIONS {
        let _ = writeln!(
            out,
            "<h2>{}</h2><p>{}</p>",
            html(question.title),
            html(question.text)
        );
        out.push_str("<div class=\"charts\">\n");
        for chart in charts(question, view) {
            out.push_str(&chart.render());
        }
        out.push_str("</div>\n");
        table(out, question, view);
    }
}

/// A table of the behaviour policies' distances from the policy.
fn levels(out: &mut String, view: &View<'_>) {
    out.push_str(
        "<div class=\"scroll\"><table><thead><tr><th>behaviour policy</th><th class=\"num\">updates behind</th><th class=\"num\">KL(μ‖π) of a completion</th>\
         <th class=\"num\">mean |ℓ|</th><th class=\"num\">effective sample size of w</th></tr></thead><tbody>",
    );
    for level in &view.levels {
        let _ = write!(
            out,
            "<tr><th>{}</th><td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td></tr>",
            html(&level.course),
            level.staleness,
            format_value(level.kl, ValueFormat::Number),
            format_value(level.abs_ell, ValueFormat::Number),
            format_value(level.ess, ValueFormat::Share),
        );
    }
    out.push_str("</tbody></table></div>\n");
}

fn charts(question: &Question, view: &View<'_>) -> Vec<Chart> {
    let measures = question.measures.iter();
    measures
        .map(|measure| Chart {
            title: measure.title.into(),
            note: measure.note.into(),
            unit: measure.unit,
            series: question
                .lines
                .iter()
                .map(|line| {
                    let rows = view.rows(line);
                    let point = |row: &&Row| (row.staleness as f64, (measure.value)(&row.quality));
                    Series {
                        name: line.name(),
                        points: rows.iter().map(point).collect(),
                        intervals: rows
                            .iter()
                            .filter_map(|row| {
                                let error = (measure.error)(row.errors.as_ref()?)?;
                                let (x, y) = point(row);
                                Some((x, y - 1.96 * error, y + 1.96 * error))
                            })
                            .collect(),
                    }
                })
                .collect(),
            marks: true,
        })
        .collect()
}

fn table(out: &mut String, question: &Question, view: &View<'_>) {
    let staleness = view.table_staleness();
    let here = view.levels.iter().filter(|l| l.staleness == staleness);
    let several = here.count() > 1;
    let _ = write!(
        out,
        "<div class=\"scroll\"><table><thead><tr><th>{staleness} updates behind</th><th class=\"num\">bias</th><th class=\"num\">cosine</th><th class=\"num\">scale</th>\
         <th class=\"num\">variance</th><th class=\"num\">error of an update</th><th class=\"num\">effective sample size</th></tr></thead><tbody>"
    );
    for row in question
        .lines
        .iter()
        .flat_map(|line| view.rows(line))
        .filter(|row| row.staleness == staleness)
    {
        let preset = row
            .names
            .preset
            .map(|p| format!(" ({p})"))
            .unwrap_or_default();
        let model = several.then(|| format!(" · {}", row.course));
        let label = row.names.label() + &preset + &model.unwrap_or_default();
        let _ = write!(out, "<tr><th>{}</th>", html(&label));
        let q = &row.quality;
        let e = row.errors.as_ref();
        let cell = |out: &mut String, value: f64, error: Option<f64>, unit: ValueFormat| {
            let _ = write!(out, "<td class=\"num\">{}", format_value(value, unit));
            if let Some(error) = error {
                let _ = write!(out, "<small>± {}</small>", format_value(error, unit));
            }
            out.push_str("</td>");
        };
        cell(out, q.bias, e.map(|e| e.bias), ValueFormat::Share);
        cell(out, q.cosine, e.map(|e| e.cosine), ValueFormat::Number);
        cell(out, q.scale, e.map(|e| e.scale), ValueFormat::Number);
        cell(out, q.variance, e.map(|e| e.variance), ValueFormat::Number);
        cell(
            out,
            q.update_error,
            e.map(|e| e.update_error),
            ValueFormat::Share,
        );
        cell(out, q.ess, e.map(|e| e.ess), ValueFormat::Share);
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{Quality, grid};

    fn rows(levels: &[Level], group_sizes: &[usize]) -> Vec<Row> {
        let mut rows = Vec::new();
        for level in levels {
            for size in group_sizes {
                for setting in grid() {
                    let quality = Quality::default();
                    rows.push(Row::new("model", level, *size, &setting, quality, None));
                }
            }
        }
        rows
    }

    #[test]
    fn of_several_group_sizes_the_first_is_shown() {
        let levels = [0, 4].map(|staleness| Level::new("updates", staleness));
        let rows = rows(&levels, &[4, 8]);
        let view = View::of(Some("updates"), &levels, &rows);
        assert!(view.rows.iter().all(|row| row.group_size == 4));
        for chart in charts(&QUESTIONS[0], &view) {
            assert!(chart.series.iter().all(|series| series.points.len() == 2));
        }
    }

    #[test]
    fn behaviour_models_of_the_same_staleness_are_all_shown() {
        let levels = ["a/step-6", "b/step-6"].map(|course| Level::new(course, 4));
        let rows = rows(&levels, &[4]);
        let view = View::of(None, &levels, &rows);
        let question = &QUESTIONS[0];
        for chart in charts(question, &view) {
            assert!(chart.series.iter().all(|series| series.points.len() == 2));
        }
        let mut out = String::new();
        table(&mut out, question, &view);
        for model in [" · a/step-6<", " · b/step-6<"] {
            assert_eq!(out.matches(model).count(), question.lines.len(), "{out}");
        }
    }
}
