//! Compares the engine with transformers, token by token, on the same file with SmolLM2's real weights.
//!
//! scripts/parity/golden.py generates the golden values; `scripts/parity.sh` generates them again.

use engine::{Device, Engine, EngineOptions, GenerateRequest, Sampling};
use serde_json::Value;
use tests::artifacts;
use tests::repository::root;

/// If the two largest logits differ by less than this, two correct implementations may choose different tokens.
const TIE: f64 = 1e-3;
const MAX_LOGP_DIFFERENCE: f64 = 1e-3;

fn golden() -> Value {
    let text = std::fs::read_to_string(root().join("tests/golden/smollm2.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn list(list: &Value) -> &[Value] {
    list.as_array().unwrap()
}

fn ids(of: &Value) -> Vec<u32> {
    let ids = list(of).iter().map(|id| id.as_u64().unwrap());
    ids.map(|id| u32::try_from(id).unwrap()).collect()
}

fn numbers(of: &Value) -> Vec<f64> {
    let numbers = list(of).iter().map(|number| number.as_f64().unwrap());
    numbers.collect()
}

fn engine() -> Option<Engine> {
    let options = EngineOptions {
        device: Device::Cpu,
        ..EngineOptions::default()
    };
    Some(Engine::open(&artifacts::model()?, options).unwrap())
}

#[test]
fn texts_get_the_tokens_that_the_model_was_trained_on() {
    let Some(engine) = engine() else { return };
    let golden = golden();
    let check = |text: &str, tokens: &Value| {
        assert_eq!(engine.encode(text, true).unwrap(), ids(tokens), "{text:?}");
    };
    for text in list(&golden["texts"]) {
        check(text["text"].as_str().unwrap(), &text["tokens"]);
    }
    for prompt in list(&golden["prompts"]) {
        let text = prompt["text"].as_str().unwrap();
        if let Some(messages) = prompt["messages"].as_array() {
            let part = |message: &Value, name: &str| message[name].as_str().unwrap().to_owned();
            let messages = messages.iter();
            let messages: Vec<_> = messages
                .map(|m| (part(m, "role"), part(m, "content")))
                .collect();
            let today = engine::text::today();
            assert_eq!(engine.chat_prompt(&messages, today).unwrap(), text);
        }
        check(text, &prompt["prompt_tokens"]);
    }
}

#[test]
fn greedy_continuations_and_log_probabilities_agree_with_transformers() {
    let Some(engine) = engine() else { return };
    let golden = golden();
    let prompts = list(&golden["prompts"]);
    let requests = prompts.iter().map(|prompt| GenerateRequest {
        prompt: ids(&prompt["prompt_tokens"]).into(),
        seeds: vec![0],
        sampling: Sampling::greedy(),
        min_tokens: 0,
        max_tokens: list(&prompt["tokens"]).len(),
        stop_tokens: Vec::new(),
        stop_strings: Vec::new(),
    });
    let mut completions = 0;
    let mut worst: f64 = 0.0;
    for completion in engine.generate(requests.collect()) {
        let completion = completion.unwrap();
        let prompt = &prompts[completion.request];
        let tokens = ids(&prompt["tokens"]);
        let (logp, gap) = (numbers(&prompt["logp"]), numbers(&prompt["gap"]));
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
    let agree = worst < MAX_LOGP_DIFFERENCE;
    assert!(agree, "a log-probability is off by {worst:e}");
}
