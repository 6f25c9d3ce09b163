//! What the routes of all clients share: a body is received within the limits of `/v1/verify`, its items are judged as there, and it is held while there is no reward.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use serde_json::{Value as Json, json};
use verifier_api::{Id, Judgement};

use crate::grade::code::TestMode;
use crate::metrics;
use crate::registry::RegisteredTask;
use crate::service::hold::Hold;
use crate::service::judge::{Batch, judge};
use crate::service::sender::Sender;
use crate::service::{JudgeItem, ProblemResponse, Refusal, Service, body};

/// How long a client that has waited in vain may take to repeat its request, which then waits for what still runs.
const REPETITION: Duration = Duration::from_secs(60);

/// The settings of the routes of other projects' clients.
#[derive(Debug, Clone, Copy)]
pub struct CompatSettings {
    /// The longest time from a request to its answer.
    pub hold: Duration,
    /// Whether NeMo Gym gets a masked reward 0 instead of an error.
    pub nemo_gym_failsafe: bool,
}

/// A client.
pub(super) struct Client {
    /// Its name in the metrics.
    pub(super) name: &'static str,
    /// The longest time from a request to its answer, a little less than the client itself waits.
    pub(super) patience: Duration,
}

/// A judgement with a reward.
pub(super) struct Rewarded {
    pub(super) reward: f64,
    pub(super) judgement: Judgement,
}

/// Why a request gets no reward. It is answered by [`Client::refuse`], or in a form of the client's own that [`Client::count`] counts.
#[derive(Debug)]
pub(super) struct Withheld {
    pub(super) reason: String,
    /// Number of items of the request.
    pub(super) items: usize,
}

/// The judgements of one request, or why it gets no reward, and what else its answer needs.
pub(super) struct Judged<T> {
    pub(super) rewards: Result<Vec<Rewarded>, Withheld>,
    pub(super) rest: T,
}

impl Client {
    /// Receives a body, from which `parse` makes items and what else the answer needs, and judges the items.
    ///
    /// # Errors
    /// If the body cannot be used, and 503 if there is no memory for it.
    pub(super) async fn judge<T: Send + 'static>(
        &self,
        service: &Arc<Service>,
        sender: &Sender,
        body: Body,
        parse: impl FnOnce(&Service, &[u8]) -> Result<(Vec<JudgeItem>, T), ProblemResponse>
        + Send
        + 'static,
    ) -> Result<Judged<T>, ProblemResponse> {
        let mut hold = Hold::at_most(self.patience.min(service.compat.hold));
        let body = body::receive(service, sender, body, &mut hold)
            .await
            .map_err(ProblemResponse::or_unavailable)?;
        let _open = service.open_requests.begin();
        let (items, rest) = body
            .parse(service, parse)
            .await
            .map_err(ProblemResponse::or_unavailable)?;
        let count = items.len();
        let rewards = rewards(service, sender, items, &mut hold)
            .await
            .map_err(|reason| Withheld {
                reason,
                items: count,
            });
        for Rewarded { judgement, .. } in rewards.iter().flatten() {
            self.count(service, metrics::name(judgement.verdict), 1);
        }
        Ok(Judged { rewards, rest })
    }

    /// The answer 503 to a request without a reward.
    pub(super) fn refuse(&self, service: &Service, withheld: &Withheld) -> ProblemResponse {
        self.count(service, "withheld", withheld.items);
        ProblemResponse::unavailable(&withheld.reason)
    }

    /// Counts items by what the client was told about them.
    pub(super) fn count(&self, service: &Service, outcome: &'static str, items: usize) {
        service.metrics.client_items(self.name, outcome, items);
    }
}

/// An item of `/v1/verify`.
pub(super) fn item(task: Arc<RegisteredTask>, prompt: String, completion: &str) -> JudgeItem {
    JudgeItem {
        // The answers of these clients have ids of their own, or none.
        id: Id::Text(String::new()),
        task,
        prompt,
        completion: completion.to_owned(),
        test_mode: TestMode::UntilFailure,
    }
}

/// Judges items until all have a reward. The error says why they have none.
async fn rewards(
    service: &Arc<Service>,
    sender: &Sender,
    items: Vec<JudgeItem>,
    hold: &mut Hold,
) -> Result<Vec<Rewarded>, String> {
    let mut rewards: Vec<Option<Rewarded>> = items.iter().map(|_| None).collect();
    let mut open: Vec<usize> = (0..items.len()).collect();
    let items = Arc::new(items);
    while !open.is_empty() {
        let reason = match attempt(service, sender, &items, &open, hold).await? {
            Err(Refusal::Full { .. }) => "the queue is full".to_owned(),
            Ok(judgements) => {
                let mut reason = String::new();
                for (place, judgement) in open.iter().zip(judgements) {
                    match judgement.reward {
                        Some(reward) => rewards[*place] = Some(Rewarded { reward, judgement }),
                        None if judgement.retryable => reason = why(&judgement),
                        None => return Err(why(&judgement)),
                    }
                }
                open.retain(|place| rewards[*place].is_none());
                reason
            }
        };
        if !open.is_empty() && !hold.wait(service).await {
            return Err(reason);
        }
    }
    Ok(rewards.into_iter().flatten().collect())
}

/// Judges those of the items that are still open, once. What takes longer than the client waits goes on for [`REPETITION`].
async fn attempt(
    service: &Arc<Service>,
    sender: &Sender,
    items: &Arc<Vec<JudgeItem>>,
    open: &[usize],
    hold: &Hold,
) -> Result<Result<Vec<Judgement>, Refusal>, String> {
    let batch = {
        let (service, items, open) = (Arc::clone(service), Arc::clone(items), open.to_vec());
        // Computing the keys of large items would block a thread that serves other requests too.
        tokio::task::spawn_blocking(move || {
            let items = open.into_iter().map(|place| items[place].clone());
            Batch::new(&service, items.collect())
        })
    };
    let batch = batch
        .await
        .map_err(|_| "the service failed; its log says why".to_owned())?;
    let (service, client) = (Arc::clone(service), sender.client);
    let mut judging = Box::pin(async move { judge(&service, client, batch).await });
    if let Ok(judged) = tokio::time::timeout_at(hold.end(), &mut judging).await {
        return Ok(judged);
    }
    let permit = sender.held.take();
    tokio::spawn(async move {
        let _ = tokio::time::timeout(REPETITION, judging).await;
        drop(permit);
    });
    Err("judging takes longer than this client waits. It goes on, so that a repetition within a minute finds it".to_owned())
}

/// Why a judgement has no reward.
fn why(judgement: &Judgement) -> String {
    let reason = judgement.detail["reason"].as_str();
    reason.unwrap_or("the service cannot judge").to_owned()
}

/// The description of a `POST` route in OpenAPI's form.
pub(super) fn post(summary: &str, request: &Json, response: &Json) -> Json {
    let problem = json!({ "$ref": "#/components/responses/problem" });
    let content = |schema: &Json| json!({ "application/json": { "schema": schema } });
    json!({ "post": {
        "summary": summary,
        "security": [{ "token": [] }, { "basic": [] }, {}],
        "requestBody": { "required": true, "content": content(request) },
        "responses": {
            "200": { "description": "The answer in this client's form.", "content": content(response) },
            "400": problem, "401": problem, "408": problem, "413": problem, "415": problem, "422": problem, "500": problem, "503": problem
        }
    } })
}
