//! Applies the rule of `algorithm.auto_h`, [`PhaseSize::after`], to the log of a run. A choice depends on logged updates alone, so a resumed run makes it again.

use super::TrainError;
use super::folder::Log;
use super::train_loop::Run;
use crate::config::Config;
use crate::data::{PhaseSize, PromptSchedule};
use crate::record::StepRecord;

/// The schedule of a run with these updates: those of a log, from the first. Each phase begins where the log has its first update, also after a phase that an old end of
/// the run cut short.
pub(super) fn schedule(config: &Config, tasks: usize, updates: &[StepRecord]) -> PromptSchedule {
    let mut schedule = PromptSchedule::new(config, tasks);
    for (before, update) in updates.iter().enumerate() {
        if update.update == 0 {
            schedule.begin_phase(
                before,
                update.auto_h.map_or(config.algorithm.h, |size| size.h),
            );
        }
    }
    if let Some(last) = updates.last()
        && last.update + 1 == last.phase_updates
    {
        schedule.begin_phase(updates.len(), config.algorithm.h);
    }
    schedule
}

impl Run {
    /// With `algorithm.auto_h`, chooses the size of the phase that begins after the updates so far; nothing in mid-phase.
    pub(super) fn choose_h(&mut self) -> Result<(), TrainError> {
        let algorithm = &self.job.config.algorithm;
        let index = self.schedule.phase_of(self.step);
        if algorithm.auto_h == 0.0 || self.schedule.phase(index).first_update < self.step {
            return Ok(());
        }
        let updates: Vec<StepRecord> = self.job.folder.read(Log::Metrics)?;
        let newest = updates.last().map(|update| update.phase);
        let of_phase = updates.iter().filter(|it| Some(it.phase) == newest);
        let ess: Vec<_> = of_phase.map(|update| update.algo.ess_share()).collect();
        let size = PhaseSize::after(&ess, algorithm.auto_h, algorithm.h);
        self.schedule.begin_phase(self.step, size.h);
        self.phase_size = Some(size);
        let text = format!("phase {}: H = {}", index + 1, size.h);
        self.job.journal.progress.say(&text);
        Ok(())
    }
}
