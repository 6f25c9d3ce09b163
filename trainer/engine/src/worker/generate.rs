//! Generation by several ranks: each samples a part of the requests, and rank 0 gets the completions as they finish.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::{Completion, GenerateRequest};
use crate::backend::ranks::{ProcessGroup, pieces};
use crate::error::EngineError;
use crate::infer::runner::{self, Limits};
use crate::model::Model;
use crate::text::Tokenizer;

/// How often the ranks exchange finished completions.
const ROUND: Duration = Duration::from_millis(20);

/// Takes completions; returns whether more are wanted.
pub(super) type Deliver<'a> = &'a mut (dyn FnMut(Completion) -> bool + Send);

/// Samples this rank's part of the requests. Rank 0 delivers the completions of all ranks.
pub(super) fn generate(
    model: &mut Model,
    tokenizer: &Tokenizer,
    requests: &[GenerateRequest],
    limits: Limits,
    deliver: Option<Deliver<'_>>,
) -> Result<(), EngineError> {
    let ranks = model.sharing.ranks.clone();
    let part = RequestShare::new(requests, ranks.size(), ranks.rank());
    sample_and_exchange(ranks.as_ref(), &part, deliver, |emit| {
        runner::run(model, tokenizer, &part.requests, limits, emit)
    })
}

/// Calls `sample` for this rank's part. It passes finished completions to its argument, which returns whether more are wanted.
fn sample_and_exchange(
    ranks: &dyn ProcessGroup,
    part: &RequestShare,
    deliver: Option<Deliver<'_>>,
    sample: impl FnOnce(&mut dyn FnMut(Completion) -> bool) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let (send, finished) = mpsc::channel();
    let (ended, cancelled) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (ended, cancelled) = (&ended, &cancelled);
        let exchange = scope.spawn(move || exchange(ranks, &finished, ended, cancelled, deliver));
        let mut emit = |completion: Completion| {
            // The receiver lives as long as this scope.
            let _ = send.send(Ok(part.whole(completion)));
            // The exchange ends before the sampling only if it fails.
            !cancelled.load(Ordering::Relaxed) && !exchange.is_finished()
        };
        // The other ranks get a panic as an error. Otherwise all ranks would exchange nothing for ever.
        let sampled = catch_unwind(AssertUnwindSafe(|| sample(&mut emit)));
        let result = sampled.unwrap_or_else(|_| {
            Err(EngineError::Device(
                "sampling ended with a panic; its message is printed above".into(),
            ))
        });
        if let Err(error) = &result {
            let _ = send.send(Err(error.to_string()));
        }
        ended.store(true, Ordering::Release);
        let exchanged = exchange.join().unwrap_or_else(|_| {
            Err(EngineError::Ranks(
                "the exchange of completions ended with a panic; its message is printed above"
                    .into(),
            ))
        });
        result.and(exchanged)
    })
}

/// What a rank sends in a round. The completions go to rank 0 only.
#[derive(Default, Serialize, Deserialize)]
struct Message {
    completions: Vec<Completion>,
    error: Option<String>,
    ended: bool,
    cancelled: bool,
}

/// Exchanges finished completions in rounds, until all ranks have ended.
fn exchange(
    ranks: &dyn ProcessGroup,
    finished: &mpsc::Receiver<Result<Completion, String>>,
    ended: &AtomicBool,
    cancelled: &AtomicBool,
    mut deliver: Option<Deliver<'_>>,
) -> Result<(), EngineError> {
    let write = |message: &Message| {
        serde_json::to_vec(message)
            .map_err(|error| EngineError::Ranks(format!("a message cannot be written: {error}")))
    };
    let mut failed = None;
    loop {
        // Read first: what is finished before the end is then in the channel.
        let last = ended.load(Ordering::Acquire);
        let mut message = Message {
            ended: last,
            cancelled: cancelled.load(Ordering::Relaxed),
            ..Message::default()
        };
        let mut own = Vec::new();
        for next in finished.try_iter() {
            match next {
                Ok(completion) => own.push(completion),
                Err(error) => message.error = Some(error),
            }
        }
        let short = write(&message)?;
        let leads = ranks.rank() == 0;
        if !leads {
            message.completions = std::mem::take(&mut own);
        }
        let full = write(&message)?;
        let mut parts = vec![short.as_slice(); ranks.size()];
        parts[0] = &full;
        let mut all_ended = true;
        for (rank, bytes) in ranks.all_to_all(&parts)?.iter().enumerate() {
            let message: Message = serde_json::from_slice(bytes).map_err(|error| {
                EngineError::Ranks(format!("rank {rank} sent what is no message ({error})"))
            })?;
            all_ended &= message.ended;
            if let Some(error) = message.error.filter(|_| rank != ranks.rank()) {
                failed.get_or_insert(EngineError::Device(format!("rank {rank}: {error}")));
                cancelled.store(true, Ordering::Relaxed);
            }
            if message.cancelled {
                cancelled.store(true, Ordering::Relaxed);
            }
            own.extend(message.completions);
        }
        if let Some(deliver) = &mut deliver {
            for completion in own {
                if !deliver(completion) {
                    cancelled.store(true, Ordering::Relaxed);
                }
            }
        }
        if all_ended {
            return failed.map_or(Ok(()), Err);
        }
        std::thread::sleep(ROUND);
    }
}

/// The part of the requests that a rank samples: whole requests in turn, or some samples of some if there are fewer requests than ranks.
struct RequestShare {
    requests: Vec<GenerateRequest>,
    /// For each of them, its number and its samples.
    origins: Vec<(usize, Range<usize>)>,
}

impl RequestShare {
    fn new(requests: &[GenerateRequest], ranks: usize, rank: usize) -> Self {
        let pieces = pieces(requests.len(), ranks);
        let mut part = Self {
            requests: Vec::new(),
            origins: Vec::new(),
        };
        let mut turn = 0;
        for (number, request) in requests.iter().enumerate() {
            for piece in 0..pieces {
                let cut = |piece: usize| piece * request.seeds.len() / pieces;
                let samples = cut(piece)..cut(piece + 1);
                if samples.is_empty() {
                    continue;
                }
                let own = turn % ranks == rank;
                turn += 1;
                if own {
                    part.requests.push(GenerateRequest {
                        seeds: request.seeds[samples.clone()].to_vec(),
                        ..request.clone()
                    });
                    part.origins.push((number, samples));
                }
            }
        }
        part
    }

    /// A completion of the part, numbered as in all requests.
    fn whole(&self, completion: Completion) -> Completion {
        let (request, samples) = &self.origins[completion.request];
        Completion {
            request: *request,
            sample: samples.start + completion.sample,
            ..completion
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::ranks::{on_each, sampling_share};

    #[test]
    fn a_panic_on_one_rank_ends_the_sampling_of_all() {
        let sampled = |ranks: &dyn ProcessGroup| {
            let part = RequestShare::new(&[], ranks.size(), ranks.rank());
            sample_and_exchange(ranks, &part, None, |_| match ranks.rank() {
                0 => Ok(()),
                _ => panic!("a bug"),
            })
        };
        let errors = on_each(2, Duration::from_secs(60), |ranks| {
            let result = sampled(ranks.as_ref());
            result.expect_err("rank 1 panicked").to_string()
        });
        assert!(errors[0].contains("rank 1: sampling ended"), "{errors:?}");
        assert!(errors[1].contains("with a panic"), "{errors:?}");
    }

    #[test]
    fn each_sample_is_in_one_part() {
        for (requests, seeds) in [(1, 3), (2, 8), (3, 1), (4, 2), (9, 5)] {
            let requests: Vec<GenerateRequest> = (0..requests)
                .map(|n| GenerateRequest {
                    prompt: vec![1].into(),
                    seeds: (0..seeds).map(|s| n * 100 + s).collect(),
                    max_tokens: 1,
                    ..GenerateRequest::default()
                })
                .collect();
            for ranks in [1, 2, 4] {
                let mut seen: Vec<u64> = Vec::new();
                let (prompts, samples) = sampling_share(requests.len(), seeds as usize, ranks);
                for rank in 0..ranks {
                    let part = RequestShare::new(&requests, ranks, rank);
                    assert!(part.requests.len() <= prompts);
                    assert!(part.requests.iter().all(|r| r.seeds.len() <= samples));
                    for (request, (number, samples)) in part.requests.iter().zip(&part.origins) {
                        assert_eq!(request.seeds, requests[*number].seeds[samples.clone()]);
                        seen.extend(&request.seeds);
                    }
                }
                seen.sort_unstable();
                let all: Vec<u64> = requests.iter().flat_map(|r| r.seeds.clone()).collect();
                assert_eq!(seen, all);
            }
        }
    }
}
