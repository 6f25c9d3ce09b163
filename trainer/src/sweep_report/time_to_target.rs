//! The time until a run's Pass@1 reaches the target of `[compare]`.

use super::arms::ArmRuns;
use super::runs::SweepRun;
use super::table::{Cell, Column, Form, Table, points_as_given};
use crate::record::Ledger;

/// The first evaluation of a run that reaches the target.
struct Reached {
    updates: usize,
    minutes: f64,
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
        minutes: Ledger::of(&data.clock).training_until(eval.step) / 60.0,
    })
}

/// A row for each arm; none without a target.
pub(super) fn times_to_target(arms: &[ArmRuns<'_>], target: Option<f64>) -> Table {
    let percent = points_as_given(target.unwrap_or_default());
    let row = |arm: &ArmRuns<'_>, target: f64| {
        let counted = arm.counted();
        let all: Vec<Reached> = counted
            .values()
            .filter_map(|run| reached(run, target))
            .collect();
        let updates: Vec<f64> = all.iter().map(|one| one.updates as f64).collect();
        let minutes: Vec<f64> = all.iter().map(|one| one.minutes).collect();
        vec![
            Cell::text(arm.label()),
            Cell::Number(counted.len() as f64),
            Cell::Number(all.len() as f64),
            Cell::spread(&updates, 1.0),
            Cell::spread(&minutes, 1.0),
        ]
    };
    Table {
        name: "time-to-target",
        title: format!("Time to a Pass@1 of {percent}%"),
        note: "Until the first evaluation that reaches it, over the seeds that do. Minutes are those of training, without start and evaluations. A run that reaches it between two evaluations is seen at the later one.".into(),
        columns: vec![
            Column::new("arm", "arm", Form::Text),
            Column::new("seeds", "seeds", Form::Number(0)),
            Column::new("that reach it", "seeds_that_reach_it", Form::Number(0)),
            Column::new("updates", "updates", Form::Spread(1)),
            Column::new("minutes of training", "minutes", Form::Spread(2)),
        ],
        rows: target.map_or_else(Vec::new, |target| {
            arms.iter().map(|arm| row(arm, target)).collect()
        }),
    }
}
