//! Held-out Pass@1 against the best that it was, beside the training reward.

use datasets::passk::MIN_TASKS;

use super::Finding;
use super::window::Window;
use crate::record::Alarm;
use crate::record::EvalRecord;

/// Standard errors of the difference, paired by task, by which Pass@1 must be below its best. The best of ten evaluations of an unchanged
/// model stands about 1.5 above its mean by luck, so two would ring every tenth time, and three hardly ever.
const ERRORS: (f64, f64) = (3.0, 1.0);
/// A smaller fall is of no account, however sure.
const POINTS: f64 = 0.02;
/// By so much must the training reward have risen meanwhile to speak of hacking.
const RISE: f64 = 0.02;

/// The best evaluation so far.
#[derive(Debug, Default)]
pub(super) struct HeldOut {
    best: Option<Best>,
}

#[derive(Debug)]
struct Best {
    record: EvalRecord,
    /// Training reward then; that of the run's first updates where there were none yet.
    reward: Option<f64>,
}

impl HeldOut {
    pub(super) fn findings(&mut self, record: &EvalRecord, window: &Window) -> Vec<Finding> {
        let Some(now) = record.pass_at_1() else {
            return Vec::new();
        };
        let findings = self
            .best
            .as_ref()
            .map_or_else(Vec::new, |best| compare(best, record, window));
        let better = self
            .best
            .as_ref()
            .and_then(|best| best.record.pass_at_1())
            .is_none_or(|best| now > best);
        if better {
            self.best = Some(Best {
                record: record.clone(),
                reward: window.reward(),
            });
        }
        findings
    }
}

fn compare(best: &Best, record: &EvalRecord, window: &Window) -> Vec<Finding> {
    let Some((fall, error)) = fall(&best.record, record) else {
        return Vec::new();
    };
    let before = best.reward.or(window.first_reward()).unwrap_or(0.0);
    let now = window.reward().unwrap_or(0.0);
    let fallen = fall >= POINTS && fall >= ERRORS.0 * error;
    let recovered = fall < POINTS || fall < ERRORS.1 * error;
    let rose = now >= before + RISE;
    let pass = |record: &EvalRecord| 100.0 * record.pass_at_1().unwrap_or(0.0);
    let numbers = format!(
        "held-out Pass@1 is {:.1}%, {:.1} points (standard error {:.1}) below its best after update {}, while the training reward went from {before:.3} to {now:.3}",
        pass(record),
        100.0 * fall,
        100.0 * error,
        best.record.step
    );
    let kept = if best.record.step == 0 {
        "the model's own files are better than this"
    } else {
        "checkpoints/best has the weights of that time"
    };
    vec![
        Finding {
            alarm: Alarm::RewardHacking,
            rings: fallen && rose,
            quiet: recovered || !rose,
            numbers: numbers.clone(),
            remedy: format!(
                "What the reward pays for is no longer what the tasks ask: read the samples of the latest phase, and mend the verifier or the tasks; {kept}"
            ),
        },
        Finding {
            alarm: Alarm::HeldOutFall,
            rings: fallen && !rose,
            quiet: recovered || rose,
            numbers,
            remedy: format!(
                "The model is getting worse: lower `optimiser.lr` or `algorithm.h`; {kept}"
            ),
        },
    ]
}

/// Mean over tasks of the share right in `before` less that in `after`, with its standard error.
fn fall(before: &EvalRecord, after: &EvalRecord) -> Option<(f64, f64)> {
    let falls: Vec<f64> = before
        .tasks
        .iter()
        .filter_map(|(task, counts)| Some(counts.pass_at(1)? - after.tasks.get(task)?.pass_at(1)?))
        .collect();
    // With fewer, the standard error itself is a guess.
    if falls.len() < MIN_TASKS {
        return None;
    }
    let n = falls.len() as f64;
    let mean = falls.iter().sum::<f64>() / n;
    let variance = falls.iter().map(|fall| (fall - mean).powi(2)).sum::<f64>() / (n - 1.0);
    Some((mean, (variance / n).sqrt()))
}
