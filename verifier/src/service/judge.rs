//! Judges items: from the cache, else through the queue. Equal items that are in flight at once are judged once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use datasets::TaskSpec;
use sandboxes::Abandoned;
use serde_json::Value as Json;
use tokio::sync::oneshot;
use verifier_api::{Id, Judgement, Verdict};

use super::Service;
use super::canonical_queue;
use super::request::JudgeItem;
use crate::cache::Key;
use crate::grade::Grading;
use crate::grade::code::{CanonicalResult, NoVerdictYet};
use crate::graders::Attempt;
use crate::pool::{ClientId, Full, Job, Lane, Reservation};

/// The keys that are being judged, each with the requests that wait for its verdict.
#[derive(Default)]
pub(super) struct InFlight(Mutex<HashMap<Key, Vec<oneshot::Sender<ItemResult>>>>);

/// The result for an item, and whether it came from the cache.
#[derive(Debug, Clone)]
struct ItemResult {
    grading: Grading,
    cached: bool,
    /// Time that workers spent on it; `None` if no worker did.
    seconds: Option<f64>,
}

impl InFlight {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Vec<oneshot::Sender<ItemResult>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a waiter for the verdict under `key`. True if it is the first, so that the item must be queued.
    fn join(&self, key: Key) -> (oneshot::Receiver<ItemResult>, bool) {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.lock();
        let waiters = waiting.entry(key).or_default();
        let first = waiters.is_empty();
        waiters.push(sender);
        (receiver, first)
    }

    /// Whether a request still waits for `key`. If none does, the key is removed.
    fn wanted(&self, key: &Key) -> bool {
        let mut waiting = self.lock();
        let Some(waiters) = waiting.get_mut(key) else {
            return false;
        };
        waiters.retain(|waiter| !waiter.is_closed());
        if waiters.is_empty() {
            waiting.remove(key);
            return false;
        }
        true
    }

    /// Whether a request still waits for `key`.
    fn is_waited_for(&self, key: &Key) -> bool {
        let waiting = self.lock();
        let waiters = waiting.get(key);
        waiters.is_some_and(|waiters| waiters.iter().any(|waiter| !waiter.is_closed()))
    }

    fn finish(&self, key: &Key, result: &ItemResult) {
        let waiters = self.lock().remove(key).unwrap_or_default();
        let cacheable = result.grading.reward().is_some();
        for (index, waiter) in waiters.into_iter().enumerate() {
            let cached = result.cached || (cacheable && index > 0);
            // Sending fails if the waiter has gone, which does not matter.
            let _ = waiter.send(ItemResult {
                cached,
                ..result.clone()
            });
        }
    }
}

/// An item that is judged by workers.
pub(super) struct JudgeJob {
    pub(super) service: Arc<Service>,
    pub(super) item: JudgeItem,
    key: Key,
    /// The lane of its request.
    pub(super) lane: Lane,
    /// The result of its task's canonical solution, once the job has waited for that.
    pub(super) canonical_result: Option<CanonicalResult>,
    /// Whether a first pass gave it up.
    deferred: bool,
    /// Time that workers have spent on it.
    worker_time: Duration,
    /// Whether the key was released. Another job may have it then, so it is not removed on drop.
    released: bool,
}

impl JudgeJob {
    fn grade(&self) -> Result<Grading, NoVerdictYet> {
        let JudgeJob { service, item, .. } = self;
        let abandoned = {
            let (service, key) = (Arc::clone(service), self.key);
            Abandoned::new(move || !service.in_flight.is_waited_for(&key))
        };
        let attempt = Attempt {
            mode: item.test_mode,
            canonical_result: self.canonical_result.as_ref(),
            first_pass: !self.deferred,
            abandoned: &abandoned,
        };
        service
            .graders
            .grade(&item.task, &item.prompt, &item.completion, attempt)
    }
}

impl Job for JudgeJob {
    fn wanted(&mut self) -> bool {
        let wanted = self.service.in_flight.wanted(&self.key);
        self.released = !wanted;
        wanted
    }

    fn run(mut self: Box<Self>) {
        let started = Instant::now();
        let from_cache = self.service.cache.get(&self.key);
        let cached = from_cache.is_some();
        let graded = from_cache.map_or_else(
            || {
                let graded = self.grade();
                if let Ok(grading) = &graded {
                    self.service.cache.put(self.key, grading);
                }
                graded
            },
            Ok,
        );
        self.worker_time += started.elapsed();
        let grading = match graded {
            Ok(grading) => grading,
            Err(NoVerdictYet::CanonicalResult(key)) => {
                canonical_queue::park(*self, key);
                return;
            }
            Err(NoVerdictYet::NotInFirstPass) => {
                self.deferred = true;
                let service = Arc::clone(&self.service);
                let pool = match self.item.task.spec {
                    TaskSpec::Lean(_) => &service.proof_pool,
                    _ => &service.long_pool,
                };
                pool.submit_or_run(self.lane, self);
                return;
            }
        };
        let result = ItemResult {
            grading,
            cached,
            seconds: Some(self.worker_time.as_secs_f64()),
        };
        self.service.in_flight.finish(&self.key, &result);
        self.released = true;
    }
}

impl Drop for JudgeJob {
    fn drop(&mut self) {
        if !self.released {
            // It panicked, or the service stops. Removing the waiters closes their channels.
            self.service.in_flight.lock().remove(&self.key);
        }
    }
}

/// Removes a request's queued jobs if its future is dropped before the end.
pub(super) struct CancelGuard<'a> {
    service: &'a Service,
    answered: bool,
}

impl<'a> CancelGuard<'a> {
    /// Watches over the jobs that a request has queued, or is about to queue.
    pub(super) fn new(service: &'a Service) -> Self {
        Self {
            service,
            answered: false,
        }
    }

    /// The request has all its answers, so none of its jobs is left.
    pub(super) fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for CancelGuard<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.service.math_pool.sweep();
            self.service.first_pass_pool.sweep();
            self.service.long_pool.sweep();
            self.service.proof_pool.sweep();
            self.service.canonical_queue.sweep();
        }
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
    pub fn new(service: &Service, items: Vec<JudgeItem>) -> Batch {
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
            let unavailable = service.graders.unavailable_grading(&task.spec);
            let key = service.graders.key(task, prompt, completion, *test_mode);
            let result = |grading, cached| ItemResult {
                grading,
                cached,
                seconds: None,
            };
            let ready = service
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

    /// Number of items that must be queued, among those that need a sandbox or those that do not.
    fn uncached_count(&self, needs_sandbox: bool) -> usize {
        self.items
            .iter()
            .filter(|(item, _, ready)| ready.is_none() && item.needs_sandbox() == needs_sandbox)
            .count()
    }
}

/// Judges a batch of `client`: one judgement for each item, in order.
///
/// # Errors
/// [`Full`] if the queue has no room for the uncached items; then no item of the batch is queued.
pub async fn judge(
    service: &Arc<Service>,
    client: ClientId,
    batch: Batch,
) -> Result<Vec<Judgement>, Full> {
    let lane = Lane::new(client);
    let mut math_places = service
        .math_pool
        .reserve(lane, batch.uncached_count(false))?;
    // Parked samples count as queued: they will be in the queue again.
    let parked = &service.canonical_queue;
    let mut sandbox_places = service.first_pass_pool.reserve_beside(
        lane,
        batch.uncached_count(true),
        (parked.waiting(), parked.waiting_of(client)),
    )?;

    let guard = CancelGuard::new(service);
    let Batch { items, started } = batch;
    let mut pending = Vec::with_capacity(items.len());
    for (item, key, ready) in items {
        let (id, grader) = (item.id.clone(), item.task.spec.kind());
        let places = if item.needs_sandbox() {
            &mut sandbox_places
        } else {
            &mut math_places
        };
        let result = ready.ok_or_else(|| enqueue(service, places, item, key));
        pending.push((id, grader, key, result));
    }
    // Release the places of keys that were in flight already.
    drop((math_places, sandbox_places));

    let mut judgements = Vec::with_capacity(pending.len());
    for (id, grader, key, result) in pending {
        let lost = |_| ItemResult {
            grading: Grading::unavailable(
                "the item was not judged: its grader failed, or the server is stopping",
                true,
            ),
            cached: false,
            seconds: None,
        };
        let result = match result {
            Ok(result) => result,
            Err(queued) => queued.await.unwrap_or_else(lost),
        };
        let seconds = if result.cached {
            started.elapsed().as_secs_f64()
        } else {
            result.seconds.unwrap_or(0.0)
        };
        service.metrics.judgement(
            grader,
            result.grading.verdict,
            result.cached,
            result.seconds,
        );
        judgements.push(judgement(id, key, result, seconds));
    }
    guard.answered();
    Ok(judgements)
}

fn enqueue(
    service: &Arc<Service>,
    places: &mut Reservation,
    item: JudgeItem,
    key: Key,
) -> oneshot::Receiver<ItemResult> {
    let (receiver, first) = service.in_flight.join(key);
    if first {
        places.submit(Box::new(JudgeJob {
            service: Arc::clone(service),
            item,
            key,
            lane: places.lane(),
            canonical_result: None,
            deferred: false,
            worker_time: Duration::ZERO,
            released: false,
        }));
    }
    receiver
}

fn judgement(id: Id, key: Key, result: ItemResult, seconds: f64) -> Judgement {
    let reward = result.grading.reward();
    Judgement {
        reward,
        verdict: result.grading.verdict,
        passed: result.grading.passed,
        total: result.grading.total,
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
        retryable,
        key: String::new(),
        cached: false,
        deterministic: true,
        elapsed_ms: 0.0,
    }
}
