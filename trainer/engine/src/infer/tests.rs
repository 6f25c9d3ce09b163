//! Scheduling against a simple model: a store of labels instead of keys and values.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::blocks::BLOCK;
use super::runner::batch;
use super::scheduler::Scheduler;
use super::sequence::{Phase, Sequence};
use crate::api::{Finish, GenerateRequest};
use crate::batch::Sampled;
use crate::sample::Sampling;
use crate::text::bytes;

/// Whose token a row holds: request, sample or prompt, position from its beginning.
type Label = (usize, Option<usize>, usize);

/// The `index`-th token of a sample, whatever happened to the sample before.
fn token(seed: u64, index: usize) -> u32 {
    (blake3::hash(&[seed.to_le_bytes(), index.to_le_bytes()].concat()).as_bytes()[0]).into()
}

/// Runs requests of `(prompt tokens, most tokens of each sample)`; returns the number of steps.
fn run(
    requests: &[(usize, Vec<usize>)],
    spare_blocks: usize,
    max_sequences: usize,
    chunk: usize,
) -> Result<usize, TestCaseError> {
    let tokenizer = bytes::tokenizer();
    let seed = |request: usize, sample: usize| (100 * request + sample) as u64;
    let sequences: Vec<Sequence> = requests
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
            Sequence::new(&request, 10_000)
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
        let pieces = scheduler.plan();
        if pieces.is_empty() {
            break;
        }
        steps += 1;
        prop_assert!(steps < 100_000, "no progress");
        let running = scheduler.sequences.iter().flat_map(|s| &s.samples);
        let running = running.filter(|s| s.phase == Phase::Running).count();
        prop_assert!(running <= max_sequences);
        prop_assert!(pieces.iter().map(|p| p.count).sum::<usize>() <= chunk + running);

        let planned = batch(&scheduler.sequences, &pieces);
        prop_assert_eq!(planned.check(blocks * BLOCK), Ok(()));
        for (piece, span) in pieces.iter().zip(&planned.spans) {
            for i in 0..piece.count {
                let row = planned.rows[span.q_start + i];
                store.insert(row, (piece.request, piece.sample, piece.from + i));
            }
        }
        // Every span sees its prompt's rows and then its own, all of them as they were computed.
        for (piece, span) in pieces.iter().zip(&planned.spans) {
            let seen: Vec<Option<Label>> = span
                .kv
                .iter()
                .flat_map(|&(first, n)| first..first + n)
                .map(|row| store.get(&row).copied())
                .collect();
            let end = piece.from + piece.count;
            let own =
                |n: usize, of: Option<usize>| (0..n).map(move |p| Some((piece.request, of, p)));
            let expected: Vec<Option<Label>> = match piece.sample {
                None => own(end, None).collect(),
                Some(_) => own(requests[piece.request].0, None)
                    .chain(own(end, piece.sample))
                    .collect(),
            };
            prop_assert_eq!(seen, expected);
        }
        for piece in &pieces {
            for sample in scheduler.computed(piece) {
                let sequence = &mut scheduler.sequences[piece.request];
                let index = sequence.samples[sample].tokens.len();
                let drawn = Sampled {
                    token: token(seed(piece.request, sample), index),
                    logp: -1.0,
                };
                let ended = sequence.push(sample, drawn, &tokenizer).unwrap();
                let wanted = requests[piece.request].1[sample];
                prop_assert_eq!(ended == Some(Finish::Length), index + 1 == sequence.most);
                if index + 1 == wanted {
                    scheduler.finish(piece.request, sample);
                }
            }
        }
    }
    for (number, (_, samples)) in requests.iter().enumerate() {
        for (sample, wanted) in samples.iter().enumerate() {
            let done = &scheduler.sequences[number].samples[sample];
            prop_assert_eq!(done.phase, Phase::Done);
            let tokens: Vec<u32> = (0..*wanted)
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
    fn every_sample_ends_whole_whatever_room_there_is(
        requests in prop::collection::vec((1usize..70, prop::collection::vec(1usize..60, 0..5)), 0..7),
        spare_blocks in 0usize..12,
        max_sequences in 1usize..8,
        chunk in 1usize..50,
    ) {
        run(&requests, spare_blocks, max_sequences, chunk)?;
    }
}

#[test]
fn samples_are_computed_side_by_side_where_there_is_room() {
    let requests = vec![(20, vec![50; 8]); 4];
    // A step for the prompts, from whose logits the first tokens come, and 49 for the rest.
    assert_eq!(run(&requests, 1000, 64, 1000).unwrap(), 50);
}

#[test]
fn a_long_prompt_does_not_hold_up_running_samples() {
    // The second prompt takes 10 steps, during which the first request's samples go on.
    let requests = vec![(16, vec![40; 2]), (160, vec![1])];
    assert_eq!(run(&requests, 1000, 64, 16).unwrap(), 40);
}
