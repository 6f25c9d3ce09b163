//! The estimators that the study compares: every combination of factor, baseline and η once, and the presets.

use serde::{Serialize, Serializer};

use crate::algo::{Baseline, Estimator, Factor, Preset};

/// The compared caps.
pub const ETAS: [f64; 5] = [1.0, 1.5, 2.0, 4.0, f64::INFINITY];

/// The compared baselines. The baseline of the whole mini-batch is missing: here a mini-batch is one group, so it equals the group's.
pub(super) const BASELINES: [Baseline; 6] = [
    Baseline::None,
    Baseline::Group,
    Baseline::Loo,
    Baseline::WeightedGroup,
    Baseline::WeightedLoo,
    Baseline::OptimalLoo,
];

/// The compared presets. Their estimators are among the combinations, or are added to them if they divide by a length or a deviation.
const PRESETS: [Preset; 6] = [
    Preset::RapidPaper,
    Preset::RapidAuthor,
    Preset::RapidLoo,
    Preset::Pg,
    Preset::DapoPaper,
    Preset::GrpoClip,
];

/// One estimator of the study.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// The options of the measured estimator.
    pub estimator: Estimator,
    /// The preset with this estimator, if any.
    pub preset: Option<Preset>,
}

impl Setting {
    /// The cap, if the estimator has one.
    #[must_use]
    pub fn eta(&self) -> Option<f64> {
        has_cap(self.estimator.factor, self.estimator.baseline).then_some(self.estimator.eta)
    }

    /// The names of its choices, for a row of a table.
    #[must_use]
    pub fn names(&self) -> Names {
        Names {
            factor: self.estimator.factor.name(),
            baseline: self.estimator.baseline.name(),
            eta: self.eta().map(Eta),
            preset: self.preset.map(Preset::name),
        }
    }
}

/// An estimator's choices, by the names that a recipe uses.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Names {
    /// The factor.
    pub factor: &'static str,
    /// The baseline.
    pub baseline: &'static str,
    /// The cap; absent where neither factor nor baseline has one.
    pub eta: Option<Eta>,
    /// The preset with this estimator, if any.
    pub preset: Option<&'static str>,
}

impl Names {
    /// One line with all choices, the heading of a table's row.
    #[must_use]
    pub fn label(&self) -> String {
        let eta = self.eta.map(|eta| format!(", η = {}", eta.text()));
        format!(
            "{}, {}{}",
            self.factor,
            self.baseline,
            eta.unwrap_or_default()
        )
    }
}

/// A cap. JSON has no infinity, so an infinite cap is written as the string `inf`, as in a recipe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Eta(pub f64);

impl Eta {
    /// The cap as a recipe writes it.
    #[must_use]
    pub fn text(self) -> String {
        if self.0.is_infinite() {
            "inf".into()
        } else {
            self.0.to_string()
        }
    }
}

impl Serialize for Eta {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_infinite() {
            serializer.serialize_str("inf")
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

/// Every setting, in the order of factors, baselines and caps, followed by the presets that are not among them.
#[must_use]
pub fn grid() -> Vec<Setting> {
    let mut all = Vec::new();
    for factor in Factor::ALL {
        for baseline in BASELINES {
            let etas: &[f64] = if has_cap(factor, baseline) {
                &ETAS
            } else {
                &[2.0]
            };
            all.extend(etas.iter().map(|eta| Setting {
                estimator: plain(factor, baseline, *eta),
                preset: None,
            }));
        }
    }
    for preset in PRESETS {
        let estimator = preset.estimator();
        match all.iter_mut().find(|s| s.estimator == estimator) {
            Some(setting) => setting.preset = Some(preset),
            None => all.push(Setting {
                estimator,
                preset: Some(preset),
            }),
        }
    }
    all
}

/// The estimator with these three choices, without normalisation: a sum over tokens and completions, as in the derivation of the policy gradient.
pub(super) fn plain(factor: Factor, baseline: Baseline, eta: f64) -> Estimator {
    Estimator {
        factor,
        baseline,
        eta,
        ..Preset::Pg.estimator()
    }
}

fn has_cap(factor: Factor, baseline: Baseline) -> bool {
    factor.has_cap() || baseline.has_cap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_exists_once_and_estimators_without_a_cap_have_one_entry() {
        let all = grid();
        // Three factors with a cap: 6 baselines × 5 caps. Five factors without: four baselines without a cap, and two with 5 caps each.
        let plain = 3 * 30 + 5 * (4 + 10);
        assert_eq!(
            all.len(),
            plain + 3,
            "rapid-author, dapo-paper and grpo-clip divide"
        );
        for (index, setting) in all.iter().enumerate() {
            assert!(
                !all[..index]
                    .iter()
                    .any(|other| other.names() == setting.names()
                        && other.estimator == setting.estimator)
            );
            if setting.eta().is_none() {
                assert_eq!(setting.estimator.eta, 2.0);
            }
        }
        let presets: Vec<_> = all.iter().filter_map(|s| s.preset).collect();
        assert_eq!(presets.len(), PRESETS.len());
    }

    #[test]
    fn an_infinite_cap_is_valid_json() {
        let names = Setting {
            estimator: plain(Factor::WCapped, Baseline::Loo, f64::INFINITY),
            preset: None,
        }
        .names();
        assert_eq!(
            serde_json::to_string(&names).unwrap(),
            r#"{"factor":"w-capped","baseline":"loo","eta":"inf","preset":null}"#
        );
        assert_eq!(names.label(), "w-capped, loo, η = inf");
    }
}
