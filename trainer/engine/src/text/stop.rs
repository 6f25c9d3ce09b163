//! Strings that end a completion.

use super::{Detokenizer, Tokenizer};

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
