//! Before training: is the verifier there, does it have the tasks, can its graders judge them?

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use datasets::{Dataset, Task};
use verifier_api::{ClientError, GraderInfo, GraderState, Verdict};

use super::{Ask, RewardClient, RewardError, wire};

/// A verifier that was started a moment before may not listen yet.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);

impl RewardClient {
    /// Waits until the graders that the data set's tasks need are ready, finds out whether its tasks can be sent by id, and has one task of each kind judged.
    /// `name` is the data set as the recipe names it: the tasks of a file of one's own always travel whole.
    ///
    /// # Errors
    /// [`RewardError`]: nobody answers, a grader is permanently unavailable, or the tasks can neither be named nor sent along.
    pub async fn start(&self, name: &str, dataset: &Dataset) -> Result<(), RewardError> {
        let mut samples: BTreeMap<&'static str, Arc<Task>> = BTreeMap::new();
        for task in dataset.train.iter().chain(&dataset.eval) {
            samples
                .entry(wire::kind(task))
                .or_insert_with(|| Arc::new(task.clone()));
        }
        let graders = self.reach().await?;
        for kind in samples.keys() {
            self.until_ready(kind, &graders).await?;
        }
        let named = !name.ends_with(".jsonl") && self.has(&dataset.name).await?;
        self.inner.named.store(named, Ordering::Relaxed);
        for (kind, task) in samples {
            self.probe(kind, task).await?;
        }
        Ok(())
    }

    /// Whether the verifier has the data set. Another implementation of the contract may lack the route: a refusal of the first item will tell.
    async fn has(&self, name: &str) -> Result<bool, RewardError> {
        match self.inner.client.datasets().await {
            Ok(sets) => Ok(sets.iter().any(|set| set.name == name)),
            Err(error) if !error.retryable() => Ok(true),
            Err(error) => Err(self.refused(error)),
        }
    }

    async fn reach(&self) -> Result<Vec<GraderInfo>, RewardError> {
        let started = Instant::now();
        loop {
            match self.inner.client.ready().await {
                Ok(readiness) => return Ok(readiness.graders),
                Err(ClientError::Connection { .. }) if started.elapsed() < CONNECT_PATIENCE => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(self.refused(error)),
            }
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
                    let reason = reason
                        .clone()
                        .unwrap_or_else(|| "it gave no reason".to_owned());
                    return Err(self.cannot(kind, &reason));
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
            graders = self.inner.client.ready().await?.graders;
        }
    }

    /// The verdict does not matter, as long as there is one.
    async fn probe(&self, kind: &'static str, task: Arc<Task>) -> Result<(), RewardError> {
        let completion = match kind {
            "math" => "\\boxed{0}",
            "code" => "```python\npass\n```",
            // Goes to Lean, which reads the task's header and statement.
            _ => "trivial",
        };
        let ask = Ask {
            prompt: task.question.as_str().into(),
            completion: completion.to_owned(),
            task,
        };
        let judged = self.judge(vec![ask]).await?;
        match judged.first() {
            Some(judged) if judged.verdict == Verdict::Unavailable => {
                Err(self.cannot(kind, &reason(&judged.detail)))
            }
            _ => Ok(()),
        }
    }

    fn cannot(&self, kind: &'static str, reason: &str) -> RewardError {
        let reason = reason.trim_end_matches('.').to_owned();
        RewardError::Grader {
            url: self.url().to_owned(),
            kind,
            reason,
        }
    }
}

fn reason(detail: &serde_json::Value) -> String {
    match detail.get("reason").and_then(serde_json::Value::as_str) {
        Some(reason) => reason.to_owned(),
        None => detail.to_string(),
    }
}
