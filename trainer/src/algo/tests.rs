use super::*;
use crate::config::algorithm::{Baseline, Factor, LengthNorm, Preset};

const PG: Algorithm = Algorithm::of(Preset::Pg);
const PAPER: Algorithm = Algorithm::of(Preset::RapidPaper);
const MAX_TOKENS: usize = 8;

#[derive(Debug, Clone)]
struct Owned {
    new: Vec<f32>,
    behaviour: Vec<f32>,
    reference: Vec<f32>,
    reward: Option<f64>,
}

/// A completion with the behaviour policy as its reference policy too.
fn one(new: &[f32], behaviour: &[f32], reward: Option<f64>) -> Owned {
    Owned {
        new: new.to_vec(),
        behaviour: behaviour.to_vec(),
        reference: behaviour.to_vec(),
        reward,
    }
}

fn run(estimator: &Algorithm, groups: &[Vec<Owned>]) -> Gradient {
    let groups: Vec<Vec<Sample<'_>>> = groups
        .iter()
        .map(|group| group.iter().map(view).collect())
        .collect();
    gradient(estimator, &groups, MAX_TOKENS).unwrap()
}

fn view(sample: &Owned) -> Sample<'_> {
    Sample {
        new: &sample.new,
        behaviour: &sample.behaviour,
        reference: Some(&sample.reference),
        reward: sample.reward,
        padding: 0.0,
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()))
}

#[test]
fn rapid_paper_equals_equations_3_and_5_by_hand() {
    // Three completions of one prompt with weights 4, 1/2, 1 and rewards 1, 1, 0, and a masked fourth.
    let ln2 = std::f32::consts::LN_2;
    let group = vec![
        one(&[-1.0 + ln2, -1.0 + ln2], &[-1.0, -1.0], Some(1.0)),
        one(&[-3.0], &[-3.0 + ln2], Some(1.0)),
        one(&[-0.5, -0.25, -0.125], &[-0.5, -0.25, -0.125], Some(0.0)),
        one(&[-9.0], &[-1.0], None),
    ];
    let computed = run(&PAPER, &[group]);
    // b = (min(4, 2)·1 + ½·1 + 1·0) / 3 = 5/6; −(1/3)·w·(R − b), with R − b = 1/6, 1/6 and −5/6.
    let expected = [-4.0 / 18.0, -0.5 / 18.0, 5.0 / 18.0, 0.0];
    for (tokens, expected) in computed.dlogp.iter().zip(expected) {
        let all_close = tokens.iter().all(|d| close(f64::from(*d), expected));
        assert!(all_close, "{tokens:?} is not {expected}");
    }
    assert!(computed.dlogp.iter().map(Vec::len).eq([2, 1, 3, 1]));

    let m = computed.metrics;
    assert_eq!((m.judged, m.masked, m.groups_left_out), (3, 1, 0));
    assert!(close(m.reward, 2.0 / 3.0));
    let ln2 = f64::from(ln2);
    assert!(close(m.ell_mean, ln2 / 3.0));
    // ℓ = 2 ln 2, −ln 2, 0: variance = ln²2·(4 + 1)/3 − mean².
    assert!(close(m.ell_std, ln2 * (5.0_f64 / 3.0 - 1.0 / 9.0).sqrt()));
    // log w̄ = ln 2, −ln 2, 0.
    assert!(close(m.stale_mean_log, 0.0) && close(m.stale_mean_abs_log, ln2 * 2.0 / 3.0));
    assert!(close(m.stale_abs_log_mean, (3.5_f64 / 3.0).ln()));
    // The first of the three: w̄ = 2.
    assert!(close(m.stale_abs_log_mean_quarter.unwrap(), ln2));
    assert_eq!(m.clipped_gradient, None);
    assert!(close(m.clip_share, 1.0 / 3.0) && m.saturated == 0);
    assert!(close(m.ess, 5.5 * 5.5 / 17.25));
    // k3 a token: r − 1 − ln r of r = 2, 2, ½, 1, 1, 1.
    let kl = (2.0 * (1.0 - ln2) + (-0.5 + ln2)) / 6.0;
    assert!(close(m.kl_behaviour, kl));
    // The reference policy is the behaviour policy here, and its ratios are the inverse ones.
    let kl = (2.0 * (-0.5 + ln2) + (1.0 - ln2)) / 6.0;
    assert!(close(m.kl_reference.unwrap(), kl));
    // −(1/3) Σ w (R − b) Σ log π
    let loss =
        -(1.0 / 3.0) * (4.0 / 6.0 * (-2.0 + 2.0 * ln2) + 0.5 / 6.0 * -3.0 - 5.0 / 6.0 * -0.875);
    assert!(close(m.loss, loss), "{} is not {loss}", m.loss);
}

#[test]
fn a_group_with_too_few_rewards_has_no_gradient_and_counts_in_n() {
    let one = |reward| one(&[-1.0], &[-1.0], reward);
    let single = vec![one(Some(1.0)), one(None)];
    let pair = vec![one(Some(1.0)), one(Some(0.0))];
    let groups = [single, vec![one(None)], pair];
    for (baseline, left_out, values) in [
        (Baseline::WeightedGroup, 2, [0.0, -0.5, 0.5]),
        (Baseline::Group, 2, [0.0, -0.5, 0.5]),
        // These do not need a second completion.
        (Baseline::None, 1, [-1.0, -1.0, 0.0]),
        (Baseline::Batch, 1, [-1.0 / 3.0, -1.0 / 3.0, 2.0 / 3.0]),
    ] {
        let computed = run(&Algorithm { baseline, ..PG }, &groups);
        let flat = computed.dlogp.concat();
        let [first, second, third] = values;
        let expected = [first, 0.0, 0.0, second, third];
        for (d, expected) in flat.iter().zip(expected) {
            let is_close = close(f64::from(*d), expected / 3.0);
            assert!(is_close, "{baseline:?} {flat:?}");
        }
        let m = computed.metrics;
        assert_eq!((m.groups_left_out, m.judged, m.masked), (left_out, 3, 2));
    }
}

/// A baseline, and with `std` a division by the standard deviation; groups of completions by their rewards in tenths, `-` if masked; and whether each has a gradient.
const GRADIENTS: &str = "
none           | 111 0-0 1-0 1- - | yyy n-n y-n y- -
batch          | 111 0-0 1-0 1- - | yyy y-y y-y y- -
batch          | 111 1-           | nnn n-
group          | 111 0-0 1-0 1- - | nnn n-n y-y n- -
loo std        | 111 0-0 1-0 1- - | nnn n-n y-y n- -
optimal-loo std | 111 1-1 | nnn n-n
optimal-loo    | 111 0-0 1-0 1- - | nnn n-n y-y n- -
weighted-group | 111 0-0 1-0 1- - | yyy n-n y-y n- -
weighted-loo   | 111 0-0 1-0 1- - | yyy n-n y-y n- -
";

#[test]
fn rewards_tell_which_completions_have_a_gradient() {
    // The mean of three times 0.1 is not 0.1 in floating point.
    let reward = |it: char| Some(f64::from(it.to_digit(10)?) / 10.0);
    for line in GRADIENTS.trim().lines() {
        let [choices, rewards, expected] = [0, 1, 2].map(|n| line.split('|').nth(n).unwrap());
        let name = choices.split_whitespace().next().unwrap();
        let algorithm = Algorithm {
            baseline: Baseline::named(name).unwrap(),
            divide_by_std: choices.contains(" std"),
            ..PG
        };
        let groups = rewards.split_whitespace();
        let groups: Vec<Vec<_>> = groups
            .map(|group| group.chars().map(reward).collect())
            .collect();
        let marks = expected.split_whitespace();
        let marks: Vec<Vec<_>> = marks
            .map(|marks| marks.chars().map(|it| it == 'y').collect())
            .collect();
        assert_eq!(has_gradient(&algorithm, &groups), marks, "{line}");
    }
}

#[test]
fn a_mini_batch_without_completions_or_without_rewards_gives_zeros() {
    let nothing = Metrics {
        eta: Some(PG.eta),
        ..Metrics::default()
    };
    assert_eq!(run(&PAPER, &[]).metrics, nothing);
    let masked = Metrics {
        masked: 3,
        groups_left_out: 1,
        ..nothing
    };
    let computed = run(&PAPER, &[vec![one(&[-1.0], &[-1.0], None); 3]]);
    assert_eq!(computed.dlogp, vec![vec![0.0]; 3]);
    assert_eq!(computed.metrics, masked);
}

#[test]
fn numbers_that_no_estimator_can_use_are_refused_and_named() {
    type Change = fn(&mut Sample<'static>);
    const FINE: Sample<'static> = Sample {
        new: &[-1.0, -1.0],
        behaviour: &[-1.0, -1.0],
        reference: Some(&[-1.0, -1.0]),
        reward: Some(1.0),
        padding: 0.0,
    };
    const NAN: &[f32] = &[-1.0, f32::NAN];
    const INF: &[f32] = &[-1.0, f32::NEG_INFINITY];
    let changes: [(Change, &str); 7] = [
        (|s| s.new = NAN, "token 1 of completion 1 is NaN"),
        (|s| s.behaviour = INF, "token 1 of completion 1 is -inf"),
        (|s| s.reward = Some(f64::NAN), "the reward of completion 1"),
        (|s| s.padding = f64::NAN, "the padding of completion 1"),
        (|s| s.behaviour = &[], "and 0 under the behaviour policy"),
        (|s| s.new = &[], "has 0 log-probabilities under the policy"),
        (|s| s.reference = None, "and 0 under the reference policy"),
    ];
    for (change, expected) in changes {
        let mut sample = FINE;
        change(&mut sample);
        let groups = [vec![FINE, sample]];
        let error = gradient(&Algorithm::of(Preset::Grpo), &groups, MAX_TOKENS).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let sample = Sample {
        reference: None,
        ..FINE
    };
    let without = gradient(&PG, &[vec![sample; 2]], MAX_TOKENS).unwrap();
    assert_eq!(without.metrics.kl_reference, None);
}

#[test]
fn weights_far_below_one_give_the_optimal_baseline_of_their_proportions() {
    // Weights 1, 2 and 3 with rewards 1, 0 and 1/2: b is (4·0 + 9/2)/13, (1 + 9/2)/10 and (1 + 0)/5.
    for shift in [0.0, -1000.0] {
        let group = [(1.0, 1.0_f64), (0.0, 2.0), (0.5, 3.0)]
            .map(|(reward, weight)| (reward, weight.ln() + shift));
        let computed = Baseline::OptimalLoo.advantages(&group, 0.0, 2.0);
        for (a, b) in computed.iter().zip([1.0 - 4.5 / 13.0, -0.55, 0.3]) {
            assert!((a - b).abs() < 1e-9, "{computed:?}");
        }
    }
}

#[test]
fn padding_is_in_the_weights_of_the_value_term_alone() {
    let sample = |reward: f64, padding: f64| Sample {
        new: &[-1.0],
        behaviour: &[-1.0],
        reference: None,
        reward: Some(reward),
        padding,
    };
    let group = [vec![sample(1.0, 1.5_f64.ln()), sample(0.0, 9.0)]];
    let computed = gradient(&PAPER, &group, MAX_TOKENS).unwrap();
    // b = (1.5 × 1 + 2 × 0) / 2; the factors are 1, since the completions' own tokens have not changed.
    assert!(close(f64::from(computed.dlogp[0][0]), -(1.0 - 0.75) / 2.0));
    assert!(close(f64::from(computed.dlogp[1][0]), 0.75 / 2.0));
    assert_eq!((computed.metrics.ell_std, computed.metrics.ess), (0.0, 2.0));
}

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
        let is_close = close(share.unwrap_or(0.0), removed.unwrap_or(0.0));
        assert!(is_close, "{factor:?} {share:?}");
        assert_eq!(metrics.clipped_tokens, outside, "{factor:?}");
    }
}

mod autograd;
mod properties;

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
