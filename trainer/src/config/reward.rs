//! `[reward]`: the reward of a completion in training.

use std::collections::BTreeMap;

use datasets::is_grader_name;
use datasets::settings::{Limit, SettingError, above, between, settings};

use super::limits::MAX_NUMBER;

const WEIGHT: Limit = between(-MAX_NUMBER, MAX_NUMBER);

settings! {
    /// `[reward]`: the weights of the terms of a completion's reward in training. Evaluation counts only correct completions.
    pub struct Reward {
        /// Weight of 1 if the completion is correct, else 0. A grader of your own may give something between.
        pub correct: f64 = 1.0 => WEIGHT,
        /// Weight of the fraction of its tests that a program passes; for other tasks, the same as correct.
        pub share: f64 => WEIGHT,
        /// Weight of 1 if the completion has an answer in the requested form, correct or not, else 0.
        pub format: f64 => WEIGHT,
        /// Weight of the completion's length, as a fraction of sampling.max_tokens. A negative weight penalises length.
        pub length: f64 => WEIGHT,
        /// Weight of a penalty that falls from 0 to -1 over the last tokens before sampling.max_tokens. (dapo: 0.5.)
        pub overlong: f64 => WEIGHT,
        /// The number of those last tokens, as a fraction of sampling.max_tokens.
        pub overlong_margin: f64 = 0.2 => above(0.0, 1.0),
        /// A further term: one that a grader of your own gives (docs/rewards.md), another grader's reward, or one of those above with a condition.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub terms: BTreeMap<String, RewardTerm>,
    }
}

settings! {
    /// A further term of the reward.
    pub struct RewardTerm {
        /// Its weight.
        pub weight: f64 = 1.0 => WEIGHT,
        /// Whether it counts only for a correct completion.
        pub if_correct: bool,
        /// A grader of your own that judges every completion beside the task's grader: the term is its reward. Unless set, the task's grader gives the term.
        pub grader: Option<String>,
    }
}

impl Reward {
    /// The terms of every completion.
    pub const TERMS: [&'static str; 5] = ["correct", "share", "format", "length", "overlong"];

    /// The terms that a grader gives, and the grader of each if it is not the task's.
    pub fn of_graders(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let terms = self.terms.iter();
        let terms = terms.map(|(name, term)| (name.as_str(), term.grader.as_deref()));
        terms.filter(|(name, _)| !Self::TERMS.contains(name))
    }

    /// Their weights.
    pub(super) fn weights(&self) -> [f64; 5] {
        [
            self.correct,
            self.share,
            self.format,
            self.length,
            self.overlong,
        ]
    }

    /// Refuses a further term that has a weight twice, or a name that no grader's term can have.
    ///
    /// # Errors
    /// [`SettingError`].
    pub(super) fn check(&self) -> Result<(), SettingError> {
        let weights = self.weights();
        for (name, term) in &self.terms {
            let place = Self::TERMS.iter().position(|known| known == name);
            let reason = match place {
                Some(place) if weights[place] != 0.0 => {
                    format!("the term has a weight as `reward.{name}` already; set that to 0")
                }
                Some(_) if term.grader.is_some() => {
                    "every completion has this term; give the grader's term another name".to_owned()
                }
                None if !is_grader_name(name) => {
                    "a term's name is lower-case letters, digits and underscores, a letter first"
                        .to_owned()
                }
                None if term.grader.as_deref().is_some_and(|it| !is_grader_name(it)) => {
                    "`grader` is the name of a grader of your own, as in [graders.NAME] of the verifier".to_owned()
                }
                _ => continue,
            };
            let path = format!("reward.terms.{name}");
            return Err(SettingError::value(&path, reason));
        }
        Ok(())
    }
}
