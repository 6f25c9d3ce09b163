//! Converts the interpreter's own binary form of a value to the tagged JSON encoding. The form is version 4 of Python's `marshal`, as its C code writes it.
//!
//! A result arrives in this form first, since writing JSON costs a guest more than many programs take to run. The text written here is exactly the text of the guest's
//! own encoder (`guest/values.py`) for the same value. So it never matters which of the two wrote it. Some values have no unambiguous form here: bytes and objects that
//! show their memory as bytes, sets, large integers, dictionaries with keys that are not plain text. Such a value is [`Refused`], and the guest then writes the JSON.

use std::io::Write as _;
use std::ops::Range;

/// Nesting that the guest's encoder allows.
const MAX_DEPTH: usize = 36;
/// Bytes of text that a byte may expand to on average. A reference to an earlier object takes five bytes, however long that object is.
const MAX_EXPANSION: usize = 64;
/// Bytes of text that even the shortest value may have.
const MIN_TEXT_LIMIT: usize = 4096;
/// Bytes of text that any value may have: as much as the host is ready to hold for one value.
const MAX_TEXT: usize = 64 << 20;
/// Objects of one value that references may name.
const MAX_SHARED: usize = 1 << 20;
/// This bit is set in an object's type if references may name the object.
const FLAG: u8 = 0x80;

/// The value has no form here, or the bytes are not a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

/// The JSON text of a value. `written` grows by the bytes of text that were written, even if the value is refused.
///
/// # Errors
/// [`Refused`].
pub fn value(marshalled: &[u8], written: &mut u64) -> Result<Vec<u8>, Refused> {
    Reader::read(marshalled, written, |reader| reader.value(0))
}

/// The JSON text of a list's elements, separated by commas; `written` as for [`value`].
///
/// # Errors
/// [`Refused`].
pub fn elements(marshalled: &[u8], written: &mut u64) -> Result<Vec<u8>, Refused> {
    Reader::read(marshalled, written, |reader| {
        let kind = reader.byte()?;
        if kind & !FLAG != b'[' {
            return Err(Refused);
        }
        if kind & FLAG != 0 {
            reader.shared.push(None);
        }
        let count = reader.count()?;
        reader.items(count, 1)
    })
}

struct Reader<'a> {
    /// The bytes that are not read yet.
    bytes: &'a [u8],
    text: Vec<u8>,
    /// Bytes that the text may have.
    limit: usize,
    /// The objects that references may name, by number; `None` while the object is still being read.
    shared: Vec<Option<Shared>>,
}

/// An object that references may name.
struct Shared {
    text: Range<usize>,
    /// Levels of containers.
    height: usize,
}

impl<'a> Reader<'a> {
    /// Reads all of `bytes` with `read_part`, and returns the text.
    fn read(
        bytes: &'a [u8],
        written: &mut u64,
        read_part: impl FnOnce(&mut Reader<'a>) -> Result<usize, Refused>,
    ) -> Result<Vec<u8>, Refused> {
        let limit = bytes.len().saturating_mul(MAX_EXPANSION);
        let mut reader = Reader {
            bytes,
            text: Vec::with_capacity(2 * bytes.len()),
            limit: limit.saturating_add(MIN_TEXT_LIMIT).min(MAX_TEXT),
            shared: Vec::new(),
        };
        let outcome = read_part(&mut reader);
        *written += reader.text.len() as u64;
        outcome?;
        if reader.bytes.is_empty() && reader.text.len() <= reader.limit {
            Ok(reader.text)
        } else {
            Err(Refused)
        }
    }

    /// Reads a value inside `depth` containers, and returns how many levels of containers the value has.
    fn value(&mut self, depth: usize) -> Result<usize, Refused> {
        let kind = self.byte()?;
        let start = self.text.len();
        let number = (kind & FLAG != 0).then_some(self.shared.len());
        if number.is_some() {
            self.shared.push(None);
        }
        let height = match kind & !FLAG {
            b'N' => self.put(b"null"),
            b'T' => self.put(b"true"),
            b'F' => self.put(b"false"),
            b'i' => {
                let integer = i32::from_le_bytes(self.array()?);
                self.digits(i64::from(integer))
            }
            b'l' => {
                let integer = self.long()?;
                self.digits(integer)
            }
            b'g' => self.float()?,
            b'y' => self.within(depth, b"{\"$complex\":[", b"]}", |reader, _| {
                reader.float()?;
                reader.put(b",");
                reader.float()
            })?,
            b'z' | b'Z' => {
                let length = usize::from(self.byte()?);
                self.string(length)?
            }
            b'a' | b'A' | b'u' | b't' => {
                let length = self.count()?;
                self.string(length)?
            }
            b')' => {
                let count = usize::from(self.byte()?);
                self.tuple(count, depth)?
            }
            b'(' => {
                let count = self.count()?;
                self.tuple(count, depth)?
            }
            b'[' => {
                let count = self.count()?;
                self.within(depth, b"[", b"]", |reader, depth| {
                    reader.items(count, depth)
                })?
            }
            b'{' => self.within(depth, b"{", b"}", Reader::entries)?,
            b'r' if number.is_none() => self.reference(depth)?,
            _ => return Err(Refused),
        };
        if self.text.len() > self.limit || self.shared.len() > MAX_SHARED {
            return Err(Refused);
        }
        if let Some(number) = number {
            self.shared[number] = Some(Shared {
                text: start..self.text.len(),
                height,
            });
        }
        Ok(height)
    }

    fn within(
        &mut self,
        depth: usize,
        opening: &[u8],
        closing: &[u8],
        inside: impl FnOnce(&mut Self, usize) -> Result<usize, Refused>,
    ) -> Result<usize, Refused> {
        if depth == MAX_DEPTH {
            return Err(Refused);
        }
        self.put(opening);
        let height = inside(self, depth + 1)?;
        self.put(closing);
        Ok(height + 1)
    }

    fn tuple(&mut self, count: usize, depth: usize) -> Result<usize, Refused> {
        self.within(depth, b"{\"$tuple\":[", b"]}", |reader, depth| {
            reader.items(count, depth)
        })
    }

    fn items(&mut self, count: usize, depth: usize) -> Result<usize, Refused> {
        let mut height = 0;
        for index in 0..count {
            if index > 0 {
                self.put(b",");
            }
            height = height.max(self.value(depth)?);
        }
        Ok(height)
    }

    /// Reads the entries of a dictionary. Its keys must all be plain text.
    fn entries(&mut self, depth: usize) -> Result<usize, Refused> {
        let (mut height, mut first) = (0, true);
        while self.bytes.first() != Some(&b'0') {
            if !std::mem::take(&mut first) {
                self.put(b",");
            }
            let start = self.text.len();
            self.value(depth)?;
            match &self.text[start..] {
                [b'"', b'$', ..] => return Err(Refused),
                key @ [b'"', ..] if key.is_ascii() => {}
                _ => return Err(Refused),
            }
            self.put(b":");
            height = height.max(self.value(depth)?);
        }
        self.byte()?;
        Ok(height)
    }

    /// Reads a reference to an earlier object.
    fn reference(&mut self, depth: usize) -> Result<usize, Refused> {
        let index = u32::from_le_bytes(self.array()?) as usize;
        let Some(Some(Shared { text, height })) = self.shared.get(index) else {
            return Err(Refused);
        };
        let (text, height) = (text.clone(), *height);
        if depth + height > MAX_DEPTH || self.text.len() + text.len() > self.limit {
            return Err(Refused);
        }
        self.text.extend_from_within(text);
        Ok(height)
    }

    fn string(&mut self, length: usize) -> Result<usize, Refused> {
        let text = str::from_utf8(self.take(length)?).map_err(|_| Refused)?;
        serde_json::to_writer(&mut self.text, text).map_err(|_| Refused)?;
        Ok(0)
    }

    /// Reads an integer of more than 32 bits, in digits of 15 bits. Five digits hold all 64-bit integers.
    fn long(&mut self) -> Result<i64, Refused> {
        let signed = i32::from_le_bytes(self.array()?);
        let count = signed.unsigned_abs();
        if count > 5 {
            return Err(Refused);
        }
        let mut integer = 0_i128;
        for place in 0..count {
            let digit = u16::from_le_bytes(self.array()?);
            integer |= i128::from(digit & 0x7fff) << (15 * place);
        }
        i64::try_from(if signed < 0 { -integer } else { integer }).map_err(|_| Refused)
    }

    fn digits(&mut self, integer: i64) -> usize {
        let _ = write!(self.text, "{integer}");
        0
    }

    /// Reads a float and writes it as Python does: the fewest digits that identify it, with an exponent if it is below 1e-4 or at least 1e16.
    fn float(&mut self) -> Result<usize, Refused> {
        let float = f64::from_le_bytes(self.array()?);
        if !float.is_finite() {
            let name = if float.is_nan() {
                "nan"
            } else if float > 0.0 {
                "inf"
            } else {
                "-inf"
            };
            let _ = write!(self.text, "{{\"$float\":\"{name}\"}}");
        } else if float == 0.0 || (1e-4..1e16).contains(&float.abs()) {
            let _ = write!(self.text, "{float:?}");
        } else {
            let shortest = format!("{float:e}");
            let (digits, exponent) = shortest.split_once('e').ok_or(Refused)?;
            let exponent: i32 = exponent.parse().map_err(|_| Refused)?;
            let sign = if exponent < 0 { '-' } else { '+' };
            let _ = write!(self.text, "{digits}e{sign}{:02}", exponent.unsigned_abs());
        }
        Ok(0)
    }

    fn put(&mut self, text: &[u8]) -> usize {
        self.text.extend_from_slice(text);
        0
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Refused> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(Refused)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refused> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(Refused)?;
        self.bytes = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, Refused> {
        self.array().map(|[byte]| byte)
    }

    fn count(&mut self) -> Result<usize, Refused> {
        usize::try_from(i32::from_le_bytes(self.array()?)).map_err(|_| Refused)
    }
}

#[cfg(test)]
mod tests;
