//! Texts that end a completion.

use super::{Pieces, Tokenizer};

/// Looks for the stop strings of a request in one completion as it grows.
#[derive(Debug, Clone)]
pub struct StopStrings {
    strings: Vec<String>,
    longest: usize,
    pieces: Pieces,
    /// The end of the text so far; as much as a match may reach back into.
    tail: String,
}

impl StopStrings {
    /// Empty strings are never met.
    pub fn new(strings: &[String]) -> Self {
        let strings: Vec<String> = strings.iter().filter(|s| !s.is_empty()).cloned().collect();
        Self {
            longest: strings.iter().map(String::len).max().unwrap_or(0),
            strings,
            pieces: Pieces::default(),
            tail: String::new(),
        }
    }

    /// Whether the completion, which has grown by some tokens, now contains a stop string. Call it after each token.
    pub fn met(&mut self, tokenizer: &Tokenizer, tokens: &[u32]) -> Result<bool, String> {
        if self.strings.is_empty() {
            return Ok(false);
        }
        self.tail += &self.pieces.next(tokenizer, tokens)?;
        if self.strings.iter().any(|s| self.tail.contains(s.as_str())) {
            return Ok(true);
        }
        let mut cut = self.tail.len().saturating_sub(self.longest);
        while !self.tail.is_char_boundary(cut) {
            cut -= 1;
        }
        self.tail.drain(..cut);
        Ok(false)
    }

    /// The text up to the first stop string in it.
    pub fn cut<'a>(&self, text: &'a str) -> &'a str {
        let ends = self.strings.iter().filter_map(|s| text.find(s.as_str()));
        &text[..ends.min().unwrap_or(text.len())]
    }
}
