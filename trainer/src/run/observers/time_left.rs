//! Estimates the time left of a run from how long its parts took so far.

use std::collections::BTreeSet;

use crate::config::Config;
use crate::data::{Phase, PromptSchedule};
use crate::record::EvalRecord;

/// The work that is left of a run, and the measured cost of each kind of work.
#[derive(Debug)]
pub(in crate::run) struct TimeLeft {
    schedule: PromptSchedule,
    group_size: usize,
    prompts_per_update: usize,
    /// Updates after which an evaluation is due that was not made yet.
    evaluations: BTreeSet<usize>,
    /// Number of completions in an evaluation, once known.
    evaluation_size: Option<usize>,
    /// Number of updates whose samples are ready.
    sampled: usize,
    /// Updates done.
    step: usize,
    /// Per completion of a phase.
    sampling: Meter,
    /// Per completion of an evaluation.
    evaluating: Meter,
    /// Per update.
    updating: Meter,
}

/// Measures seconds per unit of work.
#[derive(Debug, Default, Clone, Copy)]
struct Meter {
    seconds: f64,
    units: f64,
    /// Seconds and units of the piece of work under way, which the fields above do not include.
    open: (f64, f64),
}

impl Meter {
    fn per_unit(&self) -> Option<f64> {
        let (seconds, units) = (self.seconds + self.open.0, self.units + self.open.1);
        (units > 0.0).then(|| seconds / units)
    }

    /// Adds the piece of work under way to the totals.
    fn close(&mut self) {
        self.seconds += self.open.0;
        self.units += self.open.1;
        self.open = (0.0, 0.0);
    }
}

impl TimeLeft {
    pub(in crate::run) fn new(
        config: &Config,
        schedule: &PromptSchedule,
        step: usize,
        evaluates: bool,
        evals: &[EvalRecord],
    ) -> Self {
        let updates = schedule.updates();
        let done = |step: &usize| evals.iter().any(|eval| eval.step == *step);
        let evaluations = (step..=updates)
            .filter(|step| evaluates && schedule.evaluates_after(*step))
            .filter(|step| !done(step))
            .collect();
        let begun = schedule.phases_begun(step).checked_sub(1);
        let sampled = begun.map_or(0, |index| schedule.phase(index).end());
        Self {
            schedule: schedule.clone(),
            group_size: config.algorithm.group_size,
            prompts_per_update: config.prompts_per_update(),
            evaluations,
            evaluation_size: evals.last().map(|eval| eval.tasks.len() * eval.samples),
            sampled,
            step,
            sampling: Meter::default(),
            evaluating: Meter::default(),
            updating: Meter::default(),
        }
    }

    pub(in crate::run) fn updates(&self) -> usize {
        self.schedule.updates()
    }

    /// Number of phases; `None` if it is not known yet.
    pub(in crate::run) fn phases(&self) -> Option<usize> {
        self.schedule.phases()
    }

    /// `completions` completions of a phase were sampled in `seconds`.
    pub(in crate::run) fn sampling(&mut self, seconds: f64, completions: usize) {
        self.sampling.open = (seconds, completions as f64);
    }

    /// The samples of a phase are ready.
    pub(in crate::run) fn sampled(&mut self, phase: &Phase) {
        self.sampling.close();
        self.sampled = phase.end();
    }

    /// `completions` of the `wanted` completions of an evaluation were sampled in `seconds`.
    pub(in crate::run) fn evaluating(&mut self, seconds: f64, completions: usize, wanted: usize) {
        self.evaluation_size = Some(wanted);
        self.evaluating.open = (seconds, completions as f64);
    }

    /// The evaluation after `step` updates is done.
    pub(in crate::run) fn evaluated(&mut self, step: usize) {
        self.evaluating.close();
        self.evaluations.remove(&step);
    }

    /// An update took `seconds`, all that is done for it besides sampling included; `step` updates are done.
    pub(in crate::run) fn updated(&mut self, step: usize, seconds: f64) {
        self.step = step;
        self.updating.open = (seconds, 1.0);
        self.updating.close();
    }

    /// Mean seconds of an update; `None` before the first.
    pub(in crate::run) fn update(&self) -> Option<f64> {
        self.updating.per_unit()
    }

    /// Seconds to the end of the run; `None` if a kind of work is left that was not measured yet.
    pub(in crate::run) fn left(&self) -> Option<f64> {
        let prompts = self.schedule.prompts();
        let sampled_prompts = (self.sampled * self.prompts_per_update).min(prompts);
        let completions = (prompts - sampled_prompts) * self.group_size;
        let updates = self.updates() - self.step;
        let evaluation_completions = self.evaluations.len() * self.evaluation_size.unwrap_or(0);
        let known = self.evaluations.is_empty() || self.evaluation_size.is_some();
        // A completion costs about the same in a phase and in an evaluation.
        let sampling = self.sampling.per_unit().or(self.evaluating.per_unit());
        let evaluating = self.evaluating.per_unit().or(self.sampling.per_unit());
        let cost = |units: f64, each: Option<f64>| {
            if units <= 0.0 {
                Some(0.0)
            } else {
                each.map(|each| units * each)
            }
        };
        let left = cost(completions as f64 - self.sampling.open.1, sampling)?
            + cost(updates as f64, self.updating.per_unit())?
            + cost(
                evaluation_completions as f64 - self.evaluating.open.1,
                evaluating,
            )?;
        known.then_some(left)
    }
}

/// A duration for people to read, such as `2 min`.
pub(in crate::run) fn human_duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).ceil() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds.div_ceil(60)),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86400, seconds % 86400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    /// 10 updates of 16 prompts, 2 a phase, 8 completions a prompt; evaluations after 0, 4, 8 and 10 updates.
    fn time_left(step: usize, evaluates: bool) -> TimeLeft {
        let config = config::load("quickstart", &["eval.every=4".into()]).unwrap();
        let schedule = PromptSchedule::new(&config, 300);
        TimeLeft::new(&config, &schedule, step, evaluates, &[])
    }

    #[test]
    fn without_evaluations_none_is_waited_for() {
        let mut time_left = time_left(0, false);
        time_left.sampling(51.2, 256);
        let phase = time_left.schedule.phase(0);
        time_left.sampled(&phase);
        time_left.updated(1, 10.0);
        assert!((time_left.left().unwrap() - (4.0 * 51.2 + 90.0)).abs() < 1e-9);
    }

    #[test]
    fn the_time_left_includes_phases_updates_and_evaluations() {
        let mut time_left = time_left(0, true);
        assert_eq!(time_left.left(), None, "nothing was measured");
        time_left.evaluating(10.0, 100, 400);
        assert_eq!(time_left.left(), None, "no update was measured");
        time_left.evaluating(40.0, 400, 400);
        time_left.evaluated(0);
        time_left.sampling(12.8, 64);
        time_left.sampling(51.2, 256);
        let phase = time_left.schedule.phase(0);
        time_left.sampled(&phase);
        time_left.updated(1, 10.0);
        // Four phases of 256 completions at 0.2 s, nine updates at 10 s, three evaluations at 40 s.
        assert!((time_left.left().unwrap() - (4.0 * 51.2 + 90.0 + 120.0)).abs() < 1e-9);
        time_left.updated(2, 10.0);
        time_left.sampling(25.6, 128);
        assert!((time_left.left().unwrap() - (3.5 * 51.2 + 80.0 + 120.0)).abs() < 1e-9);
    }

    #[test]
    fn a_run_resumed_in_mid_phase_has_the_samples_of_that_phase() {
        let mut time_left = time_left(5, true);
        time_left.updated(6, 2.0);
        time_left.evaluating(4.0, 40, 40);
        time_left.evaluated(8);
        // Two phases at 0.1 s a completion, four updates, and the evaluation after the last update.
        assert!((time_left.left().unwrap() - (51.2 + 8.0 + 4.0)).abs() < 1e-9);
    }

    #[test]
    fn durations_have_units_for_people() {
        for (seconds, text) in [
            (0.2, "1 s"),
            (59.0, "59 s"),
            (61.0, "2 min"),
            (3700.0, "1 h 1 min"),
            (100_000.0, "1 d 3 h"),
        ] {
            assert_eq!(human_duration(seconds), text);
        }
    }
}
