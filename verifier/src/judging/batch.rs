//! Judges the items of one request: from the cache, else through the queue.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use verifier_api::Judgement;

use super::judge::Judge;
use super::sample::{judgement, milliseconds, no_judgement, queue_attempt, verdict};
use crate::cache::Key;
use crate::item::JudgeItem;
use crate::pool::{ClientId, Full, Lane};
use crate::registry::RegisteredTask;

/// An item's judgement if it needs no judging, else the item with its key.
type Prepared = Result<Judgement, (JudgeItem, Key)>;

/// Items, each with its task.
pub struct Batch {
    items: Vec<(Arc<RegisteredTask>, Prepared)>,
    started: Instant,
}

impl Batch {
    /// Computes the keys, and collects the judgements that need no judging: cached verdicts in memory, and `unavailable` for graders that cannot judge now. For a large
    /// batch this would block a thread that serves other requests too.
    pub fn new(judge: &Judge, items: Vec<JudgeItem>) -> Batch {
        let started = Instant::now();
        let items = items.into_iter().map(|item| {
            // Availability is checked before the key is computed. Otherwise a grader that becomes ready in between could store a verdict under a key without its interpreter.
            let unavailable = judge.graders.unavailable_grading(&item.task.spec);
            let key = judge.graders.key(&item);
            let cached = judge.cache.in_memory(&key);
            let (is_cached, task) = (cached.is_some(), Arc::clone(&item.task));
            let item = match cached.or(unavailable) {
                Some(grading) => Ok(judgement(item.id, key, grading, is_cached, 0.0)),
                None => Err((item, key)),
            };
            (task, item)
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
    let to_judge = items.iter().filter(|(_, item)| item.is_err()).count();
    let (lane, mut permits) = (Lane::new(client), judge.reserve(client, to_judge)?);
    let mut pending = Vec::with_capacity(items.len());
    for (task, item) in items {
        let queued = item.map_err(|(item, key)| {
            let (id, on) = (item.id.clone(), Arc::clone(judge));
            let permit = permits.split();
            let judging = |waiters| {
                // Queued at once, so that the items are judged in their order.
                let first = queue_attempt(&on, (item, key), lane, permit, true, &waiters);
                verdict(on, key, lane, first, waiters)
            };
            (id, key, judge.verdicts.join(key, judging))
        });
        pending.push((task, queued));
    }

    let mut judgements = Vec::with_capacity(pending.len());
    for (task, queued) in pending {
        let (mut judgement, seconds) = match queued {
            Ok(ready) => (ready, None),
            Err((id, key, (waiter, is_shared))) => match waiter.result().await {
                Some(judged) => {
                    let cached = judged.cached || is_shared && judged.reward.is_some();
                    let seconds = Some(judged.elapsed_ms / 1e3);
                    let judged = Judgement {
                        id,
                        cached,
                        ..judged
                    };
                    (judged, seconds)
                }
                None => {
                    let reason =
                        "the item was not judged: its grader failed, or the server is stopping";
                    let key = key.to_string();
                    let none = no_judgement(id, json!({ "reason": reason }), true);
                    (Judgement { key, ..none }, None)
                }
            },
        };
        if judgement.cached {
            judgement.elapsed_ms = milliseconds(started.elapsed().as_secs_f64());
        }
        let (verdict, cached) = (judgement.verdict, judgement.cached);
        let grader = task.spec.kind();
        judge.metrics.judgement(grader, verdict, cached, seconds);
        judgements.push(judgement);
    }
    Ok(judgements)
}
