//! What all clients' routes share: they receive a body within the limits of `/v1/verify`, judge its items as there, and hold the request while there is no reward.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use verifier_api::{Id, Judgement};

use crate::grade::code::{Known, TestMode};
use crate::item::JudgeItem;
use crate::judging::{Batch, Judge, judge};
use crate::metrics;
use crate::pool::ClientId;
use crate::registry::RegisteredTask;
use crate::service::hold::Hold;
use crate::service::sender::Sender;
use crate::service::{ProblemResponse, Service, body};

/// Judging goes on this long after a client gave up, so that its repeated request finds the results.
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
    pub(super) fn hold(&self, service: &Service) -> Hold {
        Hold::at_most(self.patience.min(service.settings.compat_hold))
    }

    /// Receives and parses a body. While there is no memory for it, the request is held.
    ///
    /// # Errors
    /// If the body cannot be used, and this client's refusal if there is no memory for it.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        sender: &Sender,
        body: Body,
        hold: &mut Hold,
        parse: impl FnOnce(&Service, &[u8]) -> Result<T, ProblemResponse> + Send + 'static,
    ) -> Result<T, ProblemResponse> {
        let refused = |problem: ProblemResponse| match problem.is_full() {
            true => (self.refusal)("too many bytes of requests are in flight"),
            false => problem,
        };
        let parsed = body::read(sender, body, hold, parse).await;
        parsed.map_err(refused)
    }

    /// Receives a body and judges its items. `parse` returns the items, and whatever else the answer needs.
    ///
    /// # Errors
    /// Those of [`Client::read`], and this client's refusal if there is no reward.
    pub(super) async fn judge<T: Send + 'static>(
        &self,
        sender: &Sender,
        body: Body,
        parse: impl FnOnce(&Service, &[u8]) -> Result<(Vec<JudgeItem>, T), ProblemResponse>
        + Send
        + 'static,
    ) -> Result<(Vec<Rewarded>, T), ProblemResponse> {
        let (rewards, rest) = self
            .judge_or_withhold(sender, body, "withheld", parse)
            .await?;
        let refused = |withheld: Withheld| (self.refusal)(&withheld.reason);
        Ok((rewards.map_err(refused)?, rest))
    }

    /// [`Client::judge`] for a client with its own answer for a missing reward. Such an answer is counted as `outcome`.
    pub(super) async fn judge_or_withhold<T: Send + 'static>(
        &self,
        sender: &Sender,
        body: Body,
        outcome: &'static str,
        parse: impl FnOnce(&Service, &[u8]) -> Result<(Vec<JudgeItem>, T), ProblemResponse>
        + Send
        + 'static,
    ) -> Result<(Rewards, T), ProblemResponse> {
        let service = &sender.service;
        let mut hold = self.hold(service);
        let (items, rest) = self.read(sender, body, &mut hold, parse).await?;
        let count = items.len();
        let rewards = rewards(sender, items, &mut hold).await;
        match &rewards {
            Err(_) => self.count(service, outcome, count),
            Ok(rewards) => {
                for Rewarded { judgement, .. } in rewards {
                    self.count(service, metrics::name(judgement.verdict), 1);
                }
            }
        }
        Ok((rewards, rest))
    }

    /// Counts items by the outcome that the client gets.
    pub(super) fn count(&self, service: &Service, outcome: &'static str, items: usize) {
        service
            .judge
            .metrics
            .client_items(self.name, outcome, items);
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
        known: Known::default(),
    }
}

/// Judges items until all have a reward.
pub(super) async fn rewards(sender: &Sender, items: Vec<JudgeItem>, hold: &mut Hold) -> Rewards {
    let mut rewards: Vec<Option<Rewarded>> = items.iter().map(|_| None).collect();
    let items = Arc::new(items);
    loop {
        let open: Vec<usize> = (0..items.len())
            .filter(|at| rewards[*at].is_none())
            .collect();
        let withheld = match attempt(sender, &items, open.clone(), hold).await {
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
        if !withheld.retryable || !hold.wait(&sender.service).await {
            return Err(withheld);
        }
    }
}

/// Judges the open items once. What takes longer than the client waits goes on for [`RETRY_GRACE`].
async fn attempt(
    sender: &Sender,
    items: &Arc<Vec<JudgeItem>>,
    open: Vec<usize>,
    hold: &Hold,
) -> Result<Vec<Judgement>, Withheld> {
    let (judge, items) = (Arc::clone(&sender.service.judge), Arc::clone(items));
    let open = move || open.into_iter().map(|at| items[at].clone()).collect();
    let mut judging = Box::pin(judge_once(judge, sender.client, open));
    if let Ok(judged) = tokio::time::timeout_at(hold.end(), &mut judging).await {
        return judged;
    }
    let permit = sender.held.take();
    tokio::spawn(async move {
        let _ = tokio::time::timeout(RETRY_GRACE, judging).await;
        drop(permit);
    });
    Err(later(
        "judging takes longer than this client waits. It goes on, so that a repetition within a minute finds it",
    ))
}

async fn judge_once(
    on: Arc<Judge>,
    client: ClientId,
    items: impl FnOnce() -> Vec<JudgeItem> + Send + 'static,
) -> Result<Vec<Judgement>, Withheld> {
    let keyed = Arc::clone(&on);
    // Computing the keys of large items would block a thread that serves other requests too.
    let batch = tokio::task::spawn_blocking(move || Batch::new(&keyed, items()))
        .await
        .map_err(|_| later("the service failed; its log says why"))?;
    let judged = judge(&on, client, batch).await;
    judged.map_err(|_| later("the queue is full"))
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
