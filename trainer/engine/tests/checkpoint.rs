//! Checkpoints and training states of SmolLM2-135M-Instruct after a little training: saving, loading, and what is rejected.

use crate::{fetched, support};

use std::path::Path;

use candle_core::{DType, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama;
use engine::config::Family;
use engine::load::{self, Loaded};
use engine::{AdamW, Engine, Group, parity};
use support::{assert_says, on_cpu};

/// A model with random weights and a token for each byte.
fn small(seed: u64) -> Engine {
    let mut config = support::config(&mut support::Random(1), Family::Llama);
    config.vocab_size += 256;
    Engine::random(config, seed, on_cpu()).unwrap()
}

fn groups(engine: &Engine) -> Vec<Group> {
    let tokens = |text: &str| engine.encode(text, true).unwrap();
    vec![Group {
        prompt: tokens("Question: 2 + 3\nAnswer:").into(),
        completions: vec![tokens(" \\boxed{5}"), tokens(" five, I think")],
    }]
}

/// One update that makes the first completion likelier.
fn train(engine: &Engine) {
    let adamw = AdamW {
        lr: 1e-4,
        clip_norm: 1.0,
        ..support::ADAMW
    };
    let objective = Box::new(|stats: &[engine::TokenStats]| {
        let signs = [-1.0, 1.0].iter().zip(stats);
        Ok(signs.map(|(sign, s)| vec![*sign; s.logp.len()]).collect())
    });
    engine.step(groups(engine), 1.0, objective, adamw).unwrap();
}

fn logp(engine: &Engine) -> Vec<Vec<f32>> {
    let stats = engine.score(groups(engine), 1.0).unwrap();
    stats.into_iter().map(|s| s.logp).collect()
}

fn assert_same_file(name: &str, a: &Path, b: &Path) {
    assert!(
        std::fs::read(a.join(name)).unwrap() == std::fs::read(b.join(name)).unwrap(),
        "{name} differs"
    );
}

#[test]
fn a_checkpoint_is_restored_to_the_bit_and_gives_candle_the_same_logits() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::open(&fetched::needed_smollm2(), on_cpu()).unwrap();
    let before = logp(&engine);
    train(&engine);
    let trained = logp(&engine);
    assert_ne!(before, trained);
    // The parent folder is created too.
    let saved = folder.path().join("checkpoints/step-1");
    engine.save_model(saved.clone()).unwrap();
    let error = engine.save_model(saved.clone()).unwrap_err();
    assert_says(&error, &["choose a new folder", "step-1"]);
    drop(engine);
    let beside = std::fs::read_dir(saved.parent().unwrap()).unwrap();
    assert_eq!(
        beside.count(),
        1,
        "something was left beside the checkpoint"
    );

    let reopened = Engine::open(&saved, on_cpu()).unwrap();
    assert_eq!(logp(&reopened), trained);
    // <|im_end|>, which the file names, and <|endoftext|>.
    assert_eq!(reopened.stop_tokens(), [2, 0]);
    let tokens = reopened.encode("<|im_start|>12", true).unwrap();
    assert_eq!(tokens, [1, 33, 34]);
    let message = [("user".to_owned(), "Hi".to_owned())];
    let chat = reopened.chat_prompt(&message, engine::text::today());
    assert!(chat.unwrap().ends_with("assistant\n"));
    let resaved = folder.path().join("again");
    reopened.save_model(resaved.clone()).unwrap();
    for name in [
        "model.safetensors",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ] {
        assert_same_file(name, &saved, &resaved);
    }
    let prompt = reopened
        .encode("The quick brown fox jumps over the lazy", true)
        .unwrap();
    drop(reopened);

    let Loaded {
        config, weights, ..
    } = load::open(&saved).unwrap();
    let ours = parity::logits(config, weights, &prompt, None).unwrap();
    let theirs = candle_logits(&saved, &prompt);
    let worst = support::largest_difference(&ours, &theirs);
    assert!(worst < 2e-4, "{worst}");
}

/// candle-transformers' logits after the last token, from the checkpoint's files alone.
fn candle_logits(checkpoint: &Path, prompt: &[u32]) -> Vec<f32> {
    let device = candle_core::Device::Cpu;
    let json = std::fs::read_to_string(checkpoint.join("config.json")).unwrap();
    let config: llama::LlamaConfig = serde_json::from_str(&json).unwrap();
    let config = config.into_config(false);
    let tensors =
        candle_core::safetensors::load(checkpoint.join("model.safetensors"), &device).unwrap();
    let weights = VarBuilder::from_tensors(tensors, DType::F32, &device);
    let llama = llama::Llama::load(weights, &config).unwrap();
    let mut cache = llama::Cache::new(false, DType::F32, &config, &device).unwrap();
    let ids = Tensor::new(prompt, &device).unwrap().unsqueeze(0).unwrap();
    let logits = llama.forward(&ids, 0, &mut cache).unwrap();
    logits.flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn training_resumes_from_a_state_as_if_it_had_not_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let content = |name: &str| std::fs::read(file(name)).unwrap();
    let engine = small(7);
    engine.save_state(file("fresh")).unwrap();
    train(&engine);
    engine.save_state(file("one")).unwrap();
    train(&engine);
    engine.save_state(file("two")).unwrap();

    // In another process, with a model of other weights.
    let resumed = small(8);
    resumed.load_state(file("one")).unwrap();
    train(&resumed);
    assert_eq!(logp(&resumed), logp(&engine));
    std::fs::create_dir(file("again")).unwrap();
    resumed.save_state(file("again/two")).unwrap();
    assert_same_file("two", folder.path(), &file("again"));

    // Back to the initial state, without moments and updates.
    engine.load_state(file("fresh")).unwrap();
    train(&engine);
    engine.save_state(file("one again")).unwrap();
    assert!(content("one") == content("one again"));
}

#[test]
fn a_damaged_older_or_foreign_state_is_rejected_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let engine = small(7);
    train(&engine);
    engine.save_state(file("whole")).unwrap();
    let intact = std::fs::read(file("whole")).unwrap();
    engine.save_model(file("checkpoint")).unwrap();
    let model = std::fs::read(file("checkpoint/model.safetensors")).unwrap();
    let format = b"rapid-state-";
    let begins = intact.windows(format.len()).position(|part| part == format);
    let changed = |at: usize, byte: u8| {
        let mut changed = intact.clone();
        changed[at] = byte;
        changed
    };
    let damaged = |at: usize| changed(at, !intact[at]);
    for (bytes, words) in [
        // Damage in the weights, and in the digest itself.
        (damaged(intact.len() / 2), "is damaged"),
        (damaged(intact.len() - 33), "is damaged"),
        (damaged(intact.len() - 1), "is damaged"),
        ([&intact[..], &[0]].concat(), "is damaged"),
        (intact[..intact.len() / 2].to_vec(), "cut short"),
        (
            changed(begins.unwrap() + format.len(), b'1'),
            "is not a training state of this version",
        ),
        (model, "not a training state"),
    ] {
        std::fs::write(file("changed"), bytes).unwrap();
        let error = engine.load_state(file("changed")).unwrap_err();
        assert_says(&error, &["changed", words]);
    }
    assert_says(&engine.load_state(file("none")).unwrap_err(), &["none"]);
    engine.save_state(file("again")).unwrap();
    assert!(intact == std::fs::read(file("again")).unwrap());
    engine.load_state(file("whole")).unwrap();
}
