//! Rewards from a verifier: batches, a bound on what is in flight, patience, and masks.
//!
//! An infrastructure failure is not a wrong answer: what stays without a verdict gets no reward at all, and the trainer leaves it out.

mod expected;
mod start;
mod terms;
mod wire;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use datasets::Task;
use datasets::digest::Digest;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use verifier_api::{Client, ClientError, Item, Judgement, Verdict};

use crate::config;
use expected::Expected;
pub use terms::{Terms, means};

/// First pause before asking again; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause, unless the verifier asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// Minimum time that a batch may be judged in before it is requested again. A batch of proofs that all run into Lean's deadline takes most of it.
const MIN_WAIT: Duration = Duration::from_secs(60 * 60);
/// A verifier that does not answer is spoken of this often.
const REMINDER: Duration = Duration::from_secs(60);

/// One completion to judge.
#[derive(Debug, Clone)]
pub struct JudgeRequest {
    /// Its task.
    pub task: Arc<Task>,
    /// The prompt as the model saw it.
    pub prompt: Arc<str>,
    /// The completion's text.
    pub completion: String,
}

/// A verdict, or the mark that there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The verifier's: 1 where the completion is right, else 0. `None` masks the sample: nothing is known about it.
    pub reward: Option<f64>,
    /// As the verifier said; [`Verdict::Unavailable`] where it could not.
    pub verdict: Verdict,
    /// First failing test, extracted answer, messages; the reason, where masked.
    pub detail: serde_json::Value,
    /// Tests passed, for code only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<u32>,
    /// Tests in all, for code only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u32>,
}

/// Why there can be no rewards: nothing that waiting would mend.
#[derive(Debug, thiserror::Error)]
pub enum RewardError {
    /// No address.
    #[error(
        "no verifier is set: give its address with --verifier URL, as `verifier.url` in the recipe or in the environment variable RAPID_VERIFIER; `rapid-verifier serve` prints it"
    )]
    NoUrl,
    /// The verifier asks for a token, and there is none, or it is another one.
    #[error(
        "the verifier at {url} asks for a token, and {}. Set {variable} to the token that the verifier was started with; a recipe may name another variable as `verifier.token_env`",
        found(.variable, *.sent)
    )]
    Token {
        /// The verifier.
        url: String,
        /// The environment variable that is read.
        variable: String,
        /// Whether it held a token.
        sent: bool,
    },
    /// The verifier cannot be spoken to, or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A grader that the tasks need will never judge.
    #[error(
        "the verifier at {url} cannot judge {kind} tasks: {reason}. Without it, there are no rewards; mend it there (`rapid-verifier doctor` says how) and start again"
    )]
    Grader {
        /// The verifier.
        url: String,
        /// `math`, `code` or `lean`.
        kind: &'static str,
        /// What it said.
        reason: String,
    },
    /// A grader that the tasks need judges otherwise than the recipe expects.
    #[error(
        "the verifier at {url} judges {kind} tasks with `{found}`, and the recipe expects `{expected}` (verifier.{key}); start it with `rapid-verifier serve {flag} {expected}`, or set `verifier.{key} = \"{found}\"`",
        flag = expected::flag(key)
    )]
    Policy {
        /// The verifier.
        url: String,
        /// `math` or `code`.
        kind: &'static str,
        /// The key in `[verifier]`.
        key: &'static str,
        /// The recipe's value.
        expected: String,
        /// The verifier's.
        found: String,
    },
    /// The verifier does not say how it judges, and the recipe expects something of that.
    #[error(
        "this verifier, at {url}, does not say {what}, and the recipe expects `{expected}`; update it (`rapid-verifier serve {flag} {expected}` then starts it so), or remove verifier.{key}",
        flag = expected::flag(key)
    )]
    Unsaid {
        /// The verifier.
        url: String,
        /// What it leaves unsaid.
        what: &'static str,
        /// The key in `[verifier]`.
        key: &'static str,
        /// The recipe's value.
        expected: String,
    },
    /// A grader was being prepared for longer than the patience.
    #[error(
        "the verifier at {url} is still preparing its {kind} grader after {waited} s; raise `verifier.patience_s`, or see its log"
    )]
    Preparing {
        /// The verifier.
        url: String,
        /// `math`, `code` or `lean`.
        kind: &'static str,
        /// Seconds.
        waited: u64,
    },
    /// Of the tasks of a kind, not one that was tried has a verdict.
    #[error(
        "the verifier at {url} cannot judge {kind} tasks: {task}{} got no verdict ({reason}). Without verdicts, there are no rewards; correct the tasks, or mend the verifier (`rapid-verifier doctor` says how), and start again",
        and(*.others)
    )]
    Unjudged {
        /// The verifier.
        url: String,
        /// `math`, `code` or `lean`.
        kind: &'static str,
        /// The id of the first task that was tried.
        task: String,
        /// How many were tried besides.
        others: usize,
        /// What the verifier said of the first.
        reason: String,
    },
    /// The verifier finds fault with a task that was sent whole.
    #[error(
        "the verifier at {url} does not take the task {task}: {reason}. Correct the task; if it is right, use a verifier of this program's version"
    )]
    Task {
        /// The verifier.
        url: String,
        /// The task's id.
        task: String,
        /// What it said.
        reason: String,
    },
    /// A single completion, with what goes along, is more than a request may hold.
    #[error(
        "a completion of {task}, with its prompt and what else is sent along, is more than the verifier at {url} takes in one request; start it with more room (`rapid-verifier serve --set limits.body_bytes=N`)"
    )]
    TooLarge {
        /// The verifier.
        url: String,
        /// The task's id.
        task: String,
    },
}

fn and(others: usize) -> String {
    match others {
        0 => String::new(),
        others => format!(" and {others} more"),
    }
}

fn found(variable: &str, sent: bool) -> String {
    if sent {
        format!("the one in the environment variable {variable} is not its own")
    } else {
        format!("the environment variable {variable} holds none")
    }
}

/// A verifier, and how patiently it is asked. Cheap to clone; clones share the bound on requests in flight.
#[derive(Clone)]
pub struct RewardClient {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    /// The environment variable of the token, and whether it held one.
    token: (String, bool),
    /// Most completions in one request: as configured, or what the verifier takes.
    batch: AtomicUsize,
    patience: Duration,
    /// Whether tests are counted beyond the first that fails.
    all_tests: bool,
    in_flight: Semaphore,
    /// What the graders must be like.
    expected: Expected,
    /// Whether tasks are sent by id; whole, otherwise.
    named: AtomicBool,
    /// Of what decides on the tasks that were sent by id.
    digests: Mutex<HashMap<String, Digest>>,
    /// When the user last heard of trouble, so that many requests in the same trouble say it once.
    spoken: Mutex<Option<Instant>>,
}

impl RewardClient {
    /// A client as the recipe's `[verifier]` says. Nothing is sent. Tasks go by id until [`RewardClient::start`] or a refusal says that the
    /// verifier does not have them.
    ///
    /// # Errors
    /// [`RewardError::NoUrl`], and an address that no verifier can have.
    pub fn new(settings: &config::Verifier) -> Result<Self, RewardError> {
        Self::build(settings, false)
    }

    /// As [`RewardClient::new`], and a program's tests are counted beyond the first that fails, which takes longer.
    ///
    /// # Errors
    /// As [`RewardClient::new`].
    pub fn counting_tests(settings: &config::Verifier) -> Result<Self, RewardError> {
        Self::build(settings, true)
    }

    fn build(settings: &config::Verifier, all_tests: bool) -> Result<Self, RewardError> {
        let url = settings.url.as_ref().ok_or(RewardError::NoUrl)?;
        let token = std::env::var(&settings.token_env)
            .ok()
            .filter(|token| !token.is_empty());
        let patience = Duration::from_secs(settings.patience_s);
        Ok(Self {
            inner: Arc::new(Inner {
                token: (settings.token_env.clone(), token.is_some()),
                client: Client::new(url, token)?.with_timeout(patience.max(MIN_WAIT)),
                batch: AtomicUsize::new(settings.batch.max(1)),
                patience,
                all_tests,
                in_flight: Semaphore::new(settings.in_flight.max(1)),
                expected: Expected::of(settings),
                named: AtomicBool::new(true),
                digests: Mutex::default(),
                spoken: Mutex::new(None),
            }),
        })
    }

    /// Most completions in one request.
    #[must_use]
    pub fn batch(&self) -> usize {
        self.inner.batch.load(Ordering::Relaxed)
    }

    /// The verifier's address.
    #[must_use]
    pub fn url(&self) -> &str {
        self.inner.client.url()
    }

    /// Judges completions, in their order. Requests hold at most [`RewardClient::batch`] of them. What the verifier cannot judge now is asked again, with growing pauses,
    /// until patience ends; then it is masked.
    ///
    /// # Errors
    /// [`RewardError`], where asking again is no use.
    pub async fn judge(&self, asks: Vec<JudgeRequest>) -> Result<Vec<Judged>, RewardError> {
        let batches = asks
            .chunks(self.batch())
            .map(|batch| self.judge_batch(batch));
        let judged = futures::future::try_join_all(batches).await?;
        Ok(judged.into_iter().flatten().collect())
    }

    async fn judge_batch(&self, asks: &[JudgeRequest]) -> Result<Vec<Judged>, RewardError> {
        let mut judged: Vec<Option<Judged>> = vec![None; asks.len()];
        let mut trouble = Trouble::default();
        // Halved where the verifier finds a request too large.
        let mut size = asks.len();
        loop {
            let open: Vec<usize> = (0..asks.len())
                .filter(|i| judged[*i].is_none())
                .take(size)
                .collect();
            if open.is_empty() {
                return Ok(judged.into_iter().flatten().collect());
            }
            let named = self.inner.named.load(Ordering::Relaxed);
            let items: Vec<Item> = open
                .iter()
                .map(|i| {
                    let ask = &asks[*i];
                    let digest = named.then(|| self.digest_of(&ask.task));
                    wire::item(*i, ask, digest, self.inner.all_tests)
                })
                .collect();
            match self.verify(&items).await {
                Ok(answers) => {
                    let at_once = self.inner.patience.is_zero();
                    let progress = take(&mut judged, &open, answers, at_once);
                    if progress {
                        trouble = Trouble::default();
                    }
                    if open.iter().any(|i| judged[*i].is_none()) {
                        let reason = "it answers `unavailable` for now".to_owned();
                        self.wait_or_mask(&mut trouble, reason, None, &mut judged)
                            .await;
                    }
                }
                Err(error) if too_many(&error) && open.len() > 1 => {
                    size = open.len() / 2;
                }
                Err(error) if status(&error) == Some(422) && named => {
                    // Requests that were on their way are refused too.
                    if self.inner.named.swap(false, Ordering::Relaxed) {
                        tracing::warn!(
                            "the verifier does not know a task by its id ({error}); tasks are sent along from here on"
                        );
                    }
                }
                Err(error) if error.retryable() => {
                    self.wait_or_mask(
                        &mut trouble,
                        error.to_string(),
                        error.retry_after(),
                        &mut judged,
                    )
                    .await;
                }
                Err(error) => {
                    let tasks: Vec<&Task> = open.iter().map(|i| &*asks[*i].task).collect();
                    return Err(self.refused_of(error, &tasks));
                }
            }
        }
    }

    /// Of what decides on a task; made once a task.
    fn digest_of(&self, task: &Task) -> Digest {
        let lock = || {
            let digests = self.inner.digests.lock();
            digests.unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(digest) = lock().get(&task.id) {
            return *digest;
        }
        let digest = task.spec.digest();
        lock().insert(task.id.clone(), digest);
        digest
    }

    /// As [`RewardClient::refused`], of a request with these tasks: names the one that is at fault.
    fn refused_of(&self, error: ClientError, tasks: &[&Task]) -> RewardError {
        let ClientError::Refused { problem, .. } = &error else {
            return error.into();
        };
        let url = self.url().to_owned();
        let at_fault = problem.item.and_then(|item| tasks.get(item));
        match (problem.status, at_fault, tasks) {
            (422, Some(task), _) => RewardError::Task {
                url,
                task: task.id.clone(),
                reason: error.to_string(),
            },
            (413, _, [task]) => RewardError::TooLarge {
                url,
                task: task.id.clone(),
            },
            _ => self.refused(error),
        }
    }

    /// What no waiting mends, with the name of the token's variable where that is what is wrong.
    fn refused(&self, error: ClientError) -> RewardError {
        if status(&error) != Some(401) {
            return error.into();
        }
        let (variable, sent) = self.inner.token.clone();
        RewardError::Token {
            url: self.url().to_owned(),
            variable,
            sent,
        }
    }

    async fn verify(&self, items: &[Item]) -> Result<Vec<Judgement>, ClientError> {
        // The semaphore is never closed; without a permit the bound would not hold, but nothing else would break.
        let _permit = self.inner.in_flight.acquire().await;
        self.inner.client.verify(items).await
    }

    /// At first, then now and then.
    fn worth_a_word(&self) -> bool {
        let mut spoken = self
            .inner
            .spoken
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let due = spoken.is_none_or(|spoken| spoken.elapsed() >= REMINDER);
        if due {
            *spoken = Some(Instant::now());
        }
        due
    }

    /// Pauses before the next try, or, where patience has ended, masks what has no verdict.
    async fn wait_or_mask(
        &self,
        trouble: &mut Trouble,
        reason: String,
        asked: Option<Duration>,
        judged: &mut [Option<Judged>],
    ) {
        let left = self.inner.patience.saturating_sub(trouble.lasted());
        if left.is_zero() {
            tracing::warn!(
                "{}: no verdict within {} s ({reason}); samples are masked",
                self.url(),
                self.inner.patience.as_secs()
            );
            for open in judged.iter_mut().filter(|judged| judged.is_none()) {
                *open = Some(masked(&reason));
            }
            return;
        }
        if self.worth_a_word() {
            tracing::warn!(
                "{reason}. PromptRenderer again for up to {} s",
                left.as_secs()
            );
        }
        tokio::time::sleep(trouble.pause(asked).min(left)).await;
    }
}

/// Puts answers in their places; whether any of them is a verdict. Those to be asked for again stay open, unless there is no patience at all.
fn take(
    judged: &mut [Option<Judged>],
    open: &[usize],
    answers: Vec<Judgement>,
    at_once: bool,
) -> bool {
    let mut progress = false;
    for (i, answer) in open.iter().zip(answers) {
        let unavailable = answer.verdict == Verdict::Unavailable || answer.reward.is_none();
        if unavailable && answer.retryable && !at_once {
            continue;
        }
        progress |= !unavailable;
        judged[*i] = Some(Judged {
            reward: answer.reward.filter(|_| !unavailable),
            verdict: answer.verdict,
            detail: answer.detail,
            passed: answer.passed,
            total: answer.total,
        });
    }
    progress
}

fn masked(reason: &str) -> Judged {
    Judged {
        reward: None,
        verdict: Verdict::Unavailable,
        detail: serde_json::json!({ "reason": reason }),
        passed: None,
        total: None,
    }
}

fn status(error: &ClientError) -> Option<u16> {
    match error {
        ClientError::Refused { problem, .. } => Some(problem.status),
        _ => None,
    }
}

/// Whether a request with fewer items may be taken.
fn too_many(error: &ClientError) -> bool {
    match error {
        ClientError::Refused { problem, .. } => {
            problem.status == 413
                || (problem.status == 422 && problem.field.as_deref() == Some("items"))
        }
        _ => false,
    }
}

/// A verifier that has not answered for a while.
#[derive(Debug, Default)]
struct Trouble {
    since: Option<Instant>,
    tries: u32,
}

impl Trouble {
    fn lasted(&mut self) -> Duration {
        self.since.get_or_insert_with(Instant::now).elapsed()
    }

    /// Doubles from try to try, between half and the whole of it by chance, so that clients that failed together do not come back together.
    /// Never less than the server asked for.
    fn pause(&mut self, asked: Option<Duration>) -> Duration {
        let whole = FIRST_PAUSE
            .saturating_mul(1 << self.tries.min(10))
            .min(LONGEST_PAUSE);
        self.tries += 1;
        let chance = std::hash::RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64;
        whole
            .mul_f64(0.5 + 0.5 * chance)
            .max(asked.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
