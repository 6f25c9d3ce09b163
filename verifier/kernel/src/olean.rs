//! Compiled modules (`.olean`): the heap of Lean objects that the compiler wrote, read without trusting a byte of it.
//!
//! A file is a header, then objects in the layout of `lean.h`. They point at each other by the address at which the file would be mapped. Files of 32-bit and 64-bit
//! Leans are read, with big numbers of GMP or of Lean's own. A module of Lean's module system has up to three files in one address space.

use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use dashu_int::UBig;
use memmap2::Mmap;

use crate::{Error, unreadable};

/// Tags of objects that are not constructors.
const ARRAY: u8 = 246;
const STRING: u8 = 249;
const BIG: u8 = 250;
/// The greatest constructor's tag.
const MAX_CONSTRUCTOR: u8 = 244;

/// The bytes of one file.
enum Bytes {
    /// A file of a library. Nobody writes it while it is used.
    Mapped(Mmap),
    /// A file of a statement or a proof.
    Owned(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

struct Part {
    base: u64,
    bytes: Bytes,
}

/// The objects of one module.
pub(crate) struct Image {
    parts: Vec<Part>,
    /// Bytes of a pointer.
    word: u64,
    gmp: bool,
    /// The object that contains all others: the root of the last file.
    root: u64,
}

/// A pointer, or a boxed small number.
pub(crate) type Object = u64;

/// The kind of an object, as far as Lean's core language needs it.
pub(crate) enum Shape {
    /// A boxed constructor without fields, or a boxed small number.
    Small(u64),
    /// A constructor: its tag and its number of fields.
    Constructor(u8, u64),
    /// Any other object.
    Other,
}

impl Image {
    /// Maps the files of a library's module.
    pub(crate) fn map(files: &[&Path]) -> Result<Self, Error> {
        let parts = files.iter().map(|file| {
            let failed = |error: std::io::Error| unreadable(format!("{}: {error}", file.display()));
            let opened = File::open(file).map_err(failed)?;
            // SAFETY: the file belongs to Lean's installation or the operator's project. No proof can write there, and Lean maps the file in the same way.
            #[allow(unsafe_code)]
            let map = unsafe { Mmap::map(&opened) }.map_err(failed)?;
            Ok(Bytes::Mapped(map))
        });
        Self::new(parts.collect::<Result<Vec<_>, Error>>()?)
    }

    /// Reads the files of a module from memory.
    pub(crate) fn read(files: Vec<Vec<u8>>) -> Result<Self, Error> {
        Self::new(files.into_iter().map(Bytes::Owned).collect())
    }

    fn new(files: Vec<Bytes>) -> Result<Self, Error> {
        let mut image = Self {
            parts: Vec::new(),
            word: 8,
            gmp: true,
            root: 0,
        };
        for bytes in files {
            image.add(bytes)?;
        }
        if image.parts.is_empty() {
            return Err(unreadable("a module without a file"));
        }
        Ok(image)
    }

    fn add(&mut self, bytes: Bytes) -> Result<(), Error> {
        let number = |at: usize, size: usize| bytes.get(at..at + size).map(little_endian);
        if !bytes.starts_with(b"olean") {
            return Err(unreadable("it is not a compiled module of Lean"));
        }
        let (data, flags) = match bytes.get(5) {
            Some(1) => (48, 1),
            Some(2) => (80, bytes.get(6).copied().unwrap_or(0)),
            other => {
                return Err(unreadable(format!(
                    "compiled modules of format {other:?} are not read"
                )));
            }
        };
        // The base address, then the root: both as wide as a pointer.
        let found = [8_usize, 4].into_iter().find_map(|word| {
            let base = number(data, word)?;
            let root = number(data + word, word)?;
            let end = base.checked_add(bytes.len() as u64)?;
            let inside = base > 0 && base % 16 == 0 && root > base && root < end;
            inside.then_some((word as u64, base, root))
        });
        let Some((word, base, root)) = found else {
            return Err(unreadable("its header names no root object"));
        };
        let end = base.saturating_add(bytes.len() as u64);
        let apart = |part: &Part| {
            let there = part.base.saturating_add(part.bytes.len() as u64);
            end <= part.base || there <= base
        };
        if !self.parts.iter().all(apart) {
            return Err(unreadable("two of its files have the same addresses"));
        }
        if !self.parts.is_empty() && self.word != word {
            return Err(unreadable("its files are of different machines"));
        }
        self.word = word;
        self.gmp = flags & 1 == 1;
        self.root = root;
        self.parts.push(Part { base, bytes });
        Ok(())
    }

    pub(crate) fn root(&self) -> Object {
        self.root
    }

    fn bytes(&self, at: u64, size: u64) -> Result<&[u8], Error> {
        self.parts
            .iter()
            .find_map(|part| {
                let from = usize::try_from(at.checked_sub(part.base)?).ok()?;
                let to = from.checked_add(usize::try_from(size).ok()?)?;
                part.bytes.get(from..to)
            })
            .ok_or_else(|| unreadable(format!("a pointer leads out of the file ({at:#x})")))
    }

    fn number(&self, at: u64, size: u64) -> Result<u64, Error> {
        Ok(little_endian(self.bytes(at, size)?))
    }

    fn tag(&self, object: Object) -> Result<u8, Error> {
        Ok(self.bytes(object.saturating_add(7), 1)?[0])
    }

    pub(crate) fn shape(&self, object: Object) -> Result<Shape, Error> {
        if object & 1 == 1 {
            return Ok(Shape::Small(object >> 1));
        }
        let tag = self.tag(object)?;
        if tag > MAX_CONSTRUCTOR {
            return Ok(Shape::Other);
        }
        Ok(Shape::Constructor(tag, self.fields(object)?))
    }

    fn fields(&self, object: Object) -> Result<u64, Error> {
        Ok(u64::from(self.bytes(object.saturating_add(6), 1)?[0]))
    }

    /// The tag of a constructor, with or without fields.
    pub(crate) fn variant(&self, object: Object) -> Result<u64, Error> {
        match self.shape(object)? {
            Shape::Small(tag) => Ok(tag),
            Shape::Constructor(tag, _) => Ok(u64::from(tag)),
            Shape::Other => Err(unreadable("a constructor was expected")),
        }
    }

    /// An object field of a constructor.
    pub(crate) fn field(&self, object: Object, at: u64) -> Result<Object, Error> {
        match self.shape(object)? {
            Shape::Constructor(_, fields) if at < fields => {
                self.number(object + 8 + at * self.word, self.word)
            }
            _ => Err(unreadable("an object has fewer fields than it should")),
        }
    }

    /// A byte of the scalar data after a constructor's object fields.
    pub(crate) fn byte(&self, object: Object, at: u64) -> Result<u8, Error> {
        let from = 8 + self.fields(object)? * self.word + at;
        if from >= self.number(object + 4, 2)? {
            return Err(unreadable("an object is smaller than it should be"));
        }
        Ok(self.bytes(object + from, 1)?[0])
    }

    /// The 32-bit number at the start of the scalar data after a constructor's object fields.
    pub(crate) fn number32(&self, object: Object) -> Result<u32, Error> {
        let from = object + 8 + self.fields(object)? * self.word;
        Ok(self.number(from, 4)? as u32)
    }

    fn expect(&self, object: Object, tag: u8, what: &str) -> Result<(), Error> {
        if object & 1 == 1 || self.tag(object)? != tag {
            return Err(unreadable(format!("{what} was expected")));
        }
        Ok(())
    }

    pub(crate) fn array(&self, object: Object) -> Result<Vec<Object>, Error> {
        self.expect(object, ARRAY, "an array")?;
        let count = self.number(object + 8, self.word)?;
        let from = object + 8 + 2 * self.word;
        let size = count
            .checked_mul(self.word)
            .ok_or_else(|| unreadable("an array has no end"))?;
        let bytes = self.bytes(from, size)?;
        let word = usize::try_from(self.word).unwrap_or(8);
        Ok(bytes.chunks_exact(word).map(little_endian).collect())
    }

    /// The elements of a list with at most `max` elements. A cyclic list is refused, since it exceeds any maximum.
    pub(crate) fn list(&self, mut object: Object, max: usize) -> Result<Vec<Object>, Error> {
        let mut all = Vec::new();
        while object & 1 == 0 {
            all.push(self.field(object, 0)?);
            object = self.field(object, 1)?;
            if all.len() > max {
                return Err(unreadable("a list is longer than it may be"));
            }
        }
        Ok(all)
    }

    pub(crate) fn text(&self, object: Object) -> Result<&str, Error> {
        self.expect(object, STRING, "a string")?;
        let size = self.number(object + 8, self.word)?;
        let bytes = self.bytes(object + 8 + 3 * self.word, size.saturating_sub(1))?;
        std::str::from_utf8(bytes).map_err(|_| unreadable("a string is not UTF-8"))
    }

    /// A natural number, small or big.
    pub(crate) fn nat(&self, object: Object) -> Result<UBig, Error> {
        if object & 1 == 1 {
            return Ok(UBig::from(object >> 1));
        }
        self.expect(object, BIG, "a number")?;
        let word = self.word;
        let (size, negative, from, digit) = if self.gmp {
            let size = self.number(object + 12, 4)? as u32 as i32;
            (
                u64::from(size.unsigned_abs()),
                size < 0,
                object + 16 + word,
                word,
            )
        } else {
            let sign = self.bytes(object + 8, 1)?[0];
            let size = self.number(object + 8 + word, word)?;
            (size, sign != 0, object + 8 + 3 * word, 4)
        };
        if negative {
            return Err(unreadable("a number is negative"));
        }
        let bytes = size
            .checked_mul(digit)
            .ok_or_else(|| unreadable("a number has no end"))?;
        Ok(UBig::from_le_bytes(self.bytes(from, bytes)?))
    }

    /// A number that fits into 32 bits.
    pub(crate) fn small(&self, object: Object) -> Result<u32, Error> {
        match self.shape(object)? {
            Shape::Small(value) => {
                u32::try_from(value).map_err(|_| unreadable("a number is too large"))
            }
            _ => Err(unreadable("a small number was expected")),
        }
    }
}

/// A number of at most eight bytes.
fn little_endian(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
