//! Names of Python functions.

/// Python's keywords.
const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// The reason why `text` cannot be the name of a function; `None` if it can.
#[must_use]
pub fn invalid_name_reason(text: &str) -> Option<String> {
    if is_keyword(text) {
        return Some(format!(
            "`{text}` is a keyword of Python, so it cannot be the name of a function; give the name that the completion must define"
        ));
    }
    let mut characters = text.chars();
    let is_name = characters
        .next()
        .is_some_and(|first| first == '_' || first.is_alphabetic())
        && characters.all(|c| c == '_' || c.is_alphanumeric());
    (!is_name).then(|| format!("`{text}` is not the name of a Python function"))
}

/// Whether a word is a keyword, which cannot be a name.
#[must_use]
pub fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_letters_digits_and_underscores_and_not_a_keyword() {
        for name in ["f", "_f2", "für", "match", "type", "Class"] {
            assert_eq!(invalid_name_reason(name), None, "{name}");
        }
        for (text, why) in [
            ("class", "keyword"),
            ("None", "keyword"),
            ("f()", "not the name"),
            ("2f", "not the name"),
            ("a b", "not the name"),
            ("", "not the name"),
        ] {
            assert!(
                invalid_name_reason(text).is_some_and(|reason| reason.contains(why)),
                "{text}"
            );
        }
    }
}
