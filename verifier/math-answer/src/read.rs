//! Parses the text of an answer into a tree.

pub(crate) mod assignable;
pub(crate) mod choice_label;
pub(crate) mod counted_nouns;
pub(crate) mod lex;
pub(crate) mod parse;
pub(crate) mod trailing_words;
pub(crate) mod unit;
pub(crate) mod word_answers;
