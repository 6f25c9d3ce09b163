//! Twenty updates of RAPID on a small random model, on a GPU and on the CPU, with the same seeds.

use engine::config::ModelConfig;
use engine::{AdamW, Device, Dtype, Engine, EngineError, EngineOptions};
use engine::{GenerateRequest, Group, Sampling, TokenStats};
use serde::Serialize;
use serde_json::json;
use trainer::algo::{self, Preset};

use super::Check;

/// A small model of the Llama family.
const MODEL: &str = r#"{"model_type": "llama", "vocab_size": 320, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 64, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true, "hidden_act": "silu"}"#;
const PHASES: usize = 10;
/// Updates per phase: the second one is off policy.
const UPDATES: usize = 2;
/// Prompts and completions per update, and tokens of each.
const PROMPTS: usize = 4;
const SAMPLES: usize = 8;
const PROMPT_TOKENS: usize = 6;
const TOKENS: usize = 6;
/// A token is good if its id is a multiple of this; the reward of a completion is the share of its good tokens.
const GOOD: u32 = 4;
/// The largest difference of the mean reward of all phases. Rounding changes a sample here and there, and the two runs then grow apart: with 20 seeds, f32 and bf16 on
/// the CPU differ by 0.036 on average and by 0.13 at most, and all learning raises the mean by 0.29.
const TOLERANCE: f64 = 0.18;
/// The least that the reward rises from the first phase to the last: 0.69 on average with these seeds, and 0.35 at least.
const RISE: f64 = 0.25;

/// The mean reward of each phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Curves {
    gpu: Vec<f64>,
    cpu: Vec<f64>,
}

/// Trains on the device and on the CPU.
pub(super) fn compare(device: Device, dtype: Dtype) -> Result<Curves, EngineError> {
    Ok(Curves {
        gpu: curve(device, dtype)?,
        cpu: curve(Device::Cpu, dtype)?,
    })
}

pub(super) fn verdict(what: &str, curves: &Curves) -> Check {
    let mean = |curve: &[f64]| curve.iter().sum::<f64>() / curve.len() as f64;
    let ends = |curve: &[f64]| (curve[0], curve[curve.len() - 1]);
    let (gpu, cpu) = (ends(&curves.gpu), ends(&curves.cpu));
    let difference = (mean(&curves.gpu) - mean(&curves.cpu)).abs();
    let found = format!(
        "{} updates of RAPID raise the mean reward from {:.3} to {:.3}, on the CPU from {:.3} to {:.3}; over all phases the means are {difference:.3} apart",
        PHASES * UPDATES,
        gpu.0,
        gpu.1,
        cpu.0,
        cpu.1,
    );
    let learns = gpu.1 - gpu.0 >= RISE && cpu.1 - cpu.0 >= RISE;
    let check = if learns && difference <= TOLERANCE {
        Check::ok(what, found)
    } else {
        Check::fail(
            what,
            found,
            "do not train on this device; please report this with the GPU's name and `rapid doctor --json`",
        )
    };
    check.with_figures(json!(curves))
}

fn curve(device: Device, dtype: Dtype) -> Result<Vec<f64>, EngineError> {
    let config = ModelConfig::from_json(MODEL).map_err(EngineError::Request)?;
    let vocabulary = config.vocab_size as u32;
    let options = EngineOptions {
        device,
        dtype,
        ..EngineOptions::default()
    };
    let engine = Engine::random(config, 5, options)?;
    let mut curve = Vec::new();
    for phase in 0..PHASES {
        let requests = (0..UPDATES * PROMPTS).map(|number| GenerateRequest {
            prompt: (0..PROMPT_TOKENS as u32)
                .map(|i| (phase as u32 * 31 + number as u32 * 7 + i * 13) % vocabulary)
                .collect(),
            seeds: (0..SAMPLES as u64)
                .map(|sample| sample + 1000 * (number + 100 * phase) as u64)
                .collect(),
            sampling: Sampling::default(),
            min_tokens: 0,
            max_tokens: TOKENS,
            stop_tokens: Vec::new(),
            stop_strings: Vec::new(),
        });
        let requests: Vec<GenerateRequest> = requests.collect();
        let mut samples: Vec<Vec<Sampled>> = requests.iter().map(|_| Vec::new()).collect();
        let completions = engine.generate(requests.clone()).into_iter();
        let mut completions = completions.collect::<Result<Vec<_>, _>>()?;
        completions.sort_by_key(|completion| (completion.request, completion.sample));
        for completion in completions {
            let good = completion.tokens.iter().filter(|id| **id % GOOD == 0);
            samples[completion.request].push(Sampled {
                reward: good.count() as f64 / completion.tokens.len() as f64,
                tokens: completion.tokens,
                behaviour: completion.logp,
            });
        }
        let rewards = samples.iter().flatten().map(|sample| sample.reward);
        curve.push(rewards.sum::<f64>() / (UPDATES * PROMPTS * SAMPLES) as f64);
        for (requests, samples) in requests.chunks(PROMPTS).zip(samples.chunks(PROMPTS)) {
            update(&engine, requests, samples)?;
        }
    }
    Ok(curve)
}

/// A completion and its reward.
#[derive(Debug, Clone)]
struct Sampled {
    tokens: Vec<u32>,
    behaviour: Vec<f32>,
    reward: f64,
}

/// An update on the samples of some prompts.
fn update(
    engine: &Engine,
    requests: &[GenerateRequest],
    samples: &[Vec<Sampled>],
) -> Result<(), EngineError> {
    let groups = requests
        .iter()
        .zip(samples)
        .map(|(request, samples)| Group {
            prompt: request.prompt.clone(),
            completions: samples.iter().map(|sample| sample.tokens.clone()).collect(),
        })
        .collect();
    let samples = samples.to_vec();
    let objective = Box::new(move |stats: &[TokenStats]| {
        let mut stats = stats.iter();
        let groups: Vec<Vec<algo::Sample<'_>>> = samples
            .iter()
            .map(|group| {
                let pairs = group.iter().zip(stats.by_ref());
                pairs
                    .map(|(sample, stats)| algo::Sample {
                        new: &stats.logp,
                        behaviour: &sample.behaviour,
                        reference: None,
                        reward: Some(sample.reward),
                        padding: 0.0,
                    })
                    .collect()
            })
            .collect();
        algo::gradient(&Preset::RapidPaper.estimator(), &groups, TOKENS)
            .map(|gradient| gradient.dlogp)
            .map_err(|error| error.to_string())
    });
    let adamw = AdamW {
        lr: 1e-2,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: 0.0,
        clip_norm: 1.0,
    };
    engine.step(groups, 1.0, objective, adamw)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn the_cpu_learns_as_much_as_the_check_demands() {
        let curves = compare(Device::Cpu, Dtype::F32).unwrap();
        // On the CPU, equal seeds give equal bits.
        assert_eq!(curves.gpu, curves.cpu);
        let check = verdict("gpu learning, f32", &curves);
        assert_eq!(check.state, State::Ok, "{check:?}");
    }

    #[test]
    fn a_curve_that_stays_behind_is_a_failure() {
        let curves = |gpu: [f64; 3]| Curves {
            gpu: gpu.to_vec(),
            cpu: vec![0.2, 0.4, 0.6],
        };
        let state = |gpu| verdict("gpu learning, f32", &curves(gpu)).state;
        assert_eq!(state([0.2, 0.41, 0.62]), State::Ok);
        assert_eq!(state([0.2, 0.2, 0.2]), State::Fail);
        assert_eq!(state([0.2, 0.3, 0.4]), State::Fail);
    }
}
