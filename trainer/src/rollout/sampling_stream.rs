//! Sampling from the policy: bridges the engine's blocking channel to an asynchronous one.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use engine::{Completion, EngineError, GenerateRequest};
use tokio::sync::mpsc;

use super::{RolloutRequest, SamplingParams};
use crate::policy::Policy;

/// How often the sampling task checks whether the receiver was dropped.
const POLL: Duration = Duration::from_millis(100);

/// The index of a request, and the indices of those of its seeds that are still to be sampled.
pub(super) type Missing = (usize, Vec<usize>);

/// Samples the missing completions. Dropping the receiver cancels the rest.
pub(super) fn sample(
    policy: &Arc<dyn Policy>,
    requests: &[RolloutRequest],
    missing: Vec<Missing>,
    params: &SamplingParams,
) -> mpsc::Receiver<Result<Completion, EngineError>> {
    let stop_tokens = policy.stop_tokens();
    let generate = missing
        .iter()
        .map(|(request, seeds)| GenerateRequest {
            prompt: requests[*request].prompt.tokens.clone(),
            seeds: seeds
                .iter()
                .map(|seed| requests[*request].seeds[*seed])
                .collect(),
            sampling: params.sampling,
            min_tokens: params.min_tokens,
            max_tokens: params.max_tokens,
            stop_tokens: stop_tokens.clone(),
            stop_strings: params.stop_strings.clone(),
        })
        .collect();
    // The engine numbers the requests that it was given; the caller needs the numbers of its own.
    let renumbered = move |completion: Completion| {
        let (request, seeds) = &missing[completion.request];
        Completion {
            request: *request,
            sample: seeds[completion.sample],
            ..completion
        }
    };
    let policy = policy.clone();
    let (sender, receiver) = mpsc::channel(256);
    tokio::task::spawn_blocking(move || {
        let completions = policy.generate(generate);
        loop {
            match completions.recv_timeout(POLL) {
                Ok(completion) => {
                    if sender.blocking_send(completion.map(&renumbered)).is_err() {
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
