//! Where in a completion the answer is looked for, and when two answers count as the same.

/// Where in a completion the answer is looked for, and when two answers count as the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Where in a completion an answer may be.
    pub extraction: Extraction,
    /// When two answers count as the same.
    pub policy: Policy,
}

/// Where in a completion an answer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extraction {
    /// Only in the last `\boxed{}` or `\fbox{}`, or the last `\boxed` without braces.
    #[default]
    Boxed,
    /// In a box; without one, after the last "answer is"; otherwise the last formula or number.
    Any,
}

/// When two answers count as the same; `docs/math-policy.md` has the reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// The same text after the normalisation that MATH was published with.
    Strict,
    /// The same value, simplified as far as the expected answer.
    #[default]
    Standard,
    /// The same value.
    Lenient,
}
