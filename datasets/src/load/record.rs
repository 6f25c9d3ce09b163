//! Reads records from JSON Lines. An error names file, line and field.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::value::RawValue;

use crate::fields::{FieldError, Fields, of_kind, wrong_kind};
use crate::jsonl::{Line, LineError, Lines};
use crate::{CodeTest, DatasetError, Value, loose_json, right_answer};

/// What `read` makes of each record of a file, from the line's number, from 1, and the fields. The file may be packed with gzip. Blank lines, which count, a byte order mark
/// and `\r\n` are accepted. A field that is `null` counts as absent.
pub(super) fn read<T>(
    path: &Path,
    read: impl FnMut(usize, &mut Fields<'_>) -> Result<T, FieldError>,
) -> Result<Vec<T>, DatasetError> {
    let file = File::open(path).map_err(|source| io(path, source))?;
    records(path, file, read)
}

/// [`read`] for a text that is part of the program.
pub(super) fn parse<T>(
    name: &str,
    text: &str,
    read: impl FnMut(usize, &mut Fields<'_>) -> Result<T, FieldError>,
) -> Result<Vec<T>, DatasetError> {
    records(Path::new(name), text.as_bytes(), read)
}

fn io(path: &Path, source: io::Error) -> DatasetError {
    DatasetError::Io {
        path: path.to_owned(),
        source,
    }
}

fn records<T>(
    path: &Path,
    reader: impl Read,
    mut read: impl FnMut(usize, &mut Fields<'_>) -> Result<T, FieldError>,
) -> Result<Vec<T>, DatasetError> {
    let wrong = |line: usize, (field, reason): FieldError| DatasetError::Record {
        path: path.to_owned(),
        line,
        field: (!field.is_empty()).then_some(field),
        reason,
    };
    let mut lines = Lines::new(reader).map_err(|source| io(path, source))?;
    let mut records = Vec::new();
    while let Some(Line { number: line, text }) =
        lines.next_line().map_err(|error| match error {
            LineError::Io(source) => io(path, source),
            LineError::Line { line, reason } => wrong(line, whole(reason)),
        })?
    {
        let record = json(text).and_then(|text| {
            let json: &RawValue = serde_json::from_str(&text).map_err(not_json)?;
            let fields = Fields::new("", json).map_err(|_| {
                whole("the line is JSON but not an object; a record is written {\"field\": …}")
            })?;
            read(line, &mut fields.without_nulls())
        });
        records.push(record.map_err(|error| wrong(line, error))?);
    }
    if records.is_empty() {
        return Err(DatasetError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(records)
}

/// An error about a whole record.
pub(super) fn whole(reason: impl Into<String>) -> FieldError {
    (String::new(), reason.into())
}

fn not_json(error: impl std::fmt::Display) -> FieldError {
    whole(format!("the line is not JSON: {error}"))
}

/// The line as JSON. It may have the numbers that only Python's JSON has.
fn json(line: &str) -> Result<Cow<'_, str>, FieldError> {
    if serde_json::from_str::<&RawValue>(line).is_ok() {
        return Ok(Cow::Borrowed(line));
    }
    Value::parse_plain_json(line).map_err(not_json)?;
    Ok(Cow::Owned(loose_json::with_tagged_numbers(line)))
}

/// A field that is a string or a whole number.
pub(super) fn id(fields: &mut Fields<'_>, name: &str) -> Result<String, FieldError> {
    let json = fields.take(name)?;
    if let Some(text) = of_kind(json) {
        return Ok(text);
    }
    match Value::parse_plain_json(json.get()) {
        Ok(Value::Int(number)) => Ok(number.to_string()),
        _ => Err(fields.fault(name, wrong_kind("a string or a whole number", json))),
    }
}

/// The inputs in the optional field, each an array of arguments. The canonical solution computes their results.
pub(super) fn inputs(fields: &mut Fields<'_>, name: &str) -> Result<Vec<CodeTest>, FieldError> {
    let mut inputs = Vec::new();
    for input in fields.list(name)? {
        // Other tags than those of numbers are an input's own keys.
        let read = match input.get().contains("{\"$float\":") {
            true => Value::parse_json(input.get()),
            false => Value::parse_plain_json(input.get()),
        };
        match read {
            Ok(Value::List(args)) => inputs.push(CodeTest {
                args,
                expected: None,
            }),
            Ok(_) => return Err(fields.fault(name, "an input is not an array of arguments")),
            Err(error) => return Err(fields.fault(name, error.to_string())),
        }
    }
    Ok(inputs)
}

/// The right answer that the text of the field `answer` gives.
pub(super) fn answer(fields: &Fields<'_>, text: &str) -> Result<String, FieldError> {
    right_answer(text).map_err(|error| fields.fault("answer", error.to_string()))
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
            let error = records(Path::new("data.jsonl"), file, |_, _| Ok(())).unwrap_err();
            assert_eq!(error.to_string(), format!("data.jsonl{message}"));
        }
    }
}
