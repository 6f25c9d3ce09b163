//! Where a run's course is told, once: to the logs, to TensorBoard, to the alarms, and to the person who looks on.
//!
//! ```text
//!            ┌─▶ metrics, timings, eval .jsonl · samples/          what the run is resumed and reported by
//! course ──▶ │
//! (a step,   ├─▶ alarms ──▶ alarms.jsonl ─┐
//! an eval)   ├─▶ tensorboard/ ◀───────────┤                        made of the former; made anew where a run is taken up
//!            └─▶ progress ◀───────────────┘
//! ```

use std::time::{SystemTime, UNIX_EPOCH};

use super::alarms::{AlarmRecord, State, Watch};
use super::board::Board;
use super::draw::Drawn;
use super::record::{EvalRecord, SampleRecord, StepRecord, StepTimings};
use super::{Log, Progress, RunFolder, TrainError, store};
use crate::config::Config;
use crate::data::{Phase, Schedule};
use crate::eval;
use crate::rollout::SampledGroup;

/// Tells a run's course.
#[derive(Debug)]
pub struct Journal {
    /// What a person sees.
    pub(super) progress: Progress,
    /// `None` where `run.alarms` is off.
    watch: Option<Watch>,
    board: Option<Board>,
}

impl Journal {
    /// A journal that nothing was told yet.
    #[must_use]
    pub fn new(progress: Progress) -> Self {
        Self {
            progress,
            watch: None,
            board: None,
        }
    }

    /// Takes up a run whose logs were cut back to `step` updates: what is made of them is made anew. With `redraws`, the rest of the phase under way is drawn again.
    pub(super) fn take_up(
        &mut self,
        folder: &RunFolder,
        config: &Config,
        schedule: &Schedule,
        step: usize,
        redraws: bool,
    ) -> Result<(), TrainError> {
        let steps: Vec<StepRecord> = folder.read(Log::Metrics)?;
        let timings: Vec<StepTimings> = folder.read(Log::Timings)?;
        let evals: Vec<EvalRecord> = folder.read(Log::Eval)?;
        self.progress.begin(config, *schedule, step, &evals);
        let mut alarms = Vec::new();
        // A teacher's completions are all right, and nobody draws them: there is nothing to be alarmed by.
        if config.run.alarms && config.data.teacher.is_none() {
            let mut watch = Watch::new(&config.algorithm.estimator());
            alarms = watch.replay(&steps, &evals);
            self.progress.standing(watch.standing());
            self.watch = Some(watch);
        }
        folder.rewrite(Log::Alarms, &alarms)?;
        let mut board = Board::new(now());
        for timings in &timings {
            board.clock(timings);
        }
        for record in &steps {
            let timings = timings.iter().find(|timings| timings.step == record.step);
            board.update(record, timings);
        }
        let begun = (0..schedule.phases())
            .map(|index| schedule.phase(index))
            .take_while(|phase| phase.first_update < step);
        for phase in begun {
            let done = (step - phase.first_update).min(phase.updates.len());
            // The samples that the run goes on with are told of when they are taken up.
            let told = if done < phase.updates.len() && !redraws {
                store::in_use(folder, &phase, done).unwrap_or(0)
            } else {
                done
            };
            for from in 0..told {
                let path = folder.phase_samples(phase.index, from);
                if path.exists() {
                    let samples = store::read_head(&path, config.algorithm.group_size);
                    board.phase(phase.first_update + from, &samples);
                }
            }
        }
        for eval in &evals {
            let samples = store::read_head(&folder.eval_samples(eval.step), eval.samples);
            board.evaluation(eval, &samples);
        }
        alarms.iter().for_each(|alarm| board.alarm(alarm));
        board.begin(&folder.tensorboard())?;
        self.board = Some(board);
        Ok(())
    }

    /// The samples of a phase are there, drawn now or found on disk.
    pub(super) fn sampled(
        &mut self,
        folder: &RunFolder,
        phase: &Phase,
        drawn: &Drawn,
    ) -> Result<(), TrainError> {
        store::dump_phase(folder, phase, drawn)?;
        if let Some(board) = &mut self.board {
            let samples: Vec<SampleRecord> = head(&drawn.groups);
            board.phase(phase.first_update + drawn.from, &samples);
            board.flush()?;
        }
        Ok(())
    }

    /// An update is done. Its lines stand in the logs when this returns.
    pub(super) fn updated(
        &mut self,
        folder: &RunFolder,
        record: &StepRecord,
        timings: &mut StepTimings,
    ) -> Result<(), TrainError> {
        timings.ended_at = now();
        folder.append(Log::Metrics, record)?;
        folder.append(Log::Timings, timings)?;
        if let Some(board) = &mut self.board {
            board.clock(timings);
            board.update(record, Some(timings));
        }
        self.progress.updated(record);
        let alarms = self.watch.as_mut().map(|watch| watch.update(record));
        self.told(folder, &alarms.unwrap_or_default())
    }

    /// An evaluation is done. Its samples and its line are on disk when this returns.
    pub(super) fn evaluated(
        &mut self,
        folder: &RunFolder,
        record: &EvalRecord,
        samples: &[eval::Record],
    ) -> Result<(), TrainError> {
        store::dump_evaluation(folder, record.step, samples)?;
        folder.append(Log::Eval, record)?;
        if let Some(board) = &mut self.board {
            let samples: Vec<SampleRecord> = samples
                .iter()
                .take(crate::transcript::excerpt_samples(record.samples))
                .map(|record| record.sample.clone())
                .collect();
            board.evaluation(record, &samples);
        }
        self.progress.evaluated(record);
        let alarms = self.watch.as_mut().map(|watch| watch.evaluation(record));
        self.told(folder, &alarms.unwrap_or_default())
    }

    fn told(&mut self, folder: &RunFolder, alarms: &[AlarmRecord]) -> Result<(), TrainError> {
        for alarm in alarms {
            folder.append(Log::Alarms, alarm)?;
            self.progress.say(&match alarm.state {
                State::Raised => format!("warning: {alarm}"),
                State::Cleared => alarm.to_string(),
            });
        }
        match &mut self.board {
            Some(board) => {
                alarms.iter().for_each(|alarm| board.alarm(alarm));
                board.flush()
            }
            None => Ok(()),
        }
    }
}

fn head(groups: &[SampledGroup]) -> Vec<SampleRecord> {
    let size = groups.first().map_or(0, |group| group.samples.len());
    groups
        .iter()
        .flat_map(SampleRecord::of_group)
        .take(crate::transcript::excerpt_samples(size))
        .collect()
}

/// Seconds since 1970.
pub(super) fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
