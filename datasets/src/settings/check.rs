//! Reads files of settings, and refuses unknown keys and wrong values.

use toml::{Table, Value};

use super::error::SettingError;
use super::key::{Key, ValueKind};
use crate::did_you_mean::nearest;

/// All keys of a program.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    pub(super) keys: &'static [Key],
    /// A setting in the form of `--set`, for error messages without a better example.
    pub(super) example: &'static str,
}

impl Keys {
    /// `keys` is the `KEYS` of the outermost struct.
    #[must_use]
    pub const fn new(keys: &'static [Key], example: &'static str) -> Self {
        Self { keys, example }
    }

    /// The key of a path, as in `section.key`.
    #[must_use]
    pub fn get(self, path: &str) -> Option<&'static Key> {
        let mut names = path.split('.');
        let find = |keys: &'static [Key], name| keys.iter().find(|key| key.name == name);
        let mut found = find(self.keys, names.next()?)?;
        loop {
            // The name of a section that the user named says nothing of its keys.
            if found.is_named() && names.next().is_none() {
                return Some(found);
            }
            match names.next() {
                Some(name) => found = find(found.keys(), name)?,
                None => return Some(found),
            }
        }
    }

    /// Every key except sections, with its path.
    #[must_use]
    pub fn paths(self) -> Vec<(String, &'static Key)> {
        fn collect(prefix: &str, keys: &'static [Key], found: &mut Vec<(String, &'static Key)>) {
            for key in keys {
                let path = key.path(prefix);
                match key.keys() {
                    [] => found.push((path, key)),
                    keys => collect(&format!("{path}."), keys, found),
                }
            }
        }
        let mut found = Vec::new();
        collect("", self.keys, &mut found);
        found
    }

    /// The settings of a file's text. Limits are not checked yet, since later settings may override these.
    ///
    /// # Errors
    /// [`SettingError`] if it is not TOML, and as [`Keys::check`].
    pub fn read(self, origin: &str, text: &str) -> Result<Table, SettingError> {
        let table = text
            .parse()
            .map_err(|error| SettingError::syntax(origin, &error))?;
        self.check(origin, &table)?;
        Ok(table)
    }

    /// Refuses unknown keys, and values of another kind than the key's.
    ///
    /// # Errors
    /// [`SettingError`]
    pub fn check(self, origin: &str, table: &Table) -> Result<(), SettingError> {
        walk("", self.keys, table, &|path, key, value| match key {
            None => Err(SettingError::UnknownKey {
                origin: origin.to_owned(),
                key: path.to_owned(),
                hint: self.hint(path),
            }),
            Some(key) if key.accepts_type(value) => Ok(()),
            Some(key) => {
                let reason = format!("{origin}: `{path}` {}", kind_mismatch(path, key, value));
                Err(SettingError::Refused(reason))
            }
        })
    }

    /// Refuses numbers out of their keys' ranges, and unknown names.
    ///
    /// # Errors
    /// [`SettingError`]
    pub fn check_limits(self, table: &Table) -> Result<(), SettingError> {
        walk("", self.keys, table, &|path, key, value| match key
            .and_then(|key| key.violation(value))
        {
            Some(reason) => Err(SettingError::value(path, reason)),
            None => Ok(()),
        })
    }

    /// The nearest key to an unknown path, or else the existing keys.
    fn hint(self, path: &str) -> String {
        let all = self.paths();
        let Some((section, name)) = path.rsplit_once('.') else {
            let home = all.iter().find(|(_, key)| key.name == path);
            return match home.and_then(|(path, _)| path.rsplit_once('.')) {
                Some((section, key)) => format!("; `{key}` is a key of the section [{section}]"),
                None => self.hint_outside_sections(path),
            };
        };
        let own = self.get(section).map_or(&[][..], |key| key.keys());
        if let Some(name) = nearest(name, own.iter().map(|key| key.name)) {
            return format!("; did you mean `{section}.{name}`?");
        }
        let names: Vec<_> = own.iter().map(|key| key.name).collect();
        let hint = format!("; the section [{section}] has {}", names.join(", "));
        let Some(meant) = nearest(name, all.iter().map(|(_, key)| key.name)) else {
            return hint;
        };
        let homes = all.iter().filter(|(_, key)| key.name == meant);
        let homes: Vec<_> = homes.map(|(path, _)| format!("`{path}`")).collect();
        format!("{hint}. There is {}", homes.join(", and "))
    }

    /// The nearest key or section to an unknown name outside the sections, or else the existing ones.
    fn hint_outside_sections(self, name: &str) -> String {
        let names = |sections: bool| -> Vec<&str> {
            let keys = self.keys.iter();
            let chosen = keys.filter(|key| key.keys().is_empty() != sections);
            chosen.map(|key| key.name).collect()
        };
        let (keys, sections) = (names(false), names(true));
        match nearest(name, self.keys.iter().map(|key| key.name)) {
            Some(near) if sections.contains(&near) => {
                format!("; did you mean the section [{near}]?")
            }
            Some(near) => format!("; did you mean `{near}`?"),
            None if keys.is_empty() => format!("; the sections are [{}]", sections.join("], [")),
            None => format!(
                "; outside the sections there are {}, and the sections are [{}]",
                keys.join(", "),
                sections.join("], [")
            ),
        }
    }
}

type Visit<'a> = &'a dyn Fn(&str, Option<&'static Key>, &Value) -> Result<(), SettingError>;

/// Visits each value of a table with its path and its key. A section is visited before its values.
fn walk(
    prefix: &str,
    keys: &'static [Key],
    table: &Table,
    visit: Visit<'_>,
) -> Result<(), SettingError> {
    for (name, value) in table {
        let path = format!("{prefix}{name}");
        let key = keys.iter().find(|key| key.name == name);
        visit(&path, key, value)?;
        let (Some(key), Value::Table(inner)) = (key, value) else {
            continue;
        };
        match key.kind {
            ValueKind::Section(keys) => walk(&format!("{path}."), keys, inner, visit)?,
            ValueKind::Sections(keys, _) => {
                for (name, value) in inner {
                    if let Value::Table(section) = value {
                        walk(&format!("{path}.{name}."), keys, section, visit)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The error text for a value that is not of its key's kind.
fn kind_mismatch(path: &str, key: &Key, value: &Value) -> String {
    if let Some(first) = key.keys().first() {
        let first = first.name;
        let what = match key.is_named() {
            true => "has sections under names of your own",
            false => "is a section",
        };
        let path = key.path(path.strip_suffix(key.name).unwrap_or_default());
        return format!("{what}: give one of its keys, such as `{path}.{first}`");
    }
    // `--set` passes a number as a text if it is too large for TOML.
    let digits = value.as_str().filter(|text| {
        matches!(key.kind, ValueKind::Whole)
            && !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && text.parse::<i64>().is_err()
    });
    match (digits, value) {
        (Some(digits), _) => {
            format!("takes a whole number of at most {}, not {digits}", i64::MAX)
        }
        (None, Value::Table(_)) => format!("takes {}, not a section", key.describe()),
        (None, value) => format!("takes {}, not {value}", key.describe()),
    }
}
