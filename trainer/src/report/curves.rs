//! The charts of a run's quantities, with their titles and notes.

use std::collections::BTreeSet;

use datasets::passk::{MIN_TASKS, percent};

use super::axis::ValueFormat;
use super::figure::Figure;
use super::line_chart::{LineChart, Series};
use super::run_data::RunData;
use crate::record::StepRecord;

struct Quantity {
    title: &'static str,
    note: &'static str,
    unit: ValueFormat,
    value: fn(&StepRecord) -> Option<f64>,
}

const QUANTITIES: &[Quantity] = &[
    Quantity {
        title: "Reward",
        note: "mean over the completions of the update",
        unit: ValueFormat::Share,
        value: |step| Some(step.algo.reward),
    },
    Quantity {
        title: "Reward of all samples",
        note: "mean over a phase's completions, including groups that were discarded",
        unit: ValueFormat::Share,
        value: |step| step.sampled_reward,
    },
    Quantity {
        title: "Groups to learn from",
        note: "share of groups with both correct and incorrect completions",
        unit: ValueFormat::Share,
        value: |step| {
            let groups = &step.groups;
            let judged = groups.right + groups.wrong + groups.mixed;
            (judged > 0).then(|| groups.mixed as f64 / judged as f64)
        },
    },
    Quantity {
        title: "Training Pass@k",
        note: "of the update's groups, with the largest k that they allow",
        unit: ValueFormat::Share,
        value: |step| step.pass_at.last_key_value().map(|(_, pass)| *pass),
    },
    Quantity {
        title: "Loss",
        note: "the function that is differentiated; its value is hardly meaningful, except in supervised fine-tuning",
        unit: ValueFormat::Number,
        value: |step| Some(step.algo.loss),
    },
    Quantity {
        title: "Gradient norm",
        note: "before clipping",
        unit: ValueFormat::Number,
        value: |step| Some(step.grad_norm),
    },
    Quantity {
        title: "Entropy",
        note: "of the next token's distribution, in nats",
        unit: ValueFormat::Number,
        value: |step| Some(step.entropy),
    },
    Quantity {
        title: "Length",
        note: "mean tokens of a completion",
        unit: ValueFormat::Number,
        value: |step| Some(step.length_mean),
    },
    Quantity {
        title: "Truncation",
        note: "share of completions that reached the token limit",
        unit: ValueFormat::Share,
        value: |step| Some(step.truncated),
    },
    Quantity {
        title: "Without a verdict",
        note: "share of completions that are masked, since the verifier could not judge them",
        unit: ValueFormat::Share,
        value: |step| {
            let algo = &step.algo;
            Some(algo.masked as f64 / (algo.masked + algo.judged) as f64)
        },
    },
    Quantity {
        title: "Updates of a phase",
        note: "H, as chosen from the effective sample size in the phase before",
        unit: ValueFormat::Number,
        value: |step| step.auto_h.map(|size| size.h as f64),
    },
    Quantity {
        title: "Staleness",
        note: "mean |log w̄|: how far the policy has moved from the one that sampled",
        unit: ValueFormat::Number,
        value: |step| step.algo.of_measured(|it| it.stale_mean_abs_log),
    },
    Quantity {
        title: "Divergence",
        note: "k3 estimate of the KL divergence from the policy that sampled, per token, in nats",
        unit: ValueFormat::Number,
        value: |step| step.algo.of_measured(|it| it.kl_behaviour),
    },
    Quantity {
        title: "Divergence from the reference",
        note: "k3 estimate of the KL divergence from the model that training began with, per token, in nats",
        unit: ValueFormat::Number,
        value: |step| step.algo.kl_reference,
    },
    Quantity {
        title: "Tokens outside the clip",
        note: "share of tokens with a ratio below 1 − ε₋ or above 1 + ε₊",
        unit: ValueFormat::Share,
        value: |step| step.algo.clipped_tokens,
    },
    Quantity {
        title: "Gradient removed by ratios",
        note: "share of the gradient, over tokens, that the factor's clip or cap removed",
        unit: ValueFormat::Share,
        value: |step| step.algo.clipped_gradient,
    },
    Quantity {
        title: "Weights at the cap",
        note: "share of importance weights above η",
        unit: ValueFormat::Share,
        value: |step| step.algo.of_measured(|it| it.clip_share),
    },
    Quantity {
        title: "Effective sample size",
        note: "(Σw)² ∕ Σw² as a share of the completions that it is of",
        unit: ValueFormat::Share,
        value: |step| step.algo.ess_share(),
    },
];

/// The chart of the evaluations' Pass@1, then one for each quantity, with a line for each run. What no run has is left out. `titles` are the names of the runs in the legends.
pub(super) fn charts(titles: &[String], runs: &[RunData]) -> Vec<Figure> {
    let chart = |quantity: &Quantity| LineChart {
        title: quantity.title.into(),
        note: quantity.note.into(),
        unit: quantity.unit,
        series: series(titles, runs, quantity.value),
        ..LineChart::default()
    };
    let mut charts = vec![evaluations(titles, runs, None)];
    let evals = runs.iter().flat_map(|run| &run.evals);
    let sets: BTreeSet<&String> = evals.flat_map(|eval| eval.sets.keys()).collect();
    let of_sets = sets.into_iter();
    charts.extend(of_sets.map(|set| evaluations(titles, runs, Some(set))));
    charts.extend(QUANTITIES.iter().map(chart));
    let steps = runs.iter().flat_map(|run| &run.steps);
    let names: BTreeSet<&String> = steps.flat_map(|step| step.terms.keys()).collect();
    charts.extend(names.into_iter().map(|name| LineChart {
        title: format!("Reward term: {name}"),
        note: "mean over the completions of the update, before its weight".into(),
        series: series(titles, runs, |step| step.terms.get(name).copied()),
        ..LineChart::default()
    }));
    charts.push(clipping(titles, runs));
    charts.iter().filter_map(LineChart::figure).collect()
}

/// A number of every update as a line for each run.
fn series(
    titles: &[String],
    runs: &[RunData],
    value: impl Fn(&StepRecord) -> Option<f64>,
) -> Vec<Series> {
    let line = |(run, title): (&RunData, &String)| {
        let points = run.steps.iter();
        let points = points.filter_map(|step| Some((step.step as f64, value(step)?)));
        Series::new(title, points.collect())
    };
    runs.iter().zip(titles).map(line).collect()
}

/// What clipping left of the gradient's norm, and in the note the share of each run's updates that were clipped.
fn clipping(titles: &[String], runs: &[RunData]) -> LineChart {
    let series = series(titles, runs, |step| step.grad_scale);
    let share = |series: &Series| {
        let points = &series.points;
        let clipped = points.iter().filter(|(_, kept)| *kept < 1.0).count();
        let share = percent(clipped as f64 / points.len() as f64);
        match runs.len() {
            1 => share,
            _ => format!("{} {share}", series.name),
        }
    };
    let clipped = series.iter().filter(|series| !series.points.is_empty());
    let clipped: Vec<String> = clipped.map(share).collect();
    LineChart {
        title: "Gradient kept".into(),
        note: format!(
            "share of the gradient's norm that clipping left; clipped updates: {}",
            clipped.join(", ")
        ),
        unit: ValueFormat::Share,
        series,
        ..LineChart::default()
    }
}

/// The evaluations during training, on all tasks or on those of a data set.
fn evaluations(titles: &[String], runs: &[RunData], set: Option<&String>) -> LineChart {
    let line = |(run, title): (&RunData, &String)| {
        let mut series = Series::new(title, Vec::new());
        for eval in &run.evals {
            let pass_at = match set {
                Some(set) => eval.sets.get(set).map(|set| &set.pass_at),
                None => Some(&eval.pass_at),
            };
            if let Some(estimate) = pass_at.and_then(|pass_at| pass_at.get(&1)) {
                let step = eval.step as f64;
                let interval = estimate.interval.map(|it| (step, it.low, it.high));
                series.points.push((step, estimate.mean));
                series.intervals.extend(interval);
            }
        }
        series
    };
    let held_out = runs.iter().all(|run| run.trained_on == Some(0));
    let title = ["Pass@1 of the evaluations", "Held-out Pass@1"][usize::from(held_out)];
    LineChart {
        title: set.map_or(title.into(), |set| format!("{title}: {set}")),
        note: format!("with its 95% interval over tasks, if there are {MIN_TASKS} or more"),
        unit: ValueFormat::Share,
        series: runs.iter().zip(titles).map(line).collect(),
        ..LineChart::default()
    }
}
