//! Which quantities of a run are drawn, and how they are called.

use datasets::passk::MIN_TASKS;

use super::axis::Unit;
use super::chart::{Chart, Series};
use super::run_data::RunData;
use super::table::Comparison;
use crate::record::StepRecord;

/// A quantity of an update.
struct Quantity {
    title: &'static str,
    note: &'static str,
    unit: Unit,
    of: fn(&StepRecord) -> Option<f64>,
}

const QUANTITIES: &[Quantity] = &[
    Quantity {
        title: "Reward",
        note: "mean over the completions of the update",
        unit: Unit::Share,
        of: |step| Some(step.algo.reward),
    },
    Quantity {
        title: "Reward of all that was drawn",
        note: "mean over a phase's completions, those of groups that were given up included",
        unit: Unit::Share,
        of: |step| step.drawn_reward,
    },
    Quantity {
        title: "Groups to learn from",
        note: "share of prompts with both right and wrong completions",
        unit: Unit::Share,
        of: |step| Some(step.groups.mixed as f64 / step.prompts as f64),
    },
    Quantity {
        title: "Training Pass@k",
        note: "of the update's groups, k the largest that they allow",
        unit: Unit::Share,
        of: |step| step.pass_at.last_key_value().map(|(_, pass)| *pass),
    },
    Quantity {
        title: "Loss",
        note: "the function whose gradient is taken; its value says little",
        unit: Unit::Number,
        of: |step| Some(step.algo.loss),
    },
    Quantity {
        title: "Gradient norm",
        note: "before clipping",
        unit: Unit::Number,
        of: |step| Some(step.grad_norm),
    },
    Quantity {
        title: "Entropy",
        note: "of the next token, in nats",
        unit: Unit::Number,
        of: |step| Some(step.entropy),
    },
    Quantity {
        title: "Length",
        note: "tokens of a completion, mean",
        unit: Unit::Number,
        of: |step| Some(step.length_mean),
    },
    Quantity {
        title: "Cut off",
        note: "share of completions that reached the limit",
        unit: Unit::Share,
        of: |step| Some(step.truncated),
    },
    Quantity {
        title: "Repeats of a prompt",
        note: "share of completions that say what an earlier one of the same prompt says",
        unit: Unit::Share,
        of: |step| Some(step.repeats.repeated),
    },
    Quantity {
        title: "The commonest completion",
        note: "share of all completions of the update that are this one text",
        unit: Unit::Share,
        of: |step| Some(step.repeats.commonest),
    },
    Quantity {
        title: "Without a verdict",
        note: "share of completions that are left out since the verifier could not judge them",
        unit: Unit::Share,
        of: |step| {
            let algo = &step.algo;
            Some(algo.masked as f64 / (algo.masked + algo.judged) as f64)
        },
    },
    Quantity {
        title: "Spread of ℓ",
        note: "standard deviation of the log-weights",
        unit: Unit::Number,
        of: |step| Some(step.algo.ell_std),
    },
    Quantity {
        title: "Staleness",
        note: "mean |log w̄|: how far the policy has moved from the one that sampled",
        unit: Unit::Number,
        of: |step| Some(step.algo.stale_mean_abs_log),
    },
    Quantity {
        title: "Divergence",
        note: "k3 estimate of KL from the policy that sampled, a token, in nats",
        unit: Unit::Number,
        of: |step| Some(step.algo.kl_behaviour),
    },
    Quantity {
        title: "Divergence from the reference",
        note: "k3 estimate of KL from the model that training began with, a token, in nats",
        unit: Unit::Number,
        of: |step| step.algo.kl_reference,
    },
    Quantity {
        title: "Tokens outside the clip",
        note: "share of tokens whose ratio is below 1 − ε₋ or above 1 + ε₊",
        unit: Unit::Share,
        of: |step| step.algo.clipped_tokens,
    },
    Quantity {
        title: "Weights at the cap",
        note: "share of importance weights above η",
        unit: Unit::Share,
        of: |step| Some(step.algo.clip_share),
    },
    Quantity {
        title: "Effective sample size",
        note: "(Σw)² ∕ Σw² as a share of the update's completions",
        unit: Unit::Share,
        of: |step| Some(step.algo.ess / step.algo.judged as f64),
    },
];

/// Pass@1 of the evaluations first, then one chart a quantity that a run has, with a line a run.
/// The titles are the runs', for the legends.
pub(super) fn charts(titles: &[String], runs: &[RunData]) -> Vec<Chart> {
    let mut charts = vec![evaluations(titles, runs)];
    charts.extend(QUANTITIES.iter().filter_map(|quantity| {
        let series: Vec<Series> = runs
            .iter()
            .zip(titles)
            .map(|(run, title)| Series {
                name: title.clone(),
                points: run
                    .steps
                    .iter()
                    .filter_map(|step| Some((step.step as f64, (quantity.of)(step)?)))
                    .collect(),
                intervals: Vec::new(),
            })
            .collect();
        let none = series.iter().all(|series| series.points.is_empty());
        (!none).then(|| Chart {
            title: quantity.title.into(),
            note: quantity.note.into(),
            unit: quantity.unit,
            series,
            marks: false,
        })
    }));
    charts
}

/// The evaluations during training; where there were none, those before and after it.
fn evaluations(titles: &[String], runs: &[RunData]) -> Chart {
    let series: Vec<Series> = runs
        .iter()
        .zip(titles)
        .map(|(run, title)| {
            let mut estimates: Vec<_> = run
                .evals
                .iter()
                .filter_map(|eval| Some((eval.step as f64, *eval.pass_at.get(&1)?)))
                .collect();
            if estimates.is_empty()
                && let Some(row) =
                    Comparison::of(run).and_then(|comparison| comparison.rows.into_iter().next())
            {
                let last = run.steps.last().map_or(0, |step| step.step);
                estimates = vec![(0.0, row.before), (last as f64, row.after)];
            }
            Series {
                name: title.clone(),
                points: estimates
                    .iter()
                    .map(|(step, estimate)| (*step, estimate.mean))
                    .collect(),
                intervals: estimates
                    .iter()
                    .filter_map(|(step, estimate)| {
                        let interval = estimate.interval?;
                        Some((*step, interval.low, interval.high))
                    })
                    .collect(),
            }
        })
        .collect();
    let held_out = runs.iter().all(|run| run.trained_on == Some(0));
    let title = if held_out {
        "Held-out Pass@1"
    } else {
        "Pass@1 of the evaluations"
    };
    let few = |series: &Series| series.intervals.len() < series.points.len();
    let note = if series.iter().any(few) {
        format!("with its 95% interval over tasks, where there are {MIN_TASKS} or more")
    } else {
        "with its 95% interval over tasks".to_owned()
    };
    Chart {
        title: title.into(),
        note,
        unit: Unit::Share,
        series,
        marks: true,
    }
}
