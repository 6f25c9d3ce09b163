//! Incremental decoding: token ids → text as it grows, in whole characters.

use super::Tokenizer;

/// Decodes a growing sequence of tokens.
///
/// A character's bytes may be spread over several tokens, and a token's text may depend on the one before it. So the newest tokens are decoded together with
/// those of the previous piece, and the new text is returned once it ends in a whole character. (A U+FFFD at the end of the text itself also waits for the next
/// token.)
#[derive(Debug, Clone, Default)]
pub struct Detokenizer {
    /// First token of the previous piece.
    context: usize,
    /// First token whose text has not been returned.
    pending: usize,
}

impl Detokenizer {
    /// The text of the tokens added since the last call; empty while a character is incomplete.
    pub fn next(&mut self, tokenizer: &Tokenizer, tokens: &[u32]) -> Result<String, String> {
        let before = tokenizer.decode_after(&tokens[self.context..self.pending])?;
        let with_new = tokenizer.decode_after(&tokens[self.context..])?;
        if with_new.ends_with(char::REPLACEMENT_CHARACTER) || with_new.len() <= before.len() {
            return Ok(String::new());
        }
        // If one byte of a run is invalid, some decoders discard the whole run, so the length of the text before may change.
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
    use crate::text::random_model_tokenizer;

    fn pieces(tokens: &[u32]) -> Vec<String> {
        let tokenizer = random_model_tokenizer::tokenizer();
        let mut pieces = Detokenizer::default();
        (1..=tokens.len())
            .map(|n| pieces.next(&tokenizer, &tokens[..n]).unwrap())
            .collect()
    }

    #[test]
    fn a_character_is_returned_with_its_last_byte() {
        let tokens: Vec<u32> = "aé🦀b".bytes().map(u32::from).collect();
        assert_eq!(pieces(&tokens), ["a", "", "é", "", "", "", "🦀", "b"]);
    }

    proptest! {
        #[test]
        fn the_pieces_of_a_text_concatenate_to_it(text in "[^\u{FFFD}]{0,40}") {
            let tokens: Vec<u32> = text.bytes().map(u32::from).collect();
            prop_assert_eq!(pieces(&tokens).concat(), text);
        }

        #[test]
        fn bytes_that_are_not_utf_8_cause_no_panic(tokens in prop::collection::vec(0u32..300, 0..60)) {
            let tokenizer = random_model_tokenizer::tokenizer();
            let whole = tokenizer.decode(&tokens).unwrap();
            prop_assert!(whole.starts_with(&pieces(&tokens).concat()));
        }
    }
}
