//! The rules by which two answers are the same.

/// The rule by which two answers are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// They have the same tokens, or the same text after normalisation.
    Text,
    /// Both are rational numbers of the same exact value.
    Number,
    /// Their trees are the same.
    Form,
    /// They agree modulo large primes at random points.
    Identity,
    /// They agree to many digits at random points.
    Numeric,
    /// Tuples, matrices, lists or sets of equal elements.
    Elements,
    /// The same set of real numbers.
    Set,
    /// Equations or inequalities with the same meaning.
    Relation,
    /// The same quantity in other units.
    Unit,
    /// The same ratio.
    Ratio,
    /// The same digits in the same base.
    Base,
    /// The same words, or the same number, time or day in words.
    Words,
}

impl Rule {
    /// The name in a verdict's `detail`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Rule::Text => "text",
            Rule::Number => "number",
            Rule::Form => "form",
            Rule::Identity => "identity",
            Rule::Numeric => "digits",
            Rule::Elements => "elements",
            Rule::Set => "set",
            Rule::Relation => "relation",
            Rule::Unit => "unit",
            Rule::Ratio => "ratio",
            Rule::Base => "base",
            Rule::Words => "words",
        }
    }
}
