//! Defaults, then the preset's knobs, then the recipe, then `--set`: the later wins.

use toml::{Table, Value};

use super::keys::{self, Kind};
use super::{
    Baseline, BehaviourLogprob, Config, ConfigError, Factor, LengthNorm, LrSchedule, Preset,
    Verifier, models, presets, ranges, recipes, validate,
};

/// The environment variable that holds the verifier's address, where neither the recipe nor the command line has one.
const VERIFIER: &str = "RAPID_VERIFIER";

/// Resolves a recipe (a TOML file, or the name of a built-in one) with `--set section.key=value` on top, and `RAPID_VERIFIER` where none of them names a verifier.
///
/// # Errors
/// [`ConfigError`]: an unreadable file, bad TOML, an unknown key, a value that does not fit, a name that no model has.
pub fn load(recipe: &str, sets: &[String]) -> Result<Config, ConfigError> {
    let (origin, text) = recipes::find(recipe)?;
    let mut config = parse(&origin, &text, sets)?;
    config.model.name.as_deref().map_or(Ok(()), models::check)?;
    or_else_verifier(&mut config, std::env::var(VERIFIER).ok());
    Ok(config)
}

/// Takes the address where there is none yet.
pub(super) fn or_else_verifier(config: &mut Config, address: Option<String>) {
    let address = address.filter(|address| !address.is_empty());
    config.verifier.url = config.verifier.url.take().or(address);
}

/// As [`load`], from a recipe's text; `origin` names it in errors.
///
/// # Errors
/// As [`load`].
pub fn parse(origin: &str, text: &str, sets: &[String]) -> Result<Config, ConfigError> {
    let mut table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| syntax(origin, &error))?;
    keys::check(origin, &table)?;
    for set in sets {
        let (section, key, value) = parse_set(set)?;
        put(&mut table, &section, &key, value);
    }
    resolve(table)
}

/// What a preset is where a recipe sets nothing else, but for the names that each has to give.
pub(super) fn defaults(preset: Preset) -> Config {
    let teacher = match preset {
        Preset::Sft => "teacher = \"-\"\n",
        _ => "",
    };
    let recipe = format!(
        "[model]\nname = \"-\"\n[data]\ndataset = \"-\"\n{teacher}[algorithm]\npreset = \"{}\"\n",
        preset.name()
    );
    parse("the defaults", &recipe, &[]).expect("what a preset sets goes together")
}

/// Splits `section.key=value` and reads the value as the key's kind: a text needs no quotes.
///
/// # Errors
/// As [`load`].
pub fn parse_set(set: &str) -> Result<(String, String, Value), ConfigError> {
    let origin = format!("--set {set}");
    let shape = || ConfigError::Shape {
        set: set.to_owned(),
        example: keys::example(set),
    };
    let (path, written) = set.split_once('=').ok_or_else(shape)?;
    let (section, key) = path.trim().split_once('.').ok_or_else(shape)?;
    let written = written.trim();
    let read = format!("value = {written}")
        .parse::<Table>()
        .ok()
        .filter(|table| table.len() == 1)
        .and_then(|mut table| table.remove("value"));
    let value = match (keys::kind(section, key), read) {
        (_, Some(value @ Value::String(_))) => value,
        (Some(Kind::Text), _) | (_, None) => Value::String(written.to_owned()),
        (_, Some(value)) => value,
    };
    let mut table = Table::new();
    put(&mut table, section, key, value.clone());
    keys::check(&origin, &table)?;
    Ok((section.to_owned(), key.to_owned(), value))
}

fn put(table: &mut Table, section: &str, key: &str, value: Value) {
    let entry = table
        .entry(section)
        .or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(content) = entry {
        // The two say the same thing in two ways: the one set last counts.
        let rival = match (section, key) {
            ("run", "epochs") => Some("updates"),
            ("run", "updates") => Some("epochs"),
            ("model", "name") => Some("path"),
            ("model", "path") => Some("name"),
            _ => None,
        };
        if let Some(rival) = rival {
            content.remove(rival);
        }
        content.insert(key.to_owned(), value);
    }
}

fn resolve(mut table: Table) -> Result<Config, ConfigError> {
    for section in keys::sections() {
        table
            .entry(section)
            .or_insert_with(|| Value::Table(Table::new()));
    }
    if let Some(name) = section(&mut table, "optimiser")
        .and_then(|optimiser| optimiser.get("schedule"))
        .and_then(Value::as_str)
        && !LrSchedule::NAMES.contains(&name)
    {
        return Err(no_such("optimiser.schedule", name, &LrSchedule::NAMES));
    }
    if let Some(name) = section(&mut table, "sampling")
        .and_then(|sampling| sampling.get("behaviour_logprob"))
        .and_then(Value::as_str)
        && !BehaviourLogprob::NAMES.contains(&name)
    {
        let names = &BehaviourLogprob::NAMES;
        return Err(no_such("sampling.behaviour_logprob", name, names));
    }
    for (key, names) in Verifier::EXPECTATIONS {
        if let Some(name) = section(&mut table, "verifier")
            .and_then(|verifier| verifier.get(key))
            .and_then(Value::as_str)
            && !names.contains(&name)
        {
            return Err(no_such(&format!("verifier.{key}"), name, names));
        }
    }
    let preset =
        section(&mut table, "algorithm").map_or(Ok(Preset::default()), resolve_algorithm)?;
    for (key, name, value) in presets::settings(preset) {
        if let Some(content) = section(&mut table, key) {
            content.entry(name).or_insert(value);
        }
    }
    ranges::check(&table)?;
    let mut config: Config = Value::Table(table)
        .try_into()
        .map_err(|error: toml::de::Error| syntax("the recipe", &error))?;
    if config.run.epochs.is_none() && config.run.updates.is_none() {
        config.run.epochs = Some(3);
    }
    validate::check(&config)?;
    Ok(config)
}

fn section<'a>(table: &'a mut Table, name: &str) -> Option<&'a mut Table> {
    table.get_mut(name).and_then(Value::as_table_mut)
}

/// Fills in the preset's knobs where the recipe does not set them itself. Returns the preset.
fn resolve_algorithm(algorithm: &mut Table) -> Result<Preset, ConfigError> {
    let preset = match algorithm.get("preset").and_then(Value::as_str) {
        Some(name) => {
            Preset::named(name).ok_or_else(|| no_such("algorithm.preset", name, &Preset::NAMES))?
        }
        None => Preset::default(),
    };
    for (key, names) in [
        ("factor", &Factor::NAMES[..]),
        ("baseline", &Baseline::NAMES[..]),
        ("length_norm", &LengthNorm::NAMES[..]),
    ] {
        if let Some(name) = algorithm.get(key).and_then(Value::as_str)
            && !names.contains(&name)
        {
            return Err(no_such(&format!("algorithm.{key}"), name, names));
        }
    }
    let estimator = preset.estimator();
    let mut default = |key: &str, value: Value| {
        algorithm.entry(key).or_insert(value);
    };
    default("preset", Value::String(preset.name().into()));
    default("factor", Value::String(estimator.factor.name().into()));
    default("baseline", Value::String(estimator.baseline.name().into()));
    default("eta", Value::Float(estimator.eta));
    default("clip_low", Value::Float(estimator.clip_low));
    default("clip_high", Value::Float(estimator.clip_high));
    default(
        "length_norm",
        Value::String(estimator.length_norm.name().into()),
    );
    default("divide_by_std", Value::Boolean(estimator.divide_by_std));
    default("kl", Value::Float(estimator.kl));
    default("adaptive_eta", Value::Float(estimator.adaptive_eta));
    default("adaptive_h", Value::Float(0.0));
    default("mix_groups", Value::Boolean(false));
    default("sum_padding", Value::Boolean(false));
    Ok(preset)
}

fn no_such(key: &str, name: &str, names: &[&str]) -> ConfigError {
    ConfigError::Value {
        key: key.to_owned(),
        reason: format!("this version has no `{name}`; it has {}", names.join(", ")),
    }
}

fn syntax(origin: &str, error: &toml::de::Error) -> ConfigError {
    ConfigError::Syntax {
        origin: origin.to_owned(),
        reason: error.to_string().trim_end().replace('\n', " "),
    }
}
