//! A prompt and its samples on their way from a request to completions.

use std::sync::Arc;

use super::blocks::{Rows, blocks_for};
use crate::api::{Finish, GenerateRequest};
use crate::batch::Sampled;
use crate::sample::Sampling;
use crate::text::{StopStrings, Tokenizer};

/// Where a sample stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Has no rows: not begun, or preempted. Its tokens, if any, are computed again when it goes on.
    Waiting,
    /// Has rows for the tokens that it has computed.
    Running,
    /// Its completion has been handed out.
    Done,
}

/// One completion in the making.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) seed: u64,
    pub(crate) tokens: Vec<u32>,
    pub(crate) logp: Vec<f32>,
    pub(crate) phase: Phase,
    /// Rows of its own tokens; the prompt's are the request's.
    pub(crate) rows: Rows,
    /// Tokens whose keys and values are in the store.
    pub(crate) computed: usize,
    stop: StopStrings,
}

/// A request: a prompt, computed once, and the samples that share it.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) prompt: Arc<[u32]>,
    pub(crate) rows: Rows,
    /// Tokens of the prompt whose keys and values are in the store.
    pub(crate) computed: usize,
    pub(crate) samples: Vec<Sample>,
    /// Samples that are not done.
    pub(crate) live: usize,
    pub(crate) sampling: Sampling,
    /// Most tokens of a completion, by the request and by the model's context.
    pub(crate) most: usize,
    stop_tokens: Vec<u32>,
}

impl Sequence {
    /// `context` is the model's; the request has been checked against it.
    pub(crate) fn new(request: &GenerateRequest, context: usize) -> Self {
        let stop = StopStrings::new(&request.stop_strings);
        let samples: Vec<Sample> = request
            .seeds
            .iter()
            .map(|&seed| Sample {
                seed,
                tokens: Vec::new(),
                logp: Vec::new(),
                phase: Phase::Waiting,
                rows: Rows::default(),
                computed: 0,
                stop: stop.clone(),
            })
            .collect();
        Self {
            rows: Rows::default(),
            computed: 0,
            live: samples.len(),
            samples,
            sampling: request.sampling,
            most: request
                .max_tokens
                .min(context.saturating_sub(request.prompt.len())),
            stop_tokens: request.stop_tokens.clone(),
            prompt: Arc::clone(&request.prompt),
        }
    }

    /// Whether the prompt's keys and values are in the store.
    pub(crate) fn prompt_ready(&self) -> bool {
        self.computed == self.prompt.len()
    }

    /// The samples that have rows.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Sample> {
        let samples = self.samples.iter();
        samples.filter(|sample| sample.phase == Phase::Running)
    }

    /// Whether any sample has rows.
    pub(crate) fn runs(&self) -> bool {
        self.running().next().is_some()
    }

    /// Whether a sample may need more blocks than it has. Its last token is drawn, and never computed.
    pub(crate) fn grows(&self, sample: &Sample) -> bool {
        sample.rows.held() < blocks_for(self.most.saturating_sub(1))
    }

    /// Adds a drawn token; says why the sample ends with it, if it does.
    pub(crate) fn push(
        &mut self,
        sample: usize,
        drawn: Sampled,
        tokenizer: &Tokenizer,
    ) -> Result<Option<Finish>, String> {
        let sample = &mut self.samples[sample];
        sample.tokens.push(drawn.token);
        sample.logp.push(drawn.logp);
        if self.stop_tokens.contains(&drawn.token) || sample.stop.met(tokenizer, &sample.tokens)? {
            Ok(Some(Finish::Stop))
        } else if sample.tokens.len() >= self.most {
            Ok(Some(Finish::Length))
        } else {
            Ok(None)
        }
    }

    /// The text of a sample: special tokens left out, cut before a stop string.
    pub(crate) fn text(&self, sample: usize, tokenizer: &Tokenizer) -> Result<String, String> {
        let sample = &self.samples[sample];
        let text = tokenizer.decode_after(&sample.tokens)?;
        Ok(sample.stop.cut(&text).to_owned())
    }
}
