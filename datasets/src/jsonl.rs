//! Reads texts that people and other programs wrote, packed with gzip or zstd or not: JSON Lines from files and pipes, and whole files. Their length is bounded.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

use crate::loose_json;

/// Longest line that is read, in bytes. The longest record of the known data sets has 0.8 MB.
pub const MAX_LINE: usize = 64 << 20;

/// First bytes of a gzip stream (RFC 1952).
pub const GZIP: [u8; 2] = [0x1f, 0x8b];

/// First bytes of a zstd frame (RFC 8878).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The text of a whole file of at most [`MAX_LINE`] bytes, without a byte order mark, and with `\n` for `\r\n`.
///
/// # Errors
/// The system's, and one of the kind `InvalidData` if the text is too long or not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    text(File::open(path)?, MAX_LINE)
}

/// [`read_text`] for at most `max` bytes.
pub(crate) fn text(file: File, max: usize) -> io::Result<String> {
    let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    let (reader, _) = unpacked(file)?;
    let mut bytes = Vec::new();
    reader.take(max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > max {
        return Err(invalid(format!("it is longer than {max} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let byte = error.utf8_error().valid_up_to() + 1;
        invalid(format!("byte {byte} is not UTF-8; save the file as UTF-8"))
    })?;
    let text = text.trim_start_matches('\u{feff}');
    Ok(text.replace("\r\n", "\n"))
}

/// The bytes of `source`, unpacked if the first ones are those of gzip or zstd; and the name of that form.
pub(crate) fn unpacked<'a>(
    mut source: impl Read + 'a,
) -> io::Result<(Box<dyn BufRead + 'a>, Option<&'static str>)> {
    let mut first = Vec::new();
    let mut beginning = source.by_ref().take(ZSTD.len() as u64);
    beginning.read_to_end(&mut first)?;
    let [gzip, zstd] = [first.starts_with(&GZIP), first == ZSTD];
    let whole = BufReader::new(Cursor::new(first).chain(source));
    Ok(if gzip {
        let decoder = MultiGzDecoder::new(whole);
        (Box::new(BufReader::new(decoder)), Some("gzip"))
    } else if zstd {
        let decoder = ZstdDecoder::with_buffer(whole)?;
        (Box::new(BufReader::new(decoder)), Some("zstd"))
    } else {
        (Box::new(whole), None)
    })
}

/// The reason if an error is a fault of the packed stream, not of the system.
pub(crate) fn stream_fault(packed: Option<&str>, error: &io::Error) -> Option<String> {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    let packed = packed?;
    // The decoder of zstd gives no kind.
    let is_fault = matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
        || packed == "zstd" && error.kind() == Other;
    is_fault.then(|| {
        format!(
            "the {packed} stream is cut off or damaged here ({error}); fetch or pack the file again"
        )
    })
}

/// The lines of a text. Each is read by a call of [`Lines::next_line`].
pub struct Lines<'a> {
    reader: Box<dyn BufRead + 'a>,
    packed: Option<&'static str>,
    /// Number of the line that was read last, from 1. Blank lines count.
    number: usize,
    buffer: Vec<u8>,
    max_line: usize,
}

/// A line that is not blank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// From 1. Blank lines count.
    pub number: usize,
    /// Without white space around it, a byte order mark and lone surrogates.
    pub text: &'a str,
}

/// An error of reading a line.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The system's error.
    #[error("{0}")]
    Io(io::Error),
    /// The line cannot be one of JSON Lines.
    #[error("line {line}: {reason}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong with it, and what to do.
        reason: String,
    },
}

impl<'a> Lines<'a> {
    /// Reads `source`. It is unpacked if its first bytes are those of gzip or zstd, whatever its name. A line takes no more than [`MAX_LINE`] bytes of memory, packed or
    /// not.
    ///
    /// # Errors
    /// If the first bytes cannot be read.
    pub fn new(source: impl Read + 'a) -> io::Result<Lines<'a>> {
        Lines::up_to(MAX_LINE, source)
    }

    fn up_to(max_line: usize, source: impl Read + 'a) -> io::Result<Lines<'a>> {
        let (reader, packed) = unpacked(source)?;
        Ok(Lines {
            reader,
            packed,
            number: 0,
            buffer: Vec::new(),
            max_line,
        })
    }

    /// The next line that is not blank; `None` at the end.
    ///
    /// # Errors
    /// [`LineError`]. Do not call again after an error.
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, LineError> {
        loop {
            self.buffer.clear();
            self.number += 1;
            let mut bounded = self.reader.by_ref().take(self.max_line as u64 + 1);
            let read = bounded.read_until(b'\n', &mut self.buffer);
            let length = read.map_err(|error| match stream_fault(self.packed, &error) {
                Some(reason) => self.line_error(reason),
                None => LineError::Io(error),
            })?;
            if length == 0 {
                return Ok(None);
            }
            if length > self.max_line {
                return Err(self.line_error(format!(
                    "the line is longer than {} bytes; one JSON object a line is expected",
                    self.max_line
                )));
            }
            self.buffer = loose_json::repaired(std::mem::take(&mut self.buffer));
            if !std::str::from_utf8(&self.buffer).is_ok_and(|text| text.trim().is_empty()) {
                break;
            }
        }
        let number = self.number;
        match std::str::from_utf8(&self.buffer) {
            Ok(text) => Ok(Some(Line {
                number,
                text: text.trim(),
            })),
            Err(error) => Err(self.line_error(format!(
                "byte {} of the line is not UTF-8; save the file as UTF-8",
                error.valid_up_to() + 1
            ))),
        }
    }

    fn line_error(&self, reason: String) -> LineError {
        LineError::Line {
            line: self.number,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn read(source: impl Read) -> Result<Vec<(usize, String)>, LineError> {
        let mut lines = Lines::up_to(1000, source).unwrap();
        let mut read = Vec::new();
        while let Some(Line { number, text }) = lines.next_line()? {
            read.push((number, text.to_owned()));
        }
        Ok(read)
    }

    /// A pipe that gives one byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.0.len().min(buffer.len()).min(1);
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    #[test]
    fn gzip_and_short_reads_give_the_same_lines() {
        let text = "\u{feff}{\"a\":1}\r\n\n  \n{\"a\":\"\\ud83d\"}".as_bytes();
        let expected = [
            (1, "{\"a\":1}".to_owned()),
            (4, "{\"a\":\"\\ufffd\"}".to_owned()),
        ];
        assert_eq!(read(text).unwrap(), expected);
        assert_eq!(read(Slow(text)).unwrap(), expected);
        assert_eq!(read(Slow(&gzip(text))).unwrap(), expected);
        // Several gzip members in a row are one text.
        let members = [gzip(&text[..5]), gzip(&text[5..])].concat();
        assert_eq!(read(&members[..]).unwrap(), expected);
        assert_eq!(read(&b""[..]).unwrap(), []);
        assert_eq!(read(&b"\n"[..]).unwrap(), []);
    }

    #[test]
    fn a_whole_file_is_read_alike_however_it_was_saved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        let text = "one\n\ntwo \\ud800\n";
        for saved in [
            text.as_bytes().to_vec(),
            format!("\u{feff}{text}").into_bytes(),
            text.replace('\n', "\r\n").into_bytes(),
            gzip(text.as_bytes()),
            gzip(format!("\u{feff}{}", text.replace('\n', "\r\n")).as_bytes()),
        ] {
            std::fs::write(&path, saved).unwrap();
            assert_eq!(read_text(&path).unwrap(), text);
        }
        std::fs::write(&path, b"\xff\xfea").unwrap();
        let error = read_text(&path).unwrap_err().to_string();
        assert!(error.starts_with("byte 1 is not UTF-8"), "{error}");
    }

    #[test]
    fn an_endless_line_is_refused_without_being_unpacked_to_its_end() {
        let reason = "line 1: the line is longer than 1000 bytes";
        let bomb = gzip(&vec![b'x'; 50_000_000]);
        let mut lines = Lines::up_to(1000, &bomb[..]).unwrap();
        let error = lines.next_line().unwrap_err();
        let unbounded = read(io::repeat(b'x')).unwrap_err();
        for error in [error, unbounded] {
            assert!(error.to_string().starts_with(reason), "{error}");
        }
        let capacity = lines.buffer.capacity();
        assert!(capacity < 10_000, "{capacity}");
    }

    #[test]
    fn a_truncated_gzip_stream_is_reported_as_such() {
        let whole = gzip(b"{\"a\":1}\n{\"a\":2}\n");
        let says = "gzip stream is cut off";
        for length in [2, 9, 15, whole.len() - 1] {
            let error = read(&whole[..length]).unwrap_err().to_string();
            assert!(error.contains(says), "{length}: {error}");
        }
        let mut damaged = whole.clone();
        damaged[whole.len() - 6] ^= 0xff;
        assert!(read(&damaged[..]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), packed in any::<bool>()) {
            let bytes = if packed { [&GZIP[..], &bytes].concat() } else { bytes };
            let _ = read(&bytes[..]);
        }
    }
}
