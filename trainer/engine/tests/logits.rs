//! The forward pass against candle-transformers, and decoding with a KV cache against a whole forward pass.

use crate::support;

use engine::config::Family;
use engine::model::Model;
use engine::parity;
use engine::sample::Draw;
use engine::sample::Sampling;
use support::{Random, batch, config, largest_difference, model, weights};

/// Logits of every token of a sequence, computed in one pass.
fn logits(model: &mut Model, tokens: &[u32]) -> Vec<f32> {
    model.reserve_kv(tokens.len()).unwrap();
    let rows: Vec<usize> = (0..tokens.len()).collect();
    model.logits(&batch(tokens, 0, 0), &rows).unwrap()
}

#[test]
fn logits_match_candles() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let mut config = config(&mut random, Family::ALL[seed as usize % 4]);
        if config.family == Family::Gemma3 {
            // candle supports neither. They are tested against `transformers` in scripts/parity.sh, and against candle's basic operations in
            // tests/gradients.rs.
            config.rope_scaling = None;
            config.tie_word_embeddings = true;
            // candle's cache rejects more.
            config.num_key_value_heads = 1;
        }
        let weights = weights(&mut random, &config);
        let tokens = random.tokens(150, config.vocab_size);
        let ours = logits(&mut model(&config, &weights, 2), &tokens);
        for n in [1, 2, 17, 64, 65, 150] {
            let theirs = parity::candle_logits(&config, &weights, &tokens[..n]).unwrap();
            let ours = &ours[(n - 1) * config.vocab_size..n * config.vocab_size];
            let difference = largest_difference(ours, &theirs);
            assert!(
                difference < 1e-4,
                "{config:?}: {difference} after {n} tokens"
            );
        }
    }
}

#[test]
fn sampled_tokens_follow_the_logits_and_have_their_log_probability() {
    let mut random = Random(40);
    let config = config(&mut random, Family::Llama);
    let weights = weights(&mut random, &config);
    let mut model = model(&config, &weights, 2);
    let tokens = random.tokens(20, config.vocab_size);
    let all = logits(&mut model, &tokens);
    let row = &all[19 * config.vocab_size..];
    for (sampling, count) in [
        (
            Sampling {
                temperature: 0.7,
                ..Sampling::default()
            },
            400,
        ),
        (
            Sampling {
                temperature: 1.3,
                top_k: 20,
                top_p: 0.9,
                min_p: 0.01,
            },
            100,
        ),
        (
            Sampling {
                temperature: 0.0,
                ..Sampling::default()
            },
            1,
        ),
    ] {
        // Every third draw is without the likeliest tokens.
        let likely: Vec<u32> = (0..row.len() as u32)
            .filter(|token| row[*token as usize] > 0.5)
            .collect();
        let draws: Vec<Draw> = (0..count)
            .map(|i| Draw {
                suppressed: if i % 3 == 2 { &likely[..] } else { &[] }.into(),
                ..Draw::new(sampling, 9, i)
            })
            .collect();
        let rows = vec![19; draws.len()];
        let sampled = model.infer(&batch(&tokens, 0, 0), &rows, &draws).unwrap();
        let mut same = 0;
        for (sampled, draw) in sampled.iter().zip(&draws) {
            let reference = engine::sample::draw(row, draw).unwrap();
            if sampled.token == reference.token {
                same += 1;
                assert!((sampled.logp - reference.logp).abs() < 1e-5);
            }
        }
        // Sums in another order may select a neighbouring token if a draw falls on the border between two.
        assert!(same * 100 >= draws.len() * 99, "{same} of {}", draws.len());
    }
}

#[test]
fn inconsistent_batches_are_rejected() {
    let mut random = Random(50);
    let config = config(&mut random, Family::Llama);
    let weights = weights(&mut random, &config);
    let mut model = model(&config, &weights, 1);
    model.reserve_kv(8).unwrap();
    let good = batch(&[1, 2, 3], 0, 0);
    assert!(model.logits(&good, &[2]).is_ok());
    assert!(model.logits(&good, &[3]).is_err());
    let mut bad = good.clone();
    bad.tokens[1] = config.vocab_size as u32;
    assert!(model.logits(&bad, &[2]).is_err());
    let mut bad = good.clone();
    bad.rows[1] = 8;
    assert!(model.logits(&bad, &[2]).is_err());
    let mut bad = good.clone();
    bad.spans[0].kv = vec![(6, 3)].into();
    assert!(model.logits(&bad, &[2]).is_err());
    let mut bad = good;
    bad.spans[0].q_len = 2;
    assert!(model.logits(&bad, &[2]).is_err());
}
