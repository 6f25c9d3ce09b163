//! The settings of an evaluation, from the command line and the checkpoint, and the origin by which its stored completions are recognised.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use trainer::config;
use trainer::data::Prompt;
use trainer::eval::Origin;
use trainer::rollout::SamplingParams;
use trainer::run::{device_name, model_digest, tasks_digest};

use super::Args;
use crate::cmd::Usage;
use crate::cmd::checkpoint_defaults::CheckpointDefaults;

/// The command line's settings, else the checkpoint's, else the defaults. Minimum and maximum tokens that do not go together are an error.
pub(super) fn resolve(
    args: &Args,
    checkpoint: &CheckpointDefaults,
) -> Result<SamplingParams, Usage> {
    let eval = checkpoint.eval();
    let max_tokens = checkpoint.max_tokens(args.max_tokens, 512);
    let min_tokens = args.min_tokens.unwrap_or(eval.min_tokens);
    if min_tokens > max_tokens {
        return Err(Usage(format!(
            "a completion of at least {min_tokens} tokens has more than the maximum of {max_tokens}; lower --min-tokens, or raise --max-tokens"
        )));
    }
    let temperature = args.temperature.unwrap_or(eval.temperature as f32);
    Ok(SamplingParams {
        samples: args.samples,
        seed: args.seed,
        sampling: args.cutoffs.sampling(temperature, &eval),
        min_tokens,
        max_tokens,
    })
}

/// The origin of completions: digests of the model, the tasks and the prompts, and the settings. `device` is the engine's description of it.
pub(super) fn origin(
    model: &Path,
    prompts: &[Arc<Prompt>],
    params: &SamplingParams,
    engine: &config::Engine,
    device: &str,
) -> anyhow::Result<Origin> {
    let mut hasher = blake3::Hasher::new();
    for prompt in prompts {
        hasher.update(&(prompt.text.len() as u64).to_le_bytes());
        hasher.update(prompt.text.as_bytes());
        hasher.update(&(prompt.tokens.len() as u64).to_le_bytes());
        for token in prompt.tokens.iter() {
            hasher.update(&token.to_le_bytes());
        }
    }
    let stop_strings = prompts.first().map_or(&[][..], |prompt| &prompt.stop[..]);
    let settings = [
        ("-n", json!(params.samples)),
        ("--seed", json!(params.seed)),
        ("--temperature", json!(params.sampling.temperature)),
        ("--top-p", json!(params.sampling.top_p)),
        ("--top-k", json!(params.sampling.top_k)),
        ("--min-p", json!(params.sampling.min_p)),
        ("--min-tokens", json!(params.min_tokens)),
        ("--max-tokens", json!(params.max_tokens)),
        ("--stop", json!(stop_strings)),
        ("--dtype", json!(engine.dtype)),
        ("--kernel", json!(engine.kernel)),
        ("--device", json!(device_name(device))),
        ("of rapid", json!(env!("CARGO_PKG_VERSION"))),
    ];
    Ok(Origin {
        model: model_digest(model)?,
        tasks: tasks_digest(prompts.iter().map(|prompt| prompt.task.as_ref())),
        prompts: hasher.finalize().to_string(),
        settings: settings
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainer::eval;

    #[test]
    fn an_evaluation_continues_only_with_the_same_arithmetic() {
        let home = tempfile::tempdir().unwrap();
        let model = home.path().join("m.gguf");
        std::fs::write(&model, "weights").unwrap();
        let params = eval::sampling(&config::load("quickstart", &[]).unwrap());
        let on = |device: &str, kernel: &str| {
            let engine = config::Engine {
                dtype: "bf16".into(),
                kernel: kernel.into(),
                ..config::Engine::default()
            };
            origin(&model, &[], &params, &engine, device).unwrap()
        };
        let origin = on("cpu (2 threads, avx512, bf16)", "fma");
        assert_eq!(on("cpu (8 threads, avx512, bf16)", "fma"), origin);
        assert_ne!(on("cpu (2 threads, avx512, bf16)", "amx"), origin);
        assert_ne!(on("NVIDIA H100 80GB HBM3 (bf16)", "fma"), origin);
    }
}
