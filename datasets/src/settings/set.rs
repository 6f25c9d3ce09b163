//! Parses `--set section.key=value`.

use toml::{Table, Value};

use super::check::Keys;
use super::error::SettingError;
use super::key::ValueKind;

impl Keys {
    /// Splits `section.key=value` and parses the value according to the key's kind. A text needs no quotes.
    ///
    /// # Errors
    /// [`SettingError`] for another form, and as [`Keys::check`].
    pub fn parse_set(self, set: &str) -> Result<(String, Value), SettingError> {
        let shape = || {
            SettingError::Refused(format!(
                "--set {set} is not a setting: write section.key=value, such as --set {}",
                self.example_of(set)
            ))
        };
        let (path, written) = set.split_once('=').ok_or_else(shape)?;
        let (path, written) = (path.trim(), written.trim());
        if self.get(path).is_none() && !path.contains('.') && self.path_of(path).is_some() {
            return Err(shape());
        }
        let read = format!("value = {written}").parse::<Table>().ok();
        let read = read.filter(|table| table.len() == 1);
        let read = read.and_then(|mut table| table.remove("value"));
        let is_text = self.get(path).is_some_and(|key| {
            use ValueKind::{Form, Parsed, Text};
            key.names().is_some() || matches!(key.kind, Text | Form(..) | Parsed(_))
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

    /// An example of the right form. It uses the setting's own key, if a section has a key of that name.
    fn example_of(self, set: &str) -> String {
        let (path, value) = set.split_once('=').unwrap_or((set, "VALUE"));
        let name = path.trim().rsplit('.').next().unwrap_or_default();
        match self.path_of(name) {
            Some(path) => format!("{path}={}", value.trim()),
            None => self.example.to_owned(),
        }
    }

    /// The path of the first key of that name.
    fn path_of(self, name: &str) -> Option<String> {
        let mut paths = self.paths().into_iter();
        let (path, _) = paths.find(|(_, key)| key.name == name)?;
        Some(path)
    }
}

/// Sets a value in a table, in the section that its path names.
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
