//! JSON Lines as other people's files and pipes have them: packed with gzip or not, each line bounded.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;

/// The longest line that is read, in bytes. The longest record of the known data sets has 0.8 MB.
pub const MAX_LINE: usize = 64 << 20;

/// What a gzip stream begins with (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The lines of a text, each read when it is asked for.
pub struct Lines<'a> {
    reader: Box<dyn BufRead + 'a>,
    packed: bool,
    /// Of the line that was read last, from 1, blank ones counted.
    number: usize,
    buffer: Vec<u8>,
    longest: usize,
}

/// A line that holds something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// From 1, blank lines counted.
    pub number: usize,
    /// Without what surrounds it, a byte order mark included.
    pub text: &'a str,
}

/// Why a line cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The system said no.
    #[error("{0}")]
    Io(io::Error),
    /// A line that can be no line of JSON Lines.
    #[error("line {line}: {reason}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong with it, and what to do.
        reason: String,
    },
}

impl<'a> Lines<'a> {
    /// Reads `source`, which is unpacked where its first bytes say that it is gzip, whatever its name. A line takes no more than [`MAX_LINE`] bytes of memory,
    /// packed or not.
    ///
    /// # Errors
    /// Where the first bytes cannot be read.
    pub fn new(source: impl Read + 'a) -> io::Result<Lines<'a>> {
        Lines::up_to(MAX_LINE, source)
    }

    /// As [`Lines::new`], with lines of up to `longest` bytes.
    ///
    /// # Errors
    /// As [`Lines::new`].
    pub fn up_to(longest: usize, mut source: impl Read + 'a) -> io::Result<Lines<'a>> {
        let mut first = Vec::new();
        source
            .by_ref()
            .take(GZIP.len() as u64)
            .read_to_end(&mut first)?;
        let packed = first == GZIP;
        let whole = Cursor::new(first).chain(source);
        let reader: Box<dyn BufRead + 'a> = if packed {
            Box::new(BufReader::new(MultiGzDecoder::new(BufReader::new(whole))))
        } else {
            Box::new(BufReader::new(whole))
        };
        Ok(Lines {
            reader,
            packed,
            number: 0,
            buffer: Vec::new(),
            longest,
        })
    }

    /// The next line that is not blank; `None` at the end.
    ///
    /// # Errors
    /// [`LineError`]. What comes behind a faulty line is not to be asked for.
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, LineError> {
        loop {
            self.buffer.clear();
            self.number += 1;
            let read = self
                .reader
                .by_ref()
                .take(self.longest as u64 + 1)
                .read_until(b'\n', &mut self.buffer);
            let length = read.map_err(|error| self.broken(error))?;
            if length == 0 {
                return Ok(None);
            }
            if length > self.longest {
                return Err(self.fault(format!(
                    "the line is longer than {} bytes; one JSON object a line is expected",
                    self.longest
                )));
            }
            if self.number == 1 && self.buffer.starts_with(BYTE_ORDER_MARK) {
                self.buffer.drain(..BYTE_ORDER_MARK.len());
            }
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
            Err(error) => Err(self.fault(format!(
                "byte {} of the line is not UTF-8; save the file as UTF-8",
                error.valid_up_to() + 1
            ))),
        }
    }

    fn fault(&self, reason: String) -> LineError {
        LineError::Line {
            line: self.number,
            reason,
        }
    }

    /// What the decoder of gzip says of a stream is a fault of the stream, and not of the system.
    fn broken(&self, error: io::Error) -> LineError {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        if self.packed && matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof) {
            return self.fault(format!(
                "the gzip stream is cut off or damaged here ({error}); fetch or pack the file again"
            ));
        }
        LineError::Io(error)
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
    fn packed_or_not_whole_or_in_pieces_a_text_has_the_same_lines() {
        let text = "\u{feff}{\"a\":1}\r\n\n  \n{\"a\":2}".as_bytes();
        let expected = [(1, "{\"a\":1}".to_owned()), (4, "{\"a\":2}".to_owned())];
        assert_eq!(read(text).unwrap(), expected);
        assert_eq!(read(Slow(text)).unwrap(), expected);
        assert_eq!(read(Slow(&gzip(text))).unwrap(), expected);
        // Members behind one another are one text.
        let members = [gzip(&text[..5]), gzip(&text[5..])].concat();
        assert_eq!(read(&members[..]).unwrap(), expected);
        assert_eq!(read(&b""[..]).unwrap(), []);
        assert_eq!(read(&b"\n"[..]).unwrap(), []);
    }

    #[test]
    fn a_line_without_an_end_is_refused_and_not_unpacked_to_its_end() {
        let reason = "line 1: the line is longer than 1000 bytes";
        let bomb = gzip(&vec![b'x'; 50_000_000]);
        let mut lines = Lines::up_to(1000, &bomb[..]).unwrap();
        let error = lines.next_line().unwrap_err().to_string();
        assert!(error.starts_with(reason), "{error}");
        assert!(
            lines.buffer.capacity() < 10_000,
            "{}",
            lines.buffer.capacity()
        );
        let error = read(io::repeat(b'x')).unwrap_err().to_string();
        assert!(error.starts_with(reason), "{error}");
    }

    #[test]
    fn a_stream_that_breaks_off_is_named_as_such() {
        let whole = gzip(b"{\"a\":1}\n{\"a\":2}\n");
        for length in [2, 9, 15, whole.len() - 1] {
            let error = read(&whole[..length]).unwrap_err().to_string();
            assert!(
                error.contains("gzip stream is cut off"),
                "{length}: {error}"
            );
        }
        let mut damaged = whole.clone();
        damaged[whole.len() - 6] ^= 0xff;
        assert!(read(&damaged[..]).is_err());
    }

    #[test]
    fn what_is_not_utf_8_is_named_with_its_line_and_byte() {
        let error = read(&b"{}\n\n{\"a\": \"\xff\"}"[..])
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("line 3: byte 8 of the line is not UTF-8"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), packed in any::<bool>()) {
            let bytes = if packed { [&GZIP[..], &bytes].concat() } else { bytes };
            let _ = read(&bytes[..]);
        }
    }
}
