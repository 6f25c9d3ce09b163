//! `--set section.key=value`.

use toml::{Table, Value};

use super::check::Keys;
use super::error::SettingError;
use super::key::Kind;

impl Keys {
    /// Splits `section.key=value` and reads the value as the key's kind: a text needs no quotes.
    ///
    /// # Errors
    /// [`SettingError::Shape`], [`SettingError::UnknownKey`], [`SettingError::Kind`].
    pub fn parse_set(self, set: &str) -> Result<(String, Value), SettingError> {
        let shape = || SettingError::Shape {
            set: set.to_owned(),
            example: self.example_of(set),
        };
        let (path, written) = set.split_once('=').ok_or_else(shape)?;
        let (path, written) = (path.trim(), written.trim());
        if self.get(path).is_none() && !path.contains('.') && self.home(path).is_some() {
            return Err(shape());
        }
        let read = format!("value = {written}")
            .parse::<Table>()
            .ok()
            .filter(|table| table.len() == 1)
            .and_then(|mut table| table.remove("value"));
        let is_text = self.get(path).is_some_and(|key| {
            key.names().is_some() || matches!(key.kind, Kind::Text | Kind::Form(..))
        });
        let value = match read {
            Some(value) if !is_text || value.is_str() => value,
            _ => Value::String(written.to_owned()),
        };
        let mut table = Table::new();
        put(&mut table, path, value.clone());
        self.check(&format!("--set {set}"), &table)?;
        Ok((path.to_owned(), value))
    }

    /// A setting as it should be written: its own key, where some section has one of that name.
    fn example_of(self, set: &str) -> String {
        let (path, value) = set.split_once('=').unwrap_or((set, "VALUE"));
        let name = path.trim().rsplit('.').next().unwrap_or_default();
        match self.home(name) {
            Some(path) => format!("{path}={}", value.trim()),
            None => self.example.to_owned(),
        }
    }

    /// The path of the first key of that name.
    fn home(self, name: &str) -> Option<String> {
        let mut paths = self.paths().into_iter();
        paths
            .find(|(_, key)| key.name == name)
            .map(|(path, _)| path)
    }
}

/// Lays a value over a table, in the section that its path names.
pub fn put(table: &mut Table, path: &str, value: Value) {
    let Some((section, rest)) = path.split_once('.') else {
        table.insert(path.to_owned(), value);
        return;
    };
    let inner = table
        .entry(section)
        .or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(inner) = inner {
        put(inner, rest, value);
    }
}
