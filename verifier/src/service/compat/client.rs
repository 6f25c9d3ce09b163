//! What all clients' routes share: they receive a body within the limits of `/v1/verify`, judge its items as there, and hold the request while there is no reward.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use datasets::fields::{FieldError, Fields};
use verifier_api::{Id, Judgement};

use crate::grade::code::{SampleState, TestMode};
use crate::item::JudgeItem;
use crate::judging::{Batch, judge};
use crate::registry::RegisteredTask;
use crate::service::backoff::Backoff;
use crate::service::request::read_object;
use crate::service::request_context::RequestContext;
use crate::service::{ProblemResponse, Service, body};

/// Judging goes on this long after a client's timeout, so that its repeated request finds the results.
const RETRY_GRACE: Duration = Duration::from_secs(60);

pub(super) struct Client {
    /// Its name in the metrics.
    pub(super) name: &'static str,
    /// The longest time from a request to its answer, a little less than the client itself waits.
    pub(super) patience: Duration,
    /// The answer, with a reason, when that time is over: a status on which the client repeats its request.
    pub(super) refusal: fn(&str) -> ProblemResponse,
}

/// A judgement with a reward.
pub(super) struct Rewarded {
    pub(super) reward: f64,
    pub(super) judgement: Judgement,
}

/// The judgements of one request, or why it gets no reward.
pub(super) type Rewards = Result<Vec<Rewarded>, Withheld>;

/// Why a request gets no reward.
pub(super) struct Withheld {
    pub(super) reason: String,
    /// Whether the request may get one later.
    pub(super) retryable: bool,
}

impl Client {
    /// Holds a request for as long as this client waits, and the operator allows.
    pub(super) fn backoff(&self, service: &Service) -> Backoff {
        Backoff::at_most(self.patience.min(service.settings.compat_hold))
    }

    /// Receives and parses a body. While there is no memory for it, the request is held.
    ///
    /// # Errors
    /// If the body cannot be used, and this client's refusal if there is no memory for it.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        context: &RequestContext,
        body: Body,
        backoff: &mut Backoff,
        parse: impl FnOnce(&Service, &[u8]) -> Result<T, ProblemResponse> + Send + 'static,
    ) -> Result<T, ProblemResponse> {
        let refused = |problem: ProblemResponse| match problem.is_full() {
            true => (self.refusal)("too many bytes of requests are in flight"),
            false => problem,
        };
        let parsed = body::read(context, body, backoff, parse).await;
        parsed.map_err(refused)
    }

    /// [`Client::read`] of an object, as `parse` reads its fields.
    pub(super) async fn read_object<T: Send + 'static>(
        &self,
        context: &RequestContext,
        body: Body,
        backoff: &mut Backoff,
        parse: impl FnOnce(&Service, Fields<'_>) -> Result<T, FieldError> + Send + 'static,
    ) -> Result<T, ProblemResponse> {
        self.read(context, body, backoff, |service, body| {
            read_object(body, |fields| parse(service, fields))
        })
        .await
    }

    /// Receives an object and judges its items. `parse` returns the items, and whatever else the answer needs. If there are no rewards, the items are counted as `outcome`.
    ///
    /// # Errors
    /// Those of [`Client::read`].
    pub(super) async fn judge<T: Send + 'static>(
        &self,
        context: &RequestContext,
        body: Body,
        outcome: &'static str,
        parse: impl FnOnce(&Service, Fields<'_>) -> Result<(Vec<JudgeItem>, T), FieldError>
        + Send
        + 'static,
    ) -> Result<(Rewards, T), ProblemResponse> {
        let service = &context.service;
        let mut backoff = self.backoff(service);
        let parsed = self.read_object(context, body, &mut backoff, parse);
        let (items, rest) = parsed.await?;
        let count = items.len();
        let rewards = rewards(context, items, &mut backoff).await;
        match &rewards {
            Err(_) => self.count(service, outcome, count),
            Ok(rewards) => {
                for Rewarded { judgement, .. } in rewards {
                    self.count(service, judgement.verdict.name(), 1);
                }
            }
        }
        Ok((rewards, rest))
    }

    /// The answer to a request without a reward.
    pub(super) fn refused(&self, withheld: &Withheld) -> ProblemResponse {
        (self.refusal)(&withheld.reason)
    }

    /// Counts items by the outcome that the client gets.
    pub(super) fn count(&self, service: &Service, outcome: &'static str, items: usize) {
        let metrics = &service.judge.metrics;
        metrics.client_items(self.name, outcome, items);
    }
}

/// An item without an id: these clients' answers have ids of their own, or none.
pub(super) fn item(task: Arc<RegisteredTask>, prompt: String, completion: &str) -> JudgeItem {
    JudgeItem {
        id: Id::Text(String::new()),
        task,
        prompt,
        completion: completion.to_owned(),
        test_mode: TestMode::UntilFailure,
        state: SampleState::default(),
    }
}

/// Judges items until all have a reward.
pub(super) async fn rewards(
    context: &RequestContext,
    items: Vec<JudgeItem>,
    backoff: &mut Backoff,
) -> Rewards {
    let mut rewards: Vec<Option<Rewarded>> = items.iter().map(|_| None).collect();
    let items = Arc::new(items);
    loop {
        let open: Vec<usize> = (0..items.len())
            .filter(|at| rewards[*at].is_none())
            .collect();
        let withheld = match attempt(context, &items, open.clone(), backoff).await {
            Err(withheld) => withheld,
            Ok(judgements) => {
                let unjudged = judgements.iter().filter(|one| one.reward.is_none());
                let withheld = unjudged.min_by_key(|one| one.retryable).map(withheld);
                for (at, judgement) in open.into_iter().zip(judgements) {
                    rewards[at] = judgement
                        .reward
                        .map(|reward| Rewarded { reward, judgement });
                }
                match withheld {
                    None => return Ok(rewards.into_iter().flatten().collect()),
                    Some(withheld) => withheld,
                }
            }
        };
        if !withheld.retryable || !backoff.wait(&context.service).await {
            return Err(withheld);
        }
    }
}

/// Judges the open items once. What takes longer than the client waits goes on for [`RETRY_GRACE`].
async fn attempt(
    context: &RequestContext,
    items: &Arc<Vec<JudgeItem>>,
    open: Vec<usize>,
    backoff: &Backoff,
) -> Result<Vec<Judgement>, Withheld> {
    let (on, client) = (Arc::clone(&context.service.judge), context.client);
    let items = Arc::clone(items);
    let mut judging = Box::pin(async move {
        let keyed = Arc::clone(&on);
        // Computing the keys of large items would block a thread that serves other requests too.
        let batch = tokio::task::spawn_blocking(move || {
            let open = open.into_iter().map(|at| items[at].clone());
            Batch::new(&keyed, open.collect())
        });
        let failed = |_| later("the service failed; its log says why");
        let judged = judge(&on, client, batch.await.map_err(failed)?).await;
        judged.map_err(|_| later("the queue is full"))
    });
    if let Ok(judged) = tokio::time::timeout_at(backoff.deadline(), &mut judging).await {
        return judged;
    }
    let permit = context.body_permit.take();
    tokio::spawn(async move {
        let _ = tokio::time::timeout(RETRY_GRACE, judging).await;
        drop(permit);
    });
    Err(later(
        "judging takes longer than this client waits. It goes on, so that a repetition within a minute finds it",
    ))
}

/// A reward may come later.
fn later(reason: &str) -> Withheld {
    Withheld {
        reason: reason.to_owned(),
        retryable: true,
    }
}

/// Why a judgement has no reward.
fn withheld(judgement: &Judgement) -> Withheld {
    let reason = judgement.detail["reason"].as_str();
    Withheld {
        reason: reason.unwrap_or("the service cannot judge").to_owned(),
        retryable: judgement.retryable,
    }
}
