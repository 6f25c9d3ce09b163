use super::*;

#[test]
fn the_clipped_gradient_is_the_share_that_is_removed() {
    // Ratios 1.5 and 1 of a completion with the advantage ½, and 4 and ½ of one with −½.
    let ln = f32::ln;
    let group = vec![
        one(&[-1.0 + ln(1.5), -1.0], &[-1.0, -1.0], Some(1.0)),
        one(&[-2.0 + ln(4.0), -1.0 + ln(0.5)], &[-2.0, -1.0], Some(0.0)),
    ];
    for (factor, eta, removed, outside) in [
        // PPO's clip stops 1.5, for an advantage above 0, and ½, for one below.
        (Factor::TokenPpoClip, 2.0, Some(2.0 / 7.0), Some(0.75)),
        // The cap of 2 takes 2 of the 4, and the mask takes the 4.
        (Factor::TokenCapped, 2.0, Some(2.0 / 7.0), None),
        (Factor::TokenMasked, 2.0, Some(4.0 / 7.0), None),
        // CISPO has 1.2, 1, 1.2 and 0.8 in place of 1.5, 1, 4 and ½.
        (Factor::Cispo, 2.0, Some(2.8 / 7.0), Some(0.75)),
        // Weights 1.5 and 2, two tokens each: neither is above the first cap, and both are above the second.
        (Factor::WCapped, 2.0, Some(0.0), None),
        (Factor::WCapped, 1.2, Some(1.1 / 3.5), None),
        (Factor::One, 2.0, None, None),
        (Factor::W, 2.0, None, None),
    ] {
        let algorithm = Algorithm { factor, eta, ..PG };
        let metrics = run(&algorithm, std::slice::from_ref(&group)).metrics;
        let share = metrics.clipped_gradient;
        assert_eq!(share.is_some(), removed.is_some(), "{factor:?}");
        assert!(
            close(share.unwrap_or(0.0), removed.unwrap_or(0.0)),
            "{factor:?} {share:?}"
        );
        assert_eq!(metrics.clipped_tokens, outside, "{factor:?}");
    }
}
