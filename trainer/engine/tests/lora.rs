//! Adapters: their gradients against candle's autograd of the merged weights, what they leave unchanged, and their checkpoints.

use crate::support;

use std::collections::BTreeMap;

use engine::batch::TokenStats;
use engine::config::{Family, ModelConfig};
use engine::load::{Tensor, Weights};
use engine::model::{Lora, Model, TensorKind};
use engine::train::score;
use engine::{AdamW, Engine, EngineOptions, StepReport};
use support::reference::Reference;
use support::{Case, Random, TEMPERATURE, config, distance, gather, groups, model, on_cpu, update};

const LORA: Lora = Lora {
    rank: 3,
    alpha: 7.5,
    seed: 5,
};

const ADAMW: AdamW = AdamW {
    lr: 1e-2,
    ..support::ADAMW
};

impl Case {
    fn model(&self) -> Model {
        let mut model = model(&self.config, &self.weights, 2);
        model.attach(LORA).unwrap();
        model
    }

    /// A model with a `B` that is not 0.
    fn trained(&self) -> Model {
        let mut model = self.model();
        let mut random = Random(9);
        for (name, shape) in model.trained_shapes() {
            if name.ends_with("lora_B") {
                let values = (0..shape.iter().product()).map(|_| 0.1 * random.normal());
                let values: Vec<f32> = values.collect();
                model
                    .set_tensor(&name, TensorKind::Weight, &values)
                    .unwrap();
            }
        }
        model
    }

    fn step(&self, model: &mut Model) -> StepReport {
        update(model, &self.groups, &self.dlogp, &ADAMW).unwrap()
    }

    /// The weights of a model without adapters that computes the same function.
    fn merged(&self, model: &mut Model) -> Weights {
        let shapes = self.config.tensor_shapes().into_iter();
        let tensors = shapes.map(|(name, shape)| {
            let data = model.merged(&name).unwrap();
            (name, Tensor { shape, data })
        });
        Weights {
            tensors: tensors.collect(),
        }
    }
}

/// `(out × in)` gradients of the parts of a projection, stacked by rows.
fn stacked(gradients: &BTreeMap<String, Vec<f32>>, layer: &str, adapter: &str) -> Vec<f32> {
    let parts: &[&str] = match adapter {
        "self_attn.qkv_proj" => &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        "mlp.gate_up_proj" => &["mlp.gate_proj", "mlp.up_proj"],
        other => &[other],
    };
    let tensors = parts
        .iter()
        .map(|part| &gradients[&format!("{layer}.{part}.weight")]);
    tensors.flatten().copied().collect()
}

#[test]
fn gradients_of_adapters_follow_from_those_of_the_merged_weights() {
    for seed in 300..312 {
        let c = Case::new(seed, Family::ALL[seed as usize % 4], 3);
        let (mut start, mut model) = (c.trained(), c.trained());
        let merged = c.merged(&mut start);
        let weight_gradients = Reference::new(&c.config, &merged)
            .unwrap()
            .gradients(&c.groups, f64::from(TEMPERATURE), &c.dlogp)
            .unwrap();
        c.step(&mut model);
        let scale = LORA.alpha / LORA.rank as f32;
        for (name, shape) in model.trained_shapes() {
            let (matrix, part) = name.rsplit_once(".lora_").unwrap();
            let mut parts = matrix.splitn(4, '.');
            let layer: Vec<&str> = parts.by_ref().take(3).collect();
            let matrix_gradient =
                stacked(&weight_gradients, &layer.join("."), parts.next().unwrap());
            // W = … + s·B·A, so dA = s·Bᵀ·dW and dB = s·dW·Aᵀ.
            let [a, b] = ["A", "B"].map(|part| {
                let name = format!("{matrix}.lora_{part}");
                start.tensor(&name, TensorKind::Weight).unwrap()
            });
            let (rank, inputs) = (LORA.rank, a.len() / LORA.rank);
            let outputs = matrix_gradient.len() / inputs;
            let mut expected = vec![0.0f32; shape.iter().product()];
            for o in 0..outputs {
                for r in 0..rank {
                    for i in 0..inputs {
                        let dw = scale * matrix_gradient[o * inputs + i];
                        if part == "A" {
                            expected[r * inputs + i] += b[o * rank + r] * dw;
                        } else {
                            expected[o * rank + r] += a[r * inputs + i] * dw;
                        }
                    }
                }
            }
            let gradient = model.tensor(&name, TensorKind::Gradient).unwrap();
            let distance = distance(&gradient, &expected);
            assert!(distance < 1e-4, "seed {seed}, {name}: {distance}");
        }
    }
}

#[test]
fn adapters_change_nothing_before_an_update_and_weights_never() {
    for family in [Family::Qwen2, Family::Gemma3] {
        let c = Case::new(320, family, 3);
        let mut plain = model(&c.config, &c.weights, 2);
        let before = score(&mut plain, &c.groups, TEMPERATURE).unwrap();
        let weights = gather(&mut plain, TensorKind::Weight);
        let mut model = c.model();
        assert_eq!(score(&mut model, &c.groups, TEMPERATURE).unwrap(), before);
        for _ in 0..3 {
            c.step(&mut model);
        }
        assert_ne!(score(&mut model, &c.groups, TEMPERATURE).unwrap(), before);
        assert!(gather(&mut model, TensorKind::Weight) == weights);
        let base_stats = model.with_adapters(false, |model| score(model, &c.groups, TEMPERATURE));
        assert_eq!(base_stats.unwrap(), before);
        assert_ne!(score(&mut model, &c.groups, TEMPERATURE).unwrap(), before);
    }
}

#[test]
fn only_the_adapters_have_gradients_and_moments() {
    let c = Case::new(340, Family::Llama, 3);
    let mut model = c.model();
    let weights = 4 * c.config.parameters();
    let adapters: usize = model
        .trained_shapes()
        .iter()
        .map(|(_, shape)| shape.iter().product::<usize>())
        .sum();
    c.step(&mut model);
    let beyond = model.bytes() - weights;
    // Weights and adapters begin on cache lines.
    assert!(beyond < 4 * 4 * adapters as u64 + 10_000, "{beyond}");
    let moment = model.tensor("model.norm.weight", TensorKind::Moment1);
    assert!(moment.is_err());
}

#[test]
fn settings_out_of_range_are_rejected() {
    let c = Case::new(350, Family::Llama, 3);
    let mut model = model(&c.config, &c.weights, 1);
    let rejection = |model: &mut Model, lora| model.attach(lora).unwrap_err().to_string();
    assert!(rejection(&mut model, Lora { rank: 0, ..LORA }).contains("rank"));
    let alpha = f32::NAN;
    assert!(rejection(&mut model, Lora { alpha, ..LORA }).contains("alpha"));
    model.attach(LORA).unwrap();
    assert!(rejection(&mut model, LORA).contains("once"));
}

#[test]
fn training_resumes_from_a_state_of_adapters() {
    let mut random = Random(360);
    let config = ModelConfig {
        vocab_size: 300,
        ..config(&mut random, Family::Qwen2)
    };
    let groups = groups(&mut random, 300, 2);
    let open = |lora| {
        let options = EngineOptions {
            threads: Some(1),
            lora,
            ..on_cpu()
        };
        Engine::random(config.clone(), 7, options).unwrap()
    };
    let step = |engine: &Engine| {
        let objective = Box::new(|stats: &[TokenStats]| {
            Ok(stats.iter().map(|s| vec![-0.1; s.logp.len()]).collect())
        });
        engine
            .step(groups.clone(), TEMPERATURE, objective, ADAMW)
            .unwrap();
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state");
    let first = open(Some(LORA));
    step(&first);
    first.save_state(file.clone()).unwrap();
    step(&first);
    // Adapters with other initial values: all of them must come from the file.
    let second = open(Some(Lora { seed: 6, ..LORA }));
    second.load_state(file.clone()).unwrap();
    step(&second);
    let score = |engine: &Engine| engine.score(groups.clone(), TEMPERATURE).unwrap();
    assert_eq!(score(&first), score(&second));
    // The base is the model as it was loaded, and cannot be trained.
    let base = first.base().unwrap();
    assert_eq!(score(&base), score(&open(None)));
    assert_ne!(score(&base), score(&first));
    let objective = Box::new(|_: &[TokenStats]| Ok(Vec::new()));
    let rejection = base.step(groups.clone(), TEMPERATURE, objective, ADAMW);
    assert!(rejection.unwrap_err().to_string().contains("reference"));
    assert!(open(None).base().is_none());
    // A state of adapters fits neither a model without adapters nor adapters of another rank.
    assert!(open(None).load_state(file.clone()).is_err());
    let other = open(Some(Lora { rank: 2, ..LORA }));
    assert!(other.load_state(file).is_err());
}
