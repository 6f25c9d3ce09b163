//! Before training: is the verifier there, does it have the tasks, can its graders judge them?

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use datasets::{Dataset, Task};
use tokio::time::timeout;
use verifier_api::{ClientError, GraderInfo, GraderState, ServiceInfo, Verdict};

use super::{JudgeRequest, Judged, RewardClient, RewardError, status};
use crate::stderr::say;

/// A verifier that was started a moment before may not listen yet, and what stands before it may not have found it.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);
/// How long it is waited for without a word.
const SILENCE: Duration = Duration::from_secs(1);
/// Tasks of a kind that are tried before it counts as one that the verifier cannot judge.
const PROBES: usize = 8;

impl RewardClient {
    /// Makes sure that the graders that the data set's tasks need judge as the recipe expects, waits until they are ready, finds out how much a request may hold and whether the tasks can be sent by id, and has a task of each
    /// kind judged. `name` is the data set as the recipe names it: the tasks of a file of one's own always travel whole.
    ///
    /// Returns what the verifier says of those graders.
    ///
    /// # Errors
    /// [`RewardError`]: nobody answers, a grader judges otherwise than the recipe expects, a grader is permanently unavailable, or of a kind of task not one of several has a verdict.
    pub async fn start(
        &self,
        name: &str,
        dataset: &Dataset,
    ) -> Result<Vec<GraderInfo>, RewardError> {
        let mut kinds: BTreeMap<&'static str, Vec<&Task>> = BTreeMap::new();
        let mut ids = HashSet::new();
        for task in dataset.train.iter().chain(&dataset.eval) {
            // In an undivided file each task is there twice.
            if ids.insert(task.id.as_str()) {
                kinds.entry(task.spec.kind()).or_default().push(task);
            }
        }
        let graders = self.reach().await?;
        let info = self.info().await?;
        for kind in kinds.keys() {
            self.inner.expected.check(self.url(), kind, info.as_ref())?;
        }
        for kind in kinds.keys() {
            self.until_ready(kind, &graders).await?;
        }
        // A grader that was being prepared says more of itself now.
        let info = self.info().await?;
        if let Some(info) = &info {
            self.fit(info);
        }
        let own = Path::new(name)
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("jsonl"));
        let named = !own && self.has(dataset).await?;
        self.inner.named.store(named, Ordering::Relaxed);
        for (kind, tasks) in &kinds {
            self.probe(kind, tasks).await?;
        }
        let mut graders = info.map_or_else(Vec::new, |info| info.graders);
        graders.retain(|grader| kinds.contains_key(grader.name.as_str()));
        Ok(graders)
    }

    async fn info(&self) -> Result<Option<ServiceInfo>, RewardError> {
        let client = &self.inner.client;
        self.known(patiently(|| client.info()).await)
    }

    /// Lowers the size of a batch to what the verifier takes.
    fn fit(&self, info: &ServiceInfo) {
        let most = info.limits.items.min(info.limits.queue).max(1);
        let batch = self.inner.batch.fetch_min(most, Ordering::Relaxed);
        if batch > most {
            tracing::warn!(
                "`verifier.batch` is {most} instead of {batch}: the verifier at {} takes no more completions in one request",
                self.url()
            );
        }
    }

    /// Whether the verifier has the data set, and not another one of the same name. Where this one was cut, that cannot be seen here: then each task's digest tells, when
    /// it is sent.
    async fn has(&self, dataset: &Dataset) -> Result<bool, RewardError> {
        let (client, name) = (&self.inner.client, &dataset.name);
        let Some(sets) = self.known(patiently(|| client.datasets()).await)? else {
            tracing::warn!(
                "the verifier at {} does not say which data sets it has; tasks are sent along with their completions",
                self.url()
            );
            return Ok(false);
        };
        let Some(info) = sets.iter().find(|set| set.name == *name) else {
            tracing::warn!(
                "the verifier at {} does not have the data set {name}; its tasks are sent along with their completions",
                self.url()
            );
            return Ok(false);
        };
        let whole = (info.train, info.eval) == (dataset.train.len(), dataset.eval.len());
        if whole && info.digest != dataset.digest().to_string() {
            tracing::warn!(
                "the verifier at {} has other tasks in its data set {name}; those that are here count, and are sent along with their completions. Was it meant to be started with the same --data-dir?",
                self.url()
            );
            return Ok(false);
        }
        Ok(true)
    }

    /// What the verifier says of itself, or `None`: another implementation of the contract may not.
    fn known<T>(&self, answer: Result<T, ClientError>) -> Result<Option<T>, RewardError> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.retryable() || status(&error) == Some(401) => {
                Err(self.refused(error))
            }
            Err(_) => Ok(None),
        }
    }

    async fn reach(&self) -> Result<Vec<GraderInfo>, RewardError> {
        let client = &self.inner.client;
        let mut asked = pin!(patiently(|| client.ready()));
        let answer = match timeout(SILENCE, &mut asked).await {
            Ok(answer) => answer,
            Err(_) => {
                say(&format!("waiting for the verifier at {}", self.url()));
                asked.await
            }
        };
        match answer {
            Ok(readiness) => Ok(readiness.graders),
            Err(error) => Err(self.refused(error)),
        }
    }

    async fn until_ready(
        &self,
        kind: &'static str,
        graders: &[GraderInfo],
    ) -> Result<(), RewardError> {
        let started = Instant::now();
        let mut graders = graders.to_vec();
        loop {
            match graders.iter().find(|grader| grader.name == kind) {
                Some(GraderInfo {
                    state: GraderState::Unavailable,
                    reason,
                    ..
                }) => {
                    let reason = reason.as_deref().unwrap_or("it gave no reason");
                    return Err(RewardError::Grader {
                        url: self.url().to_owned(),
                        kind,
                        reason: reason.trim_end_matches('.').to_owned(),
                    });
                }
                Some(GraderInfo {
                    state: GraderState::Preparing,
                    ..
                }) => {}
                Some(_) | None => return Ok(()),
            }
            if started.elapsed() > self.inner.patience {
                return Err(RewardError::Preparing {
                    url: self.url().to_owned(),
                    kind,
                    waited: started.elapsed().as_secs(),
                });
            }
            if started.elapsed() < PAUSE {
                tracing::warn!(
                    "the verifier at {} is preparing its {kind} grader; waiting for it",
                    self.url()
                );
            }
            tokio::time::sleep(PAUSE).await;
            graders = self.reach().await?;
        }
    }

    /// Has the first task judged and, where there is no verdict on it, others, since it may be the task that is broken. Which verdict does not matter.
    async fn probe(&self, kind: &'static str, tasks: &[&Task]) -> Result<(), RewardError> {
        let started = Instant::now();
        let trials: Vec<JudgeRequest> = spread(tasks).map(|task| trial(kind, task)).collect();
        let Some((first, others)) = trials.split_first() else {
            return Ok(());
        };
        let judged = self.judge(vec![first.clone()]).await?;
        let Some(reason) = judged.first().and_then(unjudged) else {
            return Ok(());
        };
        // Where patience has ended, others would only take as long.
        let patience = self.inner.patience;
        let patient = patience.is_zero() || started.elapsed() < patience;
        let others: &[JudgeRequest] = if patient { others } else { &[] };
        let judged = self.judge(others.to_vec()).await?;
        if judged.iter().any(|judged| unjudged(judged).is_none()) {
            tracing::warn!(
                "the verifier at {} cannot judge the task {}, though others of its kind ({reason}); samples of such a task are masked. Correct it, or leave it out",
                self.url(),
                first.task.id
            );
            return Ok(());
        }
        Err(RewardError::Unjudged {
            url: self.url().to_owned(),
            kind,
            task: first.task.id.clone(),
            others: others.len(),
            reason,
        })
    }
}

/// Asks until there is an answer, for a while.
async fn patiently<T, F>(question: impl Fn() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let started = Instant::now();
    loop {
        match question().await {
            Err(error) if error.retryable() && started.elapsed() < CONNECT_PATIENCE => {
                tokio::time::sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
}

/// Up to [`PROBES`] of `tasks`, the first and others at equal distances.
fn spread<'a>(tasks: &[&'a Task]) -> impl Iterator<Item = &'a Task> {
    let step = tasks.len().div_ceil(PROBES).max(1);
    tasks.iter().copied().step_by(step)
}

/// A completion that gets a verdict wherever there can be one.
fn trial(kind: &str, task: &Task) -> JudgeRequest {
    let completion = match kind {
        "math" => "\\boxed{0}",
        "code" => "```python\npass\n```",
        // Goes to Lean, which reads the task's header and statement.
        _ => "trivial",
    };
    JudgeRequest {
        prompt: task.question.as_str().into(),
        completion: completion.to_owned(),
        task: Arc::new(task.clone()),
    }
}

/// Why there is no verdict; `None` where there is one.
fn unjudged(judged: &Judged) -> Option<String> {
    if judged.verdict != Verdict::Unavailable {
        return None;
    }
    let reason = match judged
        .detail
        .get("reason")
        .and_then(serde_json::Value::as_str)
    {
        Some(reason) => reason.to_owned(),
        None => judged.detail.to_string(),
    };
    Some(reason.trim_end_matches('.').to_owned())
}
