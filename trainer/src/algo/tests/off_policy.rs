//! Factors of tokens and the variance-optimal baseline, against numbers computed by hand.

use super::*;

#[test]
fn token_level_factors_by_hand() {
    // Ratios 1/2, 1, 5/4 and 4; N = 2 and advantages ±1/2.
    let behaviour = [-2.0, -2.0, -2.0, -2.0];
    let new = [0.5_f32, 1.0, 1.25, 4.0].map(|ratio| -2.0 + ratio.ln());
    let group = vec![
        one(&new, &behaviour, Some(1.0)),
        one(&new, &behaviour, Some(0.0)),
    ];
    for (factor, expected) in [
        (Factor::TokenCapped, [0.5, 1.0, 1.25, 2.0]),
        (Factor::TokenMasked, [0.5, 1.0, 1.25, 0.0]),
        (Factor::Cispo, [0.8, 1.0, 1.2, 1.2]),
    ] {
        let computed = run(&Estimator { factor, ..PG }, std::slice::from_ref(&group));
        for (t, expected) in expected.into_iter().enumerate() {
            let [right, wrong] = [0, 1].map(|i| f64::from(computed.dlogp[i][t]));
            assert!((right + expected / 4.0).abs() < 1e-6, "{factor:?} {t}");
            assert!((wrong - expected / 4.0).abs() < 1e-6, "{factor:?} {t}");
        }
        let clipped = computed.metrics.clipped_tokens;
        assert_eq!(clipped, (factor == Factor::Cispo).then_some(0.75));
    }
}

#[test]
fn the_optimal_baseline_by_hand() {
    // Weights 1, 2 and 3 with rewards 1, 0 and 1/2: b is (4·0 + 9/2)/13, (1 + 9/2)/10 and (1 + 0)/5.
    let group: Vec<(f64, f64)> = [(1.0, 1.0_f64), (0.0, 2.0), (0.5, 3.0)]
        .map(|(reward, weight)| (reward, weight.ln()))
        .to_vec();
    let expected = [1.0 - 4.5 / 13.0, -5.5 / 10.0, 0.5 - 1.0 / 5.0];
    // Weights far below 1 have the same proportions.
    for shift in [0.0, -1000.0] {
        let group: Vec<_> = group.iter().map(|(r, ell)| (*r, ell + shift)).collect();
        let computed = Baseline::OptimalLoo.advantages(&group, 0.0, 2.0);
        for (a, b) in computed.iter().zip(expected) {
            assert!((a - b).abs() < 1e-9, "{computed:?}");
        }
    }
}
