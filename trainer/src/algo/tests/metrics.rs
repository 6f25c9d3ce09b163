use super::*;

#[test]
fn staleness_as_the_authors_compute_it_is_of_the_first_quarter() {
    // Eight completions with weights 3 (capped at 2), ½, 1, …: the first quarter is two. A masked one does not count.
    let weights = [3.0_f32, 0.5, 1.0, 1.0, 1.0, 1.0, 0.25, 1.0];
    let mut group = vec![one(&[-1.0], &[-9.0], None)];
    group.extend(weights.map(|w| one(&[-1.0 + w.ln()], &[-1.0], Some(1.0))));
    let metrics = run(&PAPER, &[group]).metrics;
    let quarter = metrics.stale_abs_log_mean_quarter.unwrap();
    assert!(close(quarter, (2.5_f64 / 2.0).ln()), "{quarter}");
    let all = (2.0 + 0.5 + 5.0 + 0.25_f64) / 8.0;
    assert!(close(metrics.stale_abs_log_mean, all.ln().abs()));
}

#[test]
fn the_clipped_gradient_is_the_share_of_the_advantages_times_ratios_that_is_removed() {
    // Ratios 1.5 and 1 of a completion with the advantage ½, and 4 and ½ of one with −½.
    let ln = f32::ln;
    let group = vec![
        one(&[-1.0 + ln(1.5), -1.0], &[-1.0, -1.0], Some(1.0)),
        one(&[-2.0 + ln(4.0), -1.0 + ln(0.5)], &[-2.0, -1.0], Some(0.0)),
    ];
    let metrics = |factor: Factor| {
        let estimator = Estimator { factor, ..PG };
        run(&estimator, std::slice::from_ref(&group)).metrics
    };
    let share = |factor: Factor| metrics(factor).clipped_gradient;
    // PPO's clip stops 1.5, for an advantage above 0, and ½, for one below: 2 of 7.
    assert!(close(share(Factor::TokenPpoClip).unwrap(), 2.0 / 7.0));
    // The cap of 2 takes 2 of the 4.
    assert!(close(share(Factor::TokenCapped).unwrap(), 2.0 / 7.0));
    // The mask takes the 4.
    assert!(close(share(Factor::TokenMasked).unwrap(), 4.0 / 7.0));
    // CISPO has 1.2, 1, 1.2 and 0.8 in place of 1.5, 1, 4 and ½.
    assert!(close(share(Factor::Cispo).unwrap(), 2.8 / 7.0));
    assert_eq!(metrics(Factor::Cispo).clipped_tokens, Some(0.75));
    // Weights 1.5 and 2: neither is above the cap.
    assert!(close(share(Factor::WCapped).unwrap(), 0.0));
    assert_eq!(share(Factor::One), None);
    assert_eq!(share(Factor::W), None);
    assert_eq!(metrics(Factor::WCapped).clipped_tokens, None);
    let capped = Estimator {
        factor: Factor::WCapped,
        eta: 1.2,
        ..PG
    };
    // 1.2 and 1.2 of 1.5 and 2, two tokens each.
    let metrics = run(&capped, &[group]).metrics;
    assert!(close(metrics.clipped_gradient.unwrap(), 1.1 / 3.5));
}
