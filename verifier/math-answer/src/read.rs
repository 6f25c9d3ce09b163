//! From the text of an answer to its tree.

pub(crate) mod label;
pub(crate) mod lex;
pub(crate) mod name;
pub(crate) mod nouns;
pub(crate) mod parse;
pub(crate) mod phrase;
pub(crate) mod unit;
pub(crate) mod words;
