//! The keys of the configuration, and what is said of others.

use toml::{Table, Value};

use super::ConfigError;
use crate::registry::nearest;

/// Every key, as `--set` writes it.
const KEYS: [&str; 40] = [
    "listen",
    "data_dir",
    "datasets",
    "workers",
    "require",
    "token_file",
    "limits.body_bytes",
    "limits.items",
    "limits.queue",
    "cache.dir",
    "cache.disk",
    "cache.memory_bytes",
    "cache.expected_bytes",
    "math.extraction",
    "math.policy",
    "code.sandbox",
    "code.dir",
    "code.fuel",
    "code.memory_bytes",
    "code.value_bytes",
    "code.backstop_seconds",
    "docker.host",
    "docker.image",
    "docker.runtime",
    "docker.containers",
    "lean.project",
    "lean.backend",
    "lean.command",
    "lean.env",
    "lean.dir",
    "lean.revision",
    "lean.headers",
    "lean.axioms",
    "lean.checker",
    "lean.jail",
    "lean.seconds",
    "lean.start_seconds",
    "lean.memory_mib",
    "lean.processes",
    "lean.uses",
];

pub(super) fn check_keys(table: &Table, prefix: &str, place: &str) -> Result<(), ConfigError> {
    for (key, value) in table {
        let key = format!("{prefix}{key}");
        let inside = format!("{key}.");
        match value {
            Value::Table(table) if KEYS.iter().any(|known| known.starts_with(&inside)) => {
                check_keys(table, &inside, place)?;
            }
            _ if KEYS.contains(&key.as_str()) => {}
            _ => {
                return Err(ConfigError::UnknownKey {
                    place: place.to_owned(),
                    near: nearest_key(&key),
                    key,
                });
            }
        }
    }
    Ok(())
}

/// The key most like it; a key that lacks its section counts as like that key.
fn nearest_key(key: &str) -> Option<&'static str> {
    let lacks_section = KEYS
        .into_iter()
        .find(|known| known.rsplit('.').next() == Some(key));
    let sections = KEYS
        .into_iter()
        .filter_map(|known| known.split_once('.'))
        .map(|(section, _)| section);
    lacks_section.or_else(|| nearest(key, KEYS.into_iter().chain(sections)))
}

pub(super) fn parse_value(text: &str) -> Value {
    format!("value = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

pub(super) fn insert(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        Some((section, rest)) => match table
            .entry(section)
            .or_insert_with(|| Value::Table(Table::new()))
        {
            Value::Table(inner) => insert(inner, rest, value),
            other => *other = value,
        },
        None => {
            table.insert(key.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn every_key_is_listed() {
        fn keys(table: &Table, prefix: &str, found: &mut Vec<String>) {
            for (key, value) in table {
                match value {
                    Value::Table(inner) if key != "env" => {
                        keys(inner, &format!("{prefix}{key}."), found);
                    }
                    _ => found.push(format!("{prefix}{key}")),
                }
            }
        }
        let mut config = Config {
            data_dir: Some("d".into()),
            token_file: Some("t".into()),
            ..Config::default()
        };
        config.cache.dir = Some("c".into());
        config.code.dir = Some("s".into());
        config.docker.host = Some("unix:///h".to_owned());
        config.docker.runtime = Some("r".to_owned());
        config.lean.project = Some("p".into());
        config.lean.dir = Some("d".into());
        let mut found = Vec::new();
        keys(&Table::try_from(config).unwrap(), "", &mut found);
        let mut known = KEYS.map(str::to_owned).to_vec();
        found.sort();
        known.sort();
        assert_eq!(found, known);
    }
}
