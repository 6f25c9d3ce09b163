//! The text of a completion as it grows, in whole characters, and the strings that end it.

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
    /// First token with text that has not been returned.
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

/// Detects the stop strings of a request in one completion as it grows.
#[derive(Debug, Clone)]
pub struct StopStrings {
    strings: Vec<String>,
    longest: usize,
    pieces: Detokenizer,
    /// The end of the text so far, as long as a match can reach back.
    tail: String,
}

impl StopStrings {
    /// Empty strings are ignored.
    pub fn new(strings: &[String]) -> Self {
        let strings: Vec<String> = strings.iter().filter(|s| !s.is_empty()).cloned().collect();
        Self {
            longest: strings.iter().map(String::len).max().unwrap_or(0),
            strings,
            pieces: Detokenizer::default(),
            tail: String::new(),
        }
    }

    /// Whether the completion contains a stop string, now that it has grown by some tokens. Must be called after each token.
    pub fn reached(&mut self, tokenizer: &Tokenizer, tokens: &[u32]) -> Result<bool, String> {
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

    /// The text up to its first stop string.
    pub fn cut<'a>(&self, text: &'a str) -> &'a str {
        let ends = self.strings.iter().filter_map(|s| text.find(s.as_str()));
        &text[..ends.min().unwrap_or(text.len())]
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

    /// The number of tokens when a stop string is reached, and the text before the string.
    fn stopped(text: &str, stop: &[&str]) -> Option<(usize, String)> {
        let tokenizer = random_model_tokenizer::tokenizer();
        let tokens: Vec<u32> = text.bytes().map(u32::from).collect();
        let strings: Vec<String> = stop.iter().map(|s| (*s).to_owned()).collect();
        let mut stop = StopStrings::new(&strings);
        let end = (1..=tokens.len()).find(|&n| stop.reached(&tokenizer, &tokens[..n]).unwrap())?;
        let text = tokenizer.decode(&tokens[..end]).unwrap();
        Some((end, stop.cut(&text).to_owned()))
    }

    #[test]
    fn a_stop_string_is_reached_with_its_last_byte() {
        assert_eq!(stopped("ab\n\ncd", &["\n\n"]), Some((4, "ab".into())));
        assert_eq!(stopped("a→b", &["→"]), Some((4, "a".into())));
        assert_eq!(stopped("abcabd", &["abd", "x"]), Some((6, "abc".into())));
        assert_eq!(stopped("aaab", &["aab"]), Some((4, "a".into())));
        assert_eq!(stopped("abc", &["", "d"]), None);
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

        #[test]
        fn generation_stops_where_the_text_first_contains_a_stop_string(
            text in "[abé]{0,30}",
            stop in prop::collection::vec("[abé]{1,4}", 1..3),
        ) {
            let stop: Vec<&str> = stop.iter().map(String::as_str).collect();
            let expected = text
                .char_indices()
                .map(|(start, c)| start + c.len_utf8())
                .find(|&end| stop.iter().any(|s| text[..end].contains(s)));
            prop_assert_eq!(stopped(&text, &stop).map(|(end, _)| end), expected);
        }
    }
}
