//! Reads the records of files. An error names file, record and field.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::Path;

use serde_json::value::RawValue;

use super::rows::{Format, Rows};
use crate::fields::{FieldError, Fields, of_kind, wrong_kind};
use crate::jsonl::{LineError, Lines};
use crate::{CodeTest, DatasetError, Value, loose_json, right_answer};

/// What `read` makes of each record of a file, from its number ([`Rows::next_row`]) and its fields. The end of the file's name tells its format; without a known one it is JSON
/// Lines. Texts may be packed. Blank lines, which count, a byte order mark and `\r\n` are accepted. A field that is `null` counts as absent.
pub(super) fn read<T>(
    path: &Path,
    read: impl FnMut(usize, &mut Fields<'_>) -> Result<T, FieldError>,
) -> Result<Vec<T>, DatasetError> {
    let file = File::open(path).map_err(|source| io(path, source))?;
    records(path, Rows::open(format(path), file), read)
}

/// [`read`] for JSON Lines that are part of the program.
pub(super) fn parse<T>(
    name: &str,
    text: &str,
    read: impl FnMut(usize, &mut Fields<'_>) -> Result<T, FieldError>,
) -> Result<Vec<T>, DatasetError> {
    let lines = Lines::new(text.as_bytes()).map_err(LineError::Io);
    records(Path::new(name), lines.map(Rows::JsonLines), read)
}

fn format(path: &Path) -> Format {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Format::of(&name).map_or(Format::JsonLines, |(format, _)| format)
}

fn io(path: &Path, source: io::Error) -> DatasetError {
    DatasetError::Io {
        path: path.to_owned(),
        source,
    }
}

/// An error in a record of a file.
pub(super) fn wrong(path: &Path, number: usize, (field, reason): FieldError) -> DatasetError {
    DatasetError::Record {
        path: path.to_owned(),
        unit: format(path).unit(),
        number,
        field: (!field.is_empty()).then_some(field),
        reason,
    }
}

fn records<T>(
    path: &Path,
    rows: Result<Rows<'_>, LineError>,
    mut read: impl FnMut(usize, &mut Fields<'_>) -> Result<T, FieldError>,
) -> Result<Vec<T>, DatasetError> {
    let fault = |error| match error {
        LineError::Io(source) => io(path, source),
        LineError::Line { line, reason } => wrong(path, line, whole(reason)),
    };
    let unit = format(path).unit();
    let mut rows = rows.map_err(fault)?;
    let mut records = Vec::new();
    while let Some((number, text)) = rows.next_row().map_err(fault)? {
        let record = json(unit, &text).and_then(|text| {
            let json: &RawValue = serde_json::from_str(&text).map_err(not_json(unit))?;
            let fields = Fields::new("", json).map_err(|_| {
                whole(format!(
                    "the {unit} is JSON but not an object; a record is written {{\"field\": …}}"
                ))
            })?;
            read(number, &mut fields.without_nulls())
        });
        records.push(record.map_err(|error| wrong(path, number, error))?);
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

fn not_json<E: std::fmt::Display>(unit: &str) -> impl Fn(E) -> FieldError {
    move |error| whole(format!("the {unit} is not JSON: {error}"))
}

/// The record as JSON. It may have the numbers that only Python's JSON has.
fn json<'a>(unit: &str, record: &'a str) -> Result<Cow<'a, str>, FieldError> {
    if serde_json::from_str::<&RawValue>(record).is_ok() {
        return Ok(Cow::Borrowed(record));
    }
    Value::parse_plain_json(record).map_err(not_json(unit))?;
    Ok(Cow::Owned(loose_json::with_tagged_numbers(record)))
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
            (&b"\n\n"[..], " has no records"),
            (b"{}\n[1]", ", line 2: the line is JSON but not an object"),
            (b"{}\n{\"a\":", ", line 2: the line is not JSON: a value is"),
            (b"{}\n\n{\"\xff\"}", ", line 3: byte 3 of the line is not"),
        ] {
            let rows = Lines::new(file).map(Rows::JsonLines).map_err(LineError::Io);
            let error = records(Path::new("data.jsonl"), rows, |_, _| Ok(())).unwrap_err();
            let message = format!("data.jsonl{message}");
            assert!(error.to_string().starts_with(&message), "{error}");
        }
    }
}
