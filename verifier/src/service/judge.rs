//! Judges items: from the cache, else through the queue. Equal items that are in flight at once are judged once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use datasets::TaskSpec;
use sandboxes::Abandoned;
use serde_json::Value as Json;
use tokio::sync::watch;
use verifier_api::{Id, Judgement, Verdict};

use super::Service;
use super::canonical_queue;
use super::request::JudgeItem;
use crate::cache::Key;
use crate::grade::Grading;
use crate::grade::code::{CanonicalResult, NoVerdictYet};
use crate::graders::Attempt;
use crate::pool::{ClientId, Full, Job, Lane, Reservation};

/// The keys that are being judged. The job that judges one owns its channel, so that the requests that wait for it notice if the job is dropped.
#[derive(Default)]
pub(super) struct InFlight(Mutex<HashMap<Key, Weak<Waiters>>>);

/// Passes a key's result to the requests that wait for it.
type Waiters = watch::Sender<Option<ItemResult>>;
type Waiter = watch::Receiver<Option<ItemResult>>;

/// The result for an item, and whether it came from the cache.
#[derive(Debug, Clone)]
struct ItemResult {
    grading: Grading,
    cached: bool,
    /// Time that workers spent on it; `None` if no worker did.
    seconds: Option<f64>,
}

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Weak<Waiters>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a waiter for the verdict under `key`. If it is the first, returns the key's channel too, and the item must be queued.
    fn join(&self, key: Key) -> (Waiter, Option<Arc<Waiters>>) {
        let mut keys = self.lock();
        if let Some(waiters) = keys.get(&key).and_then(Weak::upgrade) {
            return (waiters.subscribe(), None);
        }
        let waiters = Arc::new(Waiters::new(None));
        keys.insert(key, Arc::downgrade(&waiters));
        (waiters.subscribe(), Some(waiters))
    }

    /// Whether a request still waits for `key`. If none does, the key is removed.
    fn wanted(&self, key: &Key, waiters: &Waiters) -> bool {
        let mut keys = self.lock();
        let wanted = !waiters.is_closed();
        if !wanted {
            keys.remove(key);
        }
        wanted
    }

    fn finish(&self, key: &Key, waiters: &Waiters, result: ItemResult) {
        self.lock().remove(key);
        waiters.send_replace(Some(result));
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
    waiters: Arc<Waiters>,
}

impl JudgeJob {
    fn grade(&self) -> Result<Grading, NoVerdictYet> {
        let JudgeJob { service, item, .. } = self;
        let waiters = Arc::clone(&self.waiters);
        let abandoned = Abandoned::new(move || waiters.is_closed());
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
        self.service.in_flight.wanted(&self.key, &self.waiters)
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
        let in_flight = &self.service.in_flight;
        in_flight.finish(&self.key, &self.waiters, result);
    }
}

/// Removes a request's queued jobs if its future is dropped before the end.
pub(super) struct CancelGuard<'a>(pub(super) &'a Service);

impl CancelGuard<'_> {
    /// The request has all its answers, so none of its jobs is left.
    pub(super) fn answered(self) {
        std::mem::forget(self);
    }
}

impl Drop for CancelGuard<'_> {
    fn drop(&mut self) {
        self.0.pools().iter().for_each(|pool| pool.sweep());
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

    let guard = CancelGuard(service);
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
        let result = match result {
            Ok(result) => result,
            Err(queued) => queued.result().await,
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

fn enqueue(service: &Arc<Service>, places: &mut Reservation, item: JudgeItem, key: Key) -> Queued {
    let (waiter, first) = service.in_flight.join(key);
    let shared = first.is_none();
    if let Some(waiters) = first {
        places.submit(Box::new(JudgeJob {
            service: Arc::clone(service),
            item,
            key,
            lane: places.lane(),
            canonical_result: None,
            deferred: false,
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
