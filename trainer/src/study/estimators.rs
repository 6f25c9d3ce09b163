//! The estimators that the study compares: every combination of factor, baseline and η once, and the presets.

use serde::{Serialize, Serializer};

use crate::algo::{Baseline, Estimator, Factor, Preset};

/// The compared caps.
const ETAS: [f64; 5] = [1.0, 1.5, 2.0, 4.0, f64::INFINITY];

/// The compared baselines. The baseline of the whole mini-batch is missing: here a mini-batch is one group, so it equals the group's.
const BASELINES: [Baseline; 6] = [
    Baseline::None,
    Baseline::Group,
    Baseline::Loo,
    Baseline::WeightedGroup,
    Baseline::WeightedLoo,
    Baseline::OptimalLoo,
];

/// The compared presets. Their estimators are among the combinations, or are added to them if they divide by a length or a deviation.
pub(super) const PRESETS: [Preset; 6] = [
    Preset::RapidPaper,
    Preset::RapidAuthor,
    Preset::RapidLoo,
    Preset::Pg,
    Preset::DapoPaper,
    Preset::GrpoClip,
];

/// One estimator of the study, with its choices as a recipe names them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Setting {
    /// The factor.
    pub factor: &'static str,
    /// The baseline.
    pub baseline: &'static str,
    /// The cap; `None` where neither factor nor baseline has one.
    #[serde(serialize_with = "written")]
    pub eta: Option<f64>,
    /// The preset with this estimator, if any.
    pub preset: Option<&'static str>,
    /// The options of the measured estimator.
    #[serde(skip)]
    pub estimator: Estimator,
}

/// JSON has no infinity, so an infinite cap is the string `inf`.
#[allow(clippy::ref_option, reason = "serde passes references")]
fn written<S: Serializer>(eta: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match eta {
        Some(eta) if eta.is_infinite() => serializer.serialize_str("inf"),
        eta => eta.serialize(serializer),
    }
}

impl Setting {
    fn new(estimator: Estimator, preset: Option<Preset>) -> Self {
        let (factor, baseline) = (estimator.factor, estimator.baseline);
        let has_cap = factor.has_cap() || baseline.has_cap();
        Self {
            factor: factor.name(),
            baseline: baseline.name(),
            eta: has_cap.then_some(estimator.eta),
            preset: preset.map(Preset::name),
            estimator,
        }
    }
}

/// Every setting, in the order of factors, baselines and caps, followed by the presets that are not among them.
#[must_use]
pub fn estimators() -> Vec<Setting> {
    let mut all: Vec<Setting> = Vec::new();
    for factor in Factor::ALL {
        for baseline in BASELINES {
            let has_cap = factor.has_cap() || baseline.has_cap();
            let etas = if has_cap { &ETAS[..] } else { &[2.0] };
            let estimators = etas.iter().map(|eta| plain(factor, baseline, *eta));
            all.extend(estimators.map(|estimator| Setting::new(estimator, None)));
        }
    }
    for preset in PRESETS {
        let setting = Setting::new(preset.estimator(), Some(preset));
        let same = |other: &&mut Setting| other.estimator == setting.estimator;
        match all.iter_mut().find(same) {
            Some(other) => other.preset = setting.preset,
            None => all.push(setting),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_exists_once_and_estimators_without_a_cap_have_one_entry() {
        let all = estimators();
        // Three factors with a cap: 6 baselines × 5 caps. Five factors without: four baselines without a cap, and two with 5 caps each.
        let plain = 3 * 30 + 5 * (4 + 10);
        assert_eq!(
            all.len(),
            plain + 3,
            "rapid-author, dapo-paper and grpo-clip divide"
        );
        for (index, setting) in all.iter().enumerate() {
            assert!(!all[..index].contains(setting));
            assert!(setting.eta.is_some() || setting.estimator.eta == 2.0);
        }
        let presets: Vec<_> = all.iter().filter_map(|s| s.preset).collect();
        assert_eq!(presets.len(), PRESETS.len());
    }

    #[test]
    fn an_infinite_cap_is_valid_json() {
        let capped = plain(Factor::WCapped, Baseline::Loo, f64::INFINITY);
        let setting = Setting::new(capped, None);
        assert_eq!(
            serde_json::to_string(&setting).unwrap(),
            r#"{"factor":"w-capped","baseline":"loo","eta":"inf","preset":null}"#
        );
    }
}
