//! Passes each event of a run to the logs, to TensorBoard, to the alarms, and to the terminal.
//!
//! ```text
//!            ┌─▶ metrics, timings, eval .jsonl · samples/          read by resumption and reports
//! event ───▶ │
//! (a step,   ├─▶ alarms ──▶ alarms.jsonl ─┐
//! an eval)   ├─▶ tensorboard/ ◀───────────┤                        rebuilt from the logs on resumption
//!            └─▶ progress ◀───────────────┘
//! ```

use super::Progress;
use super::alarms::AlarmMonitor;
use super::tensorboard::TensorboardWriter;
use crate::config::Config;
use crate::data::{Phase, PromptSchedule};
use crate::eval;
use crate::record::{
    AlarmRecord, AlarmState, EvalRecord, SampleRecord, StepRecord, StepTimings, timestamp,
};
use crate::rollout::PhaseSamples;
use crate::run::TrainError;
use crate::run::folder::{Log, RunFolder, rollouts};
use crate::transcript;

/// Records and shows the events of a run.
#[derive(Debug)]
pub struct Journal {
    /// The terminal.
    pub(in crate::run) progress: Progress,
    /// `None` if `run.alarms` is off, or in supervised fine-tuning.
    monitor: Option<AlarmMonitor>,
    tensorboard: TensorboardWriter,
}

impl Journal {
    /// A journal without events.
    #[must_use]
    pub fn new(progress: Progress) -> Self {
        Self {
            progress,
            monitor: None,
            tensorboard: TensorboardWriter::new(timestamp()),
        }
    }

    /// Resumes with logs that are truncated to `step` updates: rebuilds the alarms and the TensorBoard file from them.
    pub(in crate::run) fn resume(
        &mut self,
        folder: &RunFolder,
        config: &Config,
        schedule: &PromptSchedule,
        step: usize,
    ) -> Result<(), TrainError> {
        let steps: Vec<StepRecord> = folder.read(Log::Metrics)?;
        let timings: Vec<StepTimings> = folder.read(Log::Timings)?;
        let evals: Vec<EvalRecord> = folder.read(Log::Eval)?;
        self.progress.begin(schedule, &evals);
        let mut alarms = Vec::new();
        // A teacher's completions are all correct, and no policy sampled them: no alarm applies.
        if config.run.alarms && config.data.teacher.is_none() {
            let mut monitor = AlarmMonitor::new(&config.algorithm.estimator());
            alarms = monitor.replay(&steps, &evals);
            self.progress.active_alarms(monitor.active());
            self.monitor = Some(monitor);
        }
        folder.rewrite(Log::Alarms, &alarms)?;
        let tensorboard = &mut self.tensorboard;
        for timings in &timings {
            tensorboard.set_time(timings);
        }
        for record in &steps {
            let timings = timings.iter().find(|timings| timings.step == record.step);
            tensorboard.update(record, timings);
        }
        // The samples of the phase under way are added when the loop loads them.
        let phases = (0..schedule.phases_begun(step)).map(|index| schedule.phase(index));
        for phase in phases.filter(|phase| phase.end() <= step) {
            let path = folder.phase_samples(phase.index);
            if path.exists() {
                let samples = rollouts::read_head(&path);
                tensorboard.phase(phase.first_update, &samples);
            }
        }
        for eval in &evals {
            let samples = rollouts::read_head(&folder.eval_samples(eval.step));
            tensorboard.evaluation(eval, &samples);
        }
        alarms.iter().for_each(|alarm| tensorboard.alarm(alarm));
        tensorboard.begin(&folder.tensorboard())
    }

    /// The samples of a phase are ready, sampled now or loaded from disk.
    pub(in crate::run) fn sampled(
        &mut self,
        folder: &RunFolder,
        phase: &Phase,
        samples: &PhaseSamples,
    ) -> Result<(), TrainError> {
        rollouts::dump_phase(folder, phase, samples)?;
        let groups = samples.groups.iter();
        let records: Vec<SampleRecord> = groups.flat_map(SampleRecord::of_group).collect();
        if phase.index == 0 {
            let settings = ("`data.template`", "`sampling.max_tokens`");
            if let Some(hint) = eval::Verdicts::hint(&records.iter(), settings) {
                self.progress
                    .say(&format!("warning: in the first phase, {hint}"));
            }
        }
        let excerpt = &records[..records.len().min(transcript::EXCERPT)];
        self.tensorboard.phase(phase.first_update, excerpt);
        self.tensorboard.flush()
    }

    /// An update is done. Its lines are in the logs when this returns.
    pub(in crate::run) fn updated(
        &mut self,
        folder: &RunFolder,
        record: &StepRecord,
        timings: &mut StepTimings,
    ) -> Result<(), TrainError> {
        timings.ended_at = timestamp();
        folder.append(Log::Metrics, record)?;
        folder.append(Log::Timings, timings)?;
        self.tensorboard.set_time(timings);
        self.tensorboard.update(record, Some(timings));
        self.progress.updated(record);
        let alarms = self.monitor.as_mut().map(|monitor| monitor.update(record));
        self.report(folder, &alarms.unwrap_or_default())
    }

    /// An evaluation is done. Its samples and its line are on disk when this returns.
    pub(in crate::run) fn evaluated(
        &mut self,
        folder: &RunFolder,
        record: &EvalRecord,
        samples: &[eval::Record],
    ) -> Result<(), TrainError> {
        rollouts::dump_evaluation(folder, record.step, samples)?;
        folder.append(Log::Eval, record)?;
        let excerpt = samples
            .iter()
            .take(transcript::EXCERPT)
            .map(|record| record.sample.clone());
        self.tensorboard
            .evaluation(record, &excerpt.collect::<Vec<_>>());
        self.progress.evaluated(record);
        let alarms = self
            .monitor
            .as_mut()
            .map(|monitor| monitor.evaluation(record));
        self.report(folder, &alarms.unwrap_or_default())
    }

    fn report(&mut self, folder: &RunFolder, alarms: &[AlarmRecord]) -> Result<(), TrainError> {
        for alarm in alarms {
            folder.append(Log::Alarms, alarm)?;
            self.progress.say(&match alarm.state {
                AlarmState::Raised => format!("warning: {alarm}"),
                AlarmState::Cleared => alarm.to_string(),
            });
        }
        for alarm in alarms {
            self.tensorboard.alarm(alarm);
        }
        self.tensorboard.flush()
    }
}
