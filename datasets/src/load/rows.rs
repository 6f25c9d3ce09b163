//! Reads the records of a file as JSON objects, one after another, whatever the file's format. Each record takes bounded memory.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, Cursor, Read};
use std::iter::Enumerate;
use std::rc::Rc;
use std::vec::IntoIter;

use serde_json::value::RawValue;

use super::parquet::ParquetRows;
use crate::jsonl::{Line, LineError, Lines, MAX_LINE, stream_fault, text, unpacked};
use crate::loose_json;

/// Longest file with one JSON array, which is read as a whole, in bytes.
const MAX_ARRAY: usize = 512 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    JsonLines,
    JsonArray,
    /// With a header.
    Csv,
    Parquet,
}

/// What a file's name ends with, in the order in which a data set of the hub with files of several formats is read.
pub(super) const ENDINGS: [(&str, Format); 4] = [
    (".parquet", Format::Parquet),
    (".jsonl", Format::JsonLines),
    (".json", Format::JsonArray),
    (".csv", Format::Csv),
];

impl Format {
    /// The format that the end of a file's name tells, and the name without it. A text may be packed: `.csv.gz`, `.csv.zst`.
    pub(super) fn of(name: &str) -> Option<(Format, &str)> {
        let lower = name.to_ascii_lowercase();
        let packed = [".gz", ".zst"]
            .iter()
            .find_map(|end| lower.strip_suffix(end));
        let text = packed.unwrap_or(&lower);
        let (stem, format) = ENDINGS
            .iter()
            .find_map(|(end, format)| Some((text.strip_suffix(end)?, *format)))?;
        let is_known = packed.is_none() || format != Format::Parquet;
        is_known.then(|| (format, &name[..stem.len()]))
    }

    /// What its records are counted by.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Format::JsonLines | Format::Csv => "line",
            Format::JsonArray => "element",
            Format::Parquet => "row",
        }
    }
}

/// The records of a file that are not read yet.
pub(super) enum Rows<'a> {
    JsonLines(Lines<'a>),
    JsonArray(Enumerate<IntoIter<Box<RawValue>>>),
    Csv(Box<CsvRows>),
    Parquet(Box<ParquetRows>),
}

impl Rows<'_> {
    pub(super) fn open(format: Format, file: File) -> Result<Rows<'static>, LineError> {
        match format {
            Format::JsonLines => Lines::new(file).map(Rows::JsonLines).map_err(LineError::Io),
            Format::Parquet => Ok(Rows::Parquet(Box::new(ParquetRows::open(file)?))),
            Format::Csv => Ok(Rows::Csv(Box::new(CsvRows::open(file)?))),
            Format::JsonArray => array(file),
        }
    }

    /// The next record as JSON, and its number: the line's in texts, and otherwise the record's, from 1. `None` at the end.
    pub(super) fn next_row(&mut self) -> Result<Option<(usize, String)>, LineError> {
        let row = match self {
            Rows::JsonLines(lines) => {
                let line = lines.next_line()?;
                return Ok(line.map(|Line { number, text }| (number, text.to_owned())));
            }
            Rows::JsonArray(rest) => rest.next().map(|(at, row)| (at + 1, row.get().to_owned())),
            Rows::Csv(rows) => rows.next()?,
            Rows::Parquet(rows) => rows.next()?,
        };
        match row {
            Some((line, text)) if text.len() > MAX_LINE => Err(LineError::Line {
                line,
                reason: format!("the record is longer than {MAX_LINE} bytes"),
            }),
            row => Ok(row),
        }
    }
}

/// The elements of an array. Many files that are called .json are JSON Lines, and are read as such.
fn array(file: File) -> Result<Rows<'static>, LineError> {
    let text = text(file, MAX_ARRAY).map_err(|error| fault(None, 1, error))?;
    if !text.trim_start().starts_with('[') {
        return Lines::new(Cursor::new(text))
            .map(Rows::JsonLines)
            .map_err(LineError::Io);
    }
    let parse = |text: &str| serde_json::from_str::<Vec<Box<RawValue>>>(text);
    // Python writes numbers that JSON does not have.
    let elements = parse(&text).or_else(|_| parse(&loose_json::with_tagged_numbers(&text)));
    let elements = elements.map_err(|error| LineError::Line {
        line: 1,
        reason: format!("the file is not a JSON array: {error}"),
    })?;
    Ok(Rows::JsonArray(elements.into_iter().enumerate()))
}

/// An error of reading a text, at the record with this number.
fn fault(packed: Option<&str>, line: usize, error: io::Error) -> LineError {
    let reason = match error.kind() {
        // The bound's own error, which is no fault of a packed stream.
        io::ErrorKind::FileTooLarge => Some(error.to_string()),
        io::ErrorKind::InvalidData => {
            stream_fault(packed, &error).or_else(|| Some(error.to_string()))
        }
        _ => stream_fault(packed, &error),
    };
    match reason {
        Some(reason) => LineError::Line { line, reason },
        None => LineError::Io(error),
    }
}

/// The rest of a CSV file. An empty cell is `null`; every other cell is a text, with `\n` for `\r\n`. A column without a name, such as the index of pandas, is left out.
pub(super) struct CsvRows {
    rows: csv::Reader<Bounded>,
    columns: Vec<String>,
    packed: Option<&'static str>,
    left: Rc<Cell<usize>>,
}

/// A reader that gives only as many bytes as are left: the parser reads a record as a whole, however long it is. It gives no carriage returns between quoted cells, since
/// the parser would count a line too few after them.
struct Bounded {
    text: Box<dyn BufRead>,
    left: Rc<Cell<usize>>,
    /// Whether the next byte is in a quoted cell.
    is_quoted: bool,
    /// Whether a quotation mark here opens a cell: at its start, or again after the mark that closed it. Elsewhere it is a character of the cell.
    may_open: bool,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.left.get());
        if most == 0 && !buffer.is_empty() {
            let reason =
                format!("the record is longer than {MAX_LINE} bytes; is a quotation mark missing?");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
        }
        loop {
            let length = self.text.read(&mut buffer[..most])?;
            let mut kept = 0;
            for at in 0..length {
                let byte = buffer[at];
                let is_mark = byte == b'"' && (self.is_quoted || self.may_open);
                // A byte order mark may come before the first cell.
                let is_bom = matches!(byte, 0xEF | 0xBB | 0xBF) && self.may_open;
                self.may_open = matches!(byte, b',' | b'\n') || is_mark && self.is_quoted || is_bom;
                self.is_quoted ^= is_mark;
                buffer[kept] = byte;
                kept += usize::from(self.is_quoted || byte != b'\r');
            }
            if kept > 0 || length == 0 {
                self.left.set(self.left.get() - kept);
                return Ok(kept);
            }
        }
    }
}

impl CsvRows {
    fn open(file: File) -> Result<CsvRows, LineError> {
        let (text, packed) = unpacked(file).map_err(LineError::Io)?;
        let left = Rc::new(Cell::new(MAX_LINE));
        let bounded = Bounded {
            text,
            left: Rc::clone(&left),
            is_quoted: false,
            may_open: true,
        };
        let mut rows = csv::Reader::from_reader(bounded);
        let header = rows.headers();
        let header = header.map_err(|error| wrong_row(packed, 1, error))?;
        let columns = header.iter().map(|name| name.replace("\r\n", "\n"));
        let columns: Vec<String> = columns.collect();
        let mut named = columns.iter().filter(|name| !name.is_empty());
        match named.find(|name| columns.iter().filter(|other| other == name).count() > 1) {
            Some(twice) => Err(LineError::Line {
                line: 1,
                reason: format!("two columns are called `{twice}`; rename one"),
            }),
            None => Ok(CsvRows {
                rows,
                columns,
                packed,
                left,
            }),
        }
    }

    fn next(&mut self) -> Result<Option<(usize, String)>, LineError> {
        self.left.set(MAX_LINE);
        let mut row = csv::StringRecord::new();
        let line = self.rows.position().line() as usize;
        let read = self.rows.read_record(&mut row);
        if !read.map_err(|error| wrong_row(self.packed, line, error))? {
            return Ok(None);
        }
        let cells = self.columns.iter().zip(&row);
        let cells = cells.filter(|(column, _)| !column.is_empty());
        let cell = |text: &str| (!text.is_empty()).then(|| text.replace("\r\n", "\n"));
        let record: BTreeMap<_, _> = cells.map(|(column, text)| (column, cell(text))).collect();
        Ok(Some((line, serde_json::json!(record).to_string())))
    }
}

/// The error of a row of a CSV file that begins on this line.
fn wrong_row(packed: Option<&str>, line: usize, error: csv::Error) -> LineError {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => fault(packed, line, error),
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => LineError::Line {
            line,
            reason: format!(
                "the row has {len} cells, and the header {expected_len}; a cell with a comma or a line break is written in quotation marks"
            ),
        },
        _ => LineError::Line {
            line,
            reason: "the row is not UTF-8; save the file as UTF-8".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests;
