//! What a grader returns.

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use verifier_api::Verdict;

/// Longest piece of text that a `detail` shows, in characters.
const EXCERPT: usize = 300;

/// What a grader decided, before it is given an id, a key and a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grading {
    /// The decision.
    pub verdict: Verdict,
    /// A JSON object of bounded size that explains it.
    pub detail: Json,
    /// Tests passed, for code only.
    pub passed: Option<u32>,
    /// Tests in all, for code only.
    pub total: Option<u32>,
    /// Whether judging again may succeed; only with [`Verdict::Unavailable`].
    pub retryable: bool,
    /// Whether the verdict is a pure function of the key.
    pub deterministic: bool,
}

impl Grading {
    /// A deterministic verdict about the completion.
    #[must_use]
    pub fn new(verdict: Verdict, detail: Json) -> Grading {
        Grading {
            verdict,
            detail,
            passed: None,
            total: None,
            retryable: false,
            deterministic: true,
        }
    }

    /// A failure that says nothing about the completion.
    #[must_use]
    pub fn unavailable(reason: &str, retryable: bool) -> Grading {
        Grading {
            retryable,
            ..Grading::new(
                Verdict::Unavailable,
                json!({ "reason": bounded(reason, 2_000) }),
            )
        }
    }

    /// 1, 0, or `None` where the verdict is not about the completion.
    #[must_use]
    pub fn reward(&self) -> Option<f64> {
        match self.verdict {
            Verdict::Correct => Some(1.0),
            Verdict::Incorrect | Verdict::Timeout | Verdict::Memory | Verdict::Malformed => {
                Some(0.0)
            }
            Verdict::Unavailable => None,
        }
    }
}

/// The start of `text`, short enough for a `detail`.
pub(crate) fn excerpt(text: &str) -> String {
    bounded(text, EXCERPT)
}

fn bounded(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unavailable_verdict_has_no_reward() {
        assert_eq!(
            Grading::new(Verdict::Correct, Json::Null).reward(),
            Some(1.0)
        );
        assert_eq!(
            Grading::new(Verdict::Timeout, Json::Null).reward(),
            Some(0.0)
        );
        assert_eq!(Grading::unavailable("no sandbox", true).reward(), None);
    }

    #[test]
    fn an_excerpt_ends_at_a_character() {
        assert_eq!(excerpt(&"é".repeat(1000)).chars().count(), EXCERPT + 1);
    }
}
