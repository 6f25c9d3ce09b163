//! The rules by which two answers are the same.

/// Why two answers were held equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Their normal forms are the same text.
    Text,
    /// Both are rational numbers of the same exact value.
    Number,
    /// Their trees are the same.
    Form,
    /// They agree exactly, modulo large primes, at random points.
    Identity,
    /// They agree to many digits, at random points.
    Numeric,
    /// Tuples, matrices, lists or sets of equal elements.
    Elements,
    /// The same set of real numbers.
    Set,
    /// Equations or inequalities that say the same.
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
    /// As `detail` writes it.
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
