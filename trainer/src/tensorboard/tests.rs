//! The tests read files with a decoder that shares no code with the writer: bitwise checksums, and protobuf field by field.

use std::path::Path;

use super::*;

/// The value of a tag at a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    pub(crate) step: usize,
    pub(crate) tag: String,
    pub(crate) value: Value,
}

#[derive(Debug, PartialEq)]
enum Field<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
}

impl<'a> Field<'a> {
    fn bytes(&self) -> &'a [u8] {
        match self {
            Field::Bytes(bytes) => bytes,
            other => panic!("{other:?} instead of bytes"),
        }
    }

    fn varint(&self) -> u64 {
        match self {
            Field::Varint(value) => *value,
            other => panic!("{other:?} instead of a number"),
        }
    }
}

fn slow_crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
        }
    }
    !crc
}

fn unmask(masked: u32) -> u32 {
    let rotated = masked.wrapping_sub(0xa282_ead8);
    rotated.rotate_left(15)
}

fn records(file: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    let mut rest = file;
    while !rest.is_empty() {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
        let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
        assert_eq!(
            unmask(word(8)),
            slow_crc32c(&rest[..8]),
            "checksum of a length"
        );
        let record = &rest[12..12 + length];
        assert_eq!(
            unmask(word(12 + length)),
            slow_crc32c(record),
            "checksum of a record"
        );
        records.push(record);
        rest = &rest[16 + length..];
    }
    records
}

fn varint(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = rest[0];
        *rest = &rest[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn fields(message: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut rest = message;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let key = varint(&mut rest);
        let field = match key & 7 {
            0 => Field::Varint(varint(&mut rest)),
            wire => {
                let length = match wire {
                    1 => 8,
                    2 => varint(&mut rest) as usize,
                    5 => 4,
                    other => panic!("wire type {other}"),
                };
                let (bytes, after) = rest.split_at(length);
                rest = after;
                match wire {
                    1 => Field::Fixed64(bytes.try_into().unwrap()),
                    5 => Field::Fixed32(bytes.try_into().unwrap()),
                    _ => Field::Bytes(bytes),
                }
            }
        };
        fields.push((key >> 3, field));
    }
    fields
}

fn field<'a>(message: &'a [u8], number: u64) -> Option<Field<'a>> {
    fields(message)
        .into_iter()
        .find(|(field, _)| *field == number)
        .map(|(_, field)| field)
}

fn point(step: usize, value: &[u8]) -> Point {
    let tag = String::from_utf8(field(value, 1).unwrap().bytes().to_vec()).unwrap();
    let value = match (field(value, 2), field(value, 8)) {
        (Some(Field::Fixed32(bits)), None) => Value::Scalar(f64::from(f32::from_le_bytes(bits))),
        (None, Some(tensor)) => {
            let metadata = field(value, 9).unwrap().bytes();
            let plugin = field(metadata, 1).unwrap().bytes();
            assert_eq!(field(plugin, 1).unwrap().bytes(), b"text");
            assert_eq!(field(tensor.bytes(), 1).unwrap().varint(), 7, "DT_STRING");
            let text = field(tensor.bytes(), 8).unwrap().bytes().to_vec();
            Value::Text(String::from_utf8(text).unwrap())
        }
        other => panic!("{other:?}"),
    };
    Point { step, tag, value }
}

/// Every value of a folder's only event file. It checks that every wall time is positive.
pub(crate) fn read(folder: &Path) -> Vec<Point> {
    let files = event_files(folder);
    assert_eq!(files.len(), 1, "{files:?}");
    let file = std::fs::read(&files[0]).unwrap();
    let records = records(&file);
    assert_eq!(field(records[0], 3).unwrap().bytes(), b"brain.Event:2");
    let session = field(records[1], 7).unwrap().bytes();
    assert_eq!(field(session, 1).unwrap().varint(), 1, "START");
    records[2..]
        .iter()
        .flat_map(|event| {
            let step = field(event, 2).unwrap().varint() as usize;
            let Some(Field::Fixed64(time)) = field(event, 1) else {
                panic!("an event without a time");
            };
            assert!(f64::from_le_bytes(time) > 0.0);
            let summary = field(event, 5).unwrap().bytes();
            fields(summary)
                .into_iter()
                .map(move |(_, value)| point(step, value.bytes()))
        })
        .collect()
}

fn entry(step: usize, values: Vec<(&str, Value)>) -> Entry {
    Entry {
        time: 1.7e9 + step as f64,
        step,
        values: values
            .into_iter()
            .map(|(tag, value)| (tag.to_owned(), value))
            .collect(),
    }
}

#[test]
fn the_checksum_agrees_with_the_standard() {
    // RFC 3720, B.4.
    assert_eq!(frame::crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(frame::crc32c(&[0xff; 32]), 0x62a8_ab43);
    assert_eq!(frame::crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn another_decoder_reads_the_written_values() {
    let folder = tempfile::tempdir().unwrap();
    let long = "a long text, `` ` ``, ünïcödé ".repeat(50);
    let entries = [
        entry(0, vec![("eval/pass_at/1", Value::Scalar(0.25))]),
        entry(
            300,
            vec![
                ("train/loss", Value::Scalar(-1.5)),
                ("samples/train", Value::Text(long)),
            ],
        ),
        entry(usize::MAX >> 1, vec![("train/loss", Value::Scalar(0.0))]),
    ];
    let mut file = EventFile::replace(folder.path(), 1.7e9, &entries[..1]).unwrap();
    file.add(&entries[1]).unwrap();
    file.add(&entry(301, Vec::new())).unwrap();
    file.add(&entries[2]).unwrap();
    let expected: Vec<Point> = entries
        .iter()
        .flat_map(|entry| {
            entry.values.iter().map(|(tag, value)| Point {
                step: entry.step,
                tag: tag.clone(),
                value: value.clone(),
            })
        })
        .collect();
    assert_eq!(read(folder.path()), expected);
}

#[test]
fn a_new_file_replaces_the_old_ones() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("events.out.tfevents.1.other"), "torn").unwrap();
    let only = entry(1, vec![("train/loss", Value::Scalar(1.0))]);
    for time in [1.7e9, 1.7e9, 1.8e9] {
        EventFile::replace(folder.path(), time, std::slice::from_ref(&only)).unwrap();
        assert_eq!(read(folder.path()).len(), 1);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn the_error_names_a_folder_that_cannot_be_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tensorboard");
    std::fs::write(&path, "in the way").unwrap();
    let (named, _) = EventFile::replace(&path, 0.0, &[]).unwrap_err();
    assert_eq!(named, path);
}
