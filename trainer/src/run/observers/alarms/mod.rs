//! Alarms: signs in a run's numbers that it is going wrong, told to a person while there is time to act.
//!
//! A pure function of the recipe and of the lines of `metrics.jsonl` and `eval.jsonl`, in their order: a run that is continued has its alarms again by reading
//! those lines, and no state of their own is kept. Each alarm is told once when it begins and once when it is over; between the two limits
//! nothing changes, so that a number at a limit does not ring again and again. [`rules`] has the limits, with their reasons.
//!
//! An alarm changes nothing in the run: what it means is for a person to judge.

mod held_out;
mod rules;
mod window;

use std::collections::BTreeSet;

use crate::algo::Estimator;
use crate::record::{Alarm, AlarmRecord, AlarmState, EvalRecord, StepRecord};
use held_out::HeldOut;
use window::Window;

/// What a rule finds.
#[derive(Debug, Clone, PartialEq)]
struct Finding {
    alarm: Alarm,
    /// Beyond the limit.
    rings: bool,
    /// Well within it again.
    quiet: bool,
    /// The numbers.
    numbers: String,
    /// What to do; told with an alarm that begins.
    remedy: String,
}

/// Looks on, and says what begins and what is over.
#[derive(Debug, Default)]
pub struct AlarmMonitor {
    window: Window,
    held_out: HeldOut,
    standing: BTreeSet<Alarm>,
    /// Whether a group teaches something even if all of its completions are right, or all are wrong.
    each_by_itself: bool,
}

impl AlarmMonitor {
    /// Over a run whose gradients are made so.
    #[must_use]
    pub fn new(estimator: &Estimator) -> Self {
        Self {
            each_by_itself: !estimator.compares_within_groups(),
            ..Self::default()
        }
    }

    /// After an update.
    pub fn update(&mut self, record: &StepRecord) -> Vec<AlarmRecord> {
        self.window.add(record);
        let findings = rules::all(&self.window, record.phase, self.each_by_itself);
        self.told(record.step, findings)
    }

    /// After an evaluation.
    pub fn evaluation(&mut self, record: &EvalRecord) -> Vec<AlarmRecord> {
        let findings = self.held_out.findings(record, &self.window);
        self.told(record.step, findings)
    }

    /// Every alarm of a run's lines.
    pub fn replay(&mut self, steps: &[StepRecord], evals: &[EvalRecord]) -> Vec<AlarmRecord> {
        let mut alarms = Vec::new();
        let mut evals = evals.iter().peekable();
        for step in steps {
            // An evaluation comes after the update of its number, before the next.
            while let Some(eval) = evals.next_if(|eval| eval.step < step.step) {
                alarms.extend(self.evaluation(eval));
            }
            alarms.extend(self.update(step));
        }
        alarms.extend(
            evals
                .flat_map(|eval| self.evaluation(eval))
                .collect::<Vec<_>>(),
        );
        alarms
    }

    /// Alarms that have begun and are not over.
    pub fn standing(&self) -> impl Iterator<Item = Alarm> + '_ {
        self.standing.iter().copied()
    }

    fn told(&mut self, step: usize, findings: Vec<Finding>) -> Vec<AlarmRecord> {
        findings
            .into_iter()
            .filter_map(|finding| {
                let (state, text) = if finding.rings && self.standing.insert(finding.alarm) {
                    let text = format!("{}. {}", finding.numbers, finding.remedy);
                    (AlarmState::Raised, text)
                } else if finding.quiet && self.standing.remove(&finding.alarm) {
                    (AlarmState::Cleared, finding.numbers)
                } else {
                    return None;
                };
                Some(AlarmRecord {
                    step,
                    alarm: finding.alarm,
                    state,
                    text,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
