//! The time until a run's Pass@1 reaches the target of `[compare]`.

use super::arms::ArmRuns;
use super::runs::SweepRun;
use crate::report::table::{Cell, Column, Form, Table, points_as_given};

/// The first evaluation of a run that reaches the target.
struct Reached {
    updates: usize,
    minutes: Option<f64>,
}

/// `None` if none does.
fn reached(run: &SweepRun, target: f64) -> Option<Reached> {
    let data = run.data.as_ref()?;
    let eval = data
        .evals
        .iter()
        .find(|eval| eval.pass_at_1().is_some_and(|pass| pass >= target))?;
    Some(Reached {
        updates: eval.step,
        minutes: run.minutes_until(eval.step),
    })
}

fn mean(all: &[Option<Reached>], of: impl Fn(&Reached) -> Option<f64>) -> Cell {
    let values: Vec<f64> = all.iter().flatten().filter_map(of).collect();
    Cell::spread(&values, 1.0)
}

/// The value of each seed, with a dash for those that do not reach the target; nothing if no seed has one.
fn each(all: &[Option<Reached>], of: impl Fn(&Reached) -> Option<f64>, decimals: usize) -> Cell {
    let values: Vec<Option<f64>> = all.iter().map(|one| of(one.as_ref()?)).collect();
    if values.iter().flatten().next().is_none() {
        return Cell::None;
    }
    let words = values
        .into_iter()
        .map(|value| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.decimals$}")));
    Cell::text(words.collect::<Vec<_>>().join("; "))
}

/// A row for each arm; none without a target.
pub(super) fn times_to_target(arms: &[ArmRuns<'_>], target: Option<f64>) -> Table {
    let percent = points_as_given(target.unwrap_or_default());
    let row = |arm: &ArmRuns<'_>, target: f64| {
        let counted = arm.counted();
        let all: Vec<Option<Reached>> = counted.values().map(|run| reached(run, target)).collect();
        let updates = |one: &Reached| Some(one.updates as f64);
        let minutes = |one: &Reached| one.minutes;
        vec![
            Cell::text(arm.label()),
            Cell::Number(counted.len() as f64),
            Cell::Number(all.iter().flatten().count() as f64),
            mean(&all, updates),
            each(&all, updates, 0),
            mean(&all, minutes),
            each(&all, minutes, 2),
        ]
    };
    Table {
        name: "time-to-target",
        title: format!("Time to a Pass@1 of {percent}%"),
        note: "Until the first evaluation that reaches it, over the seeds that do. Minutes are those of training, without start and evaluations. A run that reaches it between two evaluations is seen at the later one. Where not all seeds reach it, the means of two arms are of different seeds: compare them seed by seed.".into(),
        columns: vec![
            Column::new("arm", "arm", Form::Text),
            Column::new("seeds", "seeds", Form::Number(0)),
            Column::new("that reach it", "seeds_that_reach_it", Form::Number(0)),
            Column::new("updates", "updates", Form::Spread(1)),
            Column::new("each seed", "each_seed_updates", Form::Text),
            Column::new("minutes of training", "minutes", Form::Spread(2)),
            Column::new("each seed", "each_seed_minutes", Form::Text),
        ],
        rows: target.map_or_else(Vec::new, |target| {
            arms.iter().map(|arm| row(arm, target)).collect()
        }),
    }
}
