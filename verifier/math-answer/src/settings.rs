//! Where answers are looked for, and what makes two the same.

use serde::{Deserialize, Serialize};

/// Where answers are looked for, and what makes two the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Where in a completion an answer may stand.
    pub extraction: Extraction,
    /// What makes two answers the same.
    pub policy: Policy,
}

impl Settings {
    /// Both names.
    #[must_use]
    pub fn name(self) -> String {
        format!("{}, {}", self.extraction.name(), self.policy.name())
    }
}

/// Where in a completion an answer may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extraction {
    /// Only in the last balanced `\boxed{}` or `\fbox{}`.
    #[default]
    Boxed,
    /// There, else after the last "answer is", else the last formula or number.
    Any,
}

impl Extraction {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::Boxed, Self::Any];

    /// As configuration files write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Boxed => "boxed",
            Self::Any => "any",
        }
    }

    /// What it is, for the help of a command line.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Self::Boxed => r"Only in the last balanced \boxed{} or \fbox{}",
            Self::Any => {
                r#"There, else after the last "answer is", else the last formula or number"#
            }
        }
    }
}

/// What makes two answers the same; `docs/math-policy.md` has the reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// The same text after the normalisation that MATH was published with.
    Strict,
    /// The same value, worked out as far as the right answer is.
    #[default]
    Standard,
    /// The same value.
    Lenient,
}

impl Policy {
    /// From the one that accepts least.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Standard, Self::Lenient];

    /// As configuration files write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Standard => "standard",
            Self::Lenient => "lenient",
        }
    }

    /// What it is, for the help of a command line.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Self::Strict => "The same text after the normalisation that MATH was published with",
            Self::Standard => "The same value, worked out as far as the right answer is",
            Self::Lenient => "The same value",
        }
    }
}
