//! Reads the answers of mathematics problems, and compares them with the right ones.
//!
//! ```text
//! completion ── extract ──▶ answer ── read ──▶ tree ──┐
//!                     right answer ── read ──▶ tree ── same ──▶ rule by which they are, or none ── finished ──▶ what is left to do
//!                         question ── question ──▶ unit, percent, … ┘
//! ```
//!
//! ```text
//! extract     the final answer in a completion
//! compare     two answers: the entry point, with the text, the choices and the several readings of an answer
//! strict      the comparison that MATH was published with: text alone
//! question    what a question says of its answer
//! finished    whether a right value is an answer: written.rs, fractions.rs, distributed.rs, and steps/, which counts what is left to do
//! same        two trees by their kind: value.rs for numbers and formulas; quantity.rs, named.rs, reals.rs, linear.rs, signs.rs
//! read        from text to a tree: lex/ ▸ parse/; words, units, phrases and nouns behind a number; labels before it
//! arithmetic  exact (rationals) ▸ modular (identities) ▸ numeric (digits)
//! syntax      the tree; rule: why two are the same; meter: the steps that one comparison may take; seed: random numbers that are a function of the answers
//! pairs       files of pairs with a careful reader's verdict, and how fast they are compared
//! ```
//!
//! Each imports only those below it. What counts as the same answer, and why, is written down in `docs/math-policy.md`.
//!
//! Reading is linear in a text of bounded length, no number is computed beyond a fixed size, and whatever a comparison does is taken from one meter: an answer cannot
//! cost more than a fixed number of operations, and a verdict depends on the two answers and the question alone.

#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod arithmetic;
mod compare;
mod extract;
mod hints;
mod meter;
pub mod pairs;
mod read;
mod rule;
mod same;
mod seed;
mod settings;
mod simplified;
mod strict;
mod syntax;

pub use compare::{Answer, Comparison, compare, compare_answers};
pub use extract::{Extracted, Source, extract};
pub use rule::Rule;
pub use settings::{Extraction, Policy, Settings};

/// What was found in a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Graded<'a> {
    /// Its final answer.
    pub extracted: Extracted<'a>,
    /// What that is beside the right one.
    pub comparison: Comparison,
}

/// Compares the final answer of `completion` with the `right` one; `None` where it has none. The `question`, which may be empty, says what is counted and in which unit.
#[must_use]
pub fn grade<'a>(
    question: &str,
    expected: &str,
    completion: &'a str,
    settings: Settings,
) -> Option<Graded<'a>> {
    let extracted = extract(completion, settings.extraction)?;
    let expected = Answer::parse(expected).with_question(question);
    let comparison = compare_answers(&expected, &Answer::parse(extracted.text), settings.policy);
    Some(Graded {
        extracted,
        comparison,
    })
}
