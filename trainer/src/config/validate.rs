//! What no single key can be refused for: values out of range, and keys that do not go together.

use super::{Config, ConfigError, Estimator, Preset};

/// Refuses a configuration that cannot run, naming the key and the remedy.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    model_and_data(config)?;
    algorithm(config)?;
    numbers(config)?;
    verifier_and_engine(config)
}

fn model_and_data(config: &Config) -> Result<(), ConfigError> {
    match (&config.model.name, &config.model.path) {
        (Some(_), Some(_)) => {
            return refuse("model.name", "`model.path` is set too; keep one of the two");
        }
        (None, None) => {
            return refuse(
                "model.name",
                "neither it nor `model.path` is set; name a model that `rapid fetch` knows, such as smollm2-135m-instruct, or give the path of a GGUF file or a Hugging Face folder",
            );
        }
        _ => {}
    }
    if config.data.dataset.is_empty() {
        return refuse(
            "data.dataset",
            "it is not set; give mbppplus, math, gsm8k, minif2f, humaneval, starter-math, starter-code, starter-lean, or a path to a .jsonl file",
        );
    }
    if config.data.stop.iter().flatten().any(String::is_empty) {
        return refuse(
            "data.stop",
            "an empty text would end every completion at once; leave it out",
        );
    }
    positive("data.max_prompt_tokens", config.data.max_prompt_tokens)?;
    if config.data.train_limit == Some(0) {
        return refuse(
            "data.train_limit",
            "with 0 tasks there is nothing to train on; give at least 1, or leave it out",
        );
    }
    Ok(())
}

fn algorithm(config: &Config) -> Result<(), ConfigError> {
    let a = &config.algorithm;
    positive("algorithm.group_size", a.group_size)?;
    if a.group_size < 2 && (a.baseline.is_of_the_group() || a.divide_by_std) {
        return refuse(
            "algorithm.group_size",
            "a group of one has no baseline and no gradient; give at least 2",
        );
    }
    teacher(config)?;
    positive("algorithm.n_step", a.n_step)?;
    positive("algorithm.h", a.h)?;
    if !a.n_step.is_multiple_of(a.group_size) {
        let reason = format!(
            "{} completions an update are no whole number of groups of {}; a mini-batch holds whole groups, so give a multiple of `algorithm.group_size`",
            a.n_step, a.group_size
        );
        return Err(ConfigError::Value {
            key: "algorithm.n_step".into(),
            reason,
        });
    }
    if a.eta < 1.0 {
        return refuse(
            "algorithm.eta",
            "a cap below 1 would change on-policy samples, whose weight is 1; give 1 or more, or inf for no cap (the paper has 2)",
        );
    }
    if !(a.clip_low > 0.0 && a.clip_low <= 1.0) {
        return refuse(
            "algorithm.clip_low",
            "a ratio is clipped at 1 − ε below 1; give an ε above 0, up to 1 (PPO has 0.2)",
        );
    }
    if a.clip_high <= 0.0 {
        return refuse(
            "algorithm.clip_high",
            "a ratio is clipped at 1 + ε above 1; give an ε above 0 (PPO has 0.2, DAPO 0.28)",
        );
    }
    for (key, share) in [
        ("algorithm.adaptive_eta", a.adaptive_eta),
        ("algorithm.adaptive_h", a.adaptive_h),
    ] {
        if !(0.0..1.0).contains(&share) {
            return refuse(
                key,
                "it is a share of a mini-batch's completions; give a number from 0 (off) to below 1, such as 0.5",
            );
        }
    }
    if a.kl < 0.0 {
        return refuse(
            "algorithm.kl",
            "a weight below 0 would drive the policy away from the reference; give 0 (off) or more (GRPO has 0.04)",
        );
    }
    match (config.run.epochs, config.run.updates) {
        (Some(_), Some(_)) => refuse(
            "run.epochs",
            "`run.updates` is set too; keep one of the two",
        ),
        (Some(0), None) => refuse("run.epochs", "0 epochs train nothing; give at least 1"),
        (None, Some(0)) => refuse(
            "run.updates",
            "0 updates train nothing; give at least 1, or use `rapid eval`",
        ),
        _ => Ok(()),
    }
}

/// What supervised fine-tuning asks for, and what nothing else can use.
fn teacher(config: &Config) -> Result<(), ConfigError> {
    let a = &config.algorithm;
    match (a.preset == Preset::Sft, &config.data.teacher) {
        (true, None) => {
            return refuse(
                "data.teacher",
                "the preset sft learns from a teacher's completions, and none are given; write some with `rapid generate --dataset D --split train -n 5 --out FILE.jsonl`, and give the file",
            );
        }
        (false, Some(_)) => {
            return refuse(
                "data.teacher",
                "only the preset sft learns from given completions; set `algorithm.preset = \"sft\"`, or leave the key out",
            );
        }
        _ => {}
    }
    if a.preset != Preset::Sft {
        return Ok(());
    }
    for (key, given, needed) in [
        ("algorithm.group_size", a.group_size, 1),
        ("algorithm.h", a.h, 1),
        ("algorithm.dynamic_sampling", a.dynamic_sampling, 0),
    ] {
        if given != needed {
            return Err(ConfigError::Value {
                key: key.into(),
                reason: format!(
                    "supervised fine-tuning draws nothing, so it is {needed} there; leave the key out"
                ),
            });
        }
    }
    if a.sum_padding {
        return refuse(
            "algorithm.sum_padding",
            "supervised fine-tuning draws nothing that could be padded; leave the key out",
        );
    }
    let plain = Preset::Sft.estimator();
    if (Estimator {
        eta: plain.eta,
        clip_low: plain.clip_low,
        clip_high: plain.clip_high,
        kl: plain.kl,
        ..a.estimator()
    }) != plain
    {
        return refuse(
            "algorithm",
            "supervised fine-tuning has no behaviour policy to weigh against and no group to compare with: leave `factor`, `baseline`, `length_norm`, `divide_by_std` and `adaptive_eta` out",
        );
    }
    Ok(())
}

fn numbers(config: &Config) -> Result<(), ConfigError> {
    let (o, r) = (&config.optimiser, &config.reward);
    if config.sampling.temperature <= 0.0 {
        return refuse(
            "sampling.temperature",
            "training samples, and at 0 there is nothing to sample; give a temperature above 0 (the paper has 0.9)",
        );
    }
    positive("sampling.max_tokens", config.sampling.max_tokens)?;
    for (key, value, good) in [
        ("optimiser.lr", o.lr, o.lr >= 0.0),
        (
            "optimiser.final_lr",
            o.final_lr,
            (0.0..=1.0).contains(&o.final_lr),
        ),
        (
            "lora.alpha",
            config.lora.alpha,
            config.lora.alpha > 0.0 && config.lora.alpha.is_finite(),
        ),
        ("optimiser.beta1", o.beta1, (0.0..1.0).contains(&o.beta1)),
        ("optimiser.beta2", o.beta2, (0.0..1.0).contains(&o.beta2)),
        ("optimiser.eps", o.eps, o.eps > 0.0),
        (
            "optimiser.weight_decay",
            o.weight_decay,
            o.weight_decay >= 0.0,
        ),
        ("optimiser.clip_norm", o.clip_norm, o.clip_norm >= 0.0),
        (
            "eval.temperature",
            config.eval.temperature,
            config.eval.temperature >= 0.0,
        ),
        (
            "eval.top_p",
            config.eval.top_p,
            config.eval.top_p > 0.0 && config.eval.top_p <= 1.0,
        ),
        (
            "eval.min_p",
            config.eval.min_p,
            (0.0..1.0).contains(&config.eval.min_p),
        ),
        (
            "reward.overlong_margin",
            r.overlong_margin,
            r.overlong_margin > 0.0 && r.overlong_margin <= 1.0,
        ),
        (
            "verifier.max_masked",
            config.verifier.max_masked,
            (0.0..=1.0).contains(&config.verifier.max_masked),
        ),
    ] {
        if !good {
            let reason = format!(
                "{value} is out of its range; see the comments of the built-in recipes for what it means"
            );
            return Err(ConfigError::Value {
                key: key.into(),
                reason,
            });
        }
    }
    if [r.correct, r.share, r.format, r.length, r.overlong]
        .iter()
        .all(|weight| *weight == 0.0)
    {
        return refuse(
            "reward",
            "all of its weights are 0, so every completion would have the reward 0; leave `reward.correct` at 1",
        );
    }
    if config.eval.samples > 0
        && let Some(k) = config
            .eval
            .k
            .iter()
            .find(|k| **k == 0 || **k > config.eval.samples)
    {
        let reason = format!(
            "Pass@{k} cannot be estimated from {} samples a task; give a k from 1 to `eval.samples`",
            config.eval.samples
        );
        return Err(ConfigError::Value {
            key: "eval.k".into(),
            reason,
        });
    }
    if config.eval.max_tokens == Some(0) || config.eval.limit == Some(0) {
        return refuse(
            "eval",
            "`max_tokens` and `limit` must be at least 1; `samples = 0` turns evaluation off",
        );
    }
    positive("run.keep", config.run.keep)
}

fn verifier_and_engine(config: &Config) -> Result<(), ConfigError> {
    positive("verifier.batch", config.verifier.batch)?;
    positive("verifier.in_flight", config.verifier.in_flight)?;
    for (key, value) in [
        ("engine.threads", config.engine.threads),
        ("engine.kv_tokens", config.engine.kv_tokens),
        ("engine.pack_tokens", config.engine.pack_tokens),
        ("engine.max_sequences", config.engine.max_sequences),
    ] {
        if value == Some(0) {
            return refuse(
                key,
                "0 leaves nothing to work with; leave the key out for the default",
            );
        }
    }
    dtype(&config.engine.dtype)?;
    device(&config.engine.device).map(drop)
}

/// The device that a setting names.
pub(super) fn device(text: &str) -> Result<engine::Device, ConfigError> {
    match text {
        "auto" => Ok(engine::Device::Auto),
        "cpu" => Ok(engine::Device::Cpu),
        "cuda" => Ok(engine::Device::Cuda(0)),
        other => other
            .strip_prefix("cuda:")
            .and_then(|number| number.parse().ok())
            .map(engine::Device::Cuda)
            .ok_or_else(|| ConfigError::Value {
                key: "engine.device".into(),
                reason: format!("`{other}` is no device; give auto, cpu, cuda or cuda:N"),
            }),
    }
}

/// The numbers that a setting names.
pub(super) fn dtype(text: &str) -> Result<engine::Dtype, ConfigError> {
    match text {
        "f32" => Ok(engine::Dtype::F32),
        "bf16" => Ok(engine::Dtype::Bf16),
        other => Err(ConfigError::Value {
            key: "engine.dtype".into(),
            reason: format!("`{other}` is no type of the engine's; give f32 or bf16"),
        }),
    }
}

fn positive(key: &str, value: usize) -> Result<(), ConfigError> {
    if value == 0 {
        return refuse(key, "it must be at least 1");
    }
    Ok(())
}

fn refuse(key: &str, reason: &str) -> Result<(), ConfigError> {
    Err(ConfigError::Value {
        key: key.to_owned(),
        reason: reason.to_owned(),
    })
}
