//! Cache keys: BLAKE3 over length-prefixed fields.

use std::fmt;
use std::str::FromStr;

/// The digest of everything that a verdict, or an expected value, depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub [u8; 32]);

impl fmt::Display for Key {
    /// 64 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl FromStr for Key {
    type Err = blake3::HexError;

    fn from_str(text: &str) -> Result<Key, blake3::HexError> {
        blake3::Hash::from_hex(text).map(|hash| Key(*hash.as_bytes()))
    }
}

/// Collects the fields of a key. Each is preceded by its length, so that no two lists of fields make the same bytes.
#[derive(Debug, Clone, Default)]
pub struct KeyWriter(blake3::Hasher);

impl KeyWriter {
    /// No fields yet.
    #[must_use]
    pub fn new() -> KeyWriter {
        KeyWriter::default()
    }

    /// Adds one field.
    #[must_use]
    pub fn field(mut self, field: impl AsRef<[u8]>) -> KeyWriter {
        let field = field.as_ref();
        self.0.update(&(field.len() as u64).to_le_bytes());
        self.0.update(field);
        self
    }

    /// Adds a list of fields, preceded by its length.
    #[must_use]
    pub fn fields<F: AsRef<[u8]>>(mut self, fields: impl ExactSizeIterator<Item = F>) -> KeyWriter {
        self.0.update(&(fields.len() as u64).to_le_bytes());
        fields.fold(self, KeyWriter::field)
    }

    /// The key.
    #[must_use]
    pub fn finish(self) -> Key {
        Key(*self.0.finalize().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn where_one_field_ends_and_the_next_begins_matters() {
        assert_ne!(
            KeyWriter::new().field("ab").field("c").finish(),
            KeyWriter::new().field("a").field("bc").finish()
        );
        assert_ne!(
            KeyWriter::new().field("").finish(),
            KeyWriter::new().finish()
        );
    }

    proptest! {
        #[test]
        fn a_key_is_read_back_from_its_digits(bytes in any::<[u8; 32]>()) {
            let text = Key(bytes).to_string();
            prop_assert_eq!(text.len(), 64);
            prop_assert_eq!(text.parse::<Key>().ok(), Some(Key(bytes)));
        }

        #[test]
        fn different_fields_make_different_keys(a in prop::collection::vec(".{0,3}", 0..4), b in prop::collection::vec(".{0,3}", 0..4)) {
            let key = |fields: &[String]| fields.iter().fold(KeyWriter::new(), KeyWriter::field).finish();
            prop_assert_eq!(key(&a) == key(&b), a == b);
        }
    }
}
