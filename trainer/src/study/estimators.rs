//! The compared estimators.

use crate::config::{Algorithm, Baseline, Factor, Preset};

/// The compared caps.
const ETAS: [f64; 5] = [1.0, 1.5, 2.0, 4.0, f64::INFINITY];

/// The preset that gives all compared estimators their other values.
const PG: Algorithm = Algorithm::of(Preset::Pg);

/// The compared presets. Their estimators are among the combinations, or are added to them if they divide by a length or a deviation.
pub(super) const PRESETS: [Preset; 6] = [
    Preset::RapidPaper,
    Preset::RapidAuthor,
    Preset::RapidLoo,
    Preset::Pg,
    Preset::DapoPaper,
    Preset::GrpoClip,
];

/// Every combination of factor, baseline and η, and the presets, each once. Without a cap, η is 2. A mini-batch is one group here, so the baseline of the whole
/// mini-batch equals the group's and is left out.
pub(super) fn estimators() -> Vec<(Algorithm, Option<Preset>)> {
    let mut all = Vec::new();
    for factor in Factor::ALL {
        for baseline in Baseline::ALL
            .into_iter()
            .filter(|it| *it != Baseline::Batch)
        {
            let has_cap = factor.has_cap() || baseline.has_cap();
            let etas = if has_cap { &ETAS[..] } else { &[2.0] };
            all.extend(etas.iter().map(|eta| (plain(factor, baseline, *eta), None)));
        }
    }
    for preset in PRESETS {
        // The sizes of its batches make no difference here.
        let estimator = Algorithm {
            preset: PG.preset,
            h: PG.h,
            ..Algorithm::of(preset)
        };
        all.retain(|(other, _)| *other != estimator);
        all.push((estimator, Some(preset)));
    }
    all
}

/// Those that are measured on a model, where each costs a backward pass for every group: the presets, and every factor with the baseline `loo` and η = 2.
pub(super) fn on_a_model() -> Vec<(Algorithm, Option<Preset>)> {
    let mut all = estimators();
    all.retain(|(it, preset)| preset.is_some() || it.baseline == Baseline::Loo && it.eta == 2.0);
    all
}

/// The estimator with these three choices, without normalisation: a sum over tokens and completions, as in the derivation of the policy gradient.
pub(super) fn plain(factor: Factor, baseline: Baseline, eta: f64) -> Algorithm {
    Algorithm {
        factor,
        baseline,
        eta,
        ..PG
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_of_estimators_exists_once() {
        let all = estimators();
        // Three factors with a cap: 6 baselines × 5 caps. Five factors without: four baselines without a cap, and two with 5 caps each.
        // rapid-author, dapo-paper and grpo-clip divide.
        assert_eq!(all.len(), 3 * 30 + 5 * (4 + 10) + 3);
        let is_new = |index: usize| all[..index].iter().all(|it| it.0 != all[index].0);
        assert!((1..all.len()).all(is_new));
        assert_eq!(on_a_model().len(), 6 + 8 - 1);
    }
}
