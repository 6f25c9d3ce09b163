//! Scheduling against a simple model: the store contains labels instead of keys and values.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::blocks::{BLOCK, shared_blocks};
use super::runner::{batch_of, prompt_blocks, return_rows, take_rows};
use super::scheduler::{ScheduledChunk, Scheduler};
use super::sequence::{SampleState, SequenceGroup};
use crate::api::{Finish, GenerateRequest};
use crate::sample::Sampled;
use crate::text::random_model_tokenizer;

/// What a row holds: the request, sample and position of a sample's token; or a digest of a prompt up to a token of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Prompt([u8; 32]),
    Sample(usize, usize, usize),
}

/// A label for each token of a prompt.
fn labels(prompt: &[u32]) -> Vec<Label> {
    let bytes: Vec<u8> = prompt.iter().flat_map(|it| it.to_le_bytes()).collect();
    let label = |end: usize| Label::Prompt(blake3::hash(&bytes[..4 * end]).into());
    (1..=prompt.len()).map(label).collect()
}

/// A prompt: `common` tokens that other prompts begin with too, then `own` tokens of its kind.
fn prompt(common: usize, own: usize, kind: u32) -> Vec<u32> {
    let own = (0..own as u32).map(|i| 1000 + 100 * kind + i);
    (0..common as u32).chain(own).collect()
}

/// What a run did.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    steps: usize,
    /// Prompt tokens that were computed.
    prompt_tokens: usize,
    /// The most blocks that prompts held at once.
    prompt_blocks: usize,
}

/// The `index`-th token of a sample, a function of its seed alone.
fn token(seed: u64, index: usize) -> u32 {
    (blake3::hash(&[seed.to_le_bytes(), index.to_le_bytes()].concat()).as_bytes()[0]).into()
}

/// Checks that common blocks of prompts are stored once, all others have one holder, and none is lost. Returns the number of blocks that prompts hold.
fn check_blocks(scheduler: &Scheduler, blocks: usize) -> Result<usize, TestCaseError> {
    let tables = scheduler.sequences.iter();
    let tables: Vec<(&[u32], &[usize])> = tables
        .map(|s| (&s.prompt[..], s.rows.blocks()))
        .filter(|(_, blocks)| !blocks.is_empty())
        .collect();
    for (number, (a, a_blocks)) in tables.iter().enumerate() {
        for (b, b_blocks) in &tables[..number] {
            let shared = shared_blocks(a, b);
            prop_assert_eq!(&a_blocks[..shared], &b_blocks[..shared]);
        }
    }
    let mut held: BTreeSet<usize> = tables.iter().flat_map(|(_, b)| *b).copied().collect();
    let by_prompts = held.len();
    let samples = scheduler.sequences.iter().flat_map(|s| &s.samples);
    for block in samples.flat_map(|s| s.rows.blocks()) {
        prop_assert!(held.insert(*block), "two hold a sample's block");
    }
    prop_assert_eq!(held.len() + scheduler.free_blocks(), blocks);
    Ok(by_prompts)
}

/// Runs requests of `(prompt, tokens of each sample)`.
fn run(
    requests: &[(Vec<u32>, Vec<usize>)],
    spare_blocks: usize,
    max_sequences: usize,
    chunk: usize,
) -> Result<Counts, TestCaseError> {
    let tokenizer = random_model_tokenizer::tokenizer();
    let seed = |request: usize, sample: usize| (100 * request + sample) as u64;
    let sequences: Vec<SequenceGroup> = requests
        .iter()
        .enumerate()
        .map(|(number, (prompt, samples))| {
            let request = GenerateRequest {
                prompt: prompt.as_slice().into(),
                seeds: (0..samples.len()).map(|s| seed(number, s)).collect(),
                max_tokens: samples.iter().copied().max().unwrap_or(1),
                ..GenerateRequest::default()
            };
            SequenceGroup::new(&request, 10_000)
        })
        .collect();
    let needed = sequences.iter().map(Scheduler::blocks_needed).max();
    let blocks = needed.unwrap_or(0) + spare_blocks;
    let mut scheduler = Scheduler::new(sequences, blocks, max_sequences, chunk);
    let prompts = requests.iter().map(|(prompt, _)| prompt.as_slice());
    let labels: Vec<Vec<Label>> = prompts.clone().map(labels).collect();
    let all_prompts = prompt_blocks(prompts.collect(), requests.len());
    let mut store: BTreeMap<usize, Label> = BTreeMap::new();
    let mut counts = Counts::default();
    // A step is planned before the tokens of the step before it are known.
    let mut expected: Vec<(usize, usize)> = Vec::new();
    loop {
        let mut chunks = scheduler.plan();
        let held = check_blocks(&scheduler, blocks)?;
        prop_assert!(held <= all_prompts);
        counts.prompt_blocks = counts.prompt_blocks.max(held);
        let running = scheduler.sequences.iter().flat_map(|s| &s.samples);
        let running = running.filter(|s| s.state == SampleState::Running).count();
        prop_assert!(running <= max_sequences);
        prop_assert!(chunks.iter().map(|p| p.count).sum::<usize>() <= chunk + running);

        let kv = take_rows(&mut scheduler.sequences, &chunks);
        let waiting = !expected.is_empty();
        for (request, sample) in expected.drain(..) {
            let sequence = &mut scheduler.sequences[request];
            let index = sequence.samples[sample].tokens.len() - 1;
            let sampled = Sampled {
                token: token(seed(request, sample), index),
                logp: -1.0,
            };
            let ended = sequence.push(sample, sampled, &tokenizer).unwrap();
            prop_assert_eq!(
                ended == Some(Finish::Length),
                index + 1 == sequence.max_tokens
            );
            if index + 1 == requests[request].1[sample] {
                scheduler.finish(request, sample);
            }
        }
        let planned = batch_of(&scheduler.sequences, &mut chunks, kv);
        if chunks.is_empty() {
            // Others may have waited for the blocks of samples that have ended.
            match waiting {
                true => continue,
                false => break,
            }
        }
        counts.steps += 1;
        prop_assert!(counts.steps < 100_000, "no progress");
        prop_assert_eq!(planned.check(blocks * BLOCK), Ok(()));
        let label = |chunk: &ScheduledChunk, position: usize| match chunk.sample {
            None => labels[chunk.request][position],
            Some(sample) => Label::Sample(chunk.request, sample, position),
        };
        let mut written = BTreeSet::new();
        for (chunk, span) in chunks.iter().zip(&planned.spans) {
            for i in 0..chunk.count {
                let row = planned.rows[span.q_start + i];
                prop_assert!(written.insert(row), "a row is written twice");
                store.insert(row, label(chunk, chunk.from + i));
            }
            if chunk.sample.is_none() {
                counts.prompt_tokens += chunk.count;
            }
        }
        // Every span must see its prompt's rows and then its own, all of them as they were computed.
        for (chunk, span) in chunks.iter().zip(&planned.spans) {
            let attended: Vec<Option<Label>> = span
                .kv
                .ranges()
                .iter()
                .flat_map(|&(first, n)| first..first + n)
                .map(|row| store.get(&row).copied())
                .collect();
            let before = match chunk.sample {
                None => &[],
                Some(_) => &labels[chunk.request][..],
            };
            let own = (0..chunk.from + chunk.count).map(|position| label(chunk, position));
            let computed = before.iter().copied().chain(own).map(Some);
            prop_assert_eq!(attended, computed.collect::<Vec<_>>());
        }
        return_rows(&mut scheduler.sequences, &chunks, planned);
        for chunk in &chunks {
            scheduler.computed(chunk, &mut expected);
        }
        for &(request, sample) in &expected {
            scheduler.expect_token(request, sample);
        }
    }
    for (number, (_, samples)) in requests.iter().enumerate() {
        for (sample, length) in samples.iter().enumerate() {
            let done = &scheduler.sequences[number].samples[sample];
            prop_assert_eq!(done.state, SampleState::Done);
            let tokens: Vec<u32> = (0..*length)
                .map(|i| token(seed(number, sample), i))
                .collect();
            prop_assert_eq!(&done.tokens, &tokens);
        }
    }
    prop_assert_eq!(scheduler.free_blocks(), blocks, "a block was leaked");
    Ok(counts)
}

/// Prompts: many begin alike, and some are equal or a prefix of another one.
fn prompts() -> impl Strategy<Value = Vec<u32>> {
    let sizes = (0usize..70, 0usize..40, 0u32..3);
    let sizes = prop_oneof![1 => Just((32, 0, 0)), 9 => sizes];
    sizes.prop_map(|(common, own, kind)| match common + own {
        0 => prompt(1, 0, 0),
        _ => prompt(common, own, kind),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn every_sample_completes_in_any_number_of_blocks(
        requests in prop::collection::vec((prompts(), prop::collection::vec(1usize..60, 0..5)), 0..7),
        spare_blocks in 0usize..12,
        max_sequences in 1usize..8,
        chunk in 1usize..50,
    ) {
        run(&requests, spare_blocks, max_sequences, chunk)?;
    }
}

#[test]
fn samples_are_computed_in_parallel_and_long_prompts_do_not_delay_them() {
    let alike = vec![(prompt(20, 0, 0), vec![50; 8]); 4];
    let delayed = vec![
        (prompt(0, 16, 1), vec![40; 2]),
        (prompt(160, 0, 0), vec![1]),
    ];
    // One step for the prompts gives the first tokens, and 49 give the rest. The long prompt takes 10 steps, and meanwhile the samples make progress.
    for (requests, chunk, steps) in [(alike, 1000, 50), (delayed, 16, 40)] {
        assert_eq!(run(&requests, 1000, 64, chunk).unwrap().steps, steps);
    }
}

#[test]
fn prompts_that_begin_alike_compute_and_store_their_beginning_once() {
    // 100 common tokens fill 6 blocks. The other 24 tokens of a prompt take 2 blocks.
    let requests: Vec<_> = (0..5)
        .map(|kind| (prompt(100, 20, kind), vec![9; 3]))
        .collect();
    for chunk in [7, 120, 1000] {
        let counts = run(&requests, 1000, 64, chunk).unwrap();
        assert_eq!(counts.prompt_tokens, 96 + 5 * 24);
    }
    // All prompts fit into a step of exactly these tokens, and are in the KV cache together.
    let counts = run(&requests, 1000, 64, 96 + 5 * 24).unwrap();
    assert_eq!((counts.steps, counts.prompt_blocks), (9, 6 + 5 * 2));
}

#[test]
fn shared_beginnings_outlive_the_prompt_that_computed_them() {
    let equal = |tokens| vec![(prompt(tokens, 0, 0), vec![4]); 3];
    let one_by_one = (0..3).map(|kind| (prompt(64, 16, kind), vec![32]));
    for (requests, (blocks, sequences), computed) in [
        // All whole blocks before the last token.
        (equal(96), (1000, 64), 96 + 2 * 16),
        (equal(97), (1000, 64), 97 + 2),
        // The first request is done long before the last prompt is admitted, since blocks are few.
        (one_by_one.collect(), (2, 1), 64 + 3 * 16),
    ] {
        let counts = run(&requests, blocks, sequences, 1000).unwrap();
        assert_eq!(counts.prompt_tokens, computed);
    }
}

#[test]
fn the_first_min_tokens_tokens_cannot_be_stop_tokens() {
    let tokenizer = random_model_tokenizer::tokenizer();
    let request = GenerateRequest {
        prompt: [1].into(),
        seeds: vec![5, 6],
        min_tokens: 2,
        max_tokens: 9,
        stop_tokens: vec![3, 4],
        ..GenerateRequest::default()
    };
    let mut sequence = SequenceGroup::new(&request, 100);
    for (index, token, suppressed, ended) in [
        (0, 9, &[3, 4][..], None),
        (1, 9, &[3, 4], None),
        (2, 9, &[], None),
        (3, 4, &[], Some(Finish::Stop)),
    ] {
        let draw = sequence.draw(1);
        assert_eq!((draw.seed, draw.index), (6, index));
        assert_eq!(*draw.suppressed, *suppressed, "token {index}");
        let sampled = Sampled { token, logp: -1.0 };
        sequence.expect_token(1);
        assert_eq!(sequence.push(1, sampled, &tokenizer), Ok(ended));
    }
    assert_eq!(*sequence.draw(0).suppressed, [3, 4], "the other sample");
    // The text ends before the stop token, though that is not a special token.
    assert_eq!(sequence.text(1, &tokenizer).unwrap(), "\t\t\t");
}
