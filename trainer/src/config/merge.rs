//! Merges the layers of a configuration: the defaults, the preset, the recipe, and `--set`. A later layer overrides the earlier ones.

use datasets::settings::{Keys, SettingError, put};
use toml::{Table, Value};

use super::eval::DEFAULT_EVAL_EVERY;
use super::run::DEFAULT_EPOCHS;
use super::{Config, DataSet, Preset, Verifier, models, recipes, validate};

/// Every key of a recipe.
pub const KEYS: Keys = Keys::new(Config::KEYS, "optimiser.lr=1e-5");

/// The environment variable with the verifier's address, which is used if neither the recipe nor the command line has one.
const VERIFIER: &str = "RAPID_VERIFIER";

/// Pairs of keys that exclude each other. If `--set` sets both, the last one counts.
const EXCLUSIVE: [[&str; 2]; 4] = [
    ["data.dataset", "data.sets"],
    ["run.epochs", "run.updates"],
    ["eval.every", "eval.every_epochs"],
    ["model.name", "model.path"],
];

/// Keys that 0.1.0 had, each with the value that turned it off: the `config.toml` of every run folder has them.
const RETIRED: [(&str, f64); 1] = [("algorithm.adaptive_h", 0.0)];

/// Resolves a recipe (a TOML file, or the name of a built-in one) with `--set section.key=value` on top, and `RAPID_VERIFIER` if neither names a verifier.
///
/// # Errors
/// [`SettingError`]: an unreadable file, bad TOML, an unknown key, an invalid value, a name that no model has, an address that no verifier has.
pub fn load(recipe: &str, sets: &[String]) -> Result<Config, SettingError> {
    let mut config = load_as_written(recipe, sets)?;
    set_default_verifier(&mut config.verifier);
    Ok(config)
}

/// As [`load`], without the verifier that the environment names, so that the result is the same on every machine.
pub fn load_as_written(recipe: &str, sets: &[String]) -> Result<Config, SettingError> {
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
pub fn parse(origin: &str, text: &str, sets: &[String]) -> Result<Config, SettingError> {
    let mut table: Table = text
        .parse()
        .map_err(|error| SettingError::syntax(origin, &error))?;
    for (retired, off) in RETIRED {
        if value_of(&table, retired).and_then(Value::as_float) == Some(off) {
            remove(&mut table, retired);
        }
    }
    KEYS.check(origin, &table)?;
    for set in sets {
        let (path, value) = KEYS.parse_set(set)?;
        for [one, other] in EXCLUSIVE {
            let is = |key: &str| path == key || path.starts_with(&format!("{key}."));
            if is(one) {
                remove(&mut table, other);
            } else if is(other) {
                remove(&mut table, one);
            }
        }
        if path.starts_with("data.sets.") {
            // The recipe's are of its own data set.
            let own = DataSet::KEYS.iter().filter(|key| key.name != "system");
            own.for_each(|key| remove(&mut table, &format!("data.{}", key.name)));
        }
        put(&mut table, &path, value);
    }
    resolve(table)
}

/// The value of a key, given as `section.key`.
pub(super) fn value_of<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    let (section, key) = path.split_once('.')?;
    table.get(section)?.get(key)
}

fn remove(table: &mut Table, path: &str) {
    if let Some((section, key)) = path.split_once('.')
        && let Some(Value::Table(content)) = table.get_mut(section)
    {
        content.remove(key);
    }
}

/// Lays a recipe over the defaults and its preset.
fn resolve(recipe: Table) -> Result<Config, SettingError> {
    KEYS.check_limits(&recipe)?;
    for [one, other] in EXCLUSIVE {
        if value_of(&recipe, one).is_some() && value_of(&recipe, other).is_some() {
            let reason = format!("`{other}` is set too; keep one of the two");
            return Err(SettingError::value(one, reason));
        }
    }
    let preset = value_of(&recipe, "algorithm.preset").and_then(Value::as_str);
    let preset = preset.and_then(Preset::named).unwrap_or_default();
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
