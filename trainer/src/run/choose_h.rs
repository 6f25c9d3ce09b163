//! Chooses the size of each inference phase (`algorithm.auto_h`). A choice depends on logged updates alone, so a resumed run makes it again.

use datasets::passk::percent;

use super::train_loop::Run;
use crate::algo::{PhaseSize, SizeReason};
use crate::config::Config;
use crate::data::PromptSchedule;
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

/// How the effective sample size falls in the newest phase.
#[derive(Debug, Default)]
pub(super) struct EssOfPhase {
    phase: usize,
    /// By staleness: the fraction of the completions, or `None` if none has a verdict.
    ess: Vec<Option<f64>>,
}

impl EssOfPhase {
    /// That of the last of these updates.
    pub(super) fn of(updates: &[StepRecord]) -> Self {
        let mut phase = Self::default();
        updates.iter().for_each(|update| phase.add(update));
        phase
    }

    pub(super) fn add(&mut self, update: &StepRecord) {
        if update.phase != self.phase {
            self.phase = update.phase;
            self.ess.clear();
        }
        let judged = update.algo.judged;
        let ess = (judged > 0).then(|| update.algo.ess / judged as f64);
        self.ess.push(ess);
    }
}

impl Run {
    /// With `algorithm.auto_h`, chooses the size of the phase that begins after the updates so far; nothing in mid-phase.
    pub(super) fn choose_h(&mut self) {
        let algorithm = &self.job.config.algorithm;
        let index = self.schedule.phase_of(self.step);
        if algorithm.auto_h == 0.0 || self.schedule.phase(index).first_update < self.step {
            return;
        }
        let size = PhaseSize::after(&self.ess_of_phase.ess, algorithm.auto_h, algorithm.h);
        let text = text(&size, algorithm.auto_h);
        self.schedule.begin_phase(self.step, size.h);
        self.phase_size = Some(size);
        let number = index + 1;
        self.job
            .journal
            .progress
            .say(&format!("phase {number}: {text}"));
    }
}

/// The choice in words.
fn text(size: &PhaseSize, target: f64) -> String {
    let h = size.h;
    let reason = match size.reason {
        SizeReason::First => "nothing is measured yet",
        SizeReason::Lifetime => "as measured",
        SizeReason::Growth => "twice the last phase",
        SizeReason::Max => "the maximum (`algorithm.h`)",
    };
    let measured = size.lifetime.map(|lifetime| {
        let target = percent(target);
        format!("; the effective sample size falls to {target} in {lifetime:.1} updates")
    });
    format!("H = {h}, {reason}{}", measured.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_in_words_has_its_reason_and_what_was_measured() {
        let measured = "; the effective sample size falls to 50.0% in 7.2 updates";
        for (reason, lifetime, text) in [
            (
                SizeReason::Lifetime,
                Some(7.21),
                format!("as measured{measured}"),
            ),
            (
                SizeReason::Growth,
                Some(7.21),
                format!("twice the last phase{measured}"),
            ),
            (
                SizeReason::First,
                None,
                "nothing is measured yet".to_owned(),
            ),
        ] {
            let size = PhaseSize {
                h: 8,
                reason,
                lifetime,
            };
            assert_eq!(super::text(&size, 0.5), format!("H = 8, {text}"));
        }
    }
}
