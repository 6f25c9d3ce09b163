//! Checks before training: whether the verifier answers, has the tasks, and can judge them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use datasets::{Dataset, Task};
use tokio::time::timeout;
use verifier_api::{ClientError, GraderInfo, GraderState, ServiceInfo, Verdict};

use super::{Judged, RewardClient, RewardError, grader_settings, status};
use crate::data::Prompt;
use crate::stderr::say;

/// A verifier that was just started may not listen yet, and a proxy in front of it may not see it yet.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);
/// How long to wait for the verifier before saying so.
const SILENCE: Duration = Duration::from_secs(1);
/// Tasks of a kind that are tried before the kind counts as one that the verifier cannot judge.
const PROBES: usize = 8;

impl RewardClient {
    /// Prepares the client for data sets, each with the name that the recipe gives it:
    ///
    /// - makes sure that the graders that its tasks and the reward's terms need judge as the recipe expects, and waits until they are ready;
    /// - lowers the size of a batch to what the verifier accepts;
    /// - decides whether tasks are sent by id: if one of the sets is the user's own file, or the verifier does not have it, all tasks are sent inline;
    /// - has a task of each kind judged.
    ///
    /// Returns the verifier's description of those graders.
    ///
    /// # Errors
    /// [`RewardError`]: the verifier does not answer, a grader judges differently than the recipe expects, or one is permanently unavailable. Also if none of
    /// several tasks of a kind gets a verdict.
    pub async fn start(&self, sets: &[(&str, &Dataset)]) -> Result<Vec<GraderInfo>, RewardError> {
        let mut kinds: BTreeMap<&str, Vec<&Task>> = BTreeMap::new();
        let mut ids = HashSet::new();
        for task in sets
            .iter()
            .flat_map(|(_, set)| set.train.iter().chain(&set.eval))
        {
            // Without splits, a file's tasks are both in `train` and in `eval`.
            if ids.insert(task.id.as_str()) {
                kinds.entry(task.spec.kind()).or_default().push(task);
            }
        }
        let further = self
            .terms
            .iter()
            .filter_map(|(_, grader)| grader.as_deref());
        let needed: BTreeSet<&str> = kinds.keys().copied().chain(further).collect();
        let graders = self.reach().await?;
        let info = self.info().await?;
        for kind in &needed {
            grader_settings::check(&self.settings, self.url(), kind, info.as_ref())?;
        }
        for kind in &needed {
            self.until_ready(kind, &graders).await?;
        }
        // A grader that was being prepared describes itself in more detail now.
        let info = self.info().await?;
        if let Some(info) = &info {
            let most = info.limits.items.min(info.limits.queue).max(1);
            let batch = self.batch.fetch_min(most, Ordering::Relaxed);
            if batch > most {
                tracing::warn!(
                    "`verifier.batch` is {most} instead of {batch}: the verifier at {} accepts no more completions in one request",
                    self.url()
                );
            }
        }
        // Only the built-in sets have such names: files have an ending, and data sets of the hub an owner.
        let is_own = |name: &str| datasets::is_user_file(name) || name.contains('/');
        let mut named = !sets.iter().any(|(name, _)| is_own(name));
        for (_, dataset) in sets {
            named = named && self.has(dataset).await?;
        }
        self.sends_ids.store(named, Ordering::Relaxed);
        for (kind, tasks) in &kinds {
            self.probe(kind, tasks).await?;
        }
        let mut graders = info.map_or_else(Vec::new, |info| info.graders);
        graders.retain(|grader| needed.contains(grader.name.as_str()));
        Ok(graders)
    }

    async fn info(&self) -> Result<Option<ServiceInfo>, RewardError> {
        let client = &self.client;
        self.known(patiently(|| client.info()).await)
    }

    /// Whether the verifier has this data set, and not another of the same name. If only a part of the data set is used here, the two digests cannot be compared.
    /// Then the verifier compares the digest of each task that it gets.
    async fn has(&self, dataset: &Dataset) -> Result<bool, RewardError> {
        let (client, name) = (&self.client, &dataset.name);
        let sets = self.known(patiently(|| client.datasets()).await)?;
        let found = sets.iter().flatten().find(|set| set.name == *name);
        let whole = (dataset.train.len(), dataset.eval.len());
        let lacks = match found {
            None => format!("does not name the data set {name} among its own"),
            Some(set)
                if (set.train, set.eval) == whole && set.digest != dataset.digest().to_string() =>
            {
                format!(
                    "has other tasks in its data set {name} than this machine (should it be started with the same --data-dir?)"
                )
            }
            Some(_) => return Ok(true),
        };
        tracing::warn!(
            "the verifier at {} {lacks}; tasks are sent along with their completions",
            self.url()
        );
        Ok(false)
    }

    /// A verifier's description of itself. `None` if it has none, as another implementation of the contract may.
    fn known<T>(&self, answer: Result<T, ClientError>) -> Result<Option<T>, RewardError> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.retryable() || status(&error) == Some(401) => {
                Err(self.refused(error))
            }
            Err(_) => Ok(None),
        }
    }

    /// Waits a while for the verifier to answer; returns its graders.
    ///
    /// # Errors
    /// [`RewardError`] if it does not answer, or refuses.
    pub async fn reach(&self) -> Result<Vec<GraderInfo>, RewardError> {
        let client = &self.client;
        let mut ready = pin!(patiently(|| client.ready()));
        let answer = match timeout(SILENCE, &mut ready).await {
            Ok(answer) => answer,
            Err(_) => {
                say(&format!("waiting for the verifier at {}", self.url()));
                ready.await
            }
        };
        match answer {
            Ok(readiness) => Ok(readiness.graders),
            Err(error) => Err(self.refused(error)),
        }
    }

    async fn until_ready(&self, kind: &str, graders: &[GraderInfo]) -> Result<(), RewardError> {
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
                    return Err(self.unusable(&format!(
                        "cannot judge {kind} tasks: {}. Without it, there are no rewards; fix it there ({} says how) and start again",
                        reason.trim_end_matches('.'),
                        self.doctor()
                    )));
                }
                Some(GraderInfo {
                    state: GraderState::Preparing,
                    ..
                }) => {}
                Some(_) | None => return Ok(()),
            }
            if started.elapsed() > self.patience {
                return Err(self.unusable(&format!(
                    "is still preparing its {kind} grader after {} s; raise `verifier.patience_s`, or see its log",
                    started.elapsed().as_secs()
                )));
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

    /// Has the first task judged. If it gets no verdict, others are tried, since the task itself may be broken. Any verdict will do.
    async fn probe(&self, kind: &str, tasks: &[&Task]) -> Result<(), RewardError> {
        let started = Instant::now();
        // At equal distances from the first on.
        let distance = tasks.len().div_ceil(PROBES).max(1);
        let tried = tasks.iter().step_by(distance);
        // The verifier takes no tokens.
        let prompts: Vec<Prompt> = tried
            .map(|task| Prompt {
                task: Arc::new((*task).clone()),
                text: task.question.as_str().into(),
                tokens: Arc::default(),
                stop: Arc::default(),
            })
            .collect();
        let trials: Vec<_> = prompts.iter().map(|it| (it, trial(kind))).collect();
        let Some((first, others)) = trials.split_first() else {
            return Ok(());
        };
        let judged = self.judge(&[*first]).await?;
        let Some(reason) = judged.first().and_then(unjudged) else {
            return Ok(());
        };
        // If the patience has ended, others would take as long.
        let patience = self.patience;
        let time_left = patience.is_zero() || started.elapsed() < patience;
        let others = if time_left { others } else { &[] };
        let judged = self.judge(others).await?;
        if judged.iter().any(|judged| unjudged(judged).is_none()) {
            tracing::warn!(
                "the verifier at {} cannot judge the task {} ({reason}), but can judge others of its kind; samples of such a task are masked. Correct it, or leave it out",
                self.url(),
                first.0.task.id
            );
            return Ok(());
        }
        let more = match others.len() {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        Err(self.unusable(&format!(
            "cannot judge {kind} tasks: {}{more} got no verdict ({reason}). Without verdicts, there are no rewards; correct the tasks, or fix the verifier \
             ({} says how), and start again",
            first.0.task.id,
            self.doctor()
        )))
    }

    /// The command that says what the verifier lacks.
    fn doctor(&self) -> String {
        match &self.settings.config {
            Some(file) => format!("`rapid-verifier doctor --config {}`", file.display()),
            None => "`rapid-verifier doctor`".to_owned(),
        }
    }
}

/// Repeats a request until it is answered, for up to [`CONNECT_PATIENCE`].
async fn patiently<T, F>(request: impl Fn() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let started = Instant::now();
    loop {
        match request().await {
            Err(error) if error.retryable() && started.elapsed() < CONNECT_PATIENCE => {
                tokio::time::sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
}

/// A completion that gets a verdict from any working grader.
fn trial(kind: &str) -> &'static str {
    match kind {
        "math" => "\\boxed{0}",
        "code" => "```python\npass\n```",
        // This goes to Lean, which reads the task's header and statement.
        _ => "trivial",
    }
}

/// The reason why there is no verdict; `None` if there is one.
fn unjudged(judged: &Judged) -> Option<String> {
    if judged.verdict != Verdict::Unavailable {
        return None;
    }
    let reason = match judged.detail.get("reason") {
        Some(serde_json::Value::String(reason)) => reason.clone(),
        _ => judged.detail.to_string(),
    };
    Some(reason.trim_end_matches('.').to_owned())
}
