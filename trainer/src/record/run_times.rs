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
    /// The times of a run with these lines of `clock.jsonl` and `timings.jsonl`. The latter count up to where the former begin: in the folder of a version without a
    /// clock, they have all that is known.
    #[must_use]
    pub fn of(clock: &[ClockRecord], timings: &[StepTimings]) -> Self {
        let clocked_from = match clock.first() {
            Some(line) => line.began.unwrap_or(0),
            None => usize::MAX,
        };
        let before: Vec<&StepTimings> = timings
            .iter()
            .filter(|line| line.step <= clocked_from)
            .collect();
        let mut times = Ledger::of(clock).times;
        for (activity, seconds) in without_clock(&before) {
            *times.seconds.entry(activity).or_default() += seconds;
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
        self.sum(Activity::is_training)
    }

    /// The seconds of training without sampling: what updates cost, with all that is done for them.
    #[must_use]
    pub fn updating(&self) -> f64 {
        self.sum(|activity| {
            activity.is_training() && !matches!(activity, Activity::Inference | Activity::Verify)
        })
    }

    fn sum(&self, counts: impl Fn(Activity) -> bool) -> f64 {
        let counted = self
            .seconds
            .iter()
            .filter(|(activity, _)| counts(**activity));
        counted.map(|(_, seconds)| seconds).sum()
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
    /// The totals.
    pub times: RunTimes,
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
        self.times.add(&line);
        self.lines.push(line);
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
        self.times = RunTimes::default();
        for line in &self.lines {
            self.times.add(line);
        }
    }
}

/// Starts within this number of seconds of each other are the same start, since clocks are adjusted.
const SAME_START: f64 = 5.0;

/// The seconds of updates without a clock: what was measured of each, and the rest of each process's time as [`Activity::Other`], evaluations included.
fn without_clock(timings: &[&StepTimings]) -> ByActivity<f64> {
    let mut totals = ByActivity::new();
    for process in timings.chunk_by(|before, after| same_process(before, after)) {
        let mut measured = 0.0;
        for step in process {
            let parts = [
                (Activity::Inference, step.inference),
                (Activity::Verify, step.verify),
                (Activity::Forward, step.forward),
                (Activity::Backward, step.backward),
                (Activity::Optimiser, step.optimiser),
            ];
            for (activity, seconds) in parts {
                *totals.entry(activity).or_default() += seconds;
                measured += seconds;
            }
        }
        // A phase that was partly sampled before the run was resumed counts in full, so the parts may exceed the process's time.
        let all = process.last().map_or(0.0, |step| step.elapsed);
        *totals.entry(Activity::Other).or_default() += (all - measured).max(0.0);
    }
    totals
}

/// Whether two updates are of the same process, without a resumption between them: `elapsed` counts from the start of a process.
fn same_process(before: &StepTimings, after: &StepTimings) -> bool {
    let start = |step: &StepTimings| step.ended_at - step.elapsed;
    let has_dates = before.ended_at > 0.0 && after.ended_at > 0.0;
    before.elapsed <= after.elapsed
        && !(has_dates && (start(before) - start(after)).abs() > SAME_START)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ..line(step, &[(Activity::Start, 1.0)])
        }
    }

    fn seconds(lines: &[ClockRecord]) -> Vec<(Activity, f64)> {
        RunTimes::of(lines, &[]).seconds.into_iter().collect()
    }

    use Activity::{
        Backward, Checkpoint, Evaluation, Forward, Inference, Lost, Other, Start, Verify,
    };

    /// A process that samples a phase, evaluates and makes four updates, of which only two are in a checkpoint.
    fn killed() -> Vec<ClockRecord> {
        vec![
            began(0),
            ClockRecord {
                anew: Some(Evaluation),
                ..line(0, &[(Evaluation, 7.0)])
            },
            ClockRecord {
                anew: Some(Inference),
                ..line(0, &[(Inference, 20.0), (Verify, 2.0)])
            },
            line(1, &[(Forward, 3.0)]),
            line(2, &[(Forward, 3.0)]),
            line(3, &[(Forward, 3.0)]),
            ClockRecord {
                anew: Some(Inference),
                ..line(3, &[(Inference, 10.0)])
            },
            line(4, &[(Forward, 3.0), (Other, 0.5)]),
            ClockRecord {
                anew: Some(Evaluation),
                ..line(4, &[(Evaluation, 6.0)])
            },
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
        assert_eq!(seconds(&lines)[5], (Lost, 6.5));
        let times = RunTimes::of(&lines, &[]);
        assert_eq!((times.training(), times.updating()), (38.0, 6.0));
        assert_eq!(times.wall(), 60.5);
    }

    #[test]
    fn samples_and_evaluations_that_are_made_anew_are_lost() {
        let mut lines = killed();
        lines.extend([
            began(2),
            line(3, &[(Forward, 3.0)]),
            ClockRecord {
                anew: Some(Inference),
                ..line(3, &[(Inference, 11.0)])
            },
            ClockRecord {
                anew: Some(Evaluation),
                ..line(4, &[(Evaluation, 6.5)])
            },
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
        let times = RunTimes::of(&[memory(5), memory(9), memory(7)], &[]);
        assert_eq!(times.memory, [(Forward, 9)].into());
        assert_eq!(times.device_memory, [(Forward, 18)].into());
    }

    #[test]
    fn names_are_those_of_the_file() {
        for activity in Activity::ALL {
            let written = serde_json::to_value(activity).unwrap();
            assert_eq!(written, activity.name());
        }
    }

    fn step(elapsed: f64, ended_at: f64) -> StepTimings {
        StepTimings {
            inference: 10.0,
            verify: 1.0,
            forward: 2.0,
            backward: 4.0,
            optimiser: 1.0,
            elapsed,
            ended_at,
            ..StepTimings::default()
        }
    }

    fn unclocked(timings: &[StepTimings]) -> RunTimes {
        RunTimes::of(&[], timings)
    }

    #[test]
    fn without_a_clock_the_parts_add_up_to_the_elapsed_time() {
        let times = unclocked(&[step(30.0, 0.0), step(60.0, 0.0)]);
        let seconds: Vec<f64> = times.seconds.values().copied().collect();
        assert_eq!(seconds, [20.0, 2.0, 4.0, 8.0, 2.0, 24.0]);
        assert_eq!(times.wall(), 60.0);
    }

    #[test]
    fn without_a_clock_each_process_of_a_resumed_run_counts() {
        // A new process is recognised by a shorter elapsed time, and by a later start.
        assert_eq!(unclocked(&[step(60.0, 0.0), step(30.0, 0.0)]).wall(), 90.0);
        let later = [step(30.0, 1_030.0), step(60.0, 5_060.0)];
        assert_eq!(unclocked(&later).wall(), 90.0);
        // An adjusted clock is not a resumption.
        let adjusted = [step(30.0, 1_030.0), step(60.0, 1_061.0)];
        assert_eq!(unclocked(&adjusted).wall(), 60.0);
    }

    #[test]
    fn without_a_clock_a_phase_sampled_by_an_earlier_process_does_not_reduce_the_rest() {
        let times = unclocked(&[step(12.0, 0.0)]);
        assert_eq!((times.of_activity(Other), times.wall()), (0.0, 18.0));
    }

    #[test]
    fn a_clock_that_began_in_mid_run_continues_the_times_without_one() {
        let timing = |number| StepTimings {
            step: number,
            ..step(30.0 * number as f64, 0.0)
        };
        let clock = [began(2), line(3, &[(Forward, 5.0), (Backward, 9.0)])];
        let times = RunTimes::of(&clock, &[timing(1), timing(2), timing(3)]);
        assert_eq!(times.wall(), 60.0 + 15.0);
        assert_eq!(times.of_activity(Forward), 9.0);
    }
}
