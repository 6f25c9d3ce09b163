//! The time of a whole run by activity, over all its processes.

use super::clock::raise;
use super::{Activity, ByActivity, ClockRecord, StepTimings};

/// The time of a run, by what it was spent on, and the memory that this needed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunTimes {
    /// Seconds. Their sum is the time of all processes of the run.
    pub seconds: ByActivity<f64>,
    /// The highest resident memory, in bytes.
    pub memory: ByActivity<u64>,
    /// The highest memory of a GPU, in bytes; empty on a CPU.
    pub device_memory: ByActivity<u64>,
}

impl RunTimes {
    /// The times of a run with these lines of `clock.jsonl`. Of updates that a version without a clock made, those that `timings.jsonl` has.
    #[must_use]
    pub fn of(clock: &[ClockRecord], timings: &[StepTimings]) -> Self {
        let mut times = Ledger::of(clock).times();
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
    #[must_use]
    pub fn of_activity(&self, activity: Activity) -> f64 {
        self.seconds.get(&activity).copied().unwrap_or(0.0)
    }

    /// The seconds of all processes.
    #[must_use]
    pub fn wall(&self) -> f64 {
        self.seconds.values().sum()
    }

    /// The seconds of training: without start, evaluations and lost work. The paper's runtimes are such times.
    #[must_use]
    pub fn training(&self) -> f64 {
        let training = self.seconds.iter().filter(|(one, _)| one.is_training());
        training.map(|(_, seconds)| seconds).sum()
    }

    fn add(&mut self, line: &ClockRecord) {
        for (activity, seconds) in &line.seconds {
            *self.seconds.entry(*activity).or_default() += seconds;
        }
        for (activity, bytes) in &line.memory {
            raise(&mut self.memory, *activity, Some(*bytes));
        }
        for (activity, bytes) in &line.device_memory {
            raise(&mut self.device_memory, *activity, Some(*bytes));
        }
    }
}

/// The lines of a clock, in which work that was done again is [`Activity::Lost`], and their totals.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    lines: Vec<ClockRecord>,
    /// The first line of the latest process.
    own: usize,
}

impl Ledger {
    /// The ledger of these lines.
    #[must_use]
    pub fn of(lines: &[ClockRecord]) -> Self {
        let mut ledger = Self::default();
        for line in lines {
            ledger.add(line.clone());
        }
        ledger
    }

    /// Seconds of training until the evaluation after this many updates, without the samples of the phase that follows and the checkpoint of the evaluated weights.
    #[must_use]
    pub fn training_until(&self, updates: usize) -> f64 {
        let counts = |line: &ClockRecord, activity: Activity| {
            let follows = activity.makes_samples() || activity == Activity::Checkpoint;
            let is_before = line.step < updates || !follows;
            line.step <= updates && activity.is_training() && is_before
        };
        let seconds = |line: &ClockRecord| -> f64 {
            let counted = line.seconds.iter().filter(|(one, _)| counts(line, **one));
            counted.map(|(_, seconds)| seconds).sum()
        };
        self.lines.iter().map(seconds).sum()
    }

    /// Adds the next line.
    pub fn add(&mut self, line: ClockRecord) {
        if let Some(began) = line.began {
            self.own = self.lines.len();
            // Samples remain when a process ends, and so does what an interrupted evaluation has; whether they are used shows in a later line.
            self.lose(|earlier, activity| {
                earlier.step > began
                    && !activity.makes_samples()
                    && activity != Activity::Evaluation
            });
        }
        match line.anew {
            // Stored samples of later phases are removed with those of this one.
            Some(Activity::Inference) => {
                self.lose(|earlier, activity| {
                    earlier.step >= line.step && activity.makes_samples()
                });
            }
            Some(Activity::Evaluation) => {
                self.lose(|earlier, activity| {
                    earlier.step == line.step && activity == Activity::Evaluation
                });
            }
            _ => {}
        }
        self.lines.push(line);
    }

    /// The totals.
    #[must_use]
    pub fn times(&self) -> RunTimes {
        let mut times = RunTimes::default();
        self.lines.iter().for_each(|line| times.add(line));
        times
    }

    /// Makes what earlier processes did, as far as `is_lost`, [`Activity::Lost`].
    fn lose(&mut self, is_lost: impl Fn(&ClockRecord, Activity) -> bool) {
        for line in &mut self.lines[..self.own] {
            for activity in Activity::ALL {
                if activity != Activity::Lost
                    && is_lost(line, activity)
                    && let Some(seconds) = line.seconds.remove(&activity)
                {
                    *line.seconds.entry(Activity::Lost).or_default() += seconds;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use Activity::{Checkpoint, Evaluation, Forward, Inference, Lost, Other, Start, Verify};

    fn line(step: usize, seconds: &[(Activity, f64)]) -> ClockRecord {
        ClockRecord {
            step,
            seconds: seconds.iter().copied().collect(),
            ..ClockRecord::default()
        }
    }

    fn began(step: usize) -> ClockRecord {
        ClockRecord {
            began: Some(step),
            ..line(step, &[(Start, 1.0)])
        }
    }

    /// The first line of samples or of an evaluation.
    fn anew(work: Activity, step: usize, seconds: &[(Activity, f64)]) -> ClockRecord {
        ClockRecord {
            anew: Some(work),
            ..line(step, seconds)
        }
    }

    fn seconds(lines: &[ClockRecord]) -> Vec<(Activity, f64)> {
        Ledger::of(lines).times().seconds.into_iter().collect()
    }

    /// A process that samples a phase, evaluates and makes four updates, of which only two are in a checkpoint.
    fn killed() -> Vec<ClockRecord> {
        vec![
            began(0),
            anew(Evaluation, 0, &[(Evaluation, 7.0)]),
            anew(Inference, 0, &[(Inference, 20.0), (Verify, 2.0)]),
            line(1, &[(Forward, 3.0)]),
            line(2, &[(Forward, 3.0)]),
            line(3, &[(Forward, 3.0)]),
            anew(Inference, 3, &[(Inference, 10.0)]),
            line(4, &[(Forward, 3.0), (Other, 0.5)]),
            anew(Evaluation, 4, &[(Evaluation, 6.0)]),
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
        let ledger = Ledger::of(&lines);
        assert_eq!([1, 2].map(|step| ledger.training_until(step)), [23.0, 28.0]);
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
            (Evaluation, 13.0),
            (Lost, 6.5),
        ];
        assert_eq!(seconds(&lines), expected);
        // Until the evaluation after two updates, and after three, of which one was lost. The second phase's samples are for later updates.
        let ledger = Ledger::of(&lines);
        assert_eq!(
            [0, 2, 3, 4].map(|step| ledger.training_until(step)),
            [0.0, 28.0, 28.0, 38.0]
        );
        // Another process loses nothing more.
        lines.push(began(2));
        let times = Ledger::of(&lines).times();
        assert_eq!(times.of_activity(Lost), 6.5);
        assert_eq!((times.training(), times.wall()), (38.0, 60.5));
    }

    #[test]
    fn samples_and_evaluations_that_are_made_anew_are_lost() {
        let mut lines = killed();
        lines.extend([
            began(2),
            line(3, &[(Forward, 3.0)]),
            anew(Inference, 3, &[(Inference, 11.0)]),
            anew(Evaluation, 4, &[(Evaluation, 6.5)]),
            // The rest of the same evaluation.
            line(4, &[(Evaluation, 0.5)]),
        ]);
        let expected = [
            (Start, 2.0),
            (Inference, 31.0),
            (Verify, 2.0),
            (Forward, 9.0),
            (Evaluation, 14.0),
            (Lost, 22.5),
        ];
        assert_eq!(seconds(&lines), expected);
    }

    #[test]
    fn the_highest_memory_counts() {
        let memory = |bytes| ClockRecord {
            memory: [(Forward, bytes)].into(),
            device_memory: [(Forward, 2 * bytes)].into(),
            ..line(1, &[])
        };
        let times = Ledger::of(&[memory(5), memory(9), memory(7)]).times();
        assert_eq!(times.memory, [(Forward, 9)].into());
        assert_eq!(times.device_memory, [(Forward, 18)].into());
    }
}
