//! Reads the rows of a Parquet file. The library trusts the sizes that a file states, and panics at some damaged files. So a page's sizes are checked before it is unpacked, and a
//! panic becomes an error.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::{ChunkReader, FileReader as _, Length, SerializedFileReader};
use parquet::file::serialized_reader::SerializedRowGroupReader;
use parquet::record::reader::{ReaderIter, TreeBuilder};

use crate::jsonl::LineError;

/// Maximum size of the unpacked pages of a row group, in bytes.
const MAX_GROUP: u64 = 2 << 30;
/// Maximum size of a page that gzip packed. It unpacks to a thousand times as much at most. Only with gzip does the library not stop at the size that the page
/// states.
const MAX_GZIP_PAGE: u64 = 2 << 20;

/// The rows of a file that are not read yet.
pub(super) struct ParquetRows {
    file: File,
    metadata: SerializedFileReader<File>,
    /// The row group that is read next.
    next: usize,
    rows: Option<ReaderIter>,
    /// Number of the row that was read last.
    number: usize,
}

impl ParquetRows {
    pub(super) fn open(file: File) -> std::result::Result<ParquetRows, LineError> {
        let metadata = caught(1, || SerializedFileReader::new(file.try_clone()?))?;
        Ok(ParquetRows {
            file,
            metadata,
            next: 0,
            rows: None,
            number: 0,
        })
    }

    pub(super) fn next(&mut self) -> std::result::Result<Option<(usize, String)>, LineError> {
        self.number += 1;
        let number = self.number;
        caught(number, || {
            loop {
                if let Some(row) = self.rows.as_mut().and_then(Iterator::next) {
                    return Ok(Some((number, row?.to_json_value().to_string())));
                }
                if self.next == self.metadata.num_row_groups() {
                    return Ok(None);
                }
                self.rows = Some(self.group()?);
                self.next += 1;
            }
        })
    }

    fn group(&self) -> Result<ReaderIter> {
        let all = self.metadata.metadata();
        let group = all.row_group(self.next);
        let is_gzip =
            |column: &ColumnChunkMetaData| matches!(column.compression(), Compression::GZIP(_));
        let is_gzip = group.columns().iter().any(is_gzip);
        let pages = Pages {
            file: self.file.try_clone()?,
            max_packed: if is_gzip { MAX_GZIP_PAGE } else { u64::MAX },
            left: Arc::new(AtomicU64::new(MAX_GROUP)),
        };
        let settings = Arc::new(ReaderProperties::builder().build());
        let group = SerializedRowGroupReader::new(Arc::new(pages), group, None, settings)?;
        TreeBuilder::new().as_iter(all.file_metadata().schema_descr_ptr(), &group)
    }
}

/// Makes an error of the library's panics.
fn caught<T>(line: usize, work: impl FnOnce() -> Result<T>) -> std::result::Result<T, LineError> {
    let reason = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(result)) => return Ok(result),
        Ok(Err(error)) => format!("the Parquet file cannot be read: {error}"),
        Err(_) => "the library `parquet` panicked, and its message is printed above; the file is probably damaged".to_owned(),
    };
    Err(LineError::Line { line, reason })
}

struct Pages {
    file: File,
    /// Maximum size of a page in the file.
    max_packed: u64,
    /// Bytes to which pages may still be unpacked.
    left: Arc<AtomicU64>,
}

impl Length for Pages {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl ChunkReader for Pages {
    type T = Header;

    fn get_read(&self, start: u64) -> Result<Header> {
        Ok(Header {
            file: self.file.get_read(start)?,
            max_packed: self.max_packed,
            left: Some(Arc::clone(&self.left)),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        // The file's own method allocates first, whatever the length.
        match start.saturating_add(length as u64) > self.len() {
            true => Err(ParquetError::EOF("it is cut off".to_owned())),
            false => self.file.get_bytes(start, length),
        }
    }
}

/// What the library reads before a page: its header. The page's own bytes come from [`Pages::get_bytes`].
struct Header {
    file: BufReader<File>,
    max_packed: u64,
    /// `None` once the header was checked.
    left: Option<Arc<AtomicU64>>,
}

impl Read for Header {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(left) = self.left.take() {
            let rest = rest(
                self.file.fill_buf()?,
                self.max_packed,
                left.load(Ordering::Relaxed),
            );
            let rest = rest.map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))?;
            left.store(rest, Ordering::Relaxed);
        }
        self.file.read(buffer)
    }
}

/// What is left after a page with this header is unpacked. The header begins with its type, the unpacked and the packed size, in Thrift's compact form.
fn rest(mut header: &[u8], max_packed: u64, left: u64) -> std::result::Result<u64, &'static str> {
    let [_, unpacked, packed] = std::array::from_fn(|_| number(&mut header));
    let (Some(unpacked), Some(packed)) = (unpacked, packed) else {
        return Err("a page has an unknown form of header");
    };
    if packed > max_packed {
        return Err(
            "a page that gzip packed has more than 2 MiB; write the file with zstd or snappy",
        );
    }
    let rest = left.checked_sub(unpacked);
    rest.ok_or("a row group has more than 2 GiB; write the file with smaller row groups")
}

/// The next field of a compact Thrift structure: an integer of 32 bits with the next number. A negative one counts as large.
fn number(text: &mut &[u8]) -> Option<u64> {
    let rest = text.strip_prefix(&[0x15])?;
    let length = rest.iter().take(5).position(|byte| *byte < 0x80)? + 1;
    let bytes = rest[..length].iter().rev();
    *text = &rest[length..];
    let zigzag = bytes.fold(0_u64, |number, byte| number << 7 | u64::from(byte & 0x7f));
    Some(if zigzag % 2 == 0 {
        zigzag / 2
    } else {
        u64::MAX
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_page_takes_its_unpacked_size_from_what_is_left() {
        let max_packed = 100;
        let page = [0x15, 0, 0x15, 0xd8, 4, 0x15, 0x90, 1];
        let packed = [0x15, 0, 0x15, 0, 0x15, 0xd8, 4];
        let endless = [0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        for (header, left, rest) in [
            (&page[..], 300, Ok(0)),
            (&page, 299, Err("a row group")),
            (&[0x15, 0, 0x15, 1, 0x15, 0], 299, Err("a row group")),
            (&packed, 300, Err("a page that gzip")),
            (&[0x15, 0, 0x15, 0], 300, Err("a page has")),
            (&endless, 300, Err("a page has")),
            (&[0x05, 2, 0, 0x15, 0], 300, Err("a page has")),
        ] {
            match (super::rest(header, max_packed, left), rest) {
                (Ok(found), Ok(rest)) => assert_eq!(found, rest),
                (found, rest) => assert!(found.unwrap_err().starts_with(rest.unwrap_err())),
            }
        }
    }
}
