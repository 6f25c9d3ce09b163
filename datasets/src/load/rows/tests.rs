use std::io::{Seek as _, Write as _};

use proptest::prelude::*;

use super::*;

const PARQUET: &[u8] = include_bytes!("../../../tests/parquet/rows.parquet");

/// The first records of a file with this name and content, each after its number, and the error after them, each on a line.
fn read(name: &str, content: &[u8]) -> String {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    file.rewind().unwrap();
    let mut found = String::new();
    let rows = Rows::open(Format::of(name).unwrap().0, file);
    let read = rows.and_then(|mut rows| {
        while found.len() < 10_000
            && let Some((number, record)) = rows.next_row()?
        {
            found += &format!("{number} {record}\n");
        }
        Ok(())
    });
    found + &read.map_or_else(|error| error.to_string(), |()| String::new())
}

#[test]
fn the_end_of_a_name_tells_the_format() {
    let of = |name| Format::of(name).map(|(format, stem)| format!("{format:?} {stem}"));
    for (name, format) in [
        ("a.jsonl", "JsonLines a"),
        ("A.b.JSON.gz", "JsonArray A.b"),
        ("a.csv.zst", "Csv a"),
        ("a/b.parquet", "Parquet a/b"),
        ("a.parquet.gz", ""),
        ("csv", ""),
    ] {
        assert_eq!(of(name).unwrap_or_default(), format, "{name}");
    }
}

#[test]
fn records_of_texts_are_read_with_their_numbers() {
    let csv = "\u{feff}q,,a\r\n\"1\r\n2\r\",9,\r\n3,8,\"\"\"x\"\", y\"\r\n";
    let rows = "2 {\"a\":null,\"q\":\"1\\n2\\r\"}\n4 {\"a\":\"\\\"x\\\", y\",\"q\":\"3\"}\n";
    let packed = zstd::encode_all(csv.as_bytes(), 1).unwrap();
    let json = "\u{feff} [{\"a\": \"],[\\\"\"},\n {\"b\": [NaN]}]\n";
    let elements = "1 {\"a\": \"],[\\\"\"}\n2 {\"b\": [{\"$float\":\"nan\"}]}\n";
    assert_eq!(read("a.csv", csv.as_bytes()), rows);
    assert_eq!(read("a.csv.zst", &packed), rows);
    assert_eq!(read("a.json", json.as_bytes()), elements);
    let lines = read("a.json", b"{\"a\":1}\n{\"a\":2}");
    assert_eq!(lines, "1 {\"a\":1}\n2 {\"a\":2}\n");
    // A quotation mark within a cell is a character.
    let nails = "2 {\"a\":\"1\",\"q\":\"5\\\" nail\"}\n3 {\"a\":\"2\",\"q\":\"x\"}\n";
    assert_eq!(read("a.csv", b"q,a\r\n5\" nail,1\r\nx,2\r\n"), nails);
    assert_eq!(read("a.csv", b"q,a\n") + &read("a.json", b"[]"), "");
}

#[test]
fn a_parquet_file_has_nested_json_and_several_codecs() {
    let rows = r#"1 {"answer":2,"messages":[{"content":"1 + 1?","role":"user"}],"problem":"1 + 1?","score":0.5,"tests":{"input":["1\n","2\n"],"output":["1","2"]}}
2 {"answer":null,"messages":[],"problem":"a\nb","score":null,"tests":{"input":[],"output":[]}}
3 {"answer":-3,"messages":null,"problem":"ü","score":2.0,"tests":null}
"#;
    let parsed = |text: &str| -> Vec<serde_json::Value> {
        let records = text.lines().map(|line| line.split_once(' ').unwrap().1);
        records
            .map(|json| serde_json::from_str(json).unwrap())
            .collect()
    };
    assert_eq!(parsed(&read("a.parquet", PARQUET)), parsed(rows));
}

#[test]
fn a_damaged_file_is_refused_with_its_line_and_reason() {
    let long = |start: &[u8]| {
        let text = start.chain(io::repeat(b'x').take(100 << 20));
        zstd::encode_all(text, 1).unwrap()
    };
    let cells = b"q,a\n\"x\ny\",2,3\n".to_vec();
    let latin_1 = b"q,a\n1,\xff\n".to_vec();
    let gzip = b"\x1f\x8b\x08".to_vec();
    let zstd = b"\x28\xb5\x2f\xfd\x00".to_vec();
    let parquet = PARQUET[..PARQUET.len() - 9].to_vec();
    for (name, content, reason) in [
        ("a.csv", cells, "line 2: the row has 3 cells"),
        ("a.csv", latin_1, "line 2: the row is not UTF-8"),
        ("a.csv", b"q,q\n".to_vec(), "line 1: two columns are"),
        ("a.csv", long(b"q\n\""), "line 2: the record is longer than"),
        ("a.csv", gzip, "line 1: the gzip stream is cut off"),
        ("a.csv", zstd, "line 1: the zstd stream is cut off"),
        ("a.json", b"[{},".to_vec(), "line 1: the file is not a"),
        ("a.jsonl", long(b"\""), "line 1: the line is longer than"),
        ("a.parquet", parquet, "line 1: the Parquet file"),
    ] {
        let error = read(name, &content);
        assert!(error.starts_with(reason), "{name}: {error}");
    }
}

proptest! {
    #[test]
    fn no_damage_makes_reading_parquet_panic(at in 0..PARQUET.len(), byte in any::<u8>()) {
        let mut damaged = PARQUET.to_vec();
        damaged[at] = byte;
        read("a.parquet", &damaged);
    }
}
