//! Alarms: signs in a run's numbers that it is going wrong, reported while there is time to act.
//!
//! Alarms are a pure function of the recipe, of the samples of the first phase, and of the lines of `metrics.jsonl` and `eval.jsonl`, in their order. A resumed run
//! computes them again from those lines. It keeps only those that the first phase raised, at step 0. Each alarm is reported once when it is raised and once when it is
//! cleared. Raising and clearing have different limits (hysteresis), so that a number near a limit does not raise it again and again. [`rules`] has the limits, with
//! their reasons.
//!
//! An alarm changes nothing in the run: the user decides what it means.

mod first_phase;
mod held_out;
mod rules;
mod window;

use std::collections::BTreeSet;

use crate::config::Algorithm;
use crate::record::{Alarm, AlarmRecord, AlarmState, EvalRecord, SampleRecord, StepRecord};
use held_out::HeldOut;
use window::Window;

/// The result of a rule.
#[derive(Debug, Clone, PartialEq, Default)]
struct Finding {
    alarm: Alarm,
    /// Whether the numbers are beyond the limit that raises the alarm.
    raised: bool,
    /// Whether the numbers are within the limit that clears it.
    cleared: bool,
    /// The numbers, in words.
    numbers: String,
    /// What to do; reported when the alarm is raised.
    remedy: String,
}

/// Reads the records of a run, and reports which alarms are raised and cleared.
#[derive(Debug, Default)]
pub struct AlarmMonitor {
    window: Window,
    held_out: HeldOut,
    /// Those that are raised and not cleared.
    pub(super) active: BTreeSet<Alarm>,
    /// Whether a group gives a gradient even if all of its completions are correct, or all are wrong.
    uniform_groups_teach: bool,
}

impl AlarmMonitor {
    /// The monitor of a run with this algorithm.
    pub fn new(algorithm: &Algorithm) -> Self {
        Self {
            uniform_groups_teach: !algorithm.compares_within_groups(),
            ..Self::default()
        }
    }

    /// Reads the samples of the first phase with their rewards, and returns the alarms that they raise: none once an update has been read.
    pub fn first_phase(&mut self, samples: &[SampleRecord], rewards: &[f64]) -> Vec<AlarmRecord> {
        if self.window.rewards().is_some() {
            return Vec::new();
        }
        let findings = first_phase::all(samples, rewards, self.uniform_groups_teach);
        self.changes(0, findings)
    }

    /// Reads the record of an update, and returns the alarms that it raises and clears.
    pub fn update(&mut self, record: &StepRecord) -> Vec<AlarmRecord> {
        self.window.add(record);
        let findings = rules::all(&self.window, record.phase, self.uniform_groups_teach);
        self.changes(record.step, findings)
    }

    /// Reads the record of an evaluation, and returns the alarms that it raises and clears.
    pub fn evaluation(&mut self, record: &EvalRecord) -> Vec<AlarmRecord> {
        let findings = self.held_out.findings(record, &self.window);
        self.changes(record.step, findings)
    }

    /// Reads all records of a run, and returns every alarm raised and cleared.
    pub fn replay(&mut self, steps: &[StepRecord], evals: &[EvalRecord]) -> Vec<AlarmRecord> {
        let mut alarms = Vec::new();
        let mut evals = evals.iter().peekable();
        for step in steps {
            // An evaluation comes after the update with its number, before the next update.
            while let Some(eval) = evals.next_if(|eval| eval.step < step.step) {
                alarms.extend(self.evaluation(eval));
            }
            alarms.extend(self.update(step));
        }
        for eval in evals {
            alarms.extend(self.evaluation(eval));
        }
        alarms
    }

    /// The records of the alarms that findings raise and clear.
    fn changes(&mut self, step: usize, findings: Vec<Finding>) -> Vec<AlarmRecord> {
        findings
            .into_iter()
            .filter_map(|finding| {
                let (state, text) = if finding.raised && self.active.insert(finding.alarm) {
                    let text = format!("{}. {}", finding.numbers, finding.remedy);
                    (AlarmState::Raised, text)
                } else if finding.cleared && self.active.remove(&finding.alarm) {
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
