//! The tests read files with a decoder of protobuf that shares no code with the writer.

use std::path::Path;

use super::*;

/// The value of a tag at a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    pub(crate) step: usize,
    pub(crate) tag: String,
    pub(crate) value: f64,
}

/// The records of a file. Checks their checksums.
fn records(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    let checked = |content: &[u8], checksum: &[u8]| {
        let mut expected = frame::crc32c(content).rotate_right(15);
        expected = expected.wrapping_add(0xa282_ead8);
        assert_eq!(checksum, expected.to_le_bytes());
    };
    while !rest.is_empty() {
        let (length, after) = rest.split_at(8);
        checked(length, &after[..4]);
        let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
        let (record, after) = after[4..].split_at(length);
        checked(record, &after[..4]);
        records.push(record);
        rest = &after[4..];
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

/// The fields of a message: their numbers and contents. The content of a varint is its value in eight bytes.
fn fields(mut rest: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let key = varint(&mut rest);
        let content = if key & 7 == 0 {
            varint(&mut rest).to_le_bytes().to_vec()
        } else {
            let length = match key & 7 {
                1 => 8,
                2 => varint(&mut rest) as usize,
                5 => 4,
                other => panic!("wire type {other}"),
            };
            let (content, after) = rest.split_at(length);
            rest = after;
            content.to_vec()
        };
        fields.push((key >> 3, content));
    }
    fields
}

/// The content of a field, or of a field of that field, and so on; `None` if the first is missing.
fn field(message: &[u8], path: &[u64]) -> Option<Vec<u8>> {
    path.iter().try_fold(message.to_vec(), |message, number| {
        let mut fields = fields(&message).into_iter();
        fields.find_map(|(field, content)| (field == *number).then_some(content))
    })
}

fn point(step: usize, value: &[u8]) -> Point {
    let bits = field(value, &[2]).unwrap().try_into().unwrap();
    Point {
        step,
        tag: String::from_utf8(field(value, &[1]).unwrap()).unwrap(),
        value: f64::from(f32::from_le_bytes(bits)),
    }
}

/// Every value of a folder's only event file. It checks that every wall time is positive.
pub(crate) fn read(folder: &Path) -> Vec<Point> {
    let files = event_files(folder);
    assert_eq!(files.len(), 1, "{files:?}");
    let file = std::fs::read(&files[0]).unwrap();
    let records = records(&file);
    assert_eq!(field(records[0], &[3]).unwrap(), b"brain.Event:2");
    assert_eq!(field(records[1], &[7, 1]).unwrap()[0], 1, "START");
    let points = records[2..].iter().flat_map(|event| {
        let number = |field_number| -> [u8; 8] {
            let content = field(event, &[field_number]).unwrap();
            content.try_into().unwrap()
        };
        assert!(f64::from_le_bytes(number(1)) > 0.0);
        let step = u64::from_le_bytes(number(2)) as usize;
        let values = fields(&field(event, &[5]).unwrap());
        values
            .into_iter()
            .map(move |(_, value)| point(step, &value))
    });
    points.collect()
}

fn entry(step: usize, tag: &str, value: f64) -> Entry {
    Entry {
        time: 1.7e9 + step as f64,
        step,
        values: vec![(tag.to_owned(), value), ("train/lr".to_owned(), 1e-6)],
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
    let entries = [
        entry(0, "eval/pass_at/1", 0.25),
        entry(300, &format!("train/{}", "long ".repeat(50)), -1.5),
        entry(usize::MAX >> 1, "train/loss", 0.0),
    ];
    let mut file = EventFile::replace(folder.path(), 1.7e9, &entries[..1]).unwrap();
    for entry in &entries[1..] {
        file.add(entry).unwrap();
    }
    let expected = entries.iter().flat_map(|entry| {
        entry.values.iter().map(|(tag, value)| Point {
            step: entry.step,
            tag: tag.clone(),
            value: f64::from(*value as f32),
        })
    });
    assert!(read(folder.path()).into_iter().eq(expected));
}

#[test]
fn a_new_file_replaces_the_old_ones() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("events.out.tfevents.1.other"), "torn").unwrap();
    let only = [entry(1, "train/loss", 1.0)];
    for time in [1.7e9, 1.7e9, 1.8e9] {
        EventFile::replace(folder.path(), time, &only).unwrap();
        assert_eq!(read(folder.path()).len(), 2);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
