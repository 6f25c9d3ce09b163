//! Reads records from JSON Lines, and gives typed access to their fields. Errors name file, line and field.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::jsonl::{Line, LineError, Lines};
use crate::{CodeTest, DatasetError, Value, right_answer};

/// One JSON object of a file.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    /// The line's number, from 1. Blank lines count.
    pub(super) line: usize,
    fields: Vec<(String, Value)>,
}

/// All records of a file, which may be packed with gzip. Blank lines, a byte order mark and `\r\n` are accepted.
pub(super) fn read(path: &Path) -> Result<Vec<Record>, DatasetError> {
    let file = File::open(path).map_err(|source| io(path, source))?;
    records(path, file)
}

/// All records of a text that is part of the program.
pub(super) fn parse(name: &str, text: &str) -> Result<Vec<Record>, DatasetError> {
    records(Path::new(name), text.as_bytes())
}

fn io(path: &Path, source: io::Error) -> DatasetError {
    DatasetError::Io {
        path: path.to_owned(),
        source,
    }
}

fn records(path: &Path, reader: impl Read) -> Result<Vec<Record>, DatasetError> {
    let wrong = |line: usize, reason: String| DatasetError::Record {
        path: path.to_owned(),
        line,
        field: None,
        reason,
    };
    let mut lines = Lines::new(reader).map_err(|source| io(path, source))?;
    let mut records = Vec::new();
    while let Some(Line { number: line, text }) =
        lines.next_line().map_err(|error| match error {
            LineError::Io(source) => io(path, source),
            LineError::Line { line, reason } => wrong(line, reason),
        })?
    {
        let wrong = |reason| wrong(line, reason);
        let read = Value::parse_plain_json(text);
        let read = read.map_err(|e| wrong(format!("the line is not JSON: {e}")))?;
        let Value::Dict(entries) = read else {
            let reason = "the line is JSON but not an object; a record is written {\"field\": …}";
            return Err(wrong(reason.to_owned()));
        };
        let fields = entries
            .into_iter()
            .filter_map(|(key, value)| match key {
                Value::Str(key) => Some((key, value)),
                _ => None,
            })
            .collect();
        records.push(Record {
            path: path.to_owned(),
            line,
            fields,
        });
    }
    if records.is_empty() {
        return Err(DatasetError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(records)
}

impl Record {
    /// An error about this record, or about one of its fields.
    pub(super) fn error(
        &self,
        field: impl Into<Option<&'static str>>,
        reason: impl Into<String>,
    ) -> DatasetError {
        DatasetError::Record {
            path: self.path.clone(),
            line: self.line,
            field: field.into().map(str::to_owned),
            reason: reason.into(),
        }
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(super) fn field_names(&self) -> impl Iterator<Item = &str> {
        self.fields().map(|(name, _)| name)
    }

    /// The names of the first fields, for messages, with those whose value is `null` marked.
    pub(super) fn listed(&self) -> String {
        let listed = self
            .fields
            .iter()
            .take(12)
            .map(|(name, value)| match value {
                Value::None => format!("{name} (null)"),
                _ => name.clone(),
            });
        listed.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn has(&self, field: &str) -> bool {
        self.get(field).is_some()
    }

    /// The field's value; `null` counts as absent.
    pub(super) fn get(&self, field: &str) -> Option<&Value> {
        self.fields
            .iter()
            .find(|(name, value)| name == field && *value != Value::None)
            .map(|(_, value)| value)
    }

    pub(super) fn require(&self, field: &'static str) -> Result<&Value, DatasetError> {
        self.get(field).ok_or_else(|| {
            let reason = match self.fields.iter().any(|(name, _)| name == field) {
                true => "the field is null".to_owned(),
                false => format!("the field is missing (the record has {})", self.listed()),
            };
            self.error(field, reason)
        })
    }

    /// An optional field that `read` accepts, as `expected` says in the error.
    fn optional<'a, T>(
        &'a self,
        field: &'static str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, DatasetError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        let wrong = || format!("{expected} is expected, not {}", kind(value));
        let read = read(value).ok_or_else(|| self.error(field, wrong()));
        read.map(Some)
    }

    pub(super) fn text(&self, field: &'static str) -> Result<&str, DatasetError> {
        self.require(field)?;
        Ok(self.optional_text(field)?.unwrap_or_default())
    }

    pub(super) fn optional_text(&self, field: &'static str) -> Result<Option<&str>, DatasetError> {
        self.optional(field, "a string", text)
    }

    /// An optional field that is a number.
    pub(super) fn optional_number(&self, field: &'static str) -> Result<Option<f64>, DatasetError> {
        self.optional(field, "a number", Value::real)
    }

    /// The task's time limit, if it has one.
    pub(super) fn time_limit(&self) -> Result<Option<Duration>, DatasetError> {
        let limit = self.get("time_limit").map(crate::time_limit).transpose();
        limit.map_err(|reason| self.error("time_limit", reason))
    }

    /// An optional field that is a list. It is empty if the field is absent.
    pub(super) fn list(&self, field: &'static str) -> Result<&[Value], DatasetError> {
        let list = self.optional(field, "an array", |value| match value {
            Value::List(items) => Some(&items[..]),
            _ => None,
        });
        Ok(list?.unwrap_or_default())
    }

    /// The inputs in the optional field, each an array of arguments. The canonical solution computes their results.
    pub(super) fn inputs(&self, field: &'static str) -> Result<Vec<CodeTest>, DatasetError> {
        let input = |input: &Value| match input {
            Value::List(args) => Ok(CodeTest {
                args: args.clone(),
                expected: None,
            }),
            _ => Err(self.error(field, "an input is not an array of arguments")),
        };
        self.list(field)?.iter().map(input).collect()
    }

    /// The right answer that the text of the field `answer` gives.
    pub(super) fn right_answer(&self, text: &str) -> Result<String, DatasetError> {
        right_answer(text).map_err(|error| self.error("answer", error.to_string()))
    }

    /// An optional field that is a list of strings. It is empty if the field is absent.
    pub(super) fn texts(&self, field: &'static str) -> Result<Vec<String>, DatasetError> {
        let item = |item| match text(item) {
            Some(text) => Ok(text.to_owned()),
            None => {
                let reason = format!("an array of strings is expected, not of {}", kind(item));
                Err(self.error(field, reason))
            }
        };
        self.list(field)?.iter().map(item).collect()
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Str(text) => Some(text),
        _ => None,
    }
}

/// The kind of a JSON value, for error messages.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::None => "null",
        Value::Bool(_) => "a boolean",
        Value::Float(x) if x.is_nan() => "NaN",
        Value::Float(x) if x.is_infinite() => "Infinity",
        Value::Int(_) | Value::Float(_) | Value::Complex(..) => "a number",
        Value::Str(_) | Value::Bytes(_) => "a string",
        Value::List(_) | Value::Tuple(_) | Value::Set(_) | Value::FrozenSet(_) => "an array",
        Value::Dict(_) | Value::Opaque(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_not_records_are_refused_with_their_number() {
        for (file, message) in [
            (
                &b"\n\n"[..],
                " has no records: one JSON object a line is expected",
            ),
            (
                b"{}\n[1]",
                ", line 2: the line is JSON but not an object; a record is written {\"field\": \u{2026}}",
            ),
            (
                b"{}\n{\"a\":",
                ", line 2: the line is not JSON: a value is missing, at character 5 (the end)",
            ),
            (
                b"{}\n\n{\"\xff\"}",
                ", line 3: byte 3 of the line is not UTF-8; save the file as UTF-8",
            ),
        ] {
            let error = records(Path::new("data.jsonl"), file).unwrap_err();
            assert_eq!(error.to_string(), format!("data.jsonl{message}"));
        }
    }
}
