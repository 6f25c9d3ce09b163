//! The reward of training: a weighted sum of terms, each of which is logged separately.

use std::collections::BTreeMap;

use verifier_api::Verdict;

use super::Judged;
use crate::config;

/// The terms of one completion's reward, before their weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// The verifier's reward.
    correct: f64,
    /// The share of its tests that a program passes, which is 1 only for a correct program.
    share: f64,
    /// 1 if there is an answer in the required form, else 0.
    format: f64,
    /// The completion's length, as a share of the maximum length.
    length: f64,
    /// Falls from 0 to −1 over the last tokens before the maximum length (DAPO, Yu et al. 2025, Eq. 13).
    overlong: f64,
}

impl Terms {
    /// The terms of a completion of `tokens` tokens, of at most `max_tokens`; `None` if it has no verdict.
    #[must_use]
    pub fn of(
        judged: &Judged,
        tokens: usize,
        max_tokens: usize,
        settings: &config::Reward,
    ) -> Option<Self> {
        let correct = judged.reward?;
        let share = match (judged.verdict, judged.passed, judged.total) {
            (Verdict::Correct, ..) => correct,
            // A program that stops after its last test has passed them all, and is wrong all the same.
            (_, Some(passed), Some(total)) if total > 0 => {
                f64::from(passed.min(total - 1)) / f64::from(total)
            }
            _ => correct,
        };
        let length = tokens as f64 / max_tokens.max(1) as f64;
        Some(Self {
            correct,
            share,
            format: f64::from(u8::from(judged.verdict != Verdict::Malformed)),
            length,
            overlong: ((1.0 - length) / settings.overlong_margin - 1.0).clamp(-1.0, 0.0),
        })
    }

    /// The name in a recipe, the value and the weight of each term.
    fn weighted(self, settings: &config::Reward) -> [(&'static str, f64, f64); 5] {
        [
            ("correct", self.correct, settings.correct),
            ("share", self.share, settings.share),
            ("format", self.format, settings.format),
            ("length", self.length, settings.length),
            ("overlong", self.overlong, settings.overlong),
        ]
    }

    /// The reward.
    #[must_use]
    pub fn sum(self, settings: &config::Reward) -> f64 {
        self.weighted(settings)
            .iter()
            // A term of weight 0 does not count, whatever its value.
            .filter(|(_, _, weight)| *weight != 0.0)
            .map(|(_, value, weight)| value * weight)
            .sum()
    }
}

/// The mean of each term that has a weight. Empty if the reward is only the verifier's.
#[must_use]
pub fn means(terms: &[Terms], settings: &config::Reward) -> BTreeMap<String, f64> {
    let mut means = BTreeMap::new();
    for term in terms {
        for (name, value, weight) in term.weighted(settings) {
            if weight != 0.0 {
                *means.entry(name.to_owned()).or_default() += value / terms.len() as f64;
            }
        }
    }
    if means.len() == 1 && means.contains_key("correct") {
        means.clear();
    }
    means
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: (Verdict, Option<(u32, u32)>) = (Verdict::Correct, None);

    /// The terms of a completion with this verdict and these numbers of passed tests and of tests.
    fn terms(
        (verdict, tests): (Verdict, Option<(u32, u32)>),
        tokens: usize,
        max_tokens: usize,
    ) -> Option<Terms> {
        let judged = Judged {
            reward: match verdict {
                Verdict::Unavailable => None,
                Verdict::Correct => Some(1.0),
                _ => Some(0.0),
            },
            verdict,
            passed: tests.map(|(passed, _)| passed),
            total: tests.map(|(_, total)| total),
            ..Judged::default()
        };
        Terms::of(&judged, tokens, max_tokens, &config::Reward::default())
    }

    #[test]
    fn the_reward_is_the_weighted_sum_of_its_terms() {
        let default = config::Reward::default();
        let share = config::Reward {
            correct: 0.0,
            share: 1.0,
            ..default
        };
        let overlong = config::Reward {
            overlong: 1.0,
            ..default
        };
        let wrong = Verdict::Incorrect;
        for (settings, judged, tokens, reward) in [
            // The verifier's, by default.
            (default, (Verdict::Correct, Some((1, 4))), 95, 1.0),
            (default, (wrong, Some((1, 4))), 95, 0.0),
            (default, (Verdict::Malformed, None), 95, 0.0),
            // The share of tests is one only for a correct program.
            (share, (Verdict::Correct, Some((4, 4))), 1, 1.0),
            (share, (wrong, Some((3, 4))), 1, 0.75),
            (share, (Verdict::Timeout, Some((1, 4))), 1, 0.25),
            // It stopped after its last test.
            (share, (wrong, Some((4, 4))), 1, 0.75),
            (share, (wrong, Some((0, 4))), 1, 0.0),
            (share, (wrong, None), 1, 0.0),
            (share, RIGHT, 1, 1.0),
            // Completions near the limit lose reward in proportion.
            (overlong, RIGHT, 1, 1.0),
            (overlong, RIGHT, 80, 1.0),
            (overlong, RIGHT, 90, 0.5),
            (overlong, RIGHT, 95, 0.25),
            (overlong, RIGHT, 100, 0.0),
        ] {
            let terms = terms(judged, tokens, 100).unwrap();
            let sum = terms.sum(&settings);
            assert!((sum - reward).abs() < 1e-12, "{judged:?} {tokens}: {sum}");
            let logs_terms = !means(&[terms], &settings).is_empty();
            assert_eq!(logs_terms, settings != default);
        }
        assert_eq!(terms((Verdict::Unavailable, None), 7, 8), None);
    }

    #[test]
    fn each_term_with_a_weight_is_logged_separately() {
        let settings = config::Reward {
            format: 0.1,
            length: -0.5,
            ..config::Reward::default()
        };
        let terms: Vec<Terms> = [
            (Verdict::Correct, 2),
            (Verdict::Malformed, 8),
            (Verdict::Incorrect, 2),
            (Verdict::Incorrect, 4),
        ]
        .map(|(verdict, tokens)| terms((verdict, None), tokens, 8).unwrap())
        .to_vec();
        let expected = [("correct", 0.25), ("format", 0.75), ("length", 0.5)];
        let expected = expected.map(|(name, mean)| (name.to_owned(), mean));
        assert_eq!(means(&terms, &settings), expected.into());
        let sums: f64 = terms.iter().map(|term| term.sum(&settings)).sum();
        assert!((sums / 4.0 - (0.25 + 0.1 * 0.75 - 0.5 * 0.5)).abs() < 1e-12);
    }
}
