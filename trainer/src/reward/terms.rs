//! The reward of training: a weighted sum of terms. Each term is logged separately.

use std::collections::BTreeMap;

use verifier_api::Verdict;

use super::Judged;
use crate::config;

/// The terms of one completion's reward: the name in a recipe, the value and the weight of each.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms<'a>(Vec<(&'a str, f64, f64)>);

impl<'a> Terms<'a> {
    /// The terms of a completion of `tokens` tokens, of at most `max_tokens`; `None` if it has no verdict.
    #[must_use]
    pub fn of(
        judged: &Judged,
        tokens: usize,
        max_tokens: usize,
        weights: &'a config::Reward,
    ) -> Option<Self> {
        let correct = judged.reward?;
        // It is 1 only for a correct program.
        let share = match (judged.verdict, judged.passed, judged.total) {
            (Verdict::Correct, ..) => correct,
            // A program that stops after its last test has passed them all, and is wrong all the same.
            (_, Some(passed), Some(total)) if total > 0 => {
                f64::from(passed.min(total - 1)) / f64::from(total)
            }
            _ => correct,
        };
        let format = f64::from(u8::from(judged.verdict != Verdict::Malformed));
        let length = tokens as f64 / max_tokens.max(1) as f64;
        // DAPO, Yu et al. 2025, Eq. 13.
        let overlong = ((1.0 - length) / weights.overlong_margin - 1.0).clamp(-1.0, 0.0);
        let mut terms = vec![
            ("correct", correct, weights.correct),
            ("share", share, weights.share),
            ("format", format, weights.format),
            ("length", length, weights.length),
            ("overlong", overlong, weights.overlong),
        ];
        for (name, term) in &weights.terms {
            let own = terms.iter().find(|(own, ..)| own == name);
            let own = own.map(|(_, value, _)| *value);
            let counts = !term.if_correct || judged.verdict == Verdict::Correct;
            // The client has refused a verdict without the term.
            let value = own.or_else(|| judged.terms.get(name).copied());
            let value = value.filter(|_| counts).unwrap_or(0.0);
            terms.push((name, value, term.weight));
        }
        Some(Self(terms))
    }

    /// The terms that have a weight. A term of weight 0 does not count, whatever its value.
    fn weighted(&self) -> impl Iterator<Item = &(&'a str, f64, f64)> {
        self.0.iter().filter(|(_, _, weight)| *weight != 0.0)
    }

    /// The reward.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.weighted()
            .map(|(_, value, weight)| value * weight)
            .sum()
    }
}

/// The mean of each term that has a weight. Empty if the reward is only the verifier's.
#[must_use]
pub fn means(terms: &[Terms<'_>]) -> BTreeMap<String, f64> {
    let mut means = BTreeMap::new();
    for (name, value, _) in terms.iter().flat_map(Terms::weighted) {
        *means.entry((*name).to_owned()).or_default() += value / terms.len() as f64;
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

    /// The terms of a completion with this verdict and these numbers of passed tests and of tests, and of this length of at most 100 tokens.
    fn terms(
        (verdict, tests): (Verdict, Option<(u32, u32)>),
        tokens: usize,
        weights: &config::Reward,
    ) -> Option<Terms<'_>> {
        let judged = Judged {
            reward: match verdict {
                Verdict::Unavailable => None,
                Verdict::Correct => Some(1.0),
                _ => Some(0.0),
            },
            verdict,
            passed: tests.map(|(passed, _)| passed),
            total: tests.map(|(_, total)| total),
            terms: [("style".to_owned(), 0.5)].into(),
            ..Judged::default()
        };
        Terms::of(&judged, tokens, 100, weights)
    }

    #[test]
    fn the_reward_is_the_weighted_sum_of_its_terms() {
        let default = &config::Reward::default();
        let share = &config::Reward {
            correct: 0.0,
            share: 1.0,
            ..default.clone()
        };
        let overlong = &config::Reward {
            overlong: 1.0,
            ..default.clone()
        };
        let further = |name: &str, weight: f64, if_correct: bool| config::Reward {
            terms: [(
                name.to_owned(),
                config::RewardTerm {
                    weight,
                    if_correct,
                    grader: None,
                },
            )]
            .into(),
            ..default.clone()
        };
        let (style, brief) = (
            &further("style", 2.0, false),
            &further("length", -0.5, true),
        );
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
            // A term of the grader's own, and one that counts only for correct completions.
            (style, RIGHT, 1, 2.0),
            (style, (wrong, None), 1, 1.0),
            (brief, RIGHT, 50, 0.75),
            (brief, (wrong, None), 50, 0.0),
        ] {
            let terms = terms(judged, tokens, settings).unwrap();
            let sum = terms.sum();
            assert!((sum - reward).abs() < 1e-12, "{judged:?} {tokens}: {sum}");
            let logs_terms = !means(&[terms]).is_empty();
            assert_eq!(logs_terms, settings != default);
        }
        assert_eq!(terms((Verdict::Unavailable, None), 7, default), None);
    }
}
