//! The forward pass against candle-transformers, and batches that it rejects.

use crate::{fetched, support};

use engine::batch::Batch;
use engine::config::Family;
use engine::parity;
use support::{Random, config, largest_difference, model, weights};

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
        let mut model = model(&config, &weights, 2);
        model.reserve_kv(150).unwrap();
        let rows: Vec<usize> = (0..150).collect();
        let ours = model.logits(&Batch::text(tokens.clone()), &rows).unwrap();
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

/// Real weights, and texts that are repeated until they are longer than the window.
#[test]
fn gemma_3s_logits_match_candles() {
    let Some(folder) = fetched::gemma() else {
        return;
    };
    for text in [
        "The capital of France is a city that many people",
        "def fibonacci(n):\n    if n < 2:\n        return",
        "水は摂氏百度で沸騰し、零度で凍る。",
    ] {
        let found = parity::with_candle(&folder, text, None).unwrap();
        let close = found.difference < 1e-3 * found.magnitude;
        assert!(close && found.same_choice, "{text}: {found:?}");
    }
}

#[test]
fn inconsistent_batches_are_rejected() {
    let mut random = Random(50);
    let config = config(&mut random, Family::Llama);
    let weights = weights(&mut random, &config);
    let mut model = model(&config, &weights, 1);
    model.reserve_kv(8).unwrap();
    let good = Batch::text(vec![1, 2, 3]);
    assert!(model.logits(&good, &[2]).is_ok());
    assert!(model.logits(&good, &[3]).is_err());
    type Fault = fn(&mut Batch);
    let faults: [Fault; 4] = [
        |batch| batch.tokens[1] = u32::MAX,
        |batch| batch.rows[1] = 8,
        |batch| batch.spans[0].kv = vec![(6, 3)].into(),
        |batch| batch.spans[0].q_len = 2,
    ];
    for fault in faults {
        let mut bad = good.clone();
        fault(&mut bad);
        assert!(model.logits(&bad, &[2]).is_err());
    }
}
