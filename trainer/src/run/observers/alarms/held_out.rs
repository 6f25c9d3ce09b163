//! Alarms on a fall of held-out Pass@1 below its best, with and without a rise of the training reward.

use datasets::passk::{MIN_TASKS, percent};

use super::Finding;
use super::window::Window;
use crate::record::Alarm;
use crate::record::EvalRecord;

/// How many standard errors of the difference, paired by task, Pass@1 must be below its best to raise and to clear an alarm. By luck, the best of ten evaluations of
/// an unchanged model is about 1.5 above its mean. So a limit of two would raise the alarm every tenth time; three almost never does.
const ERRORS: (f64, f64) = (3.0, 1.0);
/// A smaller fall of Pass@1 raises no alarm, however certain it is.
const POINTS: f64 = 0.02;
/// How much the training reward must have risen meanwhile for the fall to count as reward hacking.
const RISE: f64 = 0.02;

/// The best evaluation so far, and the training reward at that time.
#[derive(Debug, Default)]
pub(super) struct HeldOut {
    best: Option<(EvalRecord, Option<f64>)>,
}

impl HeldOut {
    pub(super) fn findings(&mut self, record: &EvalRecord, window: &Window) -> Vec<Finding> {
        let Some(now) = record.pass_at_1() else {
            return Vec::new();
        };
        let best = self.best.as_ref();
        let findings = best.map(|(best, reward)| compare(best, *reward, record, window));
        let before = best.and_then(|(best, _)| best.pass_at_1());
        if before.is_none_or(|before| now > before) {
            let reward = window.rewards().map(|[_, latest]| latest);
            self.best = Some((record.clone(), reward));
        }
        findings.unwrap_or_default()
    }
}

/// `reward` is the training reward at the time of the best evaluation; `None` if there was no update yet.
fn compare(
    best: &EvalRecord,
    reward: Option<f64>,
    record: &EvalRecord,
    window: &Window,
) -> Vec<Finding> {
    let Some((fall, error)) = fall(best, record) else {
        return Vec::new();
    };
    let [first, now] = window.rewards().unwrap_or_default();
    let before = reward.unwrap_or(first);
    let fallen = fall >= POINTS && fall >= ERRORS.0 * error;
    let recovered = fall < POINTS || fall < ERRORS.1 * error;
    let rose = now >= before + RISE;
    let numbers = format!(
        "held-out Pass@1 is {}, {:.1} points (standard error {:.1}) below its best after update {}, while the training reward went from {before:.3} to {now:.3}",
        percent(record.pass_at_1().unwrap_or(0.0)),
        100.0 * fall,
        100.0 * error,
        best.step
    );
    let better_weights = if best.step == 0 {
        "the model's own files are better than this"
    } else {
        "checkpoints/best has the weights of that time"
    };
    vec![
        Finding {
            alarm: Alarm::RewardHacking,
            raised: fallen && rose,
            cleared: recovered || !rose,
            numbers: numbers.clone(),
            remedy: format!(
                "The reward no longer measures what the tasks ask for: read the samples of the latest phase, and fix the verifier or the tasks; {better_weights}"
            ),
        },
        Finding {
            alarm: Alarm::HeldOutFall,
            raised: fallen && !rose,
            cleared: recovered || rose,
            numbers,
            remedy: format!(
                "The model is getting worse: lower `optimiser.lr` or `algorithm.h`; {better_weights}"
            ),
        },
    ]
}

/// The mean over tasks of the share of correct samples in `before` minus that in `after`, with its standard error. `None` if too few tasks are in both.
fn fall(before: &EvalRecord, after: &EvalRecord) -> Option<(f64, f64)> {
    let falls: Vec<f64> = before
        .tasks
        .iter()
        .filter_map(|(task, counts)| Some(counts.pass_at(1)? - after.tasks.get(task)?.pass_at(1)?))
        .collect();
    // With fewer tasks, the standard error itself is a guess.
    if falls.len() < MIN_TASKS {
        return None;
    }
    let n = falls.len() as f64;
    let mean = falls.iter().sum::<f64>() / n;
    let variance = falls.iter().map(|fall| (fall - mean).powi(2)).sum::<f64>() / (n - 1.0);
    Some((mean, (variance / n).sqrt()))
}
