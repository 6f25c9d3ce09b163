//! Passes each event of a run to the logs, to TensorBoard, to the alarms, and to the terminal.
//!
//! ```text
//!            ┌─▶ metrics, timings, eval .jsonl · samples/          read by resumption and reports
//! event ───▶ │
//! (a step,   ├─▶ alarms ──▶ alarms.jsonl ─┐
//! an eval)   ├─▶ tensorboard/             │                        rebuilt from the logs on resumption
//!            └─▶ progress ◀───────────────┘
//! ```

use super::Progress;
use super::alarms::AlarmMonitor;
use super::tensorboard::TensorboardWriter;
use crate::config::Config;
use crate::data::{Phase, PromptSchedule};
use crate::record::{
    AlarmRecord, AlarmState, EvalRecord, SampleRecord, StepRecord, StepTimings, timestamp,
};
use crate::rollout::Rollout;
use crate::run::TrainError;
use crate::run::folder::{Log, RunFolder, rollouts};

/// Records and shows the events of a run.
#[derive(Debug)]
pub struct Journal {
    pub(in crate::run) progress: Progress,
    /// `None` if `run.alarms` is off, or in supervised fine-tuning.
    monitor: Option<AlarmMonitor>,
    /// `None` until the run begins.
    tensorboard: Option<TensorboardWriter>,
}

impl Journal {
    /// A journal without events.
    pub fn new(progress: Progress) -> Self {
        Self {
            progress,
            monitor: None,
            tensorboard: None,
        }
    }

    /// Begins or resumes with the records of truncated logs: rebuilds the alarms and the TensorBoard file from them.
    pub(in crate::run) fn resume(
        &mut self,
        folder: &RunFolder,
        config: &Config,
        schedule: &PromptSchedule,
        (steps, timings, evals): (&[StepRecord], &[StepTimings], &[EvalRecord]),
    ) -> Result<(), TrainError> {
        self.progress.begin(schedule, evals);
        let mut alarms = Vec::new();
        // A teacher's completions are all correct, and no policy sampled them: no alarm applies.
        if config.run.alarms && config.data.teacher.is_none() {
            let mut monitor = AlarmMonitor::new(&config.algorithm);
            // Before the first update, the samples of the first phase are read again. A damaged log is rebuilt without what it had of them.
            let logged: Vec<AlarmRecord> = folder.read(Log::Alarms).unwrap_or_default();
            let logged = logged.into_iter().filter(|it| it.step == 0);
            alarms.extend(logged.filter(|_| !steps.is_empty()));
            monitor.active.extend(alarms.iter().map(|it| it.alarm));
            alarms.extend(monitor.replay(steps, evals));
            let active: Vec<String> = monitor.active.iter().map(ToString::to_string).collect();
            if !active.is_empty() {
                self.progress.say(&format!(
                    "warning: these alarms are not cleared yet, see alarms.jsonl: {}",
                    active.join(", ")
                ));
            }
            self.monitor = Some(monitor);
        }
        folder.rewrite(Log::Alarms, &alarms)?;
        let writer = TensorboardWriter::replace(folder.tensorboard(), steps, timings, evals)?;
        self.tensorboard = Some(writer);
        Ok(())
    }

    /// The samples of a phase are ready, sampled now or loaded from disk. `rewards` are those that training gives to the judged ones.
    pub(in crate::run) fn sampled(
        &mut self,
        folder: &RunFolder,
        phase: &Phase,
        samples: &Rollout,
        rewards: &[f64],
    ) -> Result<(), TrainError> {
        let groups = samples.groups.iter();
        let records: Vec<SampleRecord> = groups.flat_map(SampleRecord::of_group).collect();
        if phase.index == 0
            && let Some(monitor) = &mut self.monitor
        {
            let alarms = monitor.first_phase(&records, rewards);
            self.report(folder, &alarms)?;
        }
        let (index, updates) = (phase.index, phase.first_update);
        let title = format!("Phase {index}: training samples after {updates} updates");
        rollouts::dump(folder, &format!("phase-{index}"), &title, &records)
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
        if let Some(tensorboard) = &mut self.tensorboard {
            tensorboard.update(record, timings)?;
        }
        self.progress.updated(record);
        let alarms = self.monitor.as_mut().map(|monitor| monitor.update(record));
        self.report(folder, &alarms.unwrap_or_default())
    }

    /// An evaluation is done. Its samples and its line are on disk when this returns.
    pub(in crate::run) fn evaluated(
        &mut self,
        folder: &RunFolder,
        record: &EvalRecord,
        samples: &[SampleRecord],
    ) -> Result<(), TrainError> {
        let step = record.step;
        let title = format!("Evaluation after {step} updates");
        rollouts::dump(folder, &format!("eval-{step}"), &title, samples)?;
        folder.append(Log::Eval, record)?;
        if let Some(tensorboard) = &mut self.tensorboard {
            tensorboard.evaluation(record)?;
        }
        self.progress.evaluated(record);
        let monitor = self.monitor.as_mut();
        let alarms = monitor.map(|monitor| monitor.evaluation(record));
        self.report(folder, &alarms.unwrap_or_default())
    }

    fn report(&self, folder: &RunFolder, alarms: &[AlarmRecord]) -> Result<(), TrainError> {
        for alarm in alarms {
            folder.append(Log::Alarms, alarm)?;
            self.progress.say(&match alarm.state {
                AlarmState::Raised => format!("warning: {alarm}"),
                AlarmState::Cleared => alarm.to_string(),
            });
        }
        Ok(())
    }
}
