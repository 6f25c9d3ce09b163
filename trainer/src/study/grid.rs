//! Which estimators the study compares: every factor × baseline × η, each once, and the presets.

use serde::{Serialize, Serializer};

use crate::algo::{Baseline, Estimator, Factor, Preset};

/// The caps that are compared.
pub const ETAS: [f64; 5] = [1.0, 1.5, 2.0, 4.0, f64::INFINITY];

/// The baselines that are compared. That of the whole mini-batch is the group's own where a mini-batch is one group, as it is here.
pub(super) const BASELINES: [Baseline; 5] = [
    Baseline::None,
    Baseline::Group,
    Baseline::Loo,
    Baseline::WeightedGroup,
    Baseline::WeightedLoo,
];

/// Presets whose estimators stand among the others, or are added to them where they divide by a length or a deviation.
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
    /// What is measured: production code's own knobs.
    pub estimator: Estimator,
    /// The preset that it is.
    pub preset: Option<Preset>,
}

impl Setting {
    /// The cap, where the estimator has one.
    #[must_use]
    pub fn eta(&self) -> Option<f64> {
        caps(self.estimator.factor, self.estimator.baseline).then_some(self.estimator.eta)
    }

    /// The names of its choices, as a row of a table has them.
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

/// An estimator by the names that a recipe uses.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Names {
    /// The factor.
    pub factor: &'static str,
    /// The baseline.
    pub baseline: &'static str,
    /// The cap; absent where neither factor nor baseline has one.
    pub eta: Option<Eta>,
    /// The preset that it is.
    pub preset: Option<&'static str>,
}

impl Names {
    /// In a line, as a table's row is called.
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

/// A cap. JSON has no infinity, so that one is written as the text `inf`, as a recipe writes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Eta(pub f64);

impl Eta {
    /// As a recipe writes it.
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

/// Every setting, in the order of factors, baselines and caps; presets that are none of them at the end.
#[must_use]
pub fn grid() -> Vec<Setting> {
    let mut all = Vec::new();
    for factor in Factor::ALL {
        for baseline in BASELINES {
            let etas: &[f64] = if caps(factor, baseline) {
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

/// A sum over tokens and completions, as the policy gradient is derived, with these three choices.
pub(super) fn plain(factor: Factor, baseline: Baseline, eta: f64) -> Estimator {
    Estimator {
        factor,
        baseline,
        eta,
        ..Preset::Pg.estimator()
    }
}

fn caps(factor: Factor, baseline: Baseline) -> bool {
    matches!(factor, Factor::WCapped | Factor::TokenCapped)
        || matches!(baseline, Baseline::WeightedGroup | Baseline::WeightedLoo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_there_once_and_no_cap_that_nothing_has() {
        let all = grid();
        // Two factors with a cap: 5 baselines × 5 caps. Four without: three baselines, and two with 5 caps.
        let plain = 2 * 25 + 4 * (3 + 10);
        assert_eq!(all.len(), plain + 2, "dapo-paper and grpo-clip divide");
        for (place, one) in all.iter().enumerate() {
            assert!(
                !all[..place]
                    .iter()
                    .any(|other| other.names() == one.names() && other.estimator == one.estimator)
            );
            if one.eta().is_none() {
                assert_eq!(one.estimator.eta, 2.0);
            }
        }
        let named: Vec<_> = all.iter().filter_map(|s| s.preset).collect();
        assert_eq!(named.len(), PRESETS.len());
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
