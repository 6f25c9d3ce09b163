//! The time until a run's Pass@1 reaches the target of `[compare]`.

use super::arms::ArmRuns;
use super::columns::Columns;
use super::runs::SweepRun;
use crate::report::table::{Cell, Form, Table, points_as_given};

/// How far a run was when an evaluation first reached the target.
struct Reached {
    updates: f64,
    /// `None` without times.
    minutes: Option<f64>,
}

/// `None` if no evaluation does.
fn reached(run: &SweepRun, target: f64) -> Option<Reached> {
    let mut evals = run.data.as_ref()?.evals.iter();
    let eval = evals.find(|eval| eval.pass_at_1().is_some_and(|pass| pass >= target))?;
    Some(Reached {
        updates: eval.step as f64,
        minutes: run.minutes_until(eval.step),
    })
}

/// An arm, and when each of its seeds reached the target.
struct Row<'r> {
    arm: &'r ArmRuns<'r>,
    seeds: Vec<Option<Reached>>,
}

impl Row<'_> {
    fn each(&self, of: fn(&Reached) -> Option<f64>) -> impl Iterator<Item = Option<f64>> {
        self.seeds.iter().map(move |seed| of(seed.as_ref()?))
    }

    fn mean(&self, of: fn(&Reached) -> Option<f64>) -> Cell {
        Cell::spread(&self.each(of).flatten().collect::<Vec<_>>(), 1.0)
    }

    /// The value of each seed, with a dash for those without one; nothing if no seed has one.
    fn listed(&self, of: fn(&Reached) -> Option<f64>, decimals: usize) -> Cell {
        if self.each(of).flatten().next().is_none() {
            return Cell::None;
        }
        let word = |value: f64| format!("{value:.decimals$}");
        let words = self.each(of).map(|value| value.map_or("–".into(), word));
        Cell::text(words.collect::<Vec<_>>().join("; "))
    }
}

/// A row for each arm.
pub(super) fn times_to_target(arms: &[ArmRuns<'_>], target: f64) -> Table {
    let updates = |reached: &Reached| Some(reached.updates);
    let minutes = |reached: &Reached| reached.minutes;
    let mut columns = Columns::of("arm", "arm", |row: &Row<'_>| row.arm.label());
    columns.count("seeds", "seeds", |row| row.seeds.len());
    columns.count("that reach it", "seeds_that_reach_it", |row| {
        row.seeds.iter().flatten().count()
    });
    columns.ours("updates", "updates", Form::Spread(1), move |row| {
        row.mean(updates)
    });
    columns.ours("each seed", "each_seed_updates", Form::Text, move |row| {
        row.listed(updates, 0)
    });
    columns.ours("minutes of training", "minutes", Form::Spread(2), |row| {
        row.mean(minutes)
    });
    columns.ours("each seed", "each_seed_minutes", Form::Text, |row| {
        row.listed(minutes, 2)
    });
    let rows = arms.iter().map(|arm| Row {
        arm,
        seeds: arm
            .counted()
            .values()
            .map(|run| reached(run, target))
            .collect(),
    });
    columns.table(
        "time-to-target",
        format!("Time to a Pass@1 of {}%", points_as_given(target)),
        "Until the first evaluation that reaches it, over the seeds that do. Minutes are those of training, without start and evaluations. A run that reaches it between two evaluations is seen at the later one. Where not all seeds reach it, the means of two arms are of different seeds: compare them seed by seed.",
        rows,
    )
}
