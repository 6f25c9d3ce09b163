//! Compares the engine with transformers, token by token, on the same file with SmolLM2's real weights.
//!
//! scripts/parity/golden.py generates the golden values; `scripts/parity.sh` generates them again.

use engine::{Device, Engine, EngineOptions, GenerateRequest, Group, Sampling};
use serde_json::Value;
use tests::artifacts;
use tests::repository::root;

/// If the two largest logits differ by less than this, two correct implementations may choose different tokens.
const TIE: f64 = 1e-3;
/// Maximum difference of a log-probability.
const MAX_LOGP_DIFFERENCE: f64 = 1e-3;

fn golden() -> Value {
    let text = std::fs::read_to_string(root().join("tests/golden/smollm2.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn ids(list: &Value) -> Vec<u32> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|id| u32::try_from(id.as_u64().unwrap()).unwrap())
        .collect()
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_f64().unwrap())
        .collect()
}

fn engine() -> Option<Engine> {
    let model = artifacts::model()?;
    Some(
        Engine::open(
            &model,
            EngineOptions {
                device: Device::Cpu,
                ..EngineOptions::default()
            },
        )
        .unwrap(),
    )
}

#[test]
fn texts_get_the_tokens_that_the_model_was_trained_on() {
    let Some(engine) = engine() else { return };
    let golden = golden();
    for text in golden["texts"].as_array().unwrap() {
        assert_eq!(
            engine.encode(text["text"].as_str().unwrap(), true).unwrap(),
            ids(&text["tokens"]),
            "{}",
            text["text"]
        );
    }
    for prompt in golden["prompts"].as_array().unwrap() {
        let text = prompt["text"].as_str().unwrap();
        if let Some(messages) = prompt["messages"].as_array() {
            let messages: Vec<_> = messages
                .iter()
                .map(|m| {
                    (
                        m["role"].as_str().unwrap().to_owned(),
                        m["content"].as_str().unwrap().to_owned(),
                    )
                })
                .collect();
            assert_eq!(
                engine
                    .chat_prompt(&messages, engine::text::today())
                    .unwrap(),
                text
            );
        }
        assert_eq!(
            engine.encode(text, true).unwrap(),
            ids(&prompt["prompt_tokens"]),
            "{text:?}"
        );
    }
}

#[test]
fn greedy_continuations_and_log_probabilities_agree_with_transformers() {
    let Some(engine) = engine() else { return };
    let golden = golden();
    let prompts = golden["prompts"].as_array().unwrap();
    let requests = prompts
        .iter()
        .map(|prompt| GenerateRequest {
            prompt: ids(&prompt["prompt_tokens"]).into(),
            seeds: vec![0],
            sampling: Sampling {
                temperature: 0.0,
                ..Sampling::default()
            },
            min_tokens: 0,
            max_tokens: prompt["tokens"].as_array().unwrap().len(),
            stop_tokens: Vec::new(),
            stop_strings: Vec::new(),
        })
        .collect();
    let mut completions = 0;
    let mut worst: f64 = 0.0;
    for completion in engine.generate(requests) {
        let completion = completion.unwrap();
        let prompt = &prompts[completion.request];
        let (tokens, logp, gap) = (
            ids(&prompt["tokens"]),
            numbers(&prompt["logp"]),
            numbers(&prompt["gap"]),
        );
        assert_eq!(completion.tokens.len(), tokens.len());
        completions += 1;
        for i in 0..tokens.len() {
            if completion.tokens[i] != tokens[i] {
                assert!(
                    gap[i] < TIE,
                    "{}: token {i} is {}, not {}, and the gap is {}",
                    prompt["name"],
                    completion.tokens[i],
                    tokens[i],
                    gap[i]
                );
                break;
            }
            worst = worst.max((f64::from(completion.logp[i]) - logp[i]).abs());
        }
    }
    assert_eq!(completions, prompts.len());
    assert!(
        worst < MAX_LOGP_DIFFERENCE,
        "a log-probability is off by {worst:e}"
    );
}

#[test]
fn the_training_forward_pass_gives_the_same_log_probabilities() {
    let Some(engine) = engine() else { return };
    let golden = golden();
    let prompts = golden["prompts"].as_array().unwrap();
    let groups = prompts
        .iter()
        .map(|prompt| Group {
            prompt: ids(&prompt["prompt_tokens"]).into(),
            completions: vec![ids(&prompt["tokens"])],
        })
        .collect();
    let stats = engine.score(groups, 1.0).unwrap();
    assert_eq!(stats.len(), prompts.len());
    for (stats, prompt) in stats.iter().zip(prompts) {
        let expected = numbers(&prompt["logp"]);
        assert_eq!(stats.logp.len(), expected.len());
        let worst = stats
            .logp
            .iter()
            .zip(&expected)
            .map(|(a, b)| (f64::from(*a) - b).abs())
            .fold(0.0, f64::max);
        assert!(
            worst < MAX_LOGP_DIFFERENCE,
            "{}: off by {worst:e}",
            prompt["name"]
        );
    }
}
