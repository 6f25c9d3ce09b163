//! An inference phase: completions are drawn from the policy, and go to the verifier as they finish, while others are still being drawn.
//!
//! Training and evaluation both sample through [`collect`].

mod kept;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use engine::{Completion, EngineError, Finish, GenerateRequest, Sampling};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::data::Prompt;
use crate::policy::Policy;
use crate::reward::{Ask, Judged, RewardClient, RewardError};
use crate::run::Padding;
use crate::stop::Stop;

pub use kept::Kept;

/// How long a finished completion may wait for others to share its request.
const LINGER: Duration = Duration::from_millis(100);
/// How often a task that waits for completions looks whether they are still wanted.
const LOOK_UP: Duration = Duration::from_millis(100);

/// A prompt and the seeds of the completions wanted of it.
#[derive(Debug, Clone)]
pub struct Query {
    /// The prompt.
    pub prompt: Arc<Prompt>,
    /// One completion a seed.
    pub seeds: Vec<u64>,
}

/// How completions are drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    /// Temperature and cut-offs.
    pub sampling: Sampling,
    /// Most tokens, the end token included.
    pub max_tokens: usize,
    /// Texts that end a completion, besides the model's end-of-text tokens.
    pub stop_strings: Vec<String>,
}

/// A completion with its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Token ids, the end token included.
    pub tokens: Vec<u32>,
    /// Log-probability of each token under the policy that drew it, at the sampling temperature.
    pub logp: Vec<f32>,
    /// Decoded text, cut before a stop string: what was judged.
    pub text: String,
    /// log π_ref of each token under the frozen reference policy; empty where no divergence from it is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference: Vec<f32>,
    /// What sums run over besides, where padding is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<Padding>,
    /// Why it ended.
    pub finish: Finish,
    /// The verdict.
    pub judged: Judged,
}

impl Sample {
    /// What an update trains on: the completion's tokens, and padding where that is asked for.
    #[must_use]
    pub fn trained_tokens(&self) -> Vec<u32> {
        let mut tokens = self.tokens.clone();
        if let Some(padding) = &self.padding {
            tokens.resize(tokens.len() + padding.logp.len(), padding.token);
        }
        tokens
    }

    /// Log-probability of each of these under the policy that drew the completion.
    #[must_use]
    pub fn trained_logp(&self) -> Vec<f32> {
        let padding = self.padding.iter().flat_map(|padding| &padding.logp);
        self.logp.iter().chain(padding).copied().collect()
    }
}

/// The completions of one prompt, in the order of their seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledGroup {
    /// The prompt.
    pub prompt: Arc<Prompt>,
    /// One a seed.
    pub samples: Vec<Sample>,
}

/// What a phase gave, in the order of its queries.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    /// One a query.
    pub groups: Vec<SampledGroup>,
    /// Until the last completion was drawn, with what it took to draw those that were kept.
    pub inference: Duration,
    /// From then until the last verdict came: what judging cost beyond the drawing.
    pub verify: Duration,
}

/// How far a phase has come.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tally {
    /// Completions wanted.
    pub wanted: usize,
    /// Completions drawn.
    pub drawn: usize,
    /// Tokens drawn.
    pub tokens: usize,
    /// Completions with a verdict, masked ones included.
    pub judged: usize,
    /// Sum of the rewards so far.
    pub reward: f64,
    /// Completions masked so far.
    pub masked: usize,
    /// Since the phase began, with what it took to draw those that were kept.
    pub elapsed: Duration,
}

/// Why a phase gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The verifier refused.
    #[error(transparent)]
    Reward(#[from] RewardError),
    /// A completion could not be kept.
    #[error("{path}: {source}", path = .path.display())]
    Keep {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The end was asked for.
    #[error("stopped before the phase was complete")]
    Stopped,
    /// The engine ended early without an error.
    #[error(
        "the engine ended after {drawn} of {wanted} completions without an error; this is a fault of the program"
    )]
    Incomplete {
        /// Completions drawn.
        drawn: usize,
        /// Completions wanted.
        wanted: usize,
    },
}

/// Draws the completions of all queries but those that are kept, keeps them, and has all judged. `watch` hears of every change.
///
/// # Errors
/// [`RolloutError`]; samples that stay without a verdict are masked and no error.
pub async fn collect(
    policy: &Arc<dyn Policy>,
    rewards: &RewardClient,
    queries: &[Query],
    drawing: &Drawing,
    kept: &mut Kept,
    stop: &Stop,
    watch: &mut (dyn FnMut(&Tally) + Send),
) -> Result<Rollout, RolloutError> {
    let mut phase = Phase::new(queries, rewards);
    let before = phase.take_up(kept);
    let started = Instant::now();
    let elapsed = || before + started.elapsed();
    let missing = phase.missing();
    let mut completions = (!missing.is_empty()).then(|| draw(policy, queries, missing, drawing));
    let mut inference = before;
    watch(&phase.tally);
    while completions.is_some() || phase.waiting() {
        let linger = phase.flush_at();
        tokio::select! {
            () = stop.wait() => return Err(RolloutError::Stopped),
            next = next(&mut completions), if completions.is_some() => match next {
                Some(completion) => {
                    let completion = completion?;
                    let query = &queries[completion.request];
                    let seed = query.seeds[completion.sample];
                    kept.add(&query.prompt.task.id, seed, elapsed(), &completion)?;
                    phase.drew(completion);
                }
                None => {
                    completions = None;
                    inference = elapsed();
                    phase.send();
                }
            },
            () = tokio::time::sleep_until(linger.into()), if phase.has_unsent() => phase.send(),
            Some(verdicts) = phase.requests.join_next(), if !phase.requests.is_empty() => phase.learnt(verdicts)?,
        }
        phase.tally.elapsed = elapsed();
        watch(&phase.tally);
    }
    let verify = elapsed().saturating_sub(inference);
    Ok(Rollout {
        groups: phase.finish()?,
        inference,
        verify,
    })
}

/// A query, and the places of some of its seeds.
type Missing = (usize, Vec<usize>);

/// Has the policy draw what is missing. Bridges the engine's blocking channel. Dropping the receiver cancels what is left.
fn draw(
    policy: &Arc<dyn Policy>,
    queries: &[Query],
    missing: Vec<Missing>,
    drawing: &Drawing,
) -> mpsc::Receiver<Result<Completion, EngineError>> {
    let stop_tokens = policy.stop_tokens();
    let requests = missing
        .iter()
        .map(|(query, places)| GenerateRequest {
            prompt: queries[*query].prompt.tokens.clone(),
            seeds: places
                .iter()
                .map(|place| queries[*query].seeds[*place])
                .collect(),
            sampling: drawing.sampling,
            max_tokens: drawing.max_tokens,
            stop_tokens: stop_tokens.clone(),
            stop_strings: drawing.stop_strings.clone(),
        })
        .collect();
    let placed = move |completion: Completion| {
        let (query, places) = &missing[completion.request];
        Completion {
            request: *query,
            sample: places[completion.sample],
            ..completion
        }
    };
    let policy = policy.clone();
    let (sender, receiver) = mpsc::channel(256);
    tokio::task::spawn_blocking(move || {
        let completions = policy.generate(requests);
        loop {
            match completions.recv_timeout(LOOK_UP) {
                Ok(completion) => {
                    if sender.blocking_send(completion.map(&placed)).is_err() {
                        break;
                    }
                }
                // The next completion may be minutes away, and the runtime waits for this task before it ends.
                Err(RecvTimeoutError::Timeout) if sender.is_closed() => break,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    receiver
}

async fn next(
    completions: &mut Option<mpsc::Receiver<Result<Completion, EngineError>>>,
) -> Option<Result<Completion, EngineError>> {
    match completions {
        Some(receiver) => receiver.recv().await,
        None => None,
    }
}

/// Which query, and which of its seeds.
type Place = (usize, usize);

/// The places of a request's completions, and their verdicts.
type Answered = (Vec<Place>, Result<Vec<Judged>, RewardError>);

/// A phase under way.
struct Phase<'a> {
    queries: &'a [Query],
    rewards: &'a RewardClient,
    /// By query and seed.
    drawn: Vec<Vec<Option<Completion>>>,
    judged: Vec<Vec<Option<Judged>>>,
    /// Drawn and not yet sent, with where they belong.
    unsent: Vec<(Place, Ask)>,
    oldest: Option<Instant>,
    requests: JoinSet<Answered>,
    tally: Tally,
}

impl<'a> Phase<'a> {
    fn new(queries: &'a [Query], rewards: &'a RewardClient) -> Self {
        Self {
            queries,
            rewards,
            drawn: queries
                .iter()
                .map(|query| vec![None; query.seeds.len()])
                .collect(),
            judged: queries
                .iter()
                .map(|query| vec![None; query.seeds.len()])
                .collect(),
            unsent: Vec::new(),
            oldest: None,
            requests: JoinSet::new(),
            tally: Tally {
                wanted: queries.iter().map(|query| query.seeds.len()).sum(),
                ..Tally::default()
            },
        }
    }

    /// Takes what was drawn earlier, and says how long that took.
    fn take_up(&mut self, kept: &mut Kept) -> Duration {
        let mut before = Duration::ZERO;
        for (request, query) in self.queries.iter().enumerate() {
            for (sample, seed) in query.seeds.iter().enumerate() {
                if let Some(found) = kept.take(&query.prompt.task.id, *seed) {
                    before = before.max(found.after);
                    self.drew(Completion {
                        request,
                        sample,
                        tokens: found.tokens,
                        logp: found.logp,
                        text: found.text,
                        finish: found.finish,
                    });
                }
            }
        }
        self.tally.elapsed = before;
        before
    }

    /// What is still to be drawn.
    fn missing(&self) -> Vec<Missing> {
        let places = |drawn: &Vec<Option<Completion>>| {
            (0..drawn.len())
                .filter(|place| drawn[*place].is_none())
                .collect()
        };
        self.drawn
            .iter()
            .map(places)
            .enumerate()
            .filter(|(_, places): &Missing| !places.is_empty())
            .collect()
    }

    fn waiting(&self) -> bool {
        self.has_unsent() || !self.requests.is_empty()
    }

    fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    fn flush_at(&self) -> Instant {
        self.oldest.unwrap_or_else(Instant::now) + LINGER
    }

    fn drew(&mut self, completion: Completion) {
        let place = (completion.request, completion.sample);
        let prompt = &self.queries[place.0].prompt;
        self.tally.drawn += 1;
        self.tally.tokens += completion.tokens.len();
        self.unsent.push((
            place,
            Ask {
                task: prompt.task.clone(),
                prompt: prompt.text.clone(),
                completion: completion.text.clone(),
            },
        ));
        self.drawn[place.0][place.1] = Some(completion);
        self.oldest.get_or_insert_with(Instant::now);
        if self.unsent.len() >= self.rewards.batch() {
            self.send();
        }
    }

    fn send(&mut self) {
        self.oldest = None;
        if self.unsent.is_empty() {
            return;
        }
        let (places, asks): (Vec<_>, Vec<_>) = self.unsent.drain(..).unzip();
        let rewards = self.rewards.clone();
        self.requests
            .spawn(async move { (places, rewards.judge(asks).await) });
    }

    fn learnt(
        &mut self,
        answered: Result<Answered, tokio::task::JoinError>,
    ) -> Result<(), RolloutError> {
        let (places, verdicts) = match answered.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(answer) => answer,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // Tasks are cancelled only when the runtime ends.
            Err(Err(_)) => return Err(RolloutError::Stopped),
        };
        for (place, judged) in places.into_iter().zip(verdicts?) {
            self.tally.judged += 1;
            match judged.reward {
                Some(reward) => self.tally.reward += reward,
                None => self.tally.masked += 1,
            }
            self.judged[place.0][place.1] = Some(judged);
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<SampledGroup>, RolloutError> {
        let incomplete = || RolloutError::Incomplete {
            drawn: self.tally.drawn,
            wanted: self.tally.wanted,
        };
        self.queries
            .iter()
            .zip(self.drawn.into_iter().zip(self.judged))
            .map(|(query, (drawn, judged))| {
                let samples = drawn
                    .into_iter()
                    .zip(judged)
                    .map(|(completion, judged)| {
                        let (completion, judged) = completion.zip(judged).ok_or_else(incomplete)?;
                        let Completion {
                            tokens,
                            logp,
                            text,
                            finish,
                            ..
                        } = completion;
                        Ok(Sample {
                            tokens,
                            logp,
                            text,
                            reference: Vec::new(),
                            padding: None,
                            finish,
                            judged,
                        })
                    })
                    .collect::<Result<_, RolloutError>>()?;
                Ok(SampledGroup {
                    prompt: query.prompt.clone(),
                    samples,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
