//! Writes the help: the list of the keys, and a file that explains each key.

use std::fmt::Write as _;

use toml::{Table, Value};

use super::check::Keys;
use super::key::{Key, Limit, ValueKind};

/// Width of the column with the names of a choice.
const NAME_WIDTH: usize = 16;

impl Keys {
    /// All keys, one line per section: `  section.{key, key}`.
    #[must_use]
    pub fn list(self) -> String {
        let mut lines = Vec::new();
        list(&mut lines, "", self.keys);
        lines.join("\n")
    }

    /// A file with every key, its help and its value in `values`. A key without a value there is commented out, with its default.
    #[must_use]
    pub fn explain(self, values: &Table, defaults: &Table) -> String {
        let mut text = String::new();
        explain(&mut text, "", self.keys, values, defaults);
        text
    }
}

/// Lists the keys of the section with the path `prefix`, and of the sections in it.
fn list(lines: &mut Vec<String>, prefix: &str, keys: &[Key]) {
    let (sections, own): (Vec<&Key>, Vec<&Key>) =
        keys.iter().partition(|key| !key.keys().is_empty());
    let names: Vec<&str> = own.iter().map(|key| key.name).collect();
    let names = names.join(", ");
    match prefix {
        _ if names.is_empty() => {}
        "" => lines.push(format!("  {names}")),
        _ => lines.push(format!("  {prefix}{{{names}}}")),
    }
    for section in sections {
        list(lines, &format!("{}.", section.path(prefix)), section.keys());
    }
}

fn explain(text: &mut String, prefix: &str, keys: &[Key], values: &Table, defaults: &Table) {
    for key in keys.iter().filter(|key| key.keys().is_empty()) {
        comment(text, key.help);
        if let ValueKind::Choice(names, explained) = key.kind {
            for (name, what) in names.iter().zip(explained) {
                let _ = writeln!(text, "#   {name:<NAME_WIDTH$}{what}");
            }
        }
        let (value, default) = (values.get(key.name), defaults.get(key.name));
        let mut notes = Vec::new();
        if !matches!(key.limit, Limit::None) || matches!(key.kind, ValueKind::Choice(..)) {
            notes.push(format!("Takes {}.", key.describe()));
        }
        let overridden = default.filter(|default| value.is_some_and(|value| value != *default));
        notes.extend(overridden.map(|default| format!("Default: {default}.")));
        if !notes.is_empty() {
            let _ = writeln!(text, "# {}", notes.join(" "));
        }
        let _ = match (value, default) {
            (Some(value), _) => writeln!(text, "{} = {value}", key.name),
            (None, Some(default)) => writeln!(text, "# {} = {default}", key.name),
            (None, None) => writeln!(text, "# {} = {}", key.name, placeholder(key)),
        };
    }
    let empty = Table::new();
    let inner = |table: &Table, name: &str| match table.get(name) {
        Some(Value::Table(inner)) => inner.clone(),
        _ => empty.clone(),
    };
    for key in keys.iter().filter(|key| !key.keys().is_empty()) {
        let _ = writeln!(text);
        comment(text, key.help);
        let (values, path) = (inner(values, key.name), format!("{prefix}{}", key.name));
        let ValueKind::Sections(keys, defaults) = key.kind else {
            let _ = writeln!(text, "[{path}]");
            let defaults = inner(defaults, key.name);
            explain(text, &format!("{path}."), key.keys(), &values, &defaults);
            continue;
        };
        if values.is_empty() {
            let _ = writeln!(text, "# [{path}.NAME]");
            explain(text, "", keys, &values, &defaults());
        }
        for name in values.keys() {
            let _ = writeln!(text, "[{path}.{name}]");
            let (prefix, section) = (format!("{path}.{name}."), inner(&values, name));
            explain(text, &prefix, keys, &section, &defaults());
        }
    }
}

fn comment(text: &mut String, help: &str) {
    for line in help.lines() {
        let _ = writeln!(text, "{}", format!("#{line}").trim_end());
    }
}

/// The placeholder for the value of a key without a default.
fn placeholder(key: &Key) -> &'static str {
    match key.kind {
        ValueKind::Whole | ValueKind::Number => "N",
        ValueKind::Flag => "true",
        ValueKind::Wholes | ValueKind::Texts => "[…]",
        ValueKind::Variables => "{ NAME = \"…\" }",
        _ => "\"…\"",
    }
}
