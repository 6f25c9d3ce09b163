//! The time until a run's Pass@1 reaches the target of `[compare]`.

use super::arms::ArmRuns;
use super::runs::SweepRun;
use crate::report::table::{Cell, Columns, Form, Table, points_as_given};

/// The updates until an evaluation first reached the target, and the minutes of training if times are reported. `None` if no evaluation reached it.
type Reached = Option<(f64, Option<f64>)>;

fn reached(run: &SweepRun, target: f64) -> Reached {
    let mut evals = run.data.as_ref()?.evals.iter();
    let eval = evals.find(|eval| eval.pass_at_1().is_some_and(|pass| pass >= target))?;
    Some((eval.step as f64, run.minutes_until(eval.step)))
}

/// The value of each seed, with a dash for those without one; nothing if no seed has one.
fn listed(values: &[Option<f64>], decimals: usize) -> Cell {
    let word = |value: &Option<f64>| value.map_or("–".into(), |it| format!("{it:.decimals$}"));
    let words: Vec<String> = values.iter().map(word).collect();
    let is_known = values.iter().any(Option::is_some);
    Cell::some_text(is_known.then(|| words.join("; ")))
}

/// A row for each arm.
pub(super) fn times_to_target(arms: &[ArmRuns<'_>], target: f64) -> Table {
    let rows = arms.iter().map(|arm| {
        let runs = arm.counted().into_values();
        (arm, runs.map(|run| reached(run, target)).collect())
    });
    let rows: Vec<(&ArmRuns<'_>, Vec<Reached>)> = rows.collect();
    let updates = |row: &[Reached]| Vec::from_iter(row.iter().map(|it| Some(it.as_ref()?.0)));
    let minutes = |row: &[Reached]| Vec::from_iter(row.iter().map(|it| it.as_ref()?.1));
    let known = |values: Vec<Option<f64>>| values.into_iter().flatten().collect();
    let mut columns = Columns::of(&rows);
    columns.text("arm", "arm", |row| row.0.label());
    columns.count("seeds", "seeds", |row| row.1.len());
    columns.count("that reach it", "seeds_that_reach_it", |row| {
        row.1.iter().flatten().count()
    });
    columns.spread("updates", "updates", 1, |row| known(updates(&row.1)));
    columns.add("each seed", "each_seed_updates", Form::Text, |row| {
        listed(&updates(&row.1), 0)
    });
    columns.spread("minutes of training", "minutes", 2, |row| {
        known(minutes(&row.1))
    });
    columns.add("each seed", "each_seed_minutes", Form::Text, |row| {
        listed(&minutes(&row.1), 2)
    });
    let title = format!("Time to a Pass@1 of {}%", points_as_given(target));
    let note = "Until the first evaluation that reaches it, over the seeds that do. Minutes are those of training, without start and evaluations. A run that reaches it between two evaluations is seen at the later one. Where not all seeds reach it, the means of two arms are of different seeds: compare them seed by seed.";
    columns.table("time-to-target", title, note)
}
