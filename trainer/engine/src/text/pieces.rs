//! Token ids → text as it grows, whole characters at a time.

use super::Tokenizer;

/// The text of a growing sequence of tokens.
///
/// A character's bytes may be spread over tokens, and a token's text may depend on the one before it. So the newest tokens are decoded together with those
/// of the piece before, and what is new is taken once it ends in a whole character. (A U+FFFD that the text itself ends in waits for what follows it, too.)
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
        let before = tokenizer.decode_after(&tokens[self.context..self.pending])?;
        let with_new = tokenizer.decode_after(&tokens[self.context..])?;
        if with_new.ends_with(char::REPLACEMENT_CHARACTER) || with_new.len() <= before.len() {
            return Ok(String::new());
        }
        // Where one byte of a run is bad, some decoders give up all of them, and the text before changes its length.
        let mut start = before.len();
        while !with_new.is_char_boundary(start) {
            start += 1;
        }
        let new = with_new[start..].to_owned();
        self.context = self.pending;
        self.pending = tokens.len();
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::bytes;

    fn pieces(tokens: &[u32]) -> Vec<String> {
        let tokenizer = bytes::tokenizer();
        let mut pieces = Pieces::default();
        (1..=tokens.len())
            .map(|n| pieces.next(&tokenizer, &tokens[..n]).unwrap())
            .collect()
    }

    #[test]
    fn a_character_comes_with_its_last_byte() {
        let tokens: Vec<u32> = "aé🦀b".bytes().map(u32::from).collect();
        assert_eq!(pieces(&tokens), ["a", "", "é", "", "", "", "🦀", "b"]);
    }

    proptest! {
        #[test]
        fn pieces_of_a_text_make_the_text(text in "[^\u{FFFD}]{0,40}") {
            let tokens: Vec<u32> = text.bytes().map(u32::from).collect();
            prop_assert_eq!(pieces(&tokens).concat(), text);
        }

        #[test]
        fn bytes_that_are_no_text_end_in_no_panic(tokens in prop::collection::vec(0u32..300, 0..60)) {
            let tokenizer = bytes::tokenizer();
            let whole = tokenizer.decode(&tokens).unwrap();
            prop_assert!(whole.starts_with(&pieces(&tokens).concat()));
        }
    }
}
