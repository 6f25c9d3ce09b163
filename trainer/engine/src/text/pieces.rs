//! Token ids → text as it grows, whole characters at a time.

use super::Tokenizer;

/// The text of a growing sequence of tokens.
///
/// A character's bytes may be spread over tokens, and a token's text may depend on the one before it. So the newest tokens are decoded together with those
/// of the piece before, and what is new is taken once it ends in a whole character.
#[derive(Debug, Clone, Default)]
pub struct Pieces {
    /// First token of the piece before.
    context: usize,
    /// First token whose text has not been returned.
    pending: usize,
}

impl Pieces {
    /// The text that the tokens added since the last call make; empty while a character is incomplete.
    pub fn next(&mut self, tokenizer: &Tokenizer, tokens: &[u32]) -> Result<String, String> {
        let before = tokenizer.decode(&tokens[self.context..self.pending])?;
        let with_new = tokenizer.decode(&tokens[self.context..])?;
        if with_new.ends_with(char::REPLACEMENT_CHARACTER) || with_new.len() <= before.len() {
            return Ok(String::new());
        }
        let new = with_new.get(before.len()..).unwrap_or_default().to_owned();
        self.context = self.pending;
        self.pending = tokens.len();
        Ok(new)
    }
}
