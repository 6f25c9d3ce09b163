//! Runs requests on a model: plan → batch → forward pass and sampling → tokens → completions. While the device computes a step, the next one is planned, and
//! texts are detokenised.

use super::blocks::{BLOCK, blocks_for, shared_blocks, shared_prompt_tokens};
use super::scheduler::{ScheduledChunk, Scheduler};
use super::sequence::{SampleState, SequenceGroup};
use crate::api::{Completion, Finish, GenerateRequest};
use crate::batch::{Batch, KvRows};
use crate::error::EngineError;
use crate::model::Model;
use crate::text::Tokenizer;

/// Maximum number of prompt tokens that a step computes in addition to the running samples' tokens.
pub(crate) const CHUNK: usize = 1024;
/// Default maximum number of sequences generated at once.
pub(crate) const MAX_SEQUENCES: usize = 256;

/// Limits of a generation run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Capacity of the KV cache in tokens; `None` takes what the requests can use, up to a quarter of the memory.
    pub(crate) kv_tokens: Option<usize>,
    /// Maximum number of sequences generated at once.
    pub(crate) max_sequences: usize,
}

/// Rejects requests that cannot be served, since they or the model are unusable; the error names the request and the remedy.
pub(crate) fn check(requests: &[GenerateRequest], model: &Model) -> Result<(), EngineError> {
    model.check_consistent()?;
    let config = model.config();
    for (number, request) in requests.iter().enumerate() {
        let wrong = |what: String| Err(EngineError::Request(format!("request {number}: {what}")));
        if request.prompt.is_empty() {
            return wrong(
                "the prompt has no tokens; give it at least one, such as the BOS token".into(),
            );
        }
        let mut prompt = request.prompt.iter();
        if let Some(token) = prompt.find(|t| **t as usize >= config.vocab_size) {
            return wrong(format!(
                "the prompt's token {token} is not in the model's vocabulary of {}; it was encoded with another tokenizer",
                config.vocab_size
            ));
        }
        if request.prompt.len() >= config.max_position_embeddings {
            return wrong(format!(
                "the prompt's {} tokens leave no room in the model's context of {}; shorten it",
                request.prompt.len(),
                config.max_position_embeddings
            ));
        }
        if request.max_tokens == 0 {
            return wrong("max_tokens is 0; ask for at least one token".into());
        }
        if request.min_tokens > request.max_tokens {
            return wrong(format!(
                "min_tokens is {}, above max_tokens, {}; lower it",
                request.min_tokens, request.max_tokens
            ));
        }
        if let Err(what) = request.sampling.check() {
            return wrong(what);
        }
    }
    Ok(())
}

/// Generates all samples and passes each to `emit` when it is finished. `emit` returns whether to continue.
pub(crate) fn run(
    model: &mut Model,
    tokenizer: &Tokenizer,
    requests: &[GenerateRequest],
    limits: Limits,
    emit: &mut dyn FnMut(Completion) -> bool,
) -> Result<(), EngineError> {
    check(requests, model)?;
    let context = model.config().max_position_embeddings;
    let sequences: Vec<SequenceGroup> = requests
        .iter()
        .map(|request| SequenceGroup::new(request, context))
        .collect();
    let blocks = reserve(model, &sequences, limits)?;
    let mut scheduler = Scheduler::new(sequences, blocks, limits.max_sequences, CHUNK);
    let (mut chunks, mut kv) = plan(&mut scheduler);
    let mut ended: Vec<(usize, usize, Finish)> = Vec::new();
    let (mut rows, mut draws) = (Vec::new(), Vec::new());
    let mut origins: Vec<(usize, usize)> = Vec::new();
    loop {
        let mut batch = batch_of(&scheduler.sequences, &mut chunks, kv);
        if chunks.is_empty() {
            // Every sample that was planned has ended. Others may have waited for their blocks.
            (chunks, kv) = plan(&mut scheduler);
            batch = batch_of(&scheduler.sequences, &mut chunks, kv);
        }
        rows.clear();
        draws.clear();
        origins.clear();
        for (chunk, span) in chunks.iter().zip(&batch.spans) {
            let known = origins.len();
            scheduler.computed(chunk, &mut origins);
            for &(request, sample) in &origins[known..] {
                rows.push(span.q_start + span.q_len - 1);
                draws.push(scheduler.sequences[request].draw(sample));
            }
        }
        let computing = !chunks.is_empty();
        let begun = match computing {
            true => model.begin_infer(&batch, &rows, &draws),
            false => Ok(()),
        };
        // While the device computes: the next step, as if every sample went on, and the completions that the last step ended.
        return_rows(&mut scheduler.sequences, &chunks, batch);
        for &(request, sample) in &origins {
            scheduler.expect_token(request, sample);
        }
        (chunks, kv) = plan(&mut scheduler);
        let mut wanted = true;
        for (request, sample, finish) in ended.drain(..) {
            let sequence = &mut scheduler.sequences[request];
            let completion = sequence.completion((request, sample), finish, tokenizer);
            wanted = wanted && emit(completion.map_err(EngineError::Request)?);
        }
        begun?;
        if !computing {
            return Ok(());
        }
        let sampled = model.end_infer()?;
        if !wanted {
            return Ok(());
        }
        for (&(request, sample), token) in origins.iter().zip(sampled) {
            let sequence = &mut scheduler.sequences[request];
            let finish = sequence.push(sample, token, tokenizer);
            if let Some(finish) = finish.map_err(EngineError::Request)? {
                scheduler.finish(request, sample);
                ended.push((request, sample, finish));
            }
        }
    }
}

/// The next chunks, and the rows of each.
fn plan(scheduler: &mut Scheduler) -> (Vec<ScheduledChunk>, Vec<KvRows>) {
    let chunks = scheduler.plan();
    let kv = take_rows(&mut scheduler.sequences, &chunks);
    (chunks, kv)
}

/// The rows of each chunk's keys and values. Samples' rows are taken out of them until [`return_rows`], so a step only adds the new ones.
pub(super) fn take_rows(sequences: &mut [SequenceGroup], chunks: &[ScheduledChunk]) -> Vec<KvRows> {
    let of_chunk = |chunk: &ScheduledChunk| {
        let sequence = &mut sequences[chunk.request];
        let (rows, before, mut kv) = match chunk.sample {
            None => (&sequence.rows, 0, KvRows::default()),
            Some(number) => {
                let prompt = sequence.prompt.len();
                let sample = &mut sequence.samples[number];
                let mut kv = std::mem::take(&mut sample.kv);
                if kv.is_empty() {
                    sequence.rows.add_rows(0, prompt, &mut kv);
                }
                (&sample.rows, prompt, kv)
            }
        };
        rows.add_rows(kv.len() - before, chunk.from + chunk.count, &mut kv);
        kv
    };
    chunks.iter().map(of_chunk).collect()
}

/// The batch of these chunks, with one span for each. Samples that have ended since the chunks were planned are left out.
pub(super) fn batch_of(
    sequences: &[SequenceGroup],
    chunks: &mut Vec<ScheduledChunk>,
    kv: Vec<KvRows>,
) -> Batch {
    let mut batch = Batch::default();
    let mut kv = kv.into_iter();
    chunks.retain(|chunk| {
        let sequence = &sequences[chunk.request];
        let sample = chunk.sample.map(|number| &sequence.samples[number]);
        let ended = sample.is_some_and(|sample| sample.state == SampleState::Done);
        let Some(kv) = kv.next().filter(|_| !ended) else {
            return false;
        };
        let tokens = sample.map_or(&sequence.prompt[..], |sample| &sample.tokens);
        batch.add(&tokens[chunk.from..][..chunk.count], kv);
        true
    });
    batch
}

/// Moves the samples' rows from the batch of these chunks back to the samples.
pub(super) fn return_rows(
    sequences: &mut [SequenceGroup],
    chunks: &[ScheduledChunk],
    batch: Batch,
) {
    for (chunk, span) in chunks.iter().zip(batch.spans) {
        if let Some(number) = chunk.sample {
            sequences[chunk.request].samples[number].kv = span.kv;
        }
    }
}

/// Reserves memory for keys and values; returns the number of blocks.
fn reserve(
    model: &mut Model,
    sequences: &[SequenceGroup],
    limits: Limits,
) -> Result<usize, EngineError> {
    let required = sequences.iter().map(Scheduler::blocks_needed);
    let required = required.max().unwrap_or(0);
    let blocks = match limits.kv_tokens {
        Some(tokens) => tokens / BLOCK,
        None => {
            let memory = model.decoder.backend.memory();
            let max_blocks = max_cached_rows(memory, model.kv_row_bytes()) as usize / BLOCK;
            usable_blocks(sequences, limits.max_sequences)
                .min(max_blocks)
                .max(required)
        }
    };
    if blocks < required {
        return Err(EngineError::Request(format!(
            "a KV cache of {} tokens does not hold the largest request, which needs {}; raise the cache's size, or lower max_tokens",
            blocks * BLOCK,
            required * BLOCK
        )));
    }
    // A larger KV cache from an earlier call also serves, unless its size is set by the limits.
    if limits.kv_tokens.is_none() && model.kv_rows() >= blocks * BLOCK {
        return Ok(blocks);
    }
    model.reserve_kv(blocks * BLOCK)?;
    Ok(blocks)
}

/// Number of rows of a KV cache in a quarter of the device's memory.
pub(crate) fn max_cached_rows(memory: Option<u64>, row_bytes: u64) -> u64 {
    memory.unwrap_or(8 << 30) / 4 / row_bytes.max(1)
}

/// The largest number of blocks for the requests: of the longest prompts and samples that can be in the KV cache at once.
fn usable_blocks(sequences: &[SequenceGroup], max_sequences: usize) -> usize {
    let prompts = sequences.iter().map(|s| &s.prompt[..]).collect();
    let mut samples: Vec<(usize, usize)> = sequences
        .iter()
        .map(|s| (blocks_for(s.max_tokens.saturating_sub(1)), s.live))
        .collect();
    samples.sort_unstable_by(|a, b| b.cmp(a));
    let mut remaining = max_sequences;
    let mut blocks = prompt_blocks(prompts, max_prompts(max_sequences));
    for (size, count) in samples {
        let running = count.min(remaining);
        blocks += size * running;
        remaining -= running;
    }
    blocks
}

/// Number of prompts that can be in the KV cache at once: one for each running sample, and a few in prefill.
pub(crate) fn max_prompts(max_sequences: usize) -> usize {
    max_sequences.saturating_add(16)
}

/// Blocks of up to `max_prompts` of the prompts. The blocks of a prefix of all prompts count once. So do those that any two prompts share, if all are in the KV
/// cache.
pub(super) fn prompt_blocks(mut prompts: Vec<&[u32]>, max_prompts: usize) -> usize {
    let common = shared_prompt_tokens(prompts.iter().copied()) / BLOCK;
    // Of the prompts before it in this order, a prompt shares most with its neighbour.
    prompts.sort_unstable();
    let blocks = prompts.iter().map(|prompt| blocks_for(prompt.len()));
    let mut longest: Vec<usize> = blocks.collect();
    let neighbours = prompts
        .windows(2)
        .map(|pair| shared_blocks(pair[0], pair[1]));
    let all = longest.iter().sum::<usize>() - neighbours.sum::<usize>();
    longest.sort_unstable_by(|a, b| b.cmp(a));
    longest.truncate(max_prompts);
    let shared = longest.len().saturating_sub(1) * common;
    all.min(longest.iter().sum::<usize>() - shared)
}
