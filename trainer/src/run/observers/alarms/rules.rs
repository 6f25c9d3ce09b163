//! The rules: which numbers of a training run are normal, and which raise an alarm.
//!
//! Limits are relative to the run's own first updates wherever the normal value differs from task to task. A run that learns well should raise no alarm, because
//! users ignore an alarm that is raised often. In a pair of limits, the first raises the alarm and the second clears it.

use datasets::passk::percent;

use super::Finding;
use super::window::{Means, UPDATES, Window};
use crate::record::Alarm;

/// The length of completions that end by themselves is below a quarter of its value at the start. A model that stops rambling halves its answers while it learns; a
/// fall to a quarter shows that it has learnt that an empty or bare answer pays.
const SHORTER: (f64, f64) = (0.25, 1.0 / 3.0);
/// Completions that are shorter than this at the start cannot become much shorter.
const SHORTEST: f64 = 4.0;
/// The length is four times its value at the start. Reasoning that grows with the reward takes many hundred updates to do so, and a user who wants that can interpret
/// this alarm.
const LONGER: (f64, f64) = (4.0, 3.0);
/// How far the share of the commonest completion has moved from its value at the start towards 1. Tasks with few possible answers (yes or no) have a high share from the
/// start, others have one near 0.
const COMMONEST: (f64, f64) = (0.5, 0.4);
/// Minimum number of prompts in an update: with fewer, the completions of a single prompt can reach the limit.
const PROMPTS: usize = 4;
/// The entropy is below a tenth of its value at the start, with the reward under 0.9. A model that is sure of correct answers is at its goal; one that is sure of wrong
/// answers has stopped looking for others.
const ENTROPY: (f64, f64) = (0.1, 0.2);
const LEARNT: (f64, f64) = (0.9, 0.95);
/// Half of all completions are truncated, and the share has not fallen by more than a tenth since the start: base models ramble at first, and learn to stop.
const TRUNCATED: (f64, f64) = (0.5, 0.4);
const FEWER: (f64, f64) = (0.1, 0.2);
/// Groups in a row that have no correct or no wrong completion. If one prompt in 20 has both, as in the hardest tasks that can still be learnt, a hundred in a row occur
/// by chance once in 170 times.
const NO_SIGNAL: usize = 100;
/// Effective sample size as a share of the samples. Below 0.3, as with a standard deviation of ℓ of 1.1, more than two thirds of the samples no longer count.
const ESS: (f64, f64) = (0.3, 0.4);
/// Twice the mean reward that a phase can have if nine in ten completions have no answer.
const ANSWERED: f64 = 0.2;
/// Half of the share of masked samples that ends a run with `verifier.max_masked` = 0.1.
const MASKED: (f64, f64) = (0.05, 0.02);

/// The findings of every rule on the updates so far. `phase` is the phase of the latest update; the user should read its samples. With `uniform_groups_teach`,
/// completions are not compared within their groups, so a group that is all correct or all wrong is not a bad sign.
pub(super) fn all(window: &Window, phase: usize, uniform_groups_teach: bool) -> Vec<Finding> {
    let mut findings = if uniform_groups_teach {
        Vec::new()
    } else {
        no_signal(window, phase)
    };
    if let Some((start, now)) = window.means() {
        findings.extend(lengths(&start, &now, phase));
        findings.extend(repetition(&start, &now, phase));
        findings.extend(entropy(&start, &now));
        findings.push(truncation(&start, &now, window.disjoint(), phase));
        findings.push(stale(&now));
        findings.push(masked(&now));
        // The first phase may have raised it.
        findings.push(Finding {
            alarm: Alarm::NoAnswer,
            cleared: now.reward > ANSWERED,
            numbers: format!("the reward is {:.3} now", now.reward),
            ..Finding::default()
        });
    }
    findings
}

fn no_signal(window: &Window, phase: usize) -> Vec<Finding> {
    let (right, wrong) = window.no_signal;
    let uniform = right + wrong;
    let enough = uniform >= NO_SIGNAL && window.no_signal_updates > 2;
    let numbers = if uniform == 0 {
        "there are groups with right and wrong completions again".to_owned()
    } else {
        format!(
            "none of the last {uniform} groups has both right and wrong completions ({right} all right, {wrong} all wrong), so nothing is learnt"
        )
    };
    let finding = |alarm, predominant, remedy: String| Finding {
        alarm,
        raised: enough && predominant,
        cleared: uniform == 0,
        numbers: numbers.clone(),
        remedy,
    };
    vec![
        finding(
            Alarm::AllWrong,
            wrong > right,
            format!(
                "Read samples/phase-{phase}.md: if right answers are judged wrong, fix the template or the verifier; else take easier tasks, a larger `algorithm.group_size`, or supervised training first"
            ),
        ),
        finding(
            Alarm::AllRight,
            right >= wrong,
            "Take harder tasks, or end the run here".to_owned(),
        ),
    ]
}

fn lengths(start: &Means, now: &Means, phase: usize) -> Vec<Finding> {
    let (before, after) = (start.reward, now.reward);
    let rewards = format!("the reward went from {before:.3} to {after:.3}");
    let longer = Finding {
        alarm: Alarm::LengthExplosion,
        raised: now.length > LONGER.0 * start.length,
        cleared: now.length < LONGER.1 * start.length,
        numbers: format!(
            "completions are {:.1} tokens long on average over the last {UPDATES} updates, {:.1} over the first; {rewards}",
            now.length, start.length
        ),
        remedy: format!(
            "Read samples/phase-{phase}.md: if they repeat themselves, start another run from an earlier checkpoint (`model.path`) with a lower `optimiser.lr`; if they try many answers, let the verifier count one; if they reason better, all is well"
        ),
    };
    let mut findings = vec![longer];
    if let (Some(before), Some(after)) = (start.own_length, now.own_length)
        && before >= SHORTEST
    {
        findings.push(Finding {
            alarm: Alarm::LengthCollapse,
            raised: after < SHORTER.0 * before,
            cleared: after > SHORTER.1 * before,
            numbers: format!(
                "completions that end by themselves are {after:.1} tokens long on average over the last {UPDATES} updates, {before:.1} over the first; {rewards}"
            ),
            remedy: format!(
                "Read samples/phase-{phase}.md: if short answers are rewarded without being right, fix the verifier; if they are wrong, lower `optimiser.lr`"
            ),
        });
    }
    findings
}

fn repetition(start: &Means, now: &Means, phase: usize) -> Option<Finding> {
    if now.prompts < PROMPTS {
        return None;
    }
    let limit = |way: f64| start.commonest + way * (1.0 - start.commonest);
    Some(Finding {
        alarm: Alarm::Repetition,
        raised: now.commonest >= limit(COMMONEST.0),
        cleared: now.commonest < limit(COMMONEST.1),
        numbers: format!(
            "{} of all completions are the same text over the last {UPDATES} updates, {} over the first",
            percent(now.commonest),
            percent(start.commonest)
        ),
        remedy: format!(
            "samples/phase-{phase}.md names it: if it is rewarded for prompts that it does not answer, fix the verifier; if not, lower `optimiser.lr`"
        ),
    })
}

fn entropy(start: &Means, now: &Means) -> Option<Finding> {
    // With so little entropy at the start, sampling was almost greedy, and there is nothing to lose.
    (start.entropy > 0.01).then(|| Finding {
        alarm: Alarm::EntropyCollapse,
        raised: now.entropy < ENTROPY.0 * start.entropy && now.reward < LEARNT.0,
        cleared: now.entropy > ENTROPY.1 * start.entropy || now.reward > LEARNT.1,
        numbers: format!(
            "the entropy of the next token is {:.4} nats over the last {UPDATES} updates, {:.4} over the first, at a reward of {:.3}",
            now.entropy, start.entropy, now.reward
        ),
        remedy: "The policy hardly tries anything new: lower `optimiser.lr`, raise `sampling.temperature`, or take fewer updates a phase (`algorithm.h`)".to_owned(),
    })
}

/// The alarm can be raised only once the first and the latest updates are `disjoint`, so that the model had time to learn to stop.
fn truncation(start: &Means, now: &Means, disjoint: bool, phase: usize) -> Finding {
    Finding {
        alarm: Alarm::Truncation,
        raised: disjoint
            && now.truncated >= TRUNCATED.0
            && now.truncated >= start.truncated - FEWER.0,
        cleared: now.truncated < TRUNCATED.1 || now.truncated < start.truncated - FEWER.1,
        numbers: format!(
            "{} of all completions are cut off at the limit over the last {UPDATES} updates, {} over the first",
            percent(now.truncated),
            percent(start.truncated)
        ),
        remedy: format!(
            "Read samples/phase-{phase}.md: if answers are on their way, raise `sampling.max_tokens`; if the model does not stop, give it `data.stop` or a template that shows how to end"
        ),
    }
}

fn stale(now: &Means) -> Finding {
    Finding {
        alarm: Alarm::StaleSamples,
        raised: now.ess < ESS.0,
        cleared: now.ess > ESS.1,
        numbers: format!(
            "the effective sample size is {} of the samples that were computed over the last {UPDATES} updates",
            percent(now.ess)
        ),
        remedy: "The policy has moved far from the behaviour policy: take fewer updates a phase (`algorithm.h`), have their number chosen (`algorithm.auto_h`), or take a lower `optimiser.lr`".to_owned(),
    }
}

fn masked(now: &Means) -> Finding {
    Finding {
        alarm: Alarm::Masked,
        raised: now.masked >= MASKED.0,
        cleared: now.masked < MASKED.1,
        numbers: format!(
            "{} of all completions have no verdict over the last {UPDATES} updates",
            percent(now.masked)
        ),
        remedy: "The verifier fails on them: see its log; the run stops if a phase or an evaluation has more than `verifier.max_masked`".to_owned(),
    }
}
