//! Every key of a recipe and what it takes; refusal of unknown ones with the nearest known one named.

use toml::{Table, Value};

use super::{ConfigError, ranges};

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Whole,
    Number,
    /// A number, or infinity.
    Cap,
    Flag,
    Texts,
    Wholes,
}

impl Kind {
    fn takes(self, value: &Value) -> bool {
        let whole = |v: &Value| v.as_integer().is_some_and(|i| i >= 0);
        match self {
            Kind::Text => value.is_str(),
            Kind::Whole => whole(value),
            Kind::Number => value.is_integer() || value.as_float().is_some_and(f64::is_finite),
            Kind::Cap => value.is_integer() || value.as_float().is_some_and(|x| !x.is_nan()),
            Kind::Flag => value.is_bool(),
            Kind::Texts => value
                .as_array()
                .is_some_and(|list| list.iter().all(Value::is_str)),
            Kind::Wholes => value.as_array().is_some_and(|list| list.iter().all(whole)),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Kind::Text => "a text, as in \"…\"",
            Kind::Whole => "a whole number, 0 or more",
            Kind::Number => "a number",
            Kind::Cap => "a number, or inf for none",
            Kind::Flag => "true or false",
            Kind::Texts => "a list of texts, as in [\"…\"]",
            Kind::Wholes => "a list of whole numbers, as in [1, 8]",
        }
    }
}

/// Section, key, kind; the order of [`super::Config`].
pub(super) const KEYS: &[(&str, &str, Kind)] = &[
    ("model", "name", Kind::Text),
    ("model", "path", Kind::Text),
    ("data", "dataset", Kind::Text),
    ("data", "template", Kind::Text),
    ("data", "chat", Kind::Flag),
    ("data", "chat_date", Kind::Text),
    ("data", "stop", Kind::Texts),
    ("data", "max_prompt_tokens", Kind::Whole),
    ("data", "train_limit", Kind::Whole),
    ("data", "teacher", Kind::Text),
    ("algorithm", "preset", Kind::Text),
    ("algorithm", "factor", Kind::Text),
    ("algorithm", "baseline", Kind::Text),
    ("algorithm", "eta", Kind::Cap),
    ("algorithm", "clip_low", Kind::Number),
    ("algorithm", "clip_high", Kind::Number),
    ("algorithm", "length_norm", Kind::Text),
    ("algorithm", "divide_by_std", Kind::Flag),
    ("algorithm", "kl", Kind::Number),
    ("algorithm", "adaptive_eta", Kind::Number),
    ("algorithm", "adaptive_h", Kind::Number),
    ("algorithm", "dynamic_sampling", Kind::Whole),
    ("algorithm", "mix_groups", Kind::Flag),
    ("algorithm", "sum_padding", Kind::Flag),
    ("algorithm", "group_size", Kind::Whole),
    ("algorithm", "n_step", Kind::Whole),
    ("algorithm", "h", Kind::Whole),
    ("sampling", "temperature", Kind::Number),
    ("sampling", "max_tokens", Kind::Whole),
    ("sampling", "behaviour_logprob", Kind::Text),
    ("optimiser", "lr", Kind::Number),
    ("optimiser", "schedule", Kind::Text),
    ("optimiser", "warmup", Kind::Whole),
    ("optimiser", "final_lr", Kind::Number),
    ("optimiser", "beta1", Kind::Number),
    ("optimiser", "beta2", Kind::Number),
    ("optimiser", "eps", Kind::Number),
    ("optimiser", "weight_decay", Kind::Number),
    ("optimiser", "clip_norm", Kind::Number),
    ("lora", "rank", Kind::Whole),
    ("lora", "alpha", Kind::Number),
    ("run", "epochs", Kind::Whole),
    ("run", "updates", Kind::Whole),
    ("run", "seed", Kind::Whole),
    ("run", "checkpoint_every", Kind::Whole),
    ("run", "keep", Kind::Whole),
    ("run", "alarms", Kind::Flag),
    ("eval", "every", Kind::Whole),
    ("eval", "samples", Kind::Whole),
    ("eval", "k", Kind::Wholes),
    ("eval", "temperature", Kind::Number),
    ("eval", "top_p", Kind::Number),
    ("eval", "top_k", Kind::Whole),
    ("eval", "min_p", Kind::Number),
    ("eval", "max_tokens", Kind::Whole),
    ("eval", "limit", Kind::Whole),
    ("eval", "seed", Kind::Whole),
    ("reward", "correct", Kind::Number),
    ("reward", "share", Kind::Number),
    ("reward", "format", Kind::Number),
    ("reward", "length", Kind::Number),
    ("reward", "overlong", Kind::Number),
    ("reward", "overlong_margin", Kind::Number),
    ("verifier", "url", Kind::Text),
    ("verifier", "token_env", Kind::Text),
    ("verifier", "batch", Kind::Whole),
    ("verifier", "in_flight", Kind::Whole),
    ("verifier", "patience_s", Kind::Whole),
    ("verifier", "max_masked", Kind::Number),
    ("verifier", "math_policy", Kind::Text),
    ("verifier", "math_extraction", Kind::Text),
    ("verifier", "code_extraction", Kind::Text),
    ("engine", "device", Kind::Text),
    ("engine", "threads", Kind::Whole),
    ("engine", "dtype", Kind::Text),
    ("engine", "kv_tokens", Kind::Whole),
    ("engine", "pack_tokens", Kind::Whole),
    ("engine", "max_sequences", Kind::Whole),
    ("engine", "activations_mib", Kind::Whole),
];

/// Keys that people will try and that are refused for a reason of their own.
const REFUSED: &[(&str, &[&str], &str)] = &[
    (
        "sampling",
        &["top_p", "top_k", "min_p"],
        "training needs the log-probability of the distribution sampled from, so it samples at a temperature alone; cut-offs are for evaluation, under [eval]",
    ),
    (
        "algorithm",
        &["kl_beta", "beta", "kl_coef"],
        "the weight of the divergence from the starting model is `algorithm.kl`",
    ),
    (
        "algorithm",
        &["clip_eps", "clip"],
        "a token's ratio is clipped below and above 1 by `algorithm.clip_low` and `algorithm.clip_high`",
    ),
    (
        "algorithm",
        &["std", "scale_rewards"],
        "division by the group's standard deviation is `algorithm.divide_by_std`",
    ),
    (
        "verifier",
        &["reward"],
        "what a verdict is worth stands under [reward]: for the share of tests passed, set `reward.share = 1` and `reward.correct = 0`",
    ),
];

/// What `section.key` takes; `None` where there is no such key.
pub(super) fn kind(section: &str, key: &str) -> Option<Kind> {
    KEYS.iter()
        .find(|(s, k, _)| *s == section && *k == key)
        .map(|(_, _, kind)| *kind)
}

/// Refuses unknown sections and keys, and values of another kind than the key takes.
pub(super) fn check(origin: &str, table: &Table) -> Result<(), ConfigError> {
    for (section, content) in table {
        let Value::Table(content) = content else {
            return Err(unknown_section(origin, section));
        };
        if !KEYS.iter().any(|(s, _, _)| s == section) {
            return Err(unknown_section(origin, section));
        }
        for (key, value) in content {
            check_value(origin, section, key, value)?;
        }
    }
    Ok(())
}

fn check_value(origin: &str, section: &str, key: &str, value: &Value) -> Result<(), ConfigError> {
    let name = format!("{section}.{key}");
    if let Some((_, _, reason)) = REFUSED
        .iter()
        .find(|(s, keys, _)| *s == section && keys.contains(&key))
    {
        return Err(ConfigError::Value {
            key: name,
            reason: (*reason).to_owned(),
        });
    }
    let Some(kind) = kind(section, key) else {
        return Err(ConfigError::UnknownKey {
            origin: origin.to_owned(),
            key: name,
            hint: nearest_key(section, key),
        });
    };
    if kind.takes(value) {
        return Ok(());
    }
    // `--set` hands a number on as a text where TOML has no room for it.
    let endless = value.as_str().filter(|text| {
        kind == Kind::Whole
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && !text.is_empty()
            && text.parse::<i64>().is_err()
    });
    let reason = match (endless, ranges::of_whole(section, key)) {
        (Some(digits), _) => format!(
            "it takes a whole number of at most {}, not {digits}",
            i64::MAX
        ),
        (None, Some(range)) => format!("it takes {range}, not {value}"),
        (None, None) => format!("it takes {}, not {value}", kind.words()),
    };
    Err(ConfigError::Value { key: name, reason })
}

fn unknown_section(origin: &str, section: &str) -> ConfigError {
    let sections = sections();
    let hint = match KEYS.iter().find(|(_, key, _)| *key == section) {
        Some((home, key, _)) => format!("; `{key}` is a key of the section [{home}]"),
        None => match meant(section, sections.iter().copied()) {
            Some(name) => format!("; did you mean the section [{name}]?"),
            None => format!("; the sections are [{}]", sections.join("], [")),
        },
    };
    ConfigError::UnknownKey {
        origin: origin.to_owned(),
        key: section.to_owned(),
        hint,
    }
}

/// Every section, in the order of [`super::Config`].
pub(super) fn sections() -> Vec<&'static str> {
    let mut names: Vec<_> = KEYS.iter().map(|(section, _, _)| *section).collect();
    names.dedup();
    names
}

/// The key of the same section that was meant, else the section's keys, and what other sections have of that name.
fn nearest_key(section: &str, key: &str) -> String {
    let own = KEYS
        .iter()
        .filter(|(s, _, _)| *s == section)
        .map(|(_, k, _)| *k);
    if let Some(name) = meant(key, own.clone()) {
        return format!("; did you mean `{section}.{name}`?");
    }
    let own: Vec<_> = own.collect();
    let mut hint = format!("; the section [{section}] has {}", own.join(", "));
    if let Some(name) = meant(key, KEYS.iter().map(|(_, k, _)| *k)) {
        let homes: Vec<_> = KEYS
            .iter()
            .filter(|(_, k, _)| *k == name)
            .map(|(s, k, _)| format!("`{s}.{k}`"))
            .collect();
        hint += &format!(". There is {}", homes.join(", and "));
    }
    hint
}

/// The name that was meant: all but a slip of the fingers or two are the same.
fn meant<'a>(written: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Among short names everything is near everything.
    let slips = |name: &str| match name.len() {
        0..=2 => 0,
        3..=5 => 1,
        _ => 2,
    };
    names
        .map(|name| (strsim::damerau_levenshtein(written, name), name))
        .filter(|(distance, name)| *distance <= slips(name))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// A setting as it should be written, for one that names no section or has no value: its own key, where some section has one of that name.
pub(super) fn example(set: &str) -> String {
    let (key, value) = set.split_once('=').unwrap_or((set, "VALUE"));
    let key = key.trim();
    let bare = key.rsplit('.').next().unwrap_or(key);
    match KEYS.iter().find(|(_, known, _)| *known == bare) {
        Some((section, key, _)) => format!("{section}.{key}={}", value.trim()),
        None => "optimiser.lr=1e-5".to_owned(),
    }
}

/// The name nearest to what was written, where one is near enough to have been meant.
pub fn nearest<'a>(written: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|name| (strsim::jaro_winkler(written, name), name))
        .filter(|(score, _)| *score >= 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
