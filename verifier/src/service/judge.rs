//! From items to judgements: the cache first, then the queue; what is asked twice at once is judged once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use verifier_api::Judgement;

use super::Service;
use super::references;
use super::request::Question;
use crate::cache::Key;
use crate::grade::Grading;
use crate::grade::code::{CanonicalResult, NoVerdictYet};
use crate::pool::{Full, Job, Lane, Reservation};
use crate::registry::grader;

/// Why a batch is not judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The queue has no room for it.
    Full {
        /// When there may be.
        retry_after: Duration,
    },
}

impl From<Full> for Refusal {
    fn from(full: Full) -> Refusal {
        Refusal::Full {
            retry_after: full.retry_after,
        }
    }
}

/// The keys that are being judged, each with those who wait for its verdict.
#[derive(Default)]
pub(super) struct InFlight(Mutex<HashMap<Key, Vec<oneshot::Sender<Outcome>>>>);

/// A verdict, and whether the cache had it.
#[derive(Debug, Clone)]
struct Outcome {
    grading: Grading,
    cached: bool,
    /// Time that a worker took for it; `None` where none did.
    seconds: Option<f64>,
}

impl InFlight {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Vec<oneshot::Sender<Outcome>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the verdict under `key`; true where nobody else does yet, so that it must be queued.
    fn join(&self, key: Key) -> (oneshot::Receiver<Outcome>, bool) {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.lock();
        let waiters = waiting.entry(key).or_default();
        let first = waiters.is_empty();
        waiters.push(sender);
        (receiver, first)
    }

    /// Whether someone still waits. Where nobody does, the key is forgotten.
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

    fn finish(&self, key: &Key, outcome: &Outcome) {
        let waiters = self.lock().remove(key).unwrap_or_default();
        let cacheable = outcome.grading.reward().is_some();
        for (number, waiter) in waiters.into_iter().enumerate() {
            let cached = outcome.cached || (cacheable && number > 0);
            // Whoever has gone away needs no answer.
            let _ = waiter.send(Outcome {
                cached,
                ..outcome.clone()
            });
        }
    }
}

pub(super) struct JudgeJob {
    pub(super) service: Arc<Service>,
    pub(super) question: Question,
    key: Key,
    /// Its request's.
    pub(super) lane: Lane,
    /// What its task's own solution returns, once it has waited for that.
    pub(super) reference: Option<CanonicalResult>,
    /// Whether it was deferred once, since it was not over soon.
    long: bool,
    /// Time that workers have taken for it.
    taken: Duration,
    /// Whether its key is no longer its own: another job may have it.
    over: bool,
}

impl JudgeJob {
    fn grade(&self) -> Result<Grading, NoVerdictYet> {
        let JudgeJob {
            service, question, ..
        } = self;
        let (task, prompt) = (&question.task, &question.prompt);
        let completion = &question.completion;
        let (mode, given) = (question.test_mode, self.reference.as_ref());
        if self.long {
            let graded = service.graders.grade(task, prompt, completion, mode, given);
            return graded.map_err(NoVerdictYet::CanonicalResult);
        }
        service
            .graders
            .grade_first_pass(task, prompt, completion, mode, given)
    }
}

impl Job for JudgeJob {
    fn wanted(&mut self) -> bool {
        let wanted = self.service.in_flight.wanted(&self.key);
        self.over = !wanted;
        wanted
    }

    fn run(mut self: Box<Self>) {
        let started = Instant::now();
        let known = self.service.cache.get(&self.key);
        let cached = known.is_some();
        let graded = known.map_or_else(
            || {
                let graded = self.grade();
                if let Ok(grading) = &graded {
                    self.service.cache.put(self.key, grading);
                }
                graded
            },
            Ok,
        );
        self.taken += started.elapsed();
        let grading = match graded {
            Ok(grading) => grading,
            Err(NoVerdictYet::CanonicalResult(key)) => {
                references::wait(*self, key);
                return;
            }
            Err(NoVerdictYet::Long) => {
                self.long = true;
                let service = Arc::clone(&self.service);
                match service.long.reserve_in(self.lane, 1) {
                    Ok(mut room) => room.submit(self),
                    // Better late than never.
                    Err(Full { .. }) => self.run(),
                }
                return;
            }
        };
        let outcome = Outcome {
            grading,
            cached,
            seconds: Some(self.taken.as_secs_f64()),
        };
        self.service.in_flight.finish(&self.key, &outcome);
        self.over = true;
    }
}

impl Drop for JudgeJob {
    fn drop(&mut self) {
        if !self.over {
            // Never run to its end: it panicked, or the service stops. Whoever waits sees the channel close.
            self.service.in_flight.lock().remove(&self.key);
        }
    }
}

/// When a request's future is dropped before its end, its queued jobs leave the queue.
struct Leaving<'a> {
    service: &'a Service,
    answered: bool,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.service.light.sweep();
            self.service.heavy.sweep();
            self.service.long.sweep();
            self.service.solutions.sweep();
        }
    }
}

enum Pending {
    Here(Outcome, Key),
    Waits(oneshot::Receiver<Outcome>, Key),
}

/// Questions with their keys, and with the verdicts that need no judging.
pub struct Batch {
    asked: Vec<(Question, Key, Option<Outcome>)>,
    started: Instant,
}

impl Batch {
    /// Makes the keys: of a large batch, no work for a thread that answers others too.
    #[must_use]
    pub fn new(service: &Service, questions: Vec<Question>) -> Batch {
        let started = Instant::now();
        let asked = questions.into_iter().map(|question| {
            let Question {
                task,
                prompt,
                completion,
                test_mode,
                ..
            } = &question;
            // Asked before the key is made: a grader that gets ready in between must not have a verdict stored under a key without its interpreter.
            let refused = service.graders.refusal(&task.spec);
            let key = service.graders.key(task, prompt, completion, *test_mode);
            let outcome = |grading, cached| Outcome {
                grading,
                cached,
                seconds: None,
            };
            let here = service
                .cache
                .in_memory(&key)
                .map(|grading| outcome(grading, true))
                .or_else(|| refused.map(|grading| outcome(grading, false)));
            (question, key, here)
        });
        Batch {
            asked: asked.collect(),
            started,
        }
    }

    /// How many questions must be queued, of those that are heavy or of those that are not.
    fn absent(&self, heavy: bool) -> usize {
        self.asked
            .iter()
            .filter(|(question, _, here)| here.is_none() && question.heavy() == heavy)
            .count()
    }
}

/// Judges a batch: one judgement a question, in their order.
///
/// # Errors
/// [`Refusal::Full`] where the queue has no room for what is not in the cache; then nothing of the batch was queued.
pub async fn judge(service: &Arc<Service>, batch: Batch) -> Result<Vec<Judgement>, Refusal> {
    // Those that were put aside were in the queue, and will be there again.
    let room = service.limits.queue - service.solutions.waiting().min(service.limits.queue);
    if batch.absent(true) > room {
        return Err(Refusal::Full {
            retry_after: Duration::from_secs(1),
        });
    }
    let mut light = service.light.reserve(batch.absent(false))?;
    let mut heavy = service.heavy.reserve(batch.absent(true))?;

    let mut leaving = Leaving {
        service,
        answered: false,
    };
    let Batch { asked, started } = batch;
    let mut ids = Vec::with_capacity(asked.len());
    let mut pending = Vec::with_capacity(asked.len());
    for (question, key, here) in asked {
        ids.push((question.id.to_string(), grader(&question.task.spec)));
        pending.push(match here {
            Some(outcome) => Pending::Here(outcome, key),
            None => {
                let room = if question.heavy() {
                    &mut heavy
                } else {
                    &mut light
                };
                Pending::Waits(enqueue(service, room, question, key), key)
            }
        });
    }
    // Places of keys that another request is having judged.
    drop((light, heavy));

    let mut judgements = Vec::with_capacity(ids.len());
    for ((id, grader), pending) in ids.into_iter().zip(pending) {
        let (outcome, key) = match pending {
            Pending::Here(outcome, key) => (outcome, key),
            Pending::Waits(receiver, key) => {
                let lost = || Outcome {
                    grading: Grading::unavailable(
                        "the item was not judged: its grader failed, or the server is stopping",
                        true,
                    ),
                    cached: false,
                    seconds: None,
                };
                (receiver.await.unwrap_or_else(|_| lost()), key)
            }
        };
        let seconds = if outcome.cached {
            started.elapsed().as_secs_f64()
        } else {
            outcome.seconds.unwrap_or(0.0)
        };
        service.metrics.judgement(
            grader,
            outcome.grading.verdict,
            outcome.cached,
            outcome.seconds,
        );
        judgements.push(judgement(id, key, outcome, seconds));
    }
    leaving.answered = true;
    Ok(judgements)
}

fn enqueue(
    service: &Arc<Service>,
    room: &mut Reservation,
    question: Question,
    key: Key,
) -> oneshot::Receiver<Outcome> {
    let (receiver, first) = service.in_flight.join(key);
    if first {
        room.submit(Box::new(JudgeJob {
            service: Arc::clone(service),
            question,
            key,
            lane: room.lane(),
            reference: None,
            long: false,
            taken: Duration::ZERO,
            over: false,
        }));
    }
    receiver
}

fn judgement(id: String, key: Key, outcome: Outcome, seconds: f64) -> Judgement {
    let reward = outcome.grading.reward();
    let Grading {
        verdict,
        detail,
        passed,
        total,
        retryable,
        deterministic,
    } = outcome.grading;
    Judgement {
        id,
        reward,
        verdict,
        detail,
        passed,
        total,
        retryable,
        key: key.to_string(),
        cached: outcome.cached,
        deterministic,
        elapsed_ms: (seconds * 1e6).round() / 1e3,
    }
}
