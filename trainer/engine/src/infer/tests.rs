//! Scheduling against a simple model: the store contains labels instead of keys and values.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::blocks::BLOCK;
use super::runner::batch;
use super::scheduler::Scheduler;
use super::sequence::{SampleState, SequenceGroup};
use crate::api::{Finish, GenerateRequest};
use crate::sample::Sampled;
use crate::sample::Sampling;
use crate::text::random_model_tokenizer;

/// Owner of the token in a row: request, sample or prompt, and position from its beginning.
type Label = (usize, Option<usize>, usize);

/// The `index`-th token of a sample, a function of its seed alone.
fn token(seed: u64, index: usize) -> u32 {
    (blake3::hash(&[seed.to_le_bytes(), index.to_le_bytes()].concat()).as_bytes()[0]).into()
}

/// Runs requests of `(prompt tokens, tokens of each sample)`; returns the number of steps.
fn run(
    requests: &[(usize, Vec<usize>)],
    spare_blocks: usize,
    max_sequences: usize,
    chunk: usize,
) -> Result<usize, TestCaseError> {
    let tokenizer = random_model_tokenizer::tokenizer();
    let seed = |request: usize, sample: usize| (100 * request + sample) as u64;
    let sequences: Vec<SequenceGroup> = requests
        .iter()
        .enumerate()
        .map(|(number, (prompt, samples))| {
            let request = GenerateRequest {
                prompt: vec![7; *prompt].into(),
                seeds: (0..samples.len()).map(|s| seed(number, s)).collect(),
                sampling: Sampling::default(),
                max_tokens: samples.iter().copied().max().unwrap_or(1),
                stop_tokens: vec![],
                stop_strings: vec![],
            };
            SequenceGroup::new(&request, 10_000)
        })
        .collect();
    let blocks = sequences
        .iter()
        .map(Scheduler::blocks_needed)
        .max()
        .unwrap_or(0)
        + spare_blocks;
    let mut scheduler = Scheduler::new(sequences, blocks, max_sequences, chunk);
    let mut store: BTreeMap<usize, Label> = BTreeMap::new();
    let mut steps = 0;
    loop {
        let chunks = scheduler.plan();
        if chunks.is_empty() {
            break;
        }
        steps += 1;
        prop_assert!(steps < 100_000, "no progress");
        let running = scheduler.sequences.iter().flat_map(|s| &s.samples);
        let running = running.filter(|s| s.phase == SampleState::Running).count();
        prop_assert!(running <= max_sequences);
        prop_assert!(chunks.iter().map(|p| p.count).sum::<usize>() <= chunk + running);

        let planned = batch(&scheduler.sequences, &chunks);
        prop_assert_eq!(planned.check(blocks * BLOCK), Ok(()));
        for (chunk, span) in chunks.iter().zip(&planned.spans) {
            for i in 0..chunk.count {
                let row = planned.rows[span.q_start + i];
                store.insert(row, (chunk.request, chunk.sample, chunk.from + i));
            }
        }
        // Every span must see its prompt's rows and then its own, all of them as they were computed.
        for (chunk, span) in chunks.iter().zip(&planned.spans) {
            let attended: Vec<Option<Label>> = span
                .kv
                .iter()
                .flat_map(|&(first, n)| first..first + n)
                .map(|row| store.get(&row).copied())
                .collect();
            let end = chunk.from + chunk.count;
            let own = |n: usize, owner: Option<usize>| {
                (0..n).map(move |p| Some((chunk.request, owner, p)))
            };
            let expected: Vec<Option<Label>> = match chunk.sample {
                None => own(end, None).collect(),
                Some(_) => own(requests[chunk.request].0, None)
                    .chain(own(end, chunk.sample))
                    .collect(),
            };
            prop_assert_eq!(attended, expected);
        }
        for chunk in &chunks {
            for sample in scheduler.computed(chunk) {
                let sequence = &mut scheduler.sequences[chunk.request];
                let index = sequence.samples[sample].tokens.len();
                let sampled = Sampled {
                    token: token(seed(chunk.request, sample), index),
                    logp: -1.0,
                };
                let ended = sequence.push(sample, sampled, &tokenizer).unwrap();
                let length = requests[chunk.request].1[sample];
                prop_assert_eq!(
                    ended == Some(Finish::Length),
                    index + 1 == sequence.max_tokens
                );
                if index + 1 == length {
                    scheduler.finish(chunk.request, sample);
                }
            }
        }
    }
    for (number, (_, samples)) in requests.iter().enumerate() {
        for (sample, length) in samples.iter().enumerate() {
            let done = &scheduler.sequences[number].samples[sample];
            prop_assert_eq!(done.phase, SampleState::Done);
            let tokens: Vec<u32> = (0..*length)
                .map(|i| token(seed(number, sample), i))
                .collect();
            prop_assert_eq!(&done.tokens, &tokens);
        }
    }
    prop_assert_eq!(scheduler.free_blocks(), blocks, "a block was leaked");
    Ok(steps)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn every_sample_completes_in_any_number_of_blocks(
        requests in prop::collection::vec((1usize..70, prop::collection::vec(1usize..60, 0..5)), 0..7),
        spare_blocks in 0usize..12,
        max_sequences in 1usize..8,
        chunk in 1usize..50,
    ) {
        run(&requests, spare_blocks, max_sequences, chunk)?;
    }
}

#[test]
fn samples_are_computed_in_parallel_if_blocks_suffice() {
    let requests = vec![(20, vec![50; 8]); 4];
    // One step for the prompts, whose logits give the first tokens, and 49 for the rest.
    assert_eq!(run(&requests, 1000, 64, 1000).unwrap(), 50);
}

#[test]
fn a_long_prompt_does_not_delay_running_samples() {
    // The second prompt takes 10 steps, during which the first request's samples make progress.
    let requests = vec![(16, vec![40; 2]), (160, vec![1])];
    assert_eq!(run(&requests, 1000, 64, 16).unwrap(), 40);
}
