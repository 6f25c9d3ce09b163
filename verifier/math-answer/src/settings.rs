//! Where answers are looked for, and what makes two the same.

/// Where answers are looked for, and what makes two the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Where in a completion an answer may stand.
    pub extraction: Extraction,
    /// What makes two answers the same.
    pub policy: Policy,
}

/// Where in a completion an answer may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extraction {
    /// Only in the last balanced `\boxed{}` or `\fbox{}`.
    #[default]
    Boxed,
    /// There, else after the last "answer is", else the last formula or number.
    Any,
}

/// What makes two answers the same; `docs/math-policy.md` has the reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// The same text after the normalisation that MATH was published with.
    Strict,
    /// The same value, worked out as far as the right answer is.
    #[default]
    Standard,
    /// The same value.
    Lenient,
}
