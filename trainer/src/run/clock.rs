//! The clock of a process: it is always in exactly one activity, so no second is left out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::MemoryMeter;

use super::TrainError;
use super::folder::{Log, RunFolder};
use crate::record::{Activity, ClockRecord, Peak, RunTimes};
use crate::resident_memory;

/// How much time may be left without a line if a process is killed while it samples.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// Measures what a process spends its time on. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    activity: Activity,
    /// When the interval under way began.
    since: Instant,
    /// The next line, without the interval under way.
    line: ClockRecord,
    saved: Instant,
    /// The meters of the GPU's memory; none on a CPU.
    meters: Vec<MemoryMeter>,
    /// The times of the lines before, those of earlier processes included.
    times: RunTimes,
}

impl Clock {
    /// Starts in [`Activity::Start`].
    pub fn start() -> Self {
        let now = Instant::now();
        resident_memory::reset_peak();
        Self(Arc::new(Mutex::new(State {
            activity: Activity::Start,
            since: now,
            line: ClockRecord::default(),
            saved: now,
            meters: Vec::new(),
            times: RunTimes::default(),
        })))
    }

    /// Reads the meters of a GPU's memory. A model and its base have the same one, which is read once.
    pub(super) fn watch(&self, meters: impl Iterator<Item = MemoryMeter>) {
        let mut state = self.state();
        for meter in meters {
            if !state.meters.iter().any(|known| known.is_same(&meter)) {
                state.meters.push(meter);
            }
        }
    }

    /// Continues the lines of earlier processes, from a checkpoint of `step` updates.
    pub(super) fn resume(&self, mut earlier: Vec<ClockRecord>, step: usize) {
        let mut state = self.state();
        state.line.began = Some(step);
        // What this process does again is lost.
        earlier.push(ClockRecord {
            began: Some(step),
            ..ClockRecord::default()
        });
        state.times = RunTimes::of(&earlier, &[]);
    }

    /// Ends the activity under way, which is returned, and begins another.
    pub(super) fn enter(&self, activity: Activity) -> Activity {
        let mut state = self.state();
        if state.activity == activity {
            return activity;
        }
        state.close();
        std::mem::replace(&mut state.activity, activity)
    }

    /// Ends the activity under way and continues it. Parts of it were other activities, which needed the same memory at most. Parts without time are left out.
    pub(super) fn split(&self, parts: &[(Activity, Duration)]) {
        let mut state = self.state();
        let whole = state.activity;
        let (mut left, peak) = state.close();
        for (activity, part) in parts.iter().filter(|(_, part)| !part.is_zero()) {
            let part = left.min(*part);
            left -= part;
            let seconds = part.as_secs_f64();
            state.line.times.add_interval(whole, -seconds, peak);
            state.line.times.add_interval(*activity, seconds, peak);
        }
    }

    /// Writes a line with the time since the last one, and returns the times so far. After an error the next line has this time too.
    pub(super) fn save(&self, folder: &RunFolder, step: usize) -> Result<RunTimes, TrainError> {
        let mut state = self.state();
        state.close();
        state.line.step = step;
        folder.append(Log::Clock, &state.line)?;
        let line = std::mem::take(&mut state.line);
        state.times.add(&line.times);
        state.saved = Instant::now();
        Ok(state.times.clone())
    }

    /// Writes a line if the last one is old.
    pub(super) fn save_if_due(&self, folder: &RunFolder, step: usize) {
        let due = self.state().saved.elapsed() > SAVE_EVERY;
        if due {
            // An error is reported by the line that ends the work under way, if it persists.
            let _ = self.save(folder, step);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds the interval under way to the next line and begins another in the same activity. Returns its time and its highest memory.
    fn close(&mut self) -> (Duration, Peak) {
        let device = self.meters.iter().map(MemoryMeter::take_peak);
        let peak = Peak {
            resident: resident_memory::peak(),
            device: (!self.meters.is_empty()).then(|| device.sum()),
        };
        resident_memory::reset_peak();
        let now = Instant::now();
        let elapsed = now.duration_since(self.since);
        self.since = now;
        let (activity, seconds) = (self.activity, elapsed.as_secs_f64());
        self.line.times.add_interval(activity, seconds, peak);
        (elapsed, peak)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::folder::read_log;

    fn written(folder: &RunFolder) -> Vec<ClockRecord> {
        read_log(folder.root(), Log::Clock).unwrap()
    }

    #[test]
    fn a_line_written_during_long_work_has_what_a_failed_one_has() {
        let home = tempfile::tempdir().unwrap();
        let folder = RunFolder::claim(&home.path().join("run")).unwrap();
        let clock = Clock::start();
        clock.enter(Activity::Inference);
        clock.save_if_due(&folder, 0);
        assert_eq!(written(&folder), []);

        let log = folder.root().join("clock.jsonl");
        std::os::unix::fs::symlink("/dev/full", &log).unwrap();
        let error = clock.save(&folder, 0).unwrap_err().to_string();
        assert!(error.contains("clock.jsonl"), "{error}");
        std::fs::remove_file(&log).unwrap();

        clock.state().saved -= SAVE_EVERY;
        clock.save_if_due(&folder, 0);
        let lines = written(&folder);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].times.seconds[&Activity::Start] > 0.0);
        clock.save_if_due(&folder, 0);
        assert_eq!(written(&folder).len(), 1);
    }

    #[test]
    fn a_part_of_an_interval_is_at_most_the_whole_and_a_meter_is_read_once() {
        let began = Instant::now();
        let clock = Clock::start();
        let meter = MemoryMeter::default();
        clock.watch([meter.clone(), meter, MemoryMeter::default()].into_iter());
        assert_eq!(clock.state().meters.len(), 2);
        assert_eq!(clock.enter(Activity::Forward), Activity::Start);
        assert_eq!(clock.state().line.times.device_memory[&Activity::Start], 0);
        clock.split(&[
            (Activity::Optimiser, Duration::from_secs(9)),
            (Activity::Exchange, Duration::ZERO),
        ]);
        let times = clock.state().line.times.clone();
        assert!(!times.seconds.contains_key(&Activity::Exchange));
        assert!(times.wall() <= began.elapsed().as_secs_f64());
        assert!(times.seconds.values().all(|seconds| *seconds >= 0.0));
    }
}
