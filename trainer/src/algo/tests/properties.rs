//! Properties that hold for every mini-batch and every estimator.

use proptest::prelude::*;

use super::*;

fn sample() -> impl Strategy<Value = Owned> {
    let logp = -20.0f32..0.0;
    (
        prop::collection::vec((logp.clone(), logp.clone(), logp), 1..5),
        prop::option::weighted(0.8, prop_oneof![Just(0.0), Just(1.0), 0.0..1.0]),
    )
        .prop_map(|(tokens, reward)| Owned {
            new: tokens.iter().map(|token| token.0).collect(),
            behaviour: tokens.iter().map(|token| token.1).collect(),
            reference: tokens.iter().map(|token| token.2).collect(),
            reward,
        })
}

fn estimators() -> impl Strategy<Value = Algorithm> {
    (
        prop::sample::select(&Factor::ALL[..]),
        prop::sample::select(&Baseline::ALL[..]),
        prop::sample::select(&LengthNorm::ALL[..]),
        any::<bool>(),
        prop::sample::select(&[0.0, 0.04][..]),
        prop::sample::select(&[0.0, 0.5][..]),
    )
        .prop_map(
            |(factor, baseline, length_norm, divide_by_std, kl, adaptive_eta)| Algorithm {
                factor,
                baseline,
                length_norm,
                divide_by_std,
                kl,
                adaptive_eta,
                ..PG
            },
        )
}

fn groups() -> impl Strategy<Value = Vec<Vec<Owned>>> {
    prop::collection::vec(prop::collection::vec(sample(), 1..6), 1..5)
}

fn near(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| (a - b).abs() <= 1e-5 * (a.abs() + b.abs()) + 1e-12)
}

proptest! {
    #[test]
    fn on_policy_the_papers_choices_and_every_factor_give_the_plain_gradient(mut groups in groups(), baseline in prop::sample::select(&Baseline::ALL[..])) {
        for sample in groups.iter_mut().flatten() {
            sample.behaviour.clone_from(&sample.new);
        }
        prop_assert_eq!(run(&PAPER, &groups), run(&PG, &groups));
        let plain = run(&Algorithm { baseline, ..PG }, &groups).dlogp;
        for factor in [Factor::TokenCapped, Factor::TokenMasked, Factor::Cispo] {
            prop_assert_eq!(&plain, &run(&Algorithm { factor, baseline, eta: 1.0, ..PG }, &groups).dlogp);
        }
        let [optimal, loo] = [Baseline::OptimalLoo, Baseline::Loo].map(|baseline| run(&Algorithm { baseline, ..PG }, &groups).dlogp);
        for (a, b) in optimal.iter().flatten().zip(loo.iter().flatten()) {
            prop_assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
    }

    #[test]
    fn a_mini_batch_is_the_weighted_sum_of_its_parts(groups in groups(), estimator in prop_oneof![Just(PAPER), Just(PG)]) {
        let whole = run(&estimator, &groups);
        let parts: Vec<Gradient> = groups.iter().map(|group| run(&estimator, std::slice::from_ref(group))).collect();
        let scaled: Vec<Vec<f32>> = parts
            .iter()
            .flat_map(|part| {
                let share = part.metrics.judged as f64 / whole.metrics.judged.max(1) as f64;
                part.dlogp.iter().map(move |tokens| tokens.iter().map(|d| (f64::from(*d) * share) as f32).collect())
            })
            .collect();
        for (a, b) in whole.dlogp.iter().zip(&scaled) {
            prop_assert!(near(a, b), "{a:?} {b:?}");
        }
    }

    #[test]
    fn an_adaptive_cap_equals_the_same_cap_set_by_hand(groups in groups(), estimator in estimators()) {
        let computed = run(&estimator, &groups);
        let by_hand = Algorithm { eta: computed.metrics.eta.unwrap(), adaptive_eta: 0.0, ..estimator };
        prop_assert_eq!(run(&by_hand, &groups), computed);
    }

    #[test]
    fn permuting_groups_and_their_samples_permutes_the_gradient(groups in groups(), estimator in estimators()) {
        let forward = run(&estimator, &groups);
        let reversed: Vec<Vec<Owned>> = groups.iter().rev().map(|group| group.iter().rev().cloned().collect()).collect();
        let mut backward = run(&estimator, &reversed);
        backward.dlogp.reverse();
        for (a, b) in forward.dlogp.iter().zip(&backward.dlogp) {
            prop_assert!(near(a, b), "{a:?} {b:?}");
        }
        prop_assert!(close(forward.metrics.ess, backward.metrics.ess) && close(forward.metrics.ell_std, backward.metrics.ell_std));
    }

    #[test]
    fn masked_samples_change_nothing_but_their_count(groups in groups(), at in 0usize..5, estimator in estimators()) {
        let before = run(&estimator, &groups);
        let mut more = groups.clone();
        let masked = one(&[-3.0, -1.0], &[-50.0, -2.0], None);
        let place = at % (more[0].len() + 1);
        more[0].insert(place, masked);
        let mut after = run(&estimator, &more);
        prop_assert_eq!(after.dlogp.remove(place), vec![0.0, 0.0]);
        prop_assert_eq!(&before.dlogp, &after.dlogp);
        after.metrics.masked -= 1;
        prop_assert_eq!(before.metrics, after.metrics);
    }

    #[test]
    fn completions_without_a_gradient_need_no_log_probabilities(groups in groups(), equal in any::<[bool; 5]>(), estimator in estimators()) {
        let estimator = Algorithm { kl: 0.0, adaptive_eta: 0.0, ..estimator };
        let mut groups = groups;
        for (group, _) in groups.iter_mut().zip(equal).filter(|(_, equal)| *equal) {
            let first = group[0].reward;
            group.iter_mut().for_each(|sample| sample.reward = sample.reward.and(first));
        }
        let whole = run(&estimator, &groups);
        let rewards: Vec<Vec<Option<f64>>> = groups.iter().map(|group| group.iter().map(|sample| sample.reward).collect()).collect();
        let has_gradient = has_gradient(&estimator, &rewards).concat();
        let mut less = groups.clone();
        for (sample, has_gradient) in less.iter_mut().flatten().zip(&has_gradient) {
            if !has_gradient {
                sample.new.clear();
            }
        }
        let computed = run(&estimator, &less);
        for ((whole, computed), has_gradient) in whole.dlogp.iter().zip(&computed.dlogp).zip(&has_gradient) {
            match has_gradient {
                true => prop_assert_eq!(whole, computed),
                false => prop_assert!(computed.is_empty() && whole.iter().all(|d| *d == 0.0)),
            }
        }
        let [a, b] = [whole.metrics, computed.metrics];
        prop_assert_eq!((a.judged, a.masked, a.groups_left_out, a.reward, a.loss, a.clipped_gradient), (b.judged, b.masked, b.groups_left_out, b.reward, b.loss, b.clipped_gradient));
        let measured = groups.iter().flatten().zip(&has_gradient).filter(|(sample, has_gradient)| sample.reward.is_some() && **has_gradient).count();
        prop_assert_eq!((a.measured(), b.measured()), (a.judged, measured));
    }

    #[test]
    fn the_most_extreme_weights_give_finite_numbers(
        ells in prop::collection::vec(prop_oneof![Just(-10_000.0f32), Just(10_000.0), Just(0.0), -50.0f32..50.0], 1..9),
        rewards in prop::collection::vec(prop_oneof![Just(Some(0.0)), Just(Some(1.0)), Just(None)], 9),
    ) {
        let group: Vec<Owned> = ells.iter().zip(rewards).map(|(ell, reward)| one(&[-10_000.0 + ell.min(10_000.0)], &[-10_000.0], reward)).collect();
        for preset in Preset::ALL {
            let computed = run(&Algorithm::of(preset), std::slice::from_ref(&group));
            prop_assert!(computed.dlogp.iter().flatten().all(|d| d.is_finite()));
            let m = computed.metrics;
            let saturated = group.iter().filter(|s| s.reward.is_some() && s.new[0] - s.behaviour[0] > 30.0).count();
            prop_assert_eq!(m.saturated, saturated);
            let numbers = [m.loss, m.reward, m.ell_mean, m.ell_std, m.stale_mean_log, m.stale_mean_abs_log, m.stale_abs_log_mean, m.clip_share, m.ess, m.kl_behaviour];
            prop_assert!(numbers.iter().all(|x| x.is_finite()), "{m:?}");
            prop_assert!(m.stale_abs_log_mean_quarter.is_none_or(f64::is_finite));
            prop_assert!(m.clipped_gradient.is_none_or(|share| (-1e-9..=1.0).contains(&share)));
            prop_assert!(m.ess <= m.judged as f64 + 1e-6);
        }
    }
}
