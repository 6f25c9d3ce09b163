//! Checks beyond the range of a single number: names, and keys that do not go together.

use datasets::settings::SettingError;

use super::limits::MIN_TEMPERATURE;
use super::{Baseline, BehaviourLogprob, Config, MAX_COMPLETIONS, Preset, Reward};

/// Refuses a configuration that cannot run, naming the key and the remedy.
pub(super) fn check(config: &Config) -> Result<(), SettingError> {
    model_and_data(config)?;
    algorithm(config)?;
    reward_and_eval(config)?;
    if !config.run.slices.is_power_of_two() {
        return refuse(
            "run.slices",
            "slices are added up in pairs; give a power of two, such as 1, 2, 4 or 8",
        );
    }
    config.engine.names().map(drop)
}

fn model_and_data(config: &Config) -> Result<(), SettingError> {
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
            "it is not set; give mbppplus, math, gsm8k, minif2f, humaneval, starter-math, starter-math-400, starter-code, starter-lean, or a path to a .jsonl file",
        );
    }
    if config.data.stop.iter().flatten().any(String::is_empty) {
        return refuse(
            "data.stop",
            "an empty string would end every completion at once; leave it out",
        );
    }
    Ok(())
}

fn algorithm(config: &Config) -> Result<(), SettingError> {
    let a = &config.algorithm;
    if a.group_size < 2 && a.estimator().compares_within_groups() {
        return refuse(
            "algorithm.group_size",
            "a group of one has no baseline and no gradient; give at least 2, or compare nothing within groups: `baseline` none or batch, and `divide_by_std` false",
        );
    }
    teacher(config)?;
    if a.divide_by_std
        && !matches!(
            a.baseline,
            Baseline::Group | Baseline::Loo | Baseline::OptimalLoo
        )
    {
        let reason = format!(
            "with the baseline {}, a group with equal rewards still has advantages, and its standard deviation of 0 would make them huge; set `algorithm.baseline` to group, loo or optimal-loo, or `algorithm.divide_by_std` to false",
            a.baseline.name()
        );
        return refuse("algorithm.divide_by_std", reason);
    }
    if a.group_size < 2 && a.dynamic_sampling > 0 {
        return refuse(
            "algorithm.dynamic_sampling",
            "a group of one is always all correct or all incorrect, so every group would be replaced; set it to 0, or `algorithm.group_size` to at least 2",
        );
    }
    if !a.n_step.is_multiple_of(a.group_size) {
        let reason = format!(
            "{} completions per update are not a whole number of groups of {}; a mini-batch has whole groups, so give a multiple of `algorithm.group_size`",
            a.n_step, a.group_size
        );
        return refuse("algorithm.n_step", reason);
    }
    if let Some(date) = &config.data.chat_date
        && config.data.chat_day().is_none()
    {
        return refuse(
            "data.chat_date",
            format!("`{date}` is not a date; give one as in 2026-03-09"),
        );
    }
    if a.n_step.saturating_mul(a.h) > MAX_COMPLETIONS {
        let reason = format!(
            "a phase of {} updates on {} completions each is more than {MAX_COMPLETIONS} completions; lower it, or `algorithm.n_step`",
            a.h, a.n_step
        );
        return refuse("algorithm.h", reason);
    }
    if a.auto_h > 0.0 && a.drop_last_phase {
        return refuse(
            "algorithm.drop_last_phase",
            "with `algorithm.auto_h` the sizes of phases are not known before, so no number of prompts fills whole phases; set one of the two to its default, false or 0",
        );
    }
    if config.run.epochs.is_some() && config.run.updates.is_some() {
        return refuse(
            "run.epochs",
            "`run.updates` is set too; keep one of the two",
        );
    }
    Ok(())
}

/// Checks the keys of supervised fine-tuning: those that it requires, and those that it cannot have.
fn teacher(config: &Config) -> Result<(), SettingError> {
    let a = &config.algorithm;
    match (a.preset == Preset::Sft, &config.data.teacher) {
        (true, None) => {
            return refuse(
                "data.teacher",
                "the preset sft learns from a teacher's completions, and none are given; sample some with `rapid generate --model TEACHER --dataset D --split train -n 5 --temperature 0.7 --out FILE.jsonl`, and give the file",
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
            return refuse(
                key,
                format!(
                    "supervised fine-tuning samples nothing, so it has to be {needed}; leave the key out"
                ),
            );
        }
    }
    if a.sum_padding {
        return refuse(
            "algorithm.sum_padding",
            "supervised fine-tuning samples no completions that could be padded; leave the key out",
        );
    }
    for (key, given) in [
        ("algorithm.auto_h", a.auto_h > 0.0),
        ("algorithm.mix_groups", a.mix_groups),
        ("algorithm.drop_last_phase", a.drop_last_phase),
    ] {
        if given {
            return refuse(
                key,
                "supervised fine-tuning has no inference phases; leave the key out",
            );
        }
    }
    if config.sampling.behaviour_logprob != BehaviourLogprob::default() {
        return refuse(
            "sampling.behaviour_logprob",
            "supervised fine-tuning has no behaviour policy; leave the key out",
        );
    }
    if a.kl > 0.0 {
        return refuse(
            "algorithm.kl",
            "supervised fine-tuning follows its teacher and no reference model; leave the key out",
        );
    }
    let (r, plain) = (&config.reward, Reward::default());
    for (key, given, needed) in [
        ("reward.correct", r.correct, plain.correct),
        ("reward.share", r.share, plain.share),
        ("reward.format", r.format, plain.format),
        ("reward.length", r.length, plain.length),
        ("reward.overlong", r.overlong, plain.overlong),
        (
            "reward.overlong_margin",
            r.overlong_margin,
            plain.overlong_margin,
        ),
    ] {
        if given != needed {
            return refuse(
                key,
                "supervised fine-tuning learns only from correct completions, each with the reward 1; leave the section [reward] out",
            );
        }
    }
    if a.estimator() != Preset::Sft.estimator() {
        return refuse(
            "algorithm",
            "supervised fine-tuning has no behaviour policy for importance weights and no groups to compare: leave `factor`, `baseline`, `eta`, `clip_low`, `clip_high`, `length_norm`, `divide_by_std` and `adaptive_eta` out",
        );
    }
    Ok(())
}

fn reward_and_eval(config: &Config) -> Result<(), SettingError> {
    let r = &config.reward;
    if [r.correct, r.share, r.format, r.length, r.overlong]
        .iter()
        .all(|weight| *weight == 0.0)
    {
        return refuse(
            "reward",
            "all of its weights are 0, so every completion would have the reward 0; leave `reward.correct` at 1",
        );
    }
    if config.eval.temperature > 0.0 && config.eval.temperature < MIN_TEMPERATURE {
        return refuse(
            "eval.temperature",
            "it is too low to divide by; give 0, which is greedy, or a number of at least 0.000001",
        );
    }
    if config.eval.every.is_some() && config.eval.every_epochs.is_some() {
        return refuse(
            "eval.every_epochs",
            "`eval.every` is set too; keep one of the two",
        );
    }
    let max_tokens = config.eval.max_tokens.unwrap_or(config.sampling.max_tokens);
    if config.eval.min_tokens > max_tokens {
        let reason = format!(
            "{} is above the maximum of {max_tokens} tokens; lower it, or raise `eval.max_tokens`, which is `sampling.max_tokens` unless set",
            config.eval.min_tokens
        );
        return refuse("eval.min_tokens", reason);
    }
    if config.eval.samples > 0
        && let Some(k) = config
            .eval
            .k
            .iter()
            .find(|k| **k == 0 || **k > config.eval.samples)
    {
        let reason = format!(
            "Pass@{k} cannot be estimated from {} samples per task; give a k from 1 to `eval.samples`",
            config.eval.samples
        );
        return refuse("eval.k", reason);
    }
    Ok(())
}

fn refuse(key: &str, reason: impl Into<String>) -> Result<(), SettingError> {
    Err(SettingError::value(key, reason))
}
