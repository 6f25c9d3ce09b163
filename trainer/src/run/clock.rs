//! The clock of a process: it is always in exactly one activity, so no second is left out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::MemoryMeter;

use super::TrainError;
use super::folder::{Log, RunFolder};
use crate::record::{Activity, ClockRecord, Ledger, Peak, RunTimes};
use crate::resident_memory;

/// How much time a process that is killed while it samples may leave without a line.
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
    /// Those of the GPU's memory; none on a CPU.
    meters: Vec<MemoryMeter>,
    /// The lines before, those of earlier processes included.
    ledger: Ledger,
}

impl Clock {
    /// Starts in [`Activity::Start`].
    #[must_use]
    pub fn start() -> Self {
        let now = Instant::now();
        resident_memory::reset_peak();
        Self(Arc::new(Mutex::new(State {
            activity: Activity::Start,
            since: now,
            line: ClockRecord::default(),
            saved: now,
            meters: Vec::new(),
            ledger: Ledger::default(),
        })))
    }

    /// Reads these meters of a GPU's memory too. A model and its base have the same.
    pub(super) fn watch(&self, meters: impl Iterator<Item = MemoryMeter>) {
        let mut state = self.state();
        for meter in meters {
            if !state.meters.iter().any(|known| known.is_same(&meter)) {
                state.meters.push(meter);
            }
        }
    }

    /// Continues the lines of earlier processes, from a checkpoint of `step` updates.
    pub(super) fn resume(&self, earlier: &[ClockRecord], step: usize) {
        let mut state = self.state();
        state.ledger = Ledger::of(earlier);
        state.line.began = Some(step);
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

    /// Renames the activity under way, for which the name was not known when it began.
    pub(super) fn rename(&self, activity: Activity) {
        self.state().activity = activity;
    }

    /// Ends the activity under way and continues it. Its last `part` was another activity, which needed the same memory at most.
    pub(super) fn split(&self, activity: Activity, part: Duration) {
        let mut state = self.state();
        let whole = state.activity;
        let (elapsed, peak) = state.close();
        let part = part.min(elapsed).as_secs_f64();
        *state.line.seconds.entry(whole).or_default() -= part;
        *state.line.seconds.entry(activity).or_default() += part;
        state.line.add_peak(activity, peak);
    }

    /// Notes that samples ([`Activity::Inference`]) or an evaluation are made without anything of an earlier process.
    pub(super) fn anew(&self, work: Activity) {
        self.state().line.anew = Some(work);
    }

    /// Writes a line with the time since the last one, and returns the times so far. After an error the next line has this time too.
    pub(super) fn save(&self, folder: &RunFolder, step: usize) -> Result<RunTimes, TrainError> {
        let mut state = self.state();
        state.close();
        state.line.step = step;
        folder.append(Log::Clock, &state.line)?;
        let line = std::mem::take(&mut state.line);
        state.ledger.add(line);
        state.saved = Instant::now();
        Ok(state.ledger.times.clone())
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
        *self.line.seconds.entry(self.activity).or_default() += elapsed.as_secs_f64();
        self.line.add_peak(self.activity, peak);
        (elapsed, peak)
    }
}
