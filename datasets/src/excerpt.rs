//! Shortens texts of others, so that messages stay short.

/// Maximum length of a text in a message, in characters.
const MAX_EXCERPT: usize = 300;

/// The beginning of `text`, short enough for a message.
#[must_use]
pub fn excerpt(text: &str) -> String {
    bounded(text, MAX_EXCERPT)
}

/// The first `characters` of `text`, and `…` if it has more.
#[must_use]
pub fn bounded(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_ends_at_a_character() {
        assert_eq!(excerpt(&"é".repeat(1000)).chars().count(), MAX_EXCERPT + 1);
    }
}
