//! The keys of the configuration, what each takes, and what is said of others.

use toml::{Table, Value};

use super::ConfigError;
use super::listen::{self, Listen};
use crate::registry::nearest;

/// What a key takes.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Texts,
    /// Texts by name.
    Variables,
    Flag,
    /// A whole number, not negative.
    Whole,
    Number,
    Address,
    OneOf(&'static [&'static str]),
}

impl Kind {
    fn takes(self, value: &Value) -> bool {
        match self {
            Kind::Text => value.is_str(),
            Kind::Texts => value
                .as_array()
                .is_some_and(|list| list.iter().all(Value::is_str)),
            Kind::Variables => value
                .as_table()
                .is_some_and(|table| table.iter().all(|(_, value)| value.is_str())),
            Kind::Flag => value.is_bool(),
            Kind::Whole => value.as_integer().is_some_and(|number| number >= 0),
            Kind::Number => value.is_integer() || value.is_float(),
            Kind::Address => value
                .as_str()
                .is_some_and(|text| text.parse::<Listen>().is_ok()),
            Kind::OneOf(names) => value.as_str().is_some_and(|text| names.contains(&text)),
        }
    }

    fn words(self) -> String {
        match self {
            Kind::Text => "a text, as in \"…\"".to_owned(),
            Kind::Texts => "a list of texts, as in [\"…\"]".to_owned(),
            Kind::Variables => "texts by name, as in { NAME = \"…\" }".to_owned(),
            Kind::Flag => "true or false".to_owned(),
            Kind::Whole => format!("a whole number, 0 to {}", i64::MAX),
            Kind::Number => "a number".to_owned(),
            Kind::Address => listen::FORM.to_owned(),
            Kind::OneOf(names) => format!("one of `{}`", names.join("`, `")),
        }
    }

    /// What is wrong with a value that it does not take.
    fn fault(self, value: &Value) -> String {
        let given = match value {
            Value::Table(_) => "a section".to_owned(),
            other => other.to_string(),
        };
        let near = match (self, value) {
            (Kind::OneOf(names), Value::String(text)) => nearest(text, names.iter().copied()),
            _ => None,
        };
        let near = near
            .map(|near| format!(" (did you mean `{near}`?)"))
            .unwrap_or_default();
        format!("takes {}, not {given}{near}", self.words())
    }
}

/// Every key, as `--set` writes it.
const KEYS: &[(&str, Kind)] = &[
    ("listen", Kind::Address),
    ("data_dir", Kind::Text),
    ("datasets", Kind::Texts),
    ("workers", Kind::Whole),
    ("require", Kind::Texts),
    ("token_file", Kind::Text),
    ("limits.body_bytes", Kind::Whole),
    ("limits.items", Kind::Whole),
    ("limits.queue", Kind::Whole),
    ("limits.connections", Kind::Whole),
    ("cache.dir", Kind::Text),
    ("cache.disk", Kind::Flag),
    ("cache.disk_bytes", Kind::Whole),
    ("cache.memory_bytes", Kind::Whole),
    ("cache.expected_bytes", Kind::Whole),
    ("math.extraction", Kind::OneOf(&["boxed", "any"])),
    (
        "math.policy",
        Kind::OneOf(&["strict", "standard", "lenient"]),
    ),
    ("code.extraction", Kind::OneOf(&["program", "last-block"])),
    ("code.sandbox", Kind::OneOf(&["wasm", "docker", "none"])),
    ("code.dir", Kind::Text),
    ("code.fuel", Kind::Whole),
    ("code.memory_bytes", Kind::Whole),
    ("code.memory_total_bytes", Kind::Whole),
    ("code.value_bytes", Kind::Whole),
    ("code.backstop_seconds", Kind::Number),
    ("docker.host", Kind::Text),
    ("docker.image", Kind::Text),
    ("docker.runtime", Kind::Text),
    ("docker.containers", Kind::Whole),
    ("lean.project", Kind::Text),
    ("lean.backend", Kind::OneOf(&["auto", "none"])),
    ("lean.command", Kind::Texts),
    ("lean.env", Kind::Variables),
    ("lean.dir", Kind::Text),
    ("lean.revision", Kind::Text),
    ("lean.headers", Kind::Texts),
    ("lean.axioms", Kind::OneOf(&["followed", "named"])),
    ("lean.checker", Kind::Texts),
    ("lean.jail", Kind::OneOf(&["bubblewrap", "none"])),
    ("lean.seconds", Kind::Whole),
    ("lean.start_seconds", Kind::Whole),
    ("lean.memory_mib", Kind::Whole),
    ("lean.processes", Kind::Whole),
];

fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|(name, _)| *name)
}

/// Refuses unknown keys, and values of another kind than the key takes.
pub(super) fn check_keys(table: &Table, prefix: &str, place: &str) -> Result<(), ConfigError> {
    for (key, value) in table {
        let key = format!("{prefix}{key}");
        let inside = format!("{key}.");
        let fault = |reason: String| ConfigError::Kind {
            place: place.to_owned(),
            key: key.clone(),
            reason,
        };
        let first = names().find(|known| known.starts_with(&inside));
        let known = KEYS.iter().find(|(known, _)| *known == key);
        match (value, first, known) {
            (Value::Table(table), Some(_), _) => check_keys(table, &inside, place)?,
            (_, Some(first), _) => {
                return Err(fault(format!(
                    "is a section: give one of its keys, such as `{first}`"
                )));
            }
            (value, None, Some((_, kind))) if kind.takes(value) => {}
            (value, None, Some((_, kind))) => return Err(fault(kind.fault(value))),
            (_, None, None) => {
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
    let lacks_section = names().find(|known| known.rsplit('.').next() == Some(key));
    let sections = names()
        .filter_map(|known| known.split_once('.'))
        .map(|(section, _)| section);
    lacks_section.or_else(|| nearest(key, names().chain(sections)))
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
        let mut known: Vec<String> = names().map(str::to_owned).collect();
        found.sort();
        known.sort();
        assert_eq!(found, known);
    }

    /// `deploy/verifier.toml`, which explains every key.
    const EXPLAINED: &str = include_str!("../../../deploy/verifier.toml");

    #[test]
    fn the_file_that_explains_the_keys_has_the_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("verifier.toml");
        std::fs::write(&path, EXPLAINED).unwrap();
        assert_eq!(Config::load(Some(&path), &[]).unwrap(), Config::default());
    }

    #[test]
    fn every_key_is_explained_in_its_section() {
        let mut section = String::new();
        let mut explained = Vec::new();
        for line in EXPLAINED.lines() {
            if let Some(name) = line.strip_prefix('[') {
                section = name.replace(']', ".");
            }
            // Commented out where it has no default.
            let set = line.strip_prefix("# ").unwrap_or(line).split_once(" = ");
            if let Some((key, _)) = set
                && key
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            {
                explained.push(format!("{section}{key}"));
            }
        }
        assert_eq!(explained, names().collect::<Vec<_>>());
    }

    fn set(setting: &str) -> Result<Config, ConfigError> {
        Config::load(None, &[setting.to_owned()])
    }

    #[test]
    fn every_name_of_a_choice_is_one() {
        for (key, kind) in KEYS {
            if let Kind::OneOf(names) = kind {
                for name in *names {
                    assert!(set(&format!("{key}={name}")).is_ok(), "{key}={name}");
                }
            }
        }
    }

    #[test]
    fn a_value_of_another_kind_is_refused_with_what_the_key_takes() {
        for (setting, says) in [
            (
                "limits.items=abc",
                "--set: `limits.items` takes a whole number, 0 to 9223372036854775807, not \"abc\"",
            ),
            (
                "limits.items=-1",
                "a whole number, 0 to 9223372036854775807, not -1",
            ),
            ("code.fuel=99999999999999999999", "a whole number, 0 to"),
            (
                "code.sandbox=dockr",
                "takes one of `wasm`, `docker`, `none`, not \"dockr\" (did you mean `docker`?)",
            ),
            ("cache.disk=yes", "takes true or false"),
            ("datasets=math", "takes a list of texts"),
            ("lean.env=x", "takes texts by name"),
            ("docker.image=1", "takes a text"),
            ("code.backstop_seconds=long", "takes a number"),
            ("listen=localhost", "takes a host and a port"),
            ("workers.x=1", "`workers` takes a whole number"),
            (
                "limits=3",
                "`limits` is a section: give one of its keys, such as `limits.body_bytes`",
            ),
        ] {
            let error = set(setting).unwrap_err().to_string();
            assert!(error.contains(says), "{says} in {error}");
        }
        assert!(set("code.backstop_seconds=5").is_ok());
        assert!(set("lean.env={ A = \"b\" }").is_ok());
    }
}
