//! One function: decoding, chunks of prompts and packed training give a token the same log-probability, to the bit.

use crate::support;

use std::collections::BTreeMap;

use engine::backend::Dtype;
use engine::batch::{Batch, Group, KvRows};
use engine::config::Family;
use engine::model::Model;
use engine::sample::{Draw, Sampled, Sampling};
use engine::train::score;
use engine::{Device, Engine, EngineOptions, GenerateRequest};
use support::{Random, TEMPERATURE, answered, config, every_arithmetic, model_of, weights};

/// Number of rows that are allocated together, as in the cache.
const BLOCK: usize = 16;

/// Rows of the store, in blocks at any position.
#[derive(Default)]
struct Rows(Vec<usize>);

impl Rows {
    /// Adds the first `n` rows to `kv`, with adjacent ranges joined or not.
    fn add_to(&mut self, kv: &mut KvRows, n: usize, joined: bool, free: &mut Vec<usize>) {
        while self.0.len() * BLOCK < n {
            self.0.push(free.pop().unwrap());
        }
        for (number, block) in self.0.iter().enumerate().take(n.div_ceil(BLOCK)) {
            let rows = BLOCK.min(n - number * BLOCK);
            match joined && number > 0 {
                true => kv.append(block * BLOCK, rows),
                false => kv.push(block * BLOCK, rows),
            }
        }
    }
}

/// A prompt, or a sample of one.
struct Sequence {
    /// Index of the prompt that it continues.
    prompt: Option<usize>,
    tokens: Vec<u32>,
    logp: Vec<f32>,
    computed: usize,
    rows: Rows,
    length: usize,
}

/// Samples completions of each prompt. Each step has a different selection of sequences in the batch, and chunks of prompts of any size.
fn generate(
    model: &mut Model,
    random: &mut Random,
    prompts: &[Vec<u32>],
) -> Vec<(Group, Vec<Vec<f32>>)> {
    let mut sequences: Vec<Sequence> = Vec::new();
    let sequence = |prompt, tokens, length| Sequence {
        prompt,
        tokens,
        logp: Vec::new(),
        computed: 0,
        rows: Rows::default(),
        length,
    };
    for prompt in prompts {
        sequences.push(sequence(None, prompt.clone(), prompt.len()));
    }
    for prompt in 0..prompts.len() {
        for _ in 0..1 + random.below(4) {
            sequences.push(sequence(Some(prompt), Vec::new(), 1 + random.below(90)));
        }
    }
    let blocks: usize = sequences.iter().map(|s| s.length.div_ceil(BLOCK)).sum();
    let mut free: Vec<usize> = (0..blocks).collect();
    for i in (1..blocks).rev() {
        free.swap(i, random.below(i + 1));
    }
    model.reserve_kv(blocks * BLOCK).unwrap();
    loop {
        let (mut batch, mut rows, mut draws, mut origins) =
            (Batch::default(), Vec::new(), Vec::new(), Vec::new());
        let mut open = false;
        for number in 0..sequences.len() {
            let ready = |s: &Sequence| s.computed == s.length;
            let prompt = sequences[number].prompt;
            let waits = match prompt {
                None => ready(&sequences[number]),
                Some(prompt) => {
                    let s = &sequences[number];
                    s.tokens.len() == s.length || s.tokens.is_empty() || !ready(&sequences[prompt])
                }
            };
            open |= sequences[number].prompt.is_some()
                && sequences[number].tokens.len() < sequences[number].length;
            if waits || random.below(3) == 0 {
                continue;
            }
            let mut kv = KvRows::default();
            let joined = random.below(2) == 0;
            let before = prompt.map_or(0, |prompt| sequences[prompt].length);
            if let Some(prompt) = prompt {
                let rows = &mut sequences[prompt].rows;
                rows.add_to(&mut kv, before, joined, &mut free);
            }
            let s = &mut sequences[number];
            let pending = s.tokens.len() - s.computed;
            let count = 1 + random.below(pending);
            let end = s.computed + count;
            s.rows.add_to(&mut kv, end, joined, &mut free);
            batch.add(&s.tokens[s.computed..end], kv);
            s.computed = end;
            let mut draw = |sample: usize, index: usize| {
                rows.push(batch.tokens.len() - 1);
                origins.push(sample);
                let sampling = Sampling::at(TEMPERATURE);
                draws.push(Draw::new(sampling, sample as u64, index as u64));
            };
            if prompt.is_some() {
                draw(number, end);
            } else if end == s.length {
                (0..sequences.len())
                    .filter(|i| sequences[*i].prompt == Some(number))
                    .for_each(|i| draw(i, 0));
            }
        }
        if !open {
            break;
        }
        if batch.tokens.is_empty() {
            continue;
        }
        let sampled: Vec<Sampled> = model.infer(&batch, &rows, &draws).unwrap();
        for (number, sampled) in origins.into_iter().zip(sampled) {
            sequences[number].tokens.push(sampled.token);
            sequences[number].logp.push(sampled.logp);
        }
    }
    let group = |(number, prompt): (usize, &Vec<u32>)| {
        let samples = sequences.iter().filter(|s| s.prompt == Some(number));
        let (completions, logp) = samples.map(|s| (s.tokens.clone(), s.logp.clone())).unzip();
        (
            Group {
                prompt: prompt.as_slice().into(),
                completions,
            },
            logp,
        )
    };
    prompts.iter().enumerate().map(group).collect()
}

#[test]
fn sampling_and_training_agree_to_the_bit_in_any_batch_and_pack() {
    let families = (707..).step_by(2).zip(Family::ALL);
    let cases = families.flat_map(|case| every_arithmetic().into_iter().map(move |it| (case, it)));
    for ((seed, family), arithmetic) in cases {
        // With these seeds the random models are small and have windows of 64 and 2 tokens.
        let seed = seed + u64::from(arithmetic.0 == Dtype::Bf16);
        let mut random = Random(seed);
        let config = config(&mut random, family);
        let weights = weights(&mut random, &config);
        let prompts: Vec<Vec<u32>> = (0..3)
            .map(|_| {
                let n = 1 + random.below(150);
                random.tokens(n, config.vocab_size)
            })
            .collect();
        let sampled = generate(
            &mut model_of(&config, &weights, 2, arithmetic),
            &mut random,
            &prompts,
        );
        let groups: Vec<Group> = sampled.iter().map(|(group, _)| group.clone()).collect();
        let lengths = groups.iter().flat_map(|group| {
            let lengths = group.completions.iter().map(Vec::len);
            lengths.map(move |n| group.prompt.len() + n)
        });
        let longest = lengths.max().unwrap();
        let window = config.sliding.as_ref().map(|sliding| sliding.window);
        assert!(
            window.is_none_or(|window| window < longest),
            "seed {seed}: no sequence is longer than its window"
        );
        let expected: Vec<&Vec<f32>> = sampled.iter().flat_map(|(_, logp)| logp).collect();
        for (pack_tokens, threads) in [(10_000, 1), (10_000, 2), (200, 2), (1, 2)] {
            let mut model = model_of(&config, &weights, threads, arithmetic);
            model.set_pack_tokens(pack_tokens);
            let stats = score(&mut model, &groups, TEMPERATURE).unwrap();
            for (number, (stats, expected)) in stats.iter().zip(&expected).enumerate() {
                assert!(
                    stats.logp == **expected,
                    "{family:?} in {arithmetic:?}, completion {number}, packs of {pack_tokens}, {threads} threads"
                );
            }
        }
    }
}

/// Requests with prompts that begin alike, for various numbers of tokens, in no order. Some prompts are equal.
fn requests_that_begin_alike(random: &mut Random, vocabulary: usize) -> Vec<GenerateRequest> {
    let texts: Vec<Vec<u32>> = (0..2).map(|_| random.tokens(160, vocabulary)).collect();
    (0..12)
        .map(|number| {
            let common = random.pick(&[0, 15, 16, 33, 64, 100, 160]);
            let own = random.pick(&[1, 16, 40]);
            let own = random.tokens(own, vocabulary);
            let text = &texts[random.below(2)][..common];
            let prompt = match number % 4 {
                // Equal prompts that fill whole blocks.
                3 => texts[0][..96].to_vec(),
                _ => [text, &own].concat(),
            };
            GenerateRequest {
                prompt: prompt.into(),
                seeds: (0..1 + number % 3).map(|s| 100 * number + s).collect(),
                sampling: Sampling::at(TEMPERATURE),
                max_tokens: 1 + random.below(40),
                ..GenerateRequest::default()
            }
        })
        .collect()
}

#[test]
fn prompts_that_begin_alike_have_the_same_bits_together_and_alone() {
    let dtypes = [Dtype::F32, Dtype::Bf16];
    let cases = Family::ALL.map(|family| dtypes.map(|dtype| (family, dtype)));
    for (seed, (family, dtype)) in (707..).zip(cases.into_iter().flatten()) {
        let mut random = Random(seed);
        let mut config = config(&mut random, family);
        // A model with random weights has a token for each byte.
        config.vocab_size += 256;
        let requests = requests_that_begin_alike(&mut random, config.vocab_size);
        let open = |kv_tokens: Option<usize>| {
            let options = EngineOptions {
                device: Device::Cpu,
                threads: Some(2),
                dtype,
                kv_tokens,
                max_sequences: kv_tokens.map(|_| 9),
                ..EngineOptions::default()
            };
            Engine::random(config.clone(), seed, options).unwrap()
        };
        let engine = open(None);
        let mut alone = BTreeMap::new();
        for (number, request) in requests.iter().enumerate() {
            for ((_, sample), completion) in
                support::generate(&engine, std::slice::from_ref(request))
            {
                alone.insert((number, sample), completion);
            }
        }
        // The first two caches are so small that samples are preempted and prompts are computed again.
        for kv_tokens in [Some(272), Some(400), None] {
            let together = support::generate(&open(kv_tokens), &requests);
            assert_eq!(together.len(), alone.len());
            for (key, completion) in &together {
                let expected = &alone[key];
                assert_eq!(completion.tokens, expected.tokens);
                assert!(
                    completion.logp == expected.logp,
                    "{family:?} in {dtype:?}, completion {key:?} with a cache of {kv_tokens:?}"
                );
            }
        }
        let scored = engine.score(answered(&requests, &alone), TEMPERATURE);
        let scored = scored.unwrap();
        for (stats, (key, completion)) in scored.iter().zip(&alone) {
            assert!(
                stats.logp == completion.logp,
                "{family:?} in {dtype:?}, completion {key:?} in training"
            );
        }
    }
}
