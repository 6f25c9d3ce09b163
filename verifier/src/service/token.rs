//! The token that clients send.

/// A token's digest. The token itself is not stored, and the comparison takes the same time for every wrong token.
#[derive(Clone)]
pub struct Token(blake3::Hash);

impl Token {
    /// The token with this text.
    pub fn new(text: &str) -> Token {
        Token(blake3::hash(text.as_bytes()))
    }

    pub(super) fn matches(&self, given: &[u8]) -> bool {
        // `blake3::Hash` compares in constant time.
        self.0 == blake3::hash(given)
    }
}
