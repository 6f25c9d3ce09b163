//! The time of a whole run by activity, over all its processes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Activity, ClockRecord, StepTimings};

/// A number for each activity that occurred.
pub type ByActivity<T> = BTreeMap<Activity, T>;

/// The highest memory of an interval, in bytes; `None` where it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Peak {
    /// Resident memory of the process.
    pub resident: Option<u64>,
    /// Memory of a GPU.
    pub device: Option<u64>,
}

/// The time of a run, or of a part of it, by what it was spent on, and the memory that this needed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunTimes {
    /// Seconds. Their sum is the time of all processes of the run.
    pub seconds: ByActivity<f64>,
    /// The highest resident memory of a process, in bytes; absent where the system does not report it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memory: ByActivity<u64>,
    /// The highest number of bytes of a GPU's memory that the policy's buffers took, and the reference's if it has weights of its own; absent on a CPU.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub device_memory: ByActivity<u64>,
}

impl RunTimes {
    /// The times of a run with these lines of `clock.jsonl`. For updates of a version without a clock, they are those of `timings.jsonl`.
    pub fn of(clock: &[ClockRecord], timings: &[StepTimings]) -> Self {
        let mut times = Self::default();
        without_lost(clock)
            .iter()
            .for_each(|line| times.add(&line.times));
        let is_timed = |step: usize| clock.first().is_some_and(|it| step > it.began.unwrap_or(0));
        for step in timings.iter().filter(|timing| !is_timed(timing.step)) {
            for (activity, seconds) in [
                (Activity::Inference, step.inference),
                (Activity::Verify, step.verify),
                (Activity::Forward, step.forward),
                (Activity::Backward, step.backward),
                (Activity::Optimiser, step.optimiser),
            ] {
                *times.seconds.entry(activity).or_default() += seconds;
            }
        }
        times
    }

    /// The seconds of an activity.
    pub fn of_activity(&self, activity: Activity) -> f64 {
        self.seconds.get(&activity).copied().unwrap_or(0.0)
    }

    /// The seconds of all processes.
    pub fn wall(&self) -> f64 {
        self.seconds.values().sum()
    }

    /// The seconds of training: without start, evaluations and lost work. The paper's runtimes are such times.
    pub fn training(&self) -> f64 {
        let training = self.seconds.iter().filter(|(one, _)| one.is_training());
        training.map(|(_, seconds)| seconds).sum()
    }

    /// Adds the times of a later part of the run.
    pub fn add(&mut self, part: &Self) {
        for (activity, seconds) in &part.seconds {
            *self.seconds.entry(*activity).or_default() += seconds;
        }
        for (highest, peaks) in [
            (&mut self.memory, &part.memory),
            (&mut self.device_memory, &part.device_memory),
        ] {
            for (activity, bytes) in peaks {
                let highest = highest.entry(*activity).or_default();
                *highest = (*highest).max(*bytes);
            }
        }
    }

    /// Adds an interval in an activity.
    pub fn add_interval(&mut self, activity: Activity, seconds: f64, peak: Peak) {
        let known = |bytes: Option<u64>| bytes.map(|bytes| (activity, bytes)).into_iter().collect();
        self.add(&Self {
            seconds: [(activity, seconds)].into(),
            memory: known(peak.resident),
            device_memory: known(peak.device),
        });
    }
}

/// Seconds of training until the evaluation after this many updates, without the samples of the phase that follows and the checkpoint of the evaluated weights.
pub fn training_until(clock: &[ClockRecord], updates: usize) -> f64 {
    let counts = |line: &ClockRecord, activity: Activity| {
        let follows = activity.makes_samples() || activity == Activity::Checkpoint;
        let is_before = line.step < updates || !follows;
        line.step <= updates && activity.is_training() && is_before
    };
    let seconds = |line: &ClockRecord| -> f64 {
        let all = line.times.seconds.iter();
        let counted = all.filter(|(one, _)| counts(line, **one));
        counted.map(|(_, seconds)| seconds).sum()
    };
    without_lost(clock).iter().map(seconds).sum()
}

/// The lines of a clock, with work that a later process did again as [`Activity::Lost`]. That is all that was done after the checkpoint it began with, except
/// samples: they remain when a process ends.
fn without_lost(lines: &[ClockRecord]) -> Vec<ClockRecord> {
    let mut all: Vec<ClockRecord> = Vec::new();
    for line in lines {
        let began = line.began.unwrap_or(usize::MAX);
        for earlier in all.iter_mut().filter(|earlier| earlier.step > began) {
            let is_kept = |activity: &Activity| activity.makes_samples();
            let seconds = &mut earlier.times.seconds;
            let lost = seconds.iter().filter(|(one, _)| !is_kept(one));
            let lost: f64 = lost.map(|(_, seconds)| seconds).sum();
            seconds.retain(|one, _| is_kept(one));
            if lost > 0.0 {
                seconds.insert(Activity::Lost, lost);
            }
        }
        all.push(line.clone());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    use Activity::{Checkpoint, Evaluation, Forward, Inference, Lost, Other, Start, Verify};

    fn line(step: usize, seconds: &[(Activity, f64)]) -> ClockRecord {
        ClockRecord {
            step,
            times: RunTimes {
                seconds: seconds.iter().copied().collect(),
                ..RunTimes::default()
            },
            ..ClockRecord::default()
        }
    }

    fn began(step: usize) -> ClockRecord {
        ClockRecord {
            began: Some(step),
            ..line(step, &[(Start, 1.0)])
        }
    }

    fn seconds(lines: &[ClockRecord]) -> Vec<(Activity, f64)> {
        RunTimes::of(lines, &[]).seconds.into_iter().collect()
    }

    /// A process that samples a phase, evaluates and makes four updates. Only two of them are in a checkpoint.
    fn killed() -> Vec<ClockRecord> {
        vec![
            began(0),
            line(0, &[(Evaluation, 7.0)]),
            line(0, &[(Inference, 20.0), (Verify, 2.0)]),
            line(1, &[(Forward, 3.0)]),
            line(2, &[(Forward, 3.0)]),
            line(3, &[(Forward, 3.0)]),
            line(3, &[(Inference, 10.0)]),
            line(4, &[(Forward, 3.0), (Other, 0.5)]),
            line(4, &[(Evaluation, 6.0)]),
        ]
    }

    #[test]
    fn the_checkpoint_of_an_evaluation_is_after_it() {
        let lines = [
            began(0),
            line(0, &[(Inference, 20.0)]),
            line(1, &[(Forward, 3.0)]),
            line(1, &[(Evaluation, 7.0), (Checkpoint, 2.0)]),
            line(2, &[(Forward, 3.0)]),
        ];
        let until = [1, 2].map(|step| training_until(&lines, step));
        assert_eq!(until, [23.0, 28.0]);
    }

    #[test]
    fn updates_that_no_checkpoint_has_are_lost_and_the_samples_are_not() {
        let mut lines = killed();
        lines.push(began(2));
        let expected = [
            (Start, 2.0),
            (Inference, 30.0),
            (Verify, 2.0),
            (Forward, 6.0),
            (Evaluation, 7.0),
            (Lost, 12.5),
        ];
        assert_eq!(seconds(&lines), expected);
        // Until the evaluation after two updates, and after three. One of these was lost. The second phase's samples are for later updates.
        let until = [0, 2, 3, 4].map(|step| training_until(&lines, step));
        assert_eq!(until, [0.0, 28.0, 28.0, 38.0]);
        // Another process loses nothing more.
        lines.push(began(2));
        let times = RunTimes::of(&lines, &[]);
        assert_eq!(times.of_activity(Lost), 12.5);
        assert_eq!((times.training(), times.wall()), (38.0, 60.5));
    }

    #[test]
    fn the_highest_memory_counts_also_that_of_lost_work() {
        let memory = |bytes| {
            let mut line = line(1, &[(Forward, 1.0)]);
            line.times.memory = [(Forward, bytes)].into();
            line.times.device_memory = [(Forward, 2 * bytes)].into();
            line
        };
        let times = RunTimes::of(&[memory(5), memory(9), began(0), memory(7)], &[]);
        assert_eq!(times.of_activity(Lost), 2.0);
        assert_eq!(times.memory, [(Forward, 9)].into());
        assert_eq!(times.device_memory, [(Forward, 18)].into());
    }

    #[test]
    fn a_line_with_a_key_of_an_earlier_version_is_read() {
        let text =
            r#"{"step":3,"anew":"inference","seconds":{"inference":2.5},"memory":{"inference":7}}"#;
        let mut expected = line(3, &[(Inference, 2.5)]);
        expected.times.memory = [(Inference, 7)].into();
        assert_eq!(serde_json::from_str::<ClockRecord>(text).unwrap(), expected);
    }
}
