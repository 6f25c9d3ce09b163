//! Parses the answers of mathematics problems, and compares them with the expected answers.
//!
//! ```text
//! completion ── extract ──▶ answer ── parser ──▶ expression ──┐
//!                  expected answer ── parser ──▶ expression ──┼─ equivalence ──▶ the rule by which they agree ── simplification ──▶ missing simplification
//!                        question ── question_hints ──▶ hints ─┘
//! ```
//!
//! ```text
//! extract             finds the final answer in a completion
//! compare             compares two answers. It is the entry point, and handles texts, choices and the possible readings of an answer
//! math_normalisation  the comparison that MATH was published with, which compares text alone
//! simplification      finds the simplification that is missing in an answer with the right value
//! equivalence         compares two expressions by kind: numbers and formulas (value_equality.rs), quantities with units, x = 5, intervals, ±
//! question_hints      what a question implies about its answer: a percentage, a unit, several answers with commas
//! parser              lexer ▸ grammar; units, nouns and other words after a number; labels before it
//! arithmetic          exact (rational numbers) ▸ modular (identities) ▸ numeric (many digits)
//! expression          the tree of a parsed answer; match_rule: why two answers are the same
//! meter               the steps that one comparison may take; random_seed: random numbers computed from the answers
//! settings            where the answer is looked for, and by which policy it is compared
//! pairs               files of pairs with a careful reader's verdict, and how fast they are compared
//! ```
//!
//! Each module imports only those below it. `docs/math-policy.md` lists which answers count as the same, and why.
//!
//! Parsing takes time linear in the length of a text, and that is limited. No number grows beyond a fixed size. All the work of a comparison is charged to one meter.
//! So an answer cannot cost more than a fixed number of operations, and a verdict depends only on the two answers and the question.

#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod arithmetic;
mod compare;
mod equivalence;
mod expression;
mod extract;
mod match_rule;
mod math_normalisation;
mod meter;
pub mod pairs;
mod parser;
mod question_hints;
mod random_seed;
mod settings;
mod simplification;

pub use compare::{Answer, Comparison, compare, compare_answers};
pub use extract::{Extracted, Source, extract};
pub use match_rule::Rule;
pub use settings::{Extraction, Policy, Settings};

/// The final answer of a completion, and the result of comparing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Graded<'a> {
    /// The final answer.
    pub extracted: Extracted<'a>,
    /// The comparison with the expected answer.
    pub comparison: Comparison,
}

/// Compares the final answer of `completion` with the `expected` one. Returns `None` if the completion has no answer. The `question` states what is counted and in
/// which unit. It may be empty.
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
