//! From the interpreter's own binary form of a value (version 4 of Python's `marshal`, which its C code writes) to the tagged JSON encoding.
//!
//! A result comes in this form first, since a guest that writes JSON spends more on it than many a program takes to run. The text made here is the very text that
//! the guest's own encoder (`guest/values.py`) makes of the same value, so that it never matters which of the two wrote it. What has no unmistakable form here
//! (bytes and whatever shows its memory as bytes, sets, large integers, dictionaries with other keys than plain text) is [`Refused`], and the guest then writes
//! the JSON.

use std::io::Write as _;
use std::ops::Range;

/// Nesting that the guest's encoder allows.
const DEPTH: usize = 36;
/// Bytes of text that a byte may stand for on average: an object that is met again takes five bytes, however long it is.
const EXPANSION: usize = 64;
/// Bytes of text that any value may have.
const ROOM: usize = 4096;
/// Bytes of text beyond which no value goes: as much as the host is ready to hold of one.
const MOST: usize = 64 << 20;
/// Objects that may be met again, of one value.
const MEETINGS: usize = 1 << 20;
/// Said of an object's type where the object may be met again.
const FLAG: u8 = 0x80;

/// The value has no form here, or the bytes are no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused;

/// The JSON text of a value. `made` grows by the bytes of text that were written, whatever came of them.
pub(super) fn value(marshalled: &[u8], made: &mut u64) -> Result<Vec<u8>, Refused> {
    Reader::read(marshalled, made, |reader| reader.value(0))
}

/// The JSON text of what stands in a list, with commas between; `made` as for [`value`].
pub(super) fn elements(marshalled: &[u8], made: &mut u64) -> Result<Vec<u8>, Refused> {
    Reader::read(marshalled, made, |reader| {
        let kind = reader.byte()?;
        if kind & !FLAG != b'[' {
            return Err(Refused);
        }
        if kind & FLAG != 0 {
            reader.met.push(None);
        }
        let count = reader.count()?;
        reader.items(count, 1)
    })
}

struct Reader<'a> {
    /// What is not read yet.
    bytes: &'a [u8],
    text: Vec<u8>,
    /// Bytes that the text may have.
    room: usize,
    /// The objects that may be met again; `None` while one is still being read.
    met: Vec<Option<Met>>,
}

/// An object that may be met again.
struct Met {
    text: Range<usize>,
    /// Levels of containers.
    height: usize,
}

impl<'a> Reader<'a> {
    /// All that `bytes` are the form of, as text.
    fn read(
        bytes: &'a [u8],
        made: &mut u64,
        what: impl FnOnce(&mut Reader<'a>) -> Result<usize, Refused>,
    ) -> Result<Vec<u8>, Refused> {
        let mut reader = Reader {
            bytes,
            text: Vec::with_capacity(2 * bytes.len()),
            room: bytes
                .len()
                .saturating_mul(EXPANSION)
                .saturating_add(ROOM)
                .min(MOST),
            met: Vec::new(),
        };
        let outcome = what(&mut reader);
        *made += reader.text.len() as u64;
        outcome?;
        if reader.bytes.is_empty() && reader.text.len() <= reader.room {
            Ok(reader.text)
        } else {
            Err(Refused)
        }
    }

    /// Reads a value inside `depth` containers; how many levels of containers it has.
    fn value(&mut self, depth: usize) -> Result<usize, Refused> {
        let kind = self.byte()?;
        let start = self.text.len();
        let place = (kind & FLAG != 0).then_some(self.met.len());
        if place.is_some() {
            self.met.push(None);
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
            b'r' if place.is_none() => self.again(depth)?,
            _ => return Err(Refused),
        };
        if self.text.len() > self.room || self.met.len() > MEETINGS {
            return Err(Refused);
        }
        if let Some(place) = place {
            self.met[place] = Some(Met {
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
        if depth == DEPTH {
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

    /// The entries of a dictionary, all of whose keys must be plain text.
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

    /// An object that was met before.
    fn again(&mut self, depth: usize) -> Result<usize, Refused> {
        let index = u32::from_le_bytes(self.array()?) as usize;
        let Some(Some(Met { text, height })) = self.met.get(index) else {
            return Err(Refused);
        };
        let (text, height) = (text.clone(), *height);
        if depth + height > DEPTH || self.text.len() + text.len() > self.room {
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

    /// An integer of more than 32 bits, in digits of 15; five of them hold all of 64 bits.
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

    /// As Python writes it: the fewest digits that name it, with an exponent where it is below 1e-4 or from 1e16 on.
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
mod tests {
    use super::*;

    /// As [`super::value`], for those who do not ask what it took.
    fn value(marshalled: &[u8]) -> Result<Vec<u8>, Refused> {
        super::value(marshalled, &mut 0)
    }

    fn elements(marshalled: &[u8]) -> Result<Vec<u8>, Refused> {
        super::elements(marshalled, &mut 0)
    }

    fn json(marshalled: &[u8]) -> Result<String, Refused> {
        value(marshalled).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn values_have_the_text_of_the_guests_encoder() {
        for (marshalled, text) in [
            (&b"N"[..], "null"),
            (b"T", "true"),
            (b"\xe9\xff\xff\xff\xff", "-1"),
            (
                b"l\x05\0\0\0\xff\x7f\xff\x7f\xff\x7f\xff\x7f\x07\0",
                "9223372036854775807",
            ),
            (
                b"l\xfb\xff\xff\xff\0\0\0\0\0\0\0\0\x08\0",
                "-9223372036854775808",
            ),
            (b"\xe7\0\0\0\0\0\0\x04@", "2.5"),
            (
                b"y\0\0\0\0\0\0\xf0?\0\0\0\0\0\0\xf0\x7f",
                r#"{"$complex":[1.0,{"$float":"inf"}]}"#,
            ),
            (b"\xda\x01a", r#""a""#),
            (b"u\x05\0\0\0\xc3\xa9\"\n\x01", r#""é\"\n\u0001""#),
            (b"\xa9\0", r#"{"$tuple":[]}"#),
            (
                b"[\x02\0\0\0\xe9\x01\0\0\0)\x01r\0\0\0\0",
                r#"[1,{"$tuple":[1]}]"#,
            ),
            (
                b"{\xda\x01a\xfa\x01b\xda\x01br\0\0\0\x000",
                r#"{"a":"b","b":"a"}"#,
            ),
        ] {
            assert_eq!(json(marshalled).as_deref(), Ok(text), "{marshalled:?}");
        }
    }

    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (float, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e-4, "0.0001"),
            (9.999e-5, "9.999e-05"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (-1e16, "-1e+16"),
            (1.5e300, "1.5e+300"),
            (5e-324, "5e-324"),
        ] {
            let bytes = [b"g", &f64::to_le_bytes(float)[..]].concat();
            assert_eq!(json(&bytes).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_is_no_value_or_has_no_form_here_is_refused() {
        for wrong in [
            &b""[..],
            b"\x80",
            b"?",
            b"0",
            b"NN",
            b"i\x01",
            b"[\xff\xff\xff\x7fN",
            b"[\xff\xff\xff\xff",
            b"z\x02a",
            // What was never met, a list in itself, and one met again that asks to be met again.
            b"r\0\0\0\0",
            b"\xdb\x01\0\0\0r\0\0\0\0",
            b"\xa9\x02N\xf2\0\0\0\0",
            // Bytes, a set, half a character, and an integer of 65 bits.
            b"s\x01\0\0\0a",
            b"<\0\0\0\0",
            b"u\x03\0\0\0\xed\xa0\x80",
            b"l\x05\0\0\0\0\0\0\0\0\0\0\0\x10\0",
            // Keys that are no plain text.
            b"{i\x01\0\0\0N0",
            b"{z\x04$intN0",
            b"{u\x02\0\0\0\xc3\xa9N0",
        ] {
            assert_eq!(value(wrong), Err(Refused), "{wrong:?}");
        }
    }

    #[test]
    fn nesting_is_bounded_even_where_it_is_met_again() {
        let nested = |levels: usize| [b"[\x01\0\0\0".repeat(levels), b"N".to_vec()].concat();
        assert!(value(&nested(DEPTH)).is_ok());
        assert_eq!(value(&nested(DEPTH + 1)), Err(Refused));
        // A pair of a list of almost as many levels and, once more, that list.
        let pair = [&b")\x02\xdb\x01\0\0\0"[..], &nested(DEPTH - 2)].concat();
        assert!(value(&[&pair[..], b"r\0\0\0\0"].concat()).is_ok());
        assert_eq!(
            value(&[&pair[..], b"[\x01\0\0\0r\0\0\0\0"].concat()),
            Err(Refused)
        );
    }

    #[test]
    fn few_bytes_never_become_a_long_text() {
        // Each pair holds the next one, and then that again.
        let levels = 30;
        let mut bytes = [b"\xa9\x02".repeat(levels), b"\xa9\0".to_vec()].concat();
        for index in (1..=u32::try_from(levels).unwrap()).rev() {
            bytes.push(b'r');
            bytes.extend(index.to_le_bytes());
        }
        assert_eq!(value(&bytes), Err(Refused));
    }

    #[test]
    fn what_is_refused_in_the_end_was_work_too_and_no_more_than_is_bearable() {
        // A long text, and then as often the same as there are references.
        let shared = |length: usize, references: usize, last: u8| {
            let count = u32::try_from(length).unwrap().to_le_bytes();
            let items = u32::try_from(references + 2).unwrap().to_le_bytes();
            let text = [&b"\xf5"[..], &count, &b"x".repeat(length)[..]].concat();
            let again = b"r\0\0\0\0".repeat(references);
            [&b"["[..], &items, &text[..], &again[..], &[last]].concat()
        };
        let mut made = 0;
        let right = super::value(&shared(1 << 10, 60, b'N'), &mut made).unwrap();
        assert_eq!(made, right.len() as u64);
        let (mut wrong, all_but_null) = (0, made - 5);
        assert_eq!(
            super::value(&shared(1 << 10, 60, b'?'), &mut wrong),
            Err(Refused)
        );
        assert_eq!(wrong, all_but_null);
        let mut long = 0;
        assert_eq!(
            super::value(&shared(4 << 20, 60, b'N'), &mut long),
            Err(Refused)
        );
        assert!((60 << 20..=MOST as u64).contains(&long), "{long}");
        let items = 1_100_000_u32.to_le_bytes();
        let flagged = [&b"["[..], &items, &[b'N' | FLAG].repeat(1_100_000)[..]].concat();
        assert_eq!(value(&flagged), Err(Refused));
    }

    #[test]
    fn a_list_comes_in_pieces_too() {
        assert_eq!(elements(b"[\x02\0\0\0NT").unwrap(), b"null,true");
        assert_eq!(
            elements(b"\xdb\x02\0\0\0\xe9\x01\0\0\0r\x01\0\0\0").unwrap(),
            b"1,1"
        );
        assert_eq!(elements(b"[\0\0\0\0").unwrap(), b"");
        assert_eq!(elements(b")\0"), Err(Refused));
    }
}
