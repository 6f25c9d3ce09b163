//! Checks beyond the range of a single number: names, and keys that do not go together.

use datasets::settings::SettingError;

use super::limits::MIN_TEMPERATURE;
use super::{Baseline, Config, DataSet, MAX_COMPLETIONS, Preset};

/// Refuses a configuration that cannot run, naming the key and the remedy.
pub(super) fn check(config: &Config) -> Result<(), SettingError> {
    model_and_data(config)?;
    supervised(config)?;
    algorithm(config)?;
    config.reward.check()?;
    reward_and_eval(config)?;
    refuse_if(
        !config.run.slices.is_power_of_two(),
        "run.slices",
        "slices are added up in pairs; give a power of two, such as 1, 2, 4 or 8",
    )
}

fn model_and_data(config: &Config) -> Result<(), SettingError> {
    refuse_if(
        config.model.name.is_none() && config.model.path.is_none(),
        "model.name",
        "neither it nor `model.path` is set; name a model that `rapid fetch` knows, such as smollm2-135m-instruct, or give the path of a GGUF file or a Hugging Face folder",
    )?;
    let data = &config.data;
    data_sets(config)?;
    refuse_if(
        data.stop.iter().flatten().any(String::is_empty),
        "data.stop",
        "an empty string would end every completion at once; leave it out",
    )?;
    let date = data.chat_date.as_deref().unwrap_or_default();
    refuse_if(
        data.chat_date.is_some() && data.chat_day().is_none(),
        "data.chat_date",
        format!("`{date}` is not a date; give one as in 2026-03-09"),
    )
}

/// Checks the sections of several data sets, and the keys that go together with them.
fn data_sets(config: &Config) -> Result<(), SettingError> {
    let data = &config.data;
    for set in config.data_sets() {
        let (name, section, own) = (set.name(), &set.section, &set.data);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        refuse_if(
            !(1..=64).contains(&name.len()) || !name.chars().all(is_plain),
            section,
            "the name of a set is up to 64 letters, digits, `-` and `_`",
        )?;
        refuse_if(
            own.dataset.is_empty(),
            &format!("{section}.dataset"),
            "it is not set; give mbppplus, math, gsm8k, minif2f, humaneval, starter-math, starter-math-400, starter-code, starter-lean, or a path to a file of your own",
        )?;
        refuse_if(
            own.system.is_some() && !own.chat,
            &format!("{section}.system"),
            "a system prompt is a message of the model's chat template; set `data.chat = true`, or write the text into the prompt's template",
        )?;
        refuse_if(
            set.weight.is_some() && (!set.is_trained_on || data.teacher.is_some()),
            &format!("{section}.weight"),
            "evaluation uses every task, and supervised fine-tuning every completion of the teacher; leave it out",
        )?;
    }
    let weighted = data.sets.values().filter(|set| set.weight.is_some());
    refuse_if(
        ![0, data.sets.len()].contains(&weighted.count()),
        "data.sets",
        "some sets have a weight, and some have none; give each a weight, or none, so that each task is used once an epoch",
    )?;
    let [given, unset] = [config, &Config::default()].map(Config::to_table);
    let mut keys = DataSet::KEYS.iter().map(|key| key.name);
    let twice =
        keys.find(|key| *key != "system" && given["data"].get(*key) != unset["data"].get(*key));
    refuse_if(
        twice.is_some() && !data.sets.is_empty(),
        &format!("data.{}", twice.unwrap_or_default()),
        "each section `data.sets.NAME` has this key of its own; leave it out here",
    )
}

/// Checks the keys of supervised fine-tuning: the one that it requires, and those that it cannot have.
fn supervised(config: &Config) -> Result<(), SettingError> {
    let is_sft = config.algorithm.preset == Preset::Sft;
    let has_teacher = config.data.teacher.is_some();
    refuse_if(
        is_sft && !has_teacher,
        "data.teacher",
        "the preset sft learns from a teacher's completions, and none are given; sample some with `rapid generate --model TEACHER --dataset D --split train -n 5 --temperature 0.7 --out FILE.jsonl`, and give the file",
    )?;
    refuse_if(
        !is_sft && has_teacher,
        "data.teacher",
        "only the preset sft learns from given completions; set `algorithm.preset = \"sft\"`, or leave the key out",
    )?;
    let (set, preset) = (config.to_table(), Config::of(Preset::Sft).to_table());
    for section in ["algorithm", "sampling", "reward"] {
        for (key, value) in set[section].as_table().into_iter().flatten() {
            let is_free = ["n_step", "temperature", "max_tokens"].contains(&key.as_str());
            refuse_if(
                is_sft && !is_free && preset[section].get(key) != Some(value),
                &format!("{section}.{key}"),
                "supervised fine-tuning learns from a teacher's correct completions, each with the reward 1: it samples nothing, compares nothing, and has no behaviour policy or reference model; leave the key out",
            )?;
        }
    }
    Ok(())
}

fn algorithm(config: &Config) -> Result<(), SettingError> {
    let a = &config.algorithm;
    refuse_if(
        a.group_size < 2 && a.compares_within_groups(),
        "algorithm.group_size",
        "a group of one has no baseline and no gradient; give at least 2, or compare nothing within groups: `baseline` none or batch, and `divide_by_std` false",
    )?;
    let has_one_mean = matches!(
        a.baseline,
        Baseline::Group | Baseline::Loo | Baseline::OptimalLoo
    );
    refuse_if(
        a.divide_by_std && !has_one_mean,
        "algorithm.divide_by_std",
        format!(
            "with the baseline {}, a group with equal rewards still has advantages, and its standard deviation of 0 would make them huge; set `algorithm.baseline` to group, loo or optimal-loo, or `algorithm.divide_by_std` to false",
            a.baseline.name()
        ),
    )?;
    refuse_if(
        a.group_size < 2 && a.dynamic_sampling > 0,
        "algorithm.dynamic_sampling",
        "a group of one is always all correct or all incorrect, so every group would be replaced; set it to 0, or `algorithm.group_size` to at least 2",
    )?;
    refuse_if(
        !a.n_step.is_multiple_of(a.group_size),
        "algorithm.n_step",
        format!(
            "{} completions per update are not a whole number of groups of {}; a mini-batch has whole groups, so give a multiple of `algorithm.group_size`",
            a.n_step, a.group_size
        ),
    )?;
    refuse_if(
        a.n_step.saturating_mul(a.h) > MAX_COMPLETIONS,
        "algorithm.h",
        format!(
            "a phase of {} updates on {} completions each is more than {MAX_COMPLETIONS} completions; lower it, or `algorithm.n_step`",
            a.h, a.n_step
        ),
    )?;
    refuse_if(
        a.auto_h > 0.0 && a.drop_last_phase,
        "algorithm.drop_last_phase",
        "with `algorithm.auto_h` the sizes of phases are not known before, so no number of prompts fills whole phases; set one of the two to its default, false or 0",
    )
}

fn reward_and_eval(config: &Config) -> Result<(), SettingError> {
    let (r, eval) = (&config.reward, &config.eval);
    let further = r.terms.values().map(|term| term.weight);
    let mut weights = r.weights().into_iter().chain(further);
    refuse_if(
        weights.all(|weight| weight == 0.0),
        "reward",
        "all of its weights are 0, so every completion would have the reward 0; leave `reward.correct` at 1",
    )?;
    refuse_if(
        eval.temperature > 0.0 && eval.temperature < MIN_TEMPERATURE,
        "eval.temperature",
        "it is too low to divide by; give 0, which is greedy, or a number of at least 0.000001",
    )?;
    let max_tokens = eval.max_tokens.unwrap_or(config.sampling.max_tokens);
    refuse_if(
        eval.min_tokens > max_tokens,
        "eval.min_tokens",
        format!(
            "{} is above the maximum of {max_tokens} tokens; lower it, or raise `eval.max_tokens`, which is `sampling.max_tokens` unless set",
            eval.min_tokens
        ),
    )?;
    let possible = 1..=eval.samples;
    let impossible = eval.k.iter().find(|k| !possible.contains(k));
    refuse_if(
        impossible.is_some() && eval.samples > 0,
        "eval.k",
        format!(
            "Pass@{} cannot be estimated from {} samples per task; give a k from 1 to `eval.samples`",
            impossible.unwrap_or(&0),
            eval.samples
        ),
    )
}

fn refuse_if(fault: bool, key: &str, reason: impl Into<String>) -> Result<(), SettingError> {
    match fault {
        true => Err(SettingError::value(key, reason)),
        false => Ok(()),
    }
}
