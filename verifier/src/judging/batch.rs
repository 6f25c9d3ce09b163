//! Judges the items of one request: from the cache, else through the queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use verifier_api::{Id, Judgement, Verdict};

use super::in_flight::{ItemResult, Waiter};
use super::judge::{Judge, SampleJob};
use crate::cache::Key;
use crate::grade::Grading;
use crate::item::JudgeItem;
use crate::pool::{ClientId, Full, Lane, Reservation};

/// Removes a request's queued jobs if its future is dropped before the end.
pub(super) struct CancelGuard<'a>(pub(super) &'a Judge);

impl CancelGuard<'_> {
    /// The request has all its answers, so none of its jobs is left.
    pub(super) fn answered(self) {
        std::mem::forget(self);
    }
}

impl Drop for CancelGuard<'_> {
    fn drop(&mut self) {
        self.0.sweep();
    }
}

/// Items with their keys, and with the results that need no judging.
pub struct Batch {
    items: Vec<(JudgeItem, Key, Option<ItemResult>)>,
    started: Instant,
}

impl Batch {
    /// Computes the keys, and collects the results that need no judging: verdicts that are cached in memory, and `unavailable` ones of graders that cannot judge now.
    /// For a large batch this would block a thread that serves other requests too.
    #[must_use]
    pub fn new(judge: &Judge, items: Vec<JudgeItem>) -> Batch {
        let started = Instant::now();
        let items = items.into_iter().map(|item| {
            let JudgeItem {
                task,
                prompt,
                completion,
                test_mode,
                ..
            } = &item;
            // Availability is checked before the key is computed. Otherwise a grader that becomes ready in between could store a verdict under a key without its interpreter.
            let unavailable = judge.graders.unavailable_grading(&task.spec);
            let key = judge.graders.key(task, prompt, completion, *test_mode);
            let result = |grading, cached| ItemResult {
                grading,
                cached,
                seconds: None,
            };
            let ready = judge
                .cache
                .in_memory(&key)
                .map(|grading| result(grading, true))
                .or_else(|| unavailable.map(|grading| result(grading, false)));
            (item, key, ready)
        });
        Batch {
            items: items.collect(),
            started,
        }
    }
}

/// Judges a batch of `client`: one judgement for each item, in order.
///
/// # Errors
/// [`Full`] if the queue has no room for the uncached items; then no item of the batch is queued.
pub async fn judge(
    judge: &Arc<Judge>,
    client: ClientId,
    batch: Batch,
) -> Result<Vec<Judgement>, Full> {
    let Batch { items, started } = batch;
    let to_judge = items.iter().filter(|(_, _, ready)| ready.is_none()).count();
    let mut places = judge.reserve(Lane::new(client), to_judge)?;
    let guard = CancelGuard(judge);
    let mut pending = Vec::with_capacity(items.len());
    for (item, key, ready) in items {
        let (id, task) = (item.id.clone(), Arc::clone(&item.task));
        let result = ready.ok_or_else(|| enqueue(judge, &mut places, item, key));
        pending.push((id, task, key, result));
    }
    // Release the places of keys that were in flight already.
    drop(places);

    let mut judgements = Vec::with_capacity(pending.len());
    for (id, task, key, result) in pending {
        let result = match result {
            Ok(result) => result,
            Err(queued) => queued.result().await,
        };
        let seconds = if result.cached {
            started.elapsed().as_secs_f64()
        } else {
            result.seconds.unwrap_or(0.0)
        };
        judge.metrics.judgement(
            task.spec.kind(),
            result.grading.verdict,
            result.cached,
            result.seconds,
        );
        judgements.push(judgement(id, key, result, seconds));
    }
    guard.answered();
    Ok(judgements)
}

/// An item that is being judged.
struct Queued {
    waiter: Waiter,
    /// Whether it is judged for an equal item.
    shared: bool,
}

impl Queued {
    async fn result(mut self) -> ItemResult {
        let found = self.waiter.wait_for(Option::is_some).await;
        let found = found.ok().and_then(|result| result.clone());
        let mut result = found.unwrap_or_else(|| ItemResult {
            grading: Grading::unavailable(
                "the item was not judged: its grader failed, or the server is stopping",
                true,
            ),
            cached: false,
            seconds: None,
        });
        result.cached |= self.shared && result.grading.reward().is_some();
        result
    }
}

fn enqueue(judge: &Arc<Judge>, places: &mut Reservation, item: JudgeItem, key: Key) -> Queued {
    let (waiter, first) = judge.in_flight.join(key);
    let shared = first.is_none();
    if let Some(waiters) = first {
        places.submit(Box::new(SampleJob {
            judge: Arc::clone(judge),
            item,
            key,
            lane: places.lane(),
            first_pass: true,
            worker_time: Duration::ZERO,
            waiters,
        }));
    }
    Queued { waiter, shared }
}

fn judgement(id: Id, key: Key, result: ItemResult, seconds: f64) -> Judgement {
    let reward = result.grading.reward();
    Judgement {
        reward,
        verdict: result.grading.verdict,
        passed: result.grading.passed,
        total: result.grading.total,
        terms: result.grading.terms,
        key: key.to_string(),
        cached: result.cached,
        deterministic: result.grading.deterministic,
        elapsed_ms: (seconds * 1e6).round() / 1e3,
        ..no_judgement(id, result.grading.detail, result.grading.retryable)
    }
}

/// What an item is answered that was not judged. There is no key.
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
