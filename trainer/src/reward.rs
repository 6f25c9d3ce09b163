//! Rewards from a verifier: batches, a bound on the requests in flight, patience, and masks.
//!
//! An infrastructure failure is not a wrong answer: a sample without a verdict gets no reward at all, and the trainer leaves it out.

mod grader_settings;
mod terms;
mod verifier_preflight;

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use datasets::Task;
use datasets::digest::Digest;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use verifier_api::{Client, ClientError, Item, TaskRef, Verdict};

use crate::config;
use crate::data::Prompt;
pub use terms::{Terms, means};

/// First pause before a request is repeated; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause, unless the verifier's `Retry-After` is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// Minimum time limit of a request. A batch of proofs that all reach Lean's deadline takes most of it.
const MIN_WAIT: Duration = Duration::from_secs(60 * 60);
/// Minimum time between two warnings of the same kind, since all requests in flight meet the same outage.
const QUIET: Duration = Duration::from_secs(60);

/// A verdict, or the mark that there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The verifier's reward: 1 if the completion is correct, else 0, or from a grader of the operator's own something between. `None` masks the sample: nothing is
    /// known about it.
    pub reward: Option<f64>,
    /// The verifier's verdict; [`Verdict::Unavailable`] if there is none.
    pub verdict: Verdict,
    /// First failing test, extracted answer, messages; for a masked sample, the reason.
    pub detail: serde_json::Value,
    /// Tests passed, for code only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<u32>,
    /// Tests in all, for code only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u32>,
    /// Parts of the reward by name, from a grader of the operator's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub terms: BTreeMap<String, f64>,
}

impl Judged {
    /// Whether it is the default, which stands for a completion that is not judged yet.
    pub(crate) fn is_pending(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Judged {
    fn default() -> Self {
        Self {
            reward: None,
            verdict: Verdict::Unavailable,
            detail: serde_json::Value::Null,
            passed: None,
            total: None,
            terms: BTreeMap::new(),
        }
    }
}

/// Why there can be no rewards. Waiting would not help.
#[derive(Debug, thiserror::Error)]
pub enum RewardError {
    /// No address is configured.
    #[error(
        "no verifier is set: give its address with --verifier URL, as `verifier.url` in the recipe or in the environment variable RAPID_VERIFIER; `rapid-verifier serve` prints it"
    )]
    NoUrl,
    /// The verifier cannot be reached, or refused the request.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A grader that the tasks need judges differently than the recipe expects, or does not say how it judges.
    #[error("{0}")]
    GraderSettings(String),
    /// The verifier is not prepared for the tasks, or refuses the token or a task: what it is, and what to do.
    #[error("{0}")]
    Unusable(String),
}

/// The client of a verifier, with its patience and a bound on the requests in flight.
pub struct RewardClient {
    client: Client,
    settings: config::Verifier,
    /// Whether the environment variable of the token held one.
    has_token: bool,
    /// Maximum number of completions in one request: as configured, or fewer if the verifier accepts fewer.
    batch: AtomicUsize,
    patience: Duration,
    /// Whether tests are counted beyond the first that fails.
    all_tests: bool,
    /// The terms that every verdict has to have, with the grader of each if it is not the task's.
    terms: Vec<(String, Option<String>)>,
    in_flight: Semaphore,
    /// Whether tasks are sent by id, else inline.
    sends_ids: AtomicBool,
    /// By task id, the digest of the content that decides the task's verdicts.
    digests: Mutex<HashMap<String, Digest>>,
    /// When the client last warned that requests are repeated, and that samples are masked.
    last_warned: Mutex<[Option<Instant>; 2]>,
}

impl RewardClient {
    /// A client with the settings of the recipe's `[verifier]`. Nothing is sent. Tasks are sent by id until [`RewardClient::start`] or a refusal shows that the
    /// verifier does not have them.
    ///
    /// # Errors
    /// [`RewardError::NoUrl`]; [`RewardError::Client`] for an address that is not valid.
    pub fn new(settings: &config::Verifier) -> Result<Self, RewardError> {
        Self::with_reward(settings, &config::Reward::default())
    }

    /// As [`RewardClient::new`], for a training with this reward. If the share of passed tests counts, all tests of a program run, also after the first failure.
    /// That takes longer. A verdict without a term that the reward weighs is an error.
    ///
    /// # Errors
    /// As [`RewardClient::new`].
    pub fn with_reward(
        settings: &config::Verifier,
        reward: &config::Reward,
    ) -> Result<Self, RewardError> {
        let url = settings.url.as_ref().ok_or(RewardError::NoUrl)?;
        let token = settings.token();
        let patience = Duration::from_secs(settings.patience_s);
        Ok(Self {
            settings: settings.clone(),
            has_token: token.is_some(),
            client: Client::new(url, token)?.with_timeout(patience.max(MIN_WAIT)),
            batch: AtomicUsize::new(settings.batch.max(1)),
            patience,
            all_tests: reward.share != 0.0 || reward.terms.contains_key("share"),
            terms: reward
                .of_graders()
                .map(|(name, grader)| (name.to_owned(), grader.map(str::to_owned)))
                .collect(),
            in_flight: Semaphore::new(settings.in_flight.max(1)),
            sends_ids: AtomicBool::new(true),
            digests: Mutex::default(),
            last_warned: Mutex::default(),
        })
    }

    /// Maximum number of completions in one request.
    #[must_use]
    pub fn batch(&self) -> usize {
        self.batch.load(Ordering::Relaxed)
    }

    /// The verifier's address.
    #[must_use]
    pub fn url(&self) -> &str {
        self.client.url()
    }

    /// Judges texts after prompts, and returns the verdicts in their order. A request holds at most [`RewardClient::batch`] completions. Those that the verifier cannot judge
    /// now are sent again, with growing pauses, until the patience ends; then they are masked. Graders of the reward's terms judge them too, and a completion that one of
    /// these cannot judge is masked.
    ///
    /// # Errors
    /// [`RewardError`] if repeating the request cannot help.
    pub async fn judge(&self, completions: &[(&Prompt, &str)]) -> Result<Vec<Judged>, RewardError> {
        let graders = self
            .terms
            .iter()
            .filter_map(|(_, grader)| grader.as_deref());
        let graders = std::iter::once(None).chain(graders.map(Some));
        let by_grader = graders.map(|grader| async move {
            let batches = completions.chunks(self.batch());
            let batches = batches.map(|batch| self.judge_batch(grader, batch));
            let judged = futures::future::try_join_all(batches).await?.into_iter();
            Ok::<Vec<Judged>, RewardError>(judged.flatten().collect())
        });
        let mut by_grader = futures::future::try_join_all(by_grader).await?.into_iter();
        let mut judged = by_grader.next().unwrap_or_default();
        let names = self.terms.iter().filter(|(_, grader)| grader.is_some());
        for ((name, _), terms) in names.zip(by_grader) {
            for (judged, term) in judged.iter_mut().zip(terms) {
                match term.reward {
                    // A completion without a verdict stays masked for the first reason.
                    _ if judged.reward.is_none() => {}
                    Some(reward) => drop(judged.terms.insert(name.clone(), reward)),
                    None => *judged = term,
                }
            }
        }
        judged
            .iter()
            .try_for_each(|judged| self.check_terms(judged))?;
        Ok(judged)
    }

    /// The verdicts of the task's grader, or of another, on a batch.
    async fn judge_batch(
        &self,
        grader: Option<&str>,
        batch: &[(&Prompt, &str)],
    ) -> Result<Vec<Judged>, RewardError> {
        let mut judged: Vec<Option<Judged>> = vec![None; batch.len()];
        let mut outage = Outage::default();
        // Halved if the verifier refuses a request as too large.
        let mut size = batch.len();
        loop {
            let open: Vec<usize> = (0..batch.len())
                .filter(|i| judged[*i].is_none())
                .take(size)
                .collect();
            if open.is_empty() {
                return Ok(judged.into_iter().flatten().collect());
            }
            let named = grader.is_none() && self.sends_ids.load(Ordering::Relaxed);
            let items: Vec<Item> = open
                .iter()
                .map(|i| self.item(*i, batch[*i], named, grader))
                .collect();
            let queued = Instant::now();
            // The semaphore is never closed. Without a permit, the bound would not hold, but nothing else would break.
            let permit = self.in_flight.acquire().await;
            // The wait for the other requests is not a part of the outage: they may all be answered.
            outage.leave_out(queued.elapsed());
            let answers = self.client.verify(&items).await;
            drop(permit);
            match answers {
                Ok(answers) => {
                    let mut unavailable = None;
                    for (i, answer) in open.iter().zip(answers) {
                        let is_verdict = answer.reward.is_some();
                        // Without patience, what could be judged later is masked at once.
                        if !is_verdict && answer.retryable && !self.patience.is_zero() {
                            let reason = answer.detail["reason"].as_str().unwrap_or_default();
                            unavailable.get_or_insert(reason.to_owned());
                            continue;
                        }
                        if is_verdict {
                            outage = Outage::default();
                        }
                        judged[*i] = Some(Judged {
                            reward: answer.reward,
                            verdict: answer.verdict,
                            detail: answer.detail,
                            passed: answer.passed,
                            total: answer.total,
                            terms: answer.terms,
                        });
                    }
                    if let Some(why) = unavailable {
                        let reason = format!("the verifier answers `unavailable` for now: {why}");
                        self.wait_or_mask(&mut outage, reason, None, &mut judged)
                            .await;
                    }
                }
                Err(error) if too_many(&error) && open.len() > 1 => {
                    size = open.len() / 2;
                }
                Err(error) if status(&error) == Some(422) && named => {
                    // Requests in flight are refused too, so only the first refusal warns.
                    if self.sends_ids.swap(false, Ordering::Relaxed) {
                        tracing::warn!(
                            "the verifier does not know a task by its id ({error}); from now on, tasks are sent along with their completions"
                        );
                    }
                }
                Err(error) if error.retryable() => {
                    self.wait_or_mask(
                        &mut outage,
                        error.to_string(),
                        error.retry_after(),
                        &mut judged,
                    )
                    .await;
                }
                Err(error) => {
                    let tasks: Vec<&Task> = open.iter().map(|i| &*batch[*i].0.task).collect();
                    return Err(self.refused_tasks(error, &tasks));
                }
            }
        }
    }

    /// The item of a prompt and the text after it; `id` is its place in the batch. If its task is `named` by its id, it has the digest of the content that decides its
    /// verdicts, so that a verifier with another content refuses the item. For another `grader` than the task's, the task has its name.
    fn item(
        &self,
        id: usize,
        (prompt, text): (&Prompt, &str),
        named: bool,
        grader: Option<&str>,
    ) -> Item {
        let spec = &prompt.task.spec;
        Item {
            id: id.to_string(),
            task: match grader {
                _ if named => TaskRef::Named(prompt.task.id.clone()),
                None => TaskRef::Inline(spec.clone()),
                Some(grader) => TaskRef::Inline(spec.for_grader(grader)),
            },
            task_digest: named.then(|| self.digest_of(&prompt.task).to_string()),
            prompt: prompt.text.to_string(),
            completion: text.to_owned(),
            all_tests: self.all_tests,
        }
    }

    /// Refuses a verdict without a term that the reward weighs.
    fn check_terms(&self, judged: &Judged) -> Result<(), RewardError> {
        let mut names = self.terms.iter().map(|(name, _)| name);
        let missing = names.find(|name| !judged.terms.contains_key(*name));
        let missing = missing.filter(|_| judged.reward.is_some());
        missing.map_or(Ok(()), |name| {
            let given: Vec<&str> = judged.terms.keys().map(String::as_str).collect();
            let given = if given.is_empty() {
                "none".to_owned()
            } else {
                format!("only {}", given.join(", "))
            };
            Err(self.unusable(&format!(
                "gives no term `{name}`, which the recipe weighs as [reward.terms.{name}]; it gives {given}. Have the grader give it with every reward"
            )))
        })
    }

    /// The digest of the content that decides a task's verdicts; computed once for each task.
    fn digest_of(&self, task: &Task) -> Digest {
        let lock = || {
            let digests = self.digests.lock();
            digests.unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(digest) = lock().get(&task.id) {
            return *digest;
        }
        let digest = task.spec.digest();
        lock().insert(task.id.clone(), digest);
        digest
    }

    /// As [`RewardClient::refused`], for a request with these tasks: the error names the task at fault.
    fn refused_tasks(&self, error: ClientError, tasks: &[&Task]) -> RewardError {
        let ClientError::Refused { problem, .. } = &error else {
            return error.into();
        };
        let at_fault = problem.item.and_then(|item| tasks.get(item));
        match (problem.status, at_fault, tasks) {
            (422, Some(task), _) => self.unusable(&format!(
                "rejects the task {}: {error}. Correct the task; if it is right, use a verifier of this program's version",
                task.id
            )),
            (413, _, [task]) => self.unusable(&format!(
                "does not accept a request as large as one completion of {}, its prompt and its task; start it with a higher limit (`rapid-verifier serve --set \
                 limits.body_bytes=N`)",
                task.id
            )),
            _ => self.refused(error),
        }
    }

    /// The error for a refusal that waiting does not change. If the token is wrong, it names the token's environment variable.
    fn refused(&self, error: ClientError) -> RewardError {
        if status(&error) != Some(401) {
            return error.into();
        }
        let variable = &self.settings.token_env;
        let state = if self.has_token {
            format!("the token in the environment variable {variable} is not the verifier's")
        } else {
            format!("the environment variable {variable} holds no token")
        };
        self.unusable(&format!(
            "requires a token, and {state}. Set {variable} to the token that the verifier was started with; a recipe may name another variable as `verifier.token_env`"
        ))
    }

    fn unusable(&self, reason: &str) -> RewardError {
        RewardError::Unusable(format!("the verifier at {} {reason}", self.url()))
    }

    /// Whether to warn that requests are repeated, or that samples are masked: not if it did so within [`QUIET`].
    fn may_warn(&self, masks: bool) -> bool {
        let last_warned = self.last_warned.lock();
        let last = &mut last_warned.unwrap_or_else(PoisonError::into_inner)[usize::from(masks)];
        let is_due = last.is_none_or(|last| last.elapsed() >= QUIET);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }

    /// Pauses before the next try, or, if the patience has ended, masks the samples without a verdict. `retry_after` is the pause that the verifier asked for.
    async fn wait_or_mask(
        &self,
        outage: &mut Outage,
        reason: String,
        retry_after: Option<Duration>,
        judged: &mut [Option<Judged>],
    ) {
        let left = self.patience.saturating_sub(outage.lasted());
        if left.is_zero() {
            if self.may_warn(true) {
                tracing::warn!(
                    "{}: no verdict within {} s ({reason}); samples are masked",
                    self.url(),
                    self.patience.as_secs()
                );
            }
            for open in judged.iter_mut().filter(|judged| judged.is_none()) {
                *open = Some(Judged {
                    detail: serde_json::json!({ "reason": reason }),
                    ..Judged::default()
                });
            }
            return;
        }
        if outage.tries == 0 && self.may_warn(false) {
            tracing::warn!("{reason}. Trying again for up to {} s", left.as_secs());
        }
        tokio::time::sleep(outage.pause(retry_after).min(left)).await;
    }
}

fn status(error: &ClientError) -> Option<u16> {
    match error {
        ClientError::Refused { problem, .. } => Some(problem.status),
        _ => None,
    }
}

/// Whether the verifier may accept a request with fewer items.
fn too_many(error: &ClientError) -> bool {
    let ClientError::Refused { problem, .. } = error else {
        return false;
    };
    problem.status == 413 || (problem.status == 422 && problem.field.as_deref() == Some("items"))
}

/// A period in which the verifier gives no verdict on a batch.
#[derive(Debug, Default)]
struct Outage {
    since: Option<Instant>,
    tries: u32,
}

impl Outage {
    /// How long it has lasted; the first call starts it.
    fn lasted(&mut self) -> Duration {
        self.since.get_or_insert_with(Instant::now).elapsed()
    }

    /// Leaves out time in which nothing was asked of the verifier.
    fn leave_out(&mut self, time: Duration) {
        if let Some(since) = &mut self.since {
            *since += time;
        }
    }

    /// The next pause. It doubles from try to try, times a random factor between a half and 1, so that clients that failed together do not retry together. It is at
    /// least `retry_after`.
    fn pause(&mut self, retry_after: Option<Duration>) -> Duration {
        let whole = FIRST_PAUSE
            .saturating_mul(1 << self.tries.min(10))
            .min(LONGEST_PAUSE);
        self.tries += 1;
        let chance = std::hash::RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64;
        whole
            .mul_f64(0.5 + 0.5 * chance)
            .max(retry_after.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
