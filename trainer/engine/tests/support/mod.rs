//! Small random models and groups, the engine's model of them, and the same model in candle's basic, differentiable operations.

#![allow(dead_code, clippy::unwrap_used)]

pub(crate) mod reference;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod tile_unit;

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::backend::{Bf16Kernel, Dtype, cpu};
use engine::batch::{Batch, Group};
use engine::config::{Family, Llama3Rope, ModelConfig, RopeScaling, Sliding};
use engine::load::{Tensor, Weights};
use engine::model::{Model, TensorKind};
use engine::random::SplitMix;
use engine::train::step;
use engine::{
    AdamW, Completion, Device, Engine, EngineError, EngineOptions, GenerateRequest, StepReport,
};

/// Sampling temperature of updates and scores.
pub(crate) const TEMPERATURE: f32 = 0.9;

/// Settings of an update without clipping.
pub(crate) const ADAMW: AdamW = AdamW {
    lr: 1e-3,
    beta1: 0.9,
    beta2: 0.999,
    eps: 1e-8,
    weight_decay: 0.01,
    clip_norm: f32::INFINITY,
};

/// The default options on the CPU.
pub(crate) fn on_cpu() -> EngineOptions {
    EngineOptions {
        device: Device::Cpu,
        ..EngineOptions::default()
    }
}

/// Checks that an error has all these words.
#[track_caller]
pub(crate) fn assert_says(error: &EngineError, words: &[&str]) {
    let error = error.to_string();
    let says = words.iter().all(|it| error.contains(it));
    assert!(says, "{words:?}: {error}");
}

/// Random numbers that are the same on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        let mut random = SplitMix(self.0);
        let number = random.next();
        self.0 = random.0;
        number
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Mean 0, variance 1.
    pub(crate) fn normal(&mut self) -> f32 {
        let mut uniform = || (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        let (u, v) = (uniform().max(1e-300), uniform());
        ((-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()) as f32
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(crate) fn tokens(&mut self, n: usize, vocabulary: usize) -> Vec<u32> {
        (0..n).map(|_| self.below(vocabulary) as u32).collect()
    }
}

/// A random configuration of the family, with irregular sizes and with the family's optional features.
pub(crate) fn config(random: &mut Random, family: Family) -> ModelConfig {
    let num_key_value_heads = random.pick(&[1, 2, 3]);
    let num_attention_heads = num_key_value_heads * random.pick(&[1, 2, 3, 4]);
    let head_dim = random.pick(&[8, 16, 20, 32, 64, 80]);
    let num_hidden_layers = 2 + random.below(2);
    let mut config = ModelConfig {
        family,
        flags: family.flags(),
        vocab_size: 97 + random.below(1200),
        hidden_size: num_attention_heads * head_dim,
        intermediate_size: 24 + random.below(90),
        num_hidden_layers,
        num_attention_heads,
        num_key_value_heads,
        head_dim,
        max_position_embeddings: 512,
        rms_norm_eps: 1e-5,
        rope_theta: random.pick(&[10_000.0, 100_000.0]),
        rope_scaling: None,
        sliding: None,
        query_pre_attn_scalar: head_dim as f32,
        attn_logit_softcapping: None,
        final_logit_softcapping: None,
        tie_word_embeddings: random.below(2) == 0,
        bos_token_id: None,
        eos_token_ids: Vec::new(),
        pad_token_id: None,
    };
    let mut coin = || random.below(2) == 0;
    match family {
        Family::Llama if coin() => {
            config.rope_scaling = Some(RopeScaling::Llama3(Llama3Rope {
                factor: 8.0,
                low_freq_factor: 1.0,
                high_freq_factor: 4.0,
                original_max_position_embeddings: 64,
            }));
        }
        Family::Gemma3 => {
            config.hidden_size -= 1;
            config.rope_scaling = coin().then_some(RopeScaling::Linear { factor: 8.0 });
            config.query_pre_attn_scalar = random.pick(&[7.0, 30.0]);
            config.attn_logit_softcapping = Some(random.pick(&[0.7, 5.0]));
            config.final_logit_softcapping = Some(random.pick(&[1.5, 20.0]));
            let pattern = random.pick(&[2, 3]);
            config.sliding = Some(Sliding {
                window: random.pick(&[2, 5, 17, 64, 70]),
                layers: (1..=num_hidden_layers).map(|n| n % pattern > 0).collect(),
                rope_theta: Some(1000.0),
            });
        }
        _ => {}
    }
    config
}

/// Weights of a size that keeps activations near 1 and makes logits differ.
pub(crate) fn weights(random: &mut Random, config: &ModelConfig) -> Weights {
    let mut tensors = BTreeMap::new();
    for (name, shape) in config.tensor_shapes() {
        let size = shape.iter().product();
        let data = (0..size).map(|_| {
            if name.contains("norm") {
                let offset = config.flags.unit_offset_norms;
                (if offset { 0.0 } else { 1.0 }) + 0.1 * random.normal()
            } else if name.ends_with("bias") || name.contains("embed") {
                0.3 * random.normal()
            } else {
                random.normal() / (shape[1] as f32).sqrt()
            }
        });
        let data = data.collect();
        tensors.insert(name, Tensor { shape, data });
    }
    Weights { tensors }
}

pub(crate) fn rounded(weights: &Weights) -> Weights {
    let tensors = weights.tensors.iter().map(|(name, tensor)| {
        let round = |x: &f32| half::bf16::from_f32(*x).to_f32();
        let data = tensor.data.iter().map(round).collect();
        let shape = tensor.shape.clone();
        (name.clone(), Tensor { shape, data })
    });
    let tensors = tensors.collect();
    Weights { tensors }
}

/// A sequence's tokens from `from` on, with its keys in the store's rows from `row` on.
pub(crate) fn batch(tokens: &[u32], from: usize, row: usize) -> Batch {
    let mut batch = Batch::default();
    batch.add(&tokens[from..], vec![(row, tokens.len())]);
    batch
}

/// The engine's model, on `threads` threads.
pub(crate) fn model(config: &ModelConfig, weights: &Weights, threads: usize) -> Model {
    model_of(config, weights, threads, (Dtype::F32, None))
}

/// The arithmetic of a model's products: a number format, and the kernel for bf16.
pub(crate) type Arithmetic = (Dtype, Option<Bf16Kernel>);

/// Every arithmetic of this processor, and AMX's, emulated if necessary.
pub(crate) fn every_arithmetic() -> Vec<Arithmetic> {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    tile_unit::install(cpu::assume_amx);
    let kernels = Bf16Kernel::ALL.into_iter();
    let bf16 = kernels
        .filter(|kernel| kernel.available())
        .map(|kernel| (Dtype::Bf16, Some(kernel)));
    std::iter::once((Dtype::F32, None)).chain(bf16).collect()
}

/// Like [`model`], with another arithmetic.
pub(crate) fn model_of(
    config: &ModelConfig,
    weights: &Weights,
    threads: usize,
    (dtype, kernel): Arithmetic,
) -> Model {
    let backend = cpu::open_with(Some(threads), dtype, kernel).unwrap();
    Model::new(config.clone(), weights.clone(), backend).unwrap()
}

/// Groups of completions of uneven lengths.
pub(crate) fn groups(random: &mut Random, vocabulary: usize, count: usize) -> Vec<Group> {
    (0..count)
        .map(|_| {
            let prompt = 1 + random.below(70);
            Group {
                prompt: random.tokens(prompt, vocabulary).into(),
                completions: (0..1 + random.below(5))
                    .map(|_| {
                        let n = 1 + random.below(20);
                        random.tokens(n, vocabulary)
                    })
                    .collect(),
            }
        })
        .collect()
}

/// The completions by request and sample.
pub(crate) type Completions = BTreeMap<(usize, usize), Completion>;

pub(crate) fn generate(engine: &Engine, requests: &[GenerateRequest]) -> Completions {
    let completions = engine.generate(requests.to_vec()).into_iter();
    let completions = completions.map(Result::unwrap);
    completions.map(|c| ((c.request, c.sample), c)).collect()
}

/// Requests with their completions, as groups for training.
pub(crate) fn answered(requests: &[GenerateRequest], completions: &Completions) -> Vec<Group> {
    let group = |(number, request): (usize, &GenerateRequest)| Group {
        prompt: Arc::clone(&request.prompt),
        completions: (0..request.seeds.len())
            .map(|sample| completions[&(number, sample)].tokens.clone())
            .collect(),
    };
    requests.iter().enumerate().map(group).collect()
}

/// dL/dlogp of every token of the groups' completions.
pub(crate) fn dlogp(random: &mut Random, groups: &[Group]) -> Vec<Vec<f32>> {
    let completions = groups.iter().flat_map(|group| &group.completions);
    completions
        .map(|completion| completion.iter().map(|_| random.normal()).collect())
        .collect()
}

/// A model, groups to train it on, and a gradient.
pub(crate) struct Case {
    pub(crate) config: ModelConfig,
    pub(crate) weights: Weights,
    pub(crate) groups: Vec<Group>,
    pub(crate) dlogp: Vec<Vec<f32>>,
}

impl Case {
    pub(crate) fn new(seed: u64, family: Family, count: usize) -> Self {
        let mut random = Random(seed);
        let config = config(&mut random, family);
        Self::of(random, config, count)
    }

    /// A case with a model of this configuration.
    pub(crate) fn of(mut random: Random, config: ModelConfig, count: usize) -> Self {
        let weights = weights(&mut random, &config);
        let groups = groups(&mut random, config.vocab_size, count);
        let dlogp = dlogp(&mut random, &groups);
        Self {
            config,
            weights,
            groups,
            dlogp,
        }
    }

    /// Makes sequences begin alike. Every second prompt begins with the prompt and half of a completion of the group before it. Each group repeats a
    /// completion, and another one begins with half of it.
    pub(crate) fn begin_alike(mut self, seed: u64) -> Self {
        let mut random = Random(seed);
        let vocabulary = self.config.vocab_size;
        let half = |tokens: &[u32]| tokens[..tokens.len() / 2].to_vec();
        for number in 0..self.groups.len() {
            if number % 2 == 1 {
                let before = &self.groups[number - 1];
                let begun = [&before.prompt[..], &half(&before.completions[0])].concat();
                let prompt = [begun, self.groups[number].prompt.to_vec()].concat();
                self.groups[number].prompt = prompt.into();
            }
            let completions = &mut self.groups[number].completions;
            let first = completions[0].clone();
            let parting = [half(&first), random.tokens(3, vocabulary)].concat();
            completions.extend([first, parting]);
        }
        self.dlogp = dlogp(&mut random, &self.groups);
        self
    }
}

/// One update of a model with an objective that returns `dlogp`.
pub(crate) fn update(
    model: &mut Model,
    groups: &[Group],
    dlogp: &[Vec<f32>],
    adamw: &AdamW,
) -> Result<StepReport, EngineError> {
    let dlogp = dlogp.to_vec();
    let objective = Box::new(move |_: &[_]| Ok(dlogp));
    step(model, groups, TEMPERATURE, objective, adamw)
}

/// Every weight by its name, or what training stores for each trained weight.
pub(crate) fn gather(model: &mut Model, kind: TensorKind) -> BTreeMap<String, Vec<f32>> {
    let shapes = match kind {
        TensorKind::Weight => model.config().tensor_shapes(),
        _ => model.trained_shapes(),
    };
    let tensors = shapes.into_iter().map(|(name, _)| {
        let values = model.tensor(&name, kind).unwrap();
        (name, values)
    });
    tensors.collect()
}

/// ‖a − b‖ / ‖b‖.
pub(crate) fn distance(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let square = |x: f64| x * x;
    let difference: f64 = a.iter().zip(b).map(|(a, b)| square(f64::from(a - b))).sum();
    let size: f64 = b.iter().map(|b| square(f64::from(*b))).sum();
    (difference / size.max(1e-30)).sqrt()
}

pub(crate) fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}
