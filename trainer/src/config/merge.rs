//! Merges the layers of a configuration: the defaults, the preset, the recipe, and `--set`. A later layer overrides the earlier ones.

use datasets::settings::{Keys, SettingError, put};
use toml::{Table, Value};

use super::error::ConfigError;
use super::eval::DEFAULT_EVAL_EVERY;
use super::run::DEFAULT_EPOCHS;
use super::{Config, Preset, Verifier, models, recipes, validate};

/// Every key of a recipe.
pub const KEYS: Keys = Keys::new(Config::KEYS, "optimiser.lr=1e-5");

/// The environment variable with the verifier's address, which is used if neither the recipe nor the command line has one.
const VERIFIER: &str = "RAPID_VERIFIER";

/// Pairs of keys that exclude each other, each after its section: the key that is set last removes the other.
const RIVALS: [[&str; 3]; 3] = [
    ["run", "epochs", "updates"],
    ["eval", "every", "every_epochs"],
    ["model", "name", "path"],
];

/// Keys that users are likely to try, with the reason for which each is refused.
const REFUSED: &[(&[&str], &str)] = &[
    (
        &["sampling.top_p", "sampling.top_k", "sampling.min_p"],
        "training needs the log-probability of the distribution sampled from, so it samples at a temperature alone; cut-offs are for evaluation, under [eval]",
    ),
    (
        &["algorithm.adaptive_h"],
        "a phase no longer ends early; `algorithm.auto_h` chooses its number of updates before it begins, for the same effective sample size",
    ),
    (
        &["algorithm.kl_beta", "algorithm.beta", "algorithm.kl_coef"],
        "the weight of the divergence from the starting model is `algorithm.kl`",
    ),
    (
        &["algorithm.clip_eps", "algorithm.clip"],
        "a token's ratio is clipped below and above 1 by `algorithm.clip_low` and `algorithm.clip_high`",
    ),
    (
        &["algorithm.std", "algorithm.scale_rewards"],
        "division by the group's standard deviation is `algorithm.divide_by_std`",
    ),
    (
        &["verifier.reward"],
        "the reward of a verdict is set under [reward]: for the fraction of tests passed, set `reward.share = 1` and `reward.correct = 0`",
    ),
];

/// Keys that 0.1.0 had, each with its section and the value that turned it off: the `config.toml` of every run folder has them.
const RETIRED: [(&str, &str, f64); 1] = [("algorithm", "adaptive_h", 0.0)];

/// Resolves a recipe (a TOML file, or the name of a built-in one) with `--set section.key=value` on top, and `RAPID_VERIFIER` if neither names a verifier.
///
/// # Errors
/// [`ConfigError`]: an unreadable file, bad TOML, an unknown key, an invalid value, a name that no model has, an address that no verifier has.
pub fn load(recipe: &str, sets: &[String]) -> Result<Config, ConfigError> {
    let mut config = load_as_written(recipe, sets)?;
    set_default_verifier(&mut config.verifier);
    Ok(config)
}

/// As [`load`], without the verifier that the environment names, so that the result is the same on every machine.
///
/// # Errors
/// As [`load`].
pub fn load_as_written(recipe: &str, sets: &[String]) -> Result<Config, ConfigError> {
    let (origin, text) = recipes::find(recipe)?;
    let config = parse(&origin, &text, sets)?;
    config.model.name.as_deref().map_or(Ok(()), models::check)?;
    if let Some(url) = &config.verifier.url {
        verifier_api::check_address(url)
            .map_err(|error| SettingError::value("verifier.url", error.to_string()))?;
    }
    Ok(config)
}

/// Sets the verifier's address to that of the environment if it has none.
pub fn set_default_verifier(verifier: &mut Verifier) {
    set_default_address(verifier, std::env::var(VERIFIER).ok());
}

pub(super) fn set_default_address(verifier: &mut Verifier, address: Option<String>) {
    let address = address.filter(|address| !address.is_empty());
    verifier.url = verifier.url.take().or(address);
}

/// As [`load`], from a recipe's text; `origin` names it in errors.
///
/// # Errors
/// As [`load`].
pub fn parse(origin: &str, text: &str, sets: &[String]) -> Result<Config, ConfigError> {
    let mut table: Table = text
        .parse()
        .map_err(|error| SettingError::syntax(origin, &error))?;
    remove_retired(&mut table);
    KEYS.check(origin, &table).map_err(with_reason)?;
    for set in sets {
        let (path, value) = parse_set(set)?;
        for [section, one, other] in RIVALS {
            let rival = match path
                .strip_prefix(section)
                .and_then(|key| key.strip_prefix('.'))
            {
                Some(key) if key == one => other,
                Some(key) if key == other => one,
                _ => continue,
            };
            if let Some(Value::Table(content)) = table.get_mut(section) {
                content.remove(rival);
            }
        }
        put(&mut table, &path, value);
    }
    Ok(resolve(table)?)
}

/// Removes keys that no longer exist and were turned off.
fn remove_retired(table: &mut Table) {
    for (section, key, off) in RETIRED {
        if let Some(Value::Table(content)) = table.get_mut(section)
            && content.get(key).and_then(Value::as_float) == Some(off)
        {
            content.remove(key);
        }
    }
}

/// Parses `section.key=value` into path and value.
///
/// # Errors
/// As [`load`].
pub fn parse_set(set: &str) -> Result<(String, Value), ConfigError> {
    Ok(KEYS.parse_set(set).map_err(with_reason)?)
}

/// The error with the reason of [`REFUSED`], if the key is listed there.
fn with_reason(error: SettingError) -> SettingError {
    let SettingError::UnknownKey { key, .. } = &error else {
        return error;
    };
    match REFUSED
        .iter()
        .find(|(keys, _)| keys.contains(&key.as_str()))
    {
        Some((_, reason)) => SettingError::value(key, *reason),
        None => error,
    }
}

/// Lays a recipe over the defaults and its preset.
fn resolve(recipe: Table) -> Result<Config, SettingError> {
    KEYS.check_limits(&recipe)?;
    let preset = recipe
        .get("algorithm")
        .and_then(|algorithm| algorithm.get("preset")?.as_str())
        .and_then(Preset::named)
        .unwrap_or_default();
    let mut table = Config::of(preset).to_table();
    for (section, content) in recipe {
        if let (Some(Value::Table(defaults)), Value::Table(content)) =
            (table.get_mut(&section), content)
        {
            defaults.extend(content);
        }
    }
    let mut config: Config = table
        .try_into()
        .map_err(|error| SettingError::syntax("the recipe", &error))?;
    if config.run.epochs.is_none() && config.run.updates.is_none() {
        config.run.epochs = Some(DEFAULT_EPOCHS);
    }
    if config.eval.every.is_none() && config.eval.every_epochs.is_none() {
        config.eval.every = Some(DEFAULT_EVAL_EVERY);
    }
    validate::check(&config)?;
    Ok(config)
}
