//! What is normal of a training run's numbers, and what is not.
//!
//! Limits are relative to the run's own first updates wherever what is normal differs from task to task. They are set so that a run that
//! learns well stays silent: a rule that rings often is not read.

use super::Finding;
use super::window::{Means, UPDATES, Window};
use crate::record::Alarm;

/// Completions that end by themselves at under a quarter of their length at the start. A model that stops to ramble halves its answers while it
/// learns; to a quarter falls one that has found that an empty or bare answer pays.
const SHORTER: (f64, f64) = (0.25, 1.0 / 3.0);
/// Shorter ones at the start cannot become much shorter.
const SHORTEST: f64 = 4.0;
/// Four times the length at the start. Reasoning that grows with the reward does so over many hundred updates, and the person who
/// wants it will know this alarm for what it is.
const LONGER: (f64, f64) = (4.0, 3.0);
/// How far on the way from its share at the start to all completions the commonest one is. Tasks with few possible answers (yes or no) have a
/// high share from the start, others one near 0.
const COMMONEST: (f64, f64) = (0.5, 0.4);
/// With fewer prompts an update, one prompt's completions alone are that many.
const PROMPTS: usize = 4;
/// A tenth of the entropy at the start, with the reward under 0.9: a model that is sure of right answers is at its goal, one that is
/// sure of wrong ones has stopped to look for others.
const ENTROPY: (f64, f64) = (0.1, 0.2);
const LEARNT: (f64, f64) = (0.9, 0.95);
/// Half of all completions are cut off, and no fewer than a tenth less than at the start: base models ramble at first, and learn to stop.
const TRUNCATED: (f64, f64) = (0.5, 0.4);
const FEWER: (f64, f64) = (0.1, 0.2);
/// Groups in a row without a right and a wrong completion side by side. Where one prompt in 20 has both, as in the hardest tasks that still can
/// be learnt, a hundred without come by chance once in 170 times.
const SILENT: usize = 100;
/// Effective sample size as a share of the samples: under 0.3, as at a standard deviation of ℓ of 1.1, more than two thirds of what was
/// drawn no longer counts.
const ESS: (f64, f64) = (0.3, 0.4);
/// Half of what ends a run by `verifier.max_masked` = 0.1.
const MASKED: (f64, f64) = (0.05, 0.02);

/// Every rule over the updates so far. `phase` is that of the latest, whose samples a person should read. Where completions are not compared within their
/// groups, but count `each_by_itself`, a group that is all right or all wrong is no sign of anything.
pub(super) fn all(window: &Window, phase: usize, each_by_itself: bool) -> Vec<Finding> {
    let mut findings = if each_by_itself {
        Vec::new()
    } else {
        no_signal(window, phase)
    };
    if let Some((start, now)) = window.means() {
        findings.extend(lengths(&start, &now, phase));
        findings.extend(repetition(&start, &now, phase));
        findings.extend(entropy(&start, &now));
        findings.push(truncation(&start, &now, window.apart(), phase));
        findings.push(stale(&now));
        findings.push(masked(&now));
    }
    findings
}

fn percent(share: f64) -> String {
    format!("{:.0}%", 100.0 * share)
}

fn no_signal(window: &Window, phase: usize) -> Vec<Finding> {
    let (right, wrong) = window.silent;
    let silent = right + wrong;
    let enough = silent >= SILENT && window.silent_updates > 2;
    let numbers = if silent == 0 {
        "there are groups with right and wrong completions again".to_owned()
    } else {
        format!(
            "none of the last {silent} groups has both right and wrong completions ({right} all right, {wrong} all wrong), so nothing is learnt"
        )
    };
    let finding = |alarm, rings, remedy: String| Finding {
        alarm,
        rings: enough && rings,
        quiet: silent == 0,
        numbers: numbers.clone(),
        remedy,
    };
    vec![
        finding(
            Alarm::AllWrong,
            wrong > right,
            format!(
                "Read samples/phase-{phase}.md: if right answers are judged wrong, mend the template or the verifier; else take easier tasks, a larger `algorithm.group_size`, or supervised training first"
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
    let rewards = format!(
        "the reward went from {:.3} to {:.3}",
        start.reward, now.reward
    );
    let longer = Finding {
        alarm: Alarm::LengthExplosion,
        rings: now.length > LONGER.0 * start.length,
        quiet: now.length < LONGER.1 * start.length,
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
            rings: after < SHORTER.0 * before,
            quiet: after > SHORTER.1 * before,
            numbers: format!(
                "completions that end by themselves are {after:.1} tokens long on average over the last {UPDATES} updates, {before:.1} over the first; {rewards}"
            ),
            remedy: format!(
                "Read samples/phase-{phase}.md: if short answers are rewarded without being right, mend the verifier; if they are wrong, lower `optimiser.lr`"
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
        rings: now.commonest >= limit(COMMONEST.0),
        quiet: now.commonest < limit(COMMONEST.1),
        numbers: format!(
            "{} of all completions are the same text over the last {UPDATES} updates, {} over the first",
            percent(now.commonest),
            percent(start.commonest)
        ),
        remedy: format!(
            "samples/phase-{phase}.md names it: if it is rewarded for prompts that it does not answer, mend the verifier; if not, lower `optimiser.lr`"
        ),
    })
}

fn entropy(start: &Means, now: &Means) -> Option<Finding> {
    // At so little there is nothing to lose: sampling was all but greedy.
    (start.entropy > 0.01).then(|| Finding {
        alarm: Alarm::EntropyCollapse,
        rings: now.entropy < ENTROPY.0 * start.entropy && now.reward < LEARNT.0,
        quiet: now.entropy > ENTROPY.1 * start.entropy || now.reward > LEARNT.1,
        numbers: format!(
            "the entropy of the next token is {:.4} nats over the last {UPDATES} updates, {:.4} over the first, at a reward of {:.3}",
            now.entropy, start.entropy, now.reward
        ),
        remedy: "The policy hardly tries anything new: lower `optimiser.lr`, raise `sampling.temperature`, or take fewer updates a phase (`algorithm.h`)".to_owned(),
    })
}

/// Only once the model had time to learn to stop.
fn truncation(start: &Means, now: &Means, apart: bool, phase: usize) -> Finding {
    Finding {
        alarm: Alarm::Truncation,
        rings: apart && now.truncated >= TRUNCATED.0 && now.truncated >= start.truncated - FEWER.0,
        quiet: now.truncated < TRUNCATED.1 || now.truncated < start.truncated - FEWER.1,
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
        rings: now.ess < ESS.0,
        quiet: now.ess > ESS.1,
        numbers: format!(
            "the effective sample size is {} of the samples over the last {UPDATES} updates",
            percent(now.ess)
        ),
        remedy: "The policy has moved far from the one that drew them: take fewer updates a phase (`algorithm.h`) or a lower `optimiser.lr`".to_owned(),
    }
}

fn masked(now: &Means) -> Finding {
    Finding {
        alarm: Alarm::Masked,
        rings: now.masked >= MASKED.0,
        quiet: now.masked < MASKED.1,
        numbers: format!(
            "{:.1}% of all completions have no verdict over the last {UPDATES} updates",
            100.0 * now.masked
        ),
        remedy: "The verifier fails on them: see its log; the run stops where a phase or an evaluation has more than `verifier.max_masked`".to_owned(),
    }
}
