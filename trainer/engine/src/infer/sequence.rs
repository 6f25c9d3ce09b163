//! A prompt and its samples, from the request to the completions.

use std::sync::Arc;

use super::blocks::{BlockTable, blocks_for};
use crate::api::{Completion, Finish, GenerateRequest};
use crate::batch::KvRows;
use crate::sample::{Draw, Sampled, Sampling};
use crate::text::{StopStrings, Tokenizer};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SampleState {
    /// It has no rows: it has not started, or was preempted. Its tokens, if any, are recomputed when it runs again.
    Waiting,
    /// It has rows for the tokens that it has computed.
    Running,
    /// Its last token is sampled, or is being sampled.
    Done,
}

/// One completion in progress.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) seed: u64,
    pub(crate) tokens: Vec<u32>,
    pub(crate) logp: Vec<f32>,
    pub(crate) state: SampleState,
    /// Blocks of its own tokens; the prompt's belong to the request.
    pub(crate) rows: BlockTable,
    /// The rows of the prompt and of its own tokens, from the first step that computes any of them on.
    pub(crate) kv: KvRows,
    /// Number of tokens with keys and values in the KV cache.
    pub(crate) computed: usize,
    stop: StopStrings,
}

/// A request: a prompt, computed once, and the samples that share it.
#[derive(Debug)]
pub(crate) struct SequenceGroup {
    pub(crate) prompt: Arc<[u32]>,
    /// Blocks of the prompt. Other prompts that begin alike hold the first of them too.
    pub(crate) rows: BlockTable,
    /// Number of prompt tokens with keys and values in the KV cache.
    pub(crate) computed: usize,
    pub(crate) samples: Vec<Sample>,
    /// Number of samples that are not done.
    pub(crate) live: usize,
    sampling: Sampling,
    /// Number of first tokens of a completion that cannot be a stop token.
    min_tokens: usize,
    /// Maximum number of tokens of a completion, limited by the request and by the model's context.
    pub(crate) max_tokens: usize,
    stop_tokens: Arc<[u32]>,
}

impl SequenceGroup {
    /// `context` is the model's. The request must have been checked against it.
    pub(crate) fn new(request: &GenerateRequest, context: usize) -> Self {
        let stop = StopStrings::new(&request.stop_strings);
        let samples: Vec<Sample> = request
            .seeds
            .iter()
            .map(|&seed| Sample {
                seed,
                tokens: Vec::new(),
                logp: Vec::new(),
                state: SampleState::Waiting,
                rows: BlockTable::default(),
                kv: KvRows::default(),
                computed: 0,
                stop: stop.clone(),
            })
            .collect();
        Self {
            rows: BlockTable::default(),
            computed: 0,
            live: samples.len(),
            samples,
            sampling: request.sampling,
            max_tokens: request
                .max_tokens
                .min(context.saturating_sub(request.prompt.len())),
            min_tokens: request.min_tokens,
            stop_tokens: request.stop_tokens[..].into(),
            prompt: Arc::clone(&request.prompt),
        }
    }

    /// Whether the prompt's keys and values are in the KV cache.
    pub(crate) fn prompt_ready(&self) -> bool {
        self.computed == self.prompt.len()
    }

    /// The samples that have rows.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Sample> {
        let samples = self.samples.iter();
        samples.filter(|sample| sample.state == SampleState::Running)
    }

    /// Whether a sample may need more blocks than it has. Its last token is sampled but never computed.
    pub(crate) fn may_grow(&self, sample: &Sample) -> bool {
        sample.rows.block_count() < blocks_for(self.max_tokens.saturating_sub(1))
    }

    /// How a sample's next token is sampled.
    pub(crate) fn draw(&self, sample: usize) -> Draw {
        let Sample { seed, tokens, .. } = &self.samples[sample];
        let may_end = tokens.len() >= self.min_tokens;
        Draw {
            sampling: self.sampling,
            seed: *seed,
            index: tokens.len() as u64,
            suppressed: match may_end {
                true => Arc::default(),
                false => Arc::clone(&self.stop_tokens),
            },
        }
    }

    /// Adds a place for a token that is being sampled; returns whether it must be the sample's last.
    pub(crate) fn expect_token(&mut self, sample: usize) -> bool {
        let tokens = &mut self.samples[sample].tokens;
        tokens.push(u32::MAX);
        tokens.len() >= self.max_tokens
    }

    /// Writes a sampled token to its place; returns why the sample ends with it, if it does.
    pub(crate) fn push(
        &mut self,
        sample: usize,
        sampled: Sampled,
        tokenizer: &Tokenizer,
    ) -> Result<Option<Finish>, String> {
        let sample = &mut self.samples[sample];
        if let Some(place) = sample.tokens.last_mut() {
            *place = sampled.token;
        }
        sample.logp.push(sampled.logp);
        if self.stop_tokens.contains(&sampled.token)
            || sample.stop.reached(tokenizer, &sample.tokens)?
        {
            Ok(Some(Finish::Stop))
        } else if sample.tokens.len() >= self.max_tokens {
            Ok(Some(Finish::Length))
        } else {
            Ok(None)
        }
    }

    /// The completion of a sample that has ended, by request and number. The sample's tokens are moved into it.
    pub(crate) fn completion(
        &mut self,
        (request, number): (usize, usize),
        finish: Finish,
        tokenizer: &Tokenizer,
    ) -> Result<Completion, String> {
        let text = self.text(number, tokenizer)?;
        let sample = &mut self.samples[number];
        Ok(Completion {
            request,
            sample: number,
            tokens: std::mem::take(&mut sample.tokens),
            logp: std::mem::take(&mut sample.logp),
            text,
            finish,
        })
    }

    /// The text of a sample, without its stop token and cut before a stop string.
    pub(crate) fn text(&self, sample: usize, tokenizer: &Tokenizer) -> Result<String, String> {
        let sample = &self.samples[sample];
        let own = match sample.tokens.split_last() {
            Some((last, own)) if self.stop_tokens.contains(last) => own,
            _ => &sample.tokens[..],
        };
        let text = tokenizer.decode_after(own)?;
        Ok(sample.stop.cut(&text).to_owned())
    }
}
