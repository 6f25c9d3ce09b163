//! Parses the text of an answer into an expression.

pub(crate) mod assignment_target;
pub(crate) mod counted_nouns;
pub(crate) mod grammar;
pub(crate) mod lexer;
pub(crate) mod multiple_choice;
pub(crate) mod unit;
pub(crate) mod word_answers;
pub(crate) mod words_after_number;

/// Whether `words`, which are separated by single spaces, contain `word`.
pub(crate) fn contains_word(words: &str, word: &str) -> bool {
    // A search for the text alone is faster, and finds nothing for most words.
    words.contains(word) && words.split(' ').any(|one| one == word)
}
