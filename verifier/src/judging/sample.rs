//! The stages of a sample on its way to a verdict, as far as it needs them: cache, first pass, canonical solution of its task, full run. A waiting sample holds no
//! thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use datasets::TaskSpec;
use serde_json::Value as Json;
use verifier_api::{Id, Judgement, Verdict};

use super::in_flight::Waiters;
use super::judge::Judge;
use super::passes::canonical_result;
use super::queue::QueuePermit;
use crate::cache::Key;
use crate::grade::Grading;
use crate::grade::code::Pending;
use crate::item::JudgeItem;
use crate::pool::{Lane, Queued};

pub(super) struct Attempted {
    item: JudgeItem,
    graded: Result<Grading, Pending>,
    /// Whether the verdict was cached.
    cached: bool,
    /// The duration of the attempt.
    seconds: f64,
}

/// Queues an attempt at an item. `key` is that of its verdict. The attempt holds `permit` until it begins.
pub(super) fn queue_attempt(
    judge: &Arc<Judge>,
    (mut item, key): (JudgeItem, Key),
    lane: Lane,
    permit: QueuePermit,
    first_pass: bool,
    waiters: &Arc<Waiters<Judgement>>,
) -> Queued<Attempted> {
    let pool = match &item.task.spec {
        TaskSpec::Custom(task) => judge.custom.get(&task.grader).unwrap_or(&judge.short),
        _ if first_pass => &judge.short,
        TaskSpec::Lean(_) => &judge.proofs,
        _ => &judge.long,
    };
    let is_instant = matches!(item.task.spec, TaskSpec::Math(_));
    let (on, abandoned) = (Arc::clone(judge), waiters.abandoned());
    pool.run(lane, is_instant, move || {
        drop(permit);
        let started = Instant::now();
        let stored = on.cache.get(&key);
        let cached = stored.is_some();
        let graded = stored.map_or_else(|| on.graders.grade(&mut item, first_pass, &abandoned), Ok);
        // The files of an operator's grader may have changed since the key was made.
        let is_own = matches!(item.task.spec, TaskSpec::Custom(_));
        let graded = match graded {
            Ok(_) if is_own && on.graders.key(&item) != key => {
                Ok(Grading::unavailable("the grader's files changed", true))
            }
            graded => graded,
        };
        if let Ok(grading) = &graded
            && !cached
        {
            on.cache.put(key, grading);
        }
        Attempted {
            item,
            graded,
            cached,
            seconds: started.elapsed().as_secs_f64(),
        }
    })
}

/// Judges a sample from its first attempt on. `None` if nobody waits for its verdict any more, or a grader failed.
pub(super) async fn verdict(
    judge: Arc<Judge>,
    key: Key,
    lane: Lane,
    mut queued: Queued<Attempted>,
    waiters: Arc<Waiters<Judgement>>,
) -> Option<Judgement> {
    let (mut first_pass, mut all_seconds) = (true, 0.0);
    loop {
        let Attempted {
            mut item,
            graded,
            cached,
            seconds,
        } = waiters.step(queued, Queued::has_begun).await?;
        all_seconds += seconds;
        let reason = match graded {
            Ok(grading) => return Some(judgement(item.id, key, grading, cached, all_seconds)),
            Err(reason) => reason,
        };
        let permit = judge.queue.readmit(lane.client);
        match reason {
            Pending::Deferred => first_pass = false,
            Pending::CanonicalResult(needed) => {
                let (solving, task) = (Arc::clone(&judge), Arc::clone(&item.task));
                let solve = |waiters| canonical_result(solving, task, lane, waiters);
                let (waiter, _) = judge.solutions.join(needed, solve);
                let result = waiters.step(Box::pin(waiter.result()), |_| false).await?;
                item.state.canonical_result = Some(result);
            }
        }
        queued = queue_attempt(&judge, (item, key), lane, permit, first_pass, &waiters);
    }
}

/// A verdict in the form for the client. The worker threads spent `seconds` on it.
pub(super) fn judgement(
    id: Id,
    key: Key,
    grading: Grading,
    cached: bool,
    seconds: f64,
) -> Judgement {
    Judgement {
        reward: grading.reward(),
        verdict: grading.verdict,
        passed: grading.passed,
        total: grading.total,
        terms: grading.terms,
        key: key.to_string(),
        cached,
        deterministic: grading.deterministic,
        elapsed_ms: milliseconds(seconds),
        ..no_judgement(id, grading.detail, grading.retryable)
    }
}

/// A time on the wire, in steps of a microsecond.
pub(super) fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e3
}

/// The judgement of an item that was not judged. It has no key.
pub(crate) fn no_judgement(id: Id, detail: Json, retryable: bool) -> Judgement {
    Judgement {
        id,
        reward: None,
        verdict: Verdict::Unavailable,
        detail,
        passed: None,
        total: None,
        terms: BTreeMap::new(),
        retryable,
        key: String::new(),
        cached: false,
        deterministic: true,
        elapsed_ms: 0.0,
    }
}
