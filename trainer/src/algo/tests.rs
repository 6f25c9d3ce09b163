use super::*;

const PG: Estimator = Estimator {
    factor: Factor::One,
    baseline: Baseline::Group,
    eta: 2.0,
    adaptive_eta: 0.0,
    clip_low: 0.2,
    clip_high: 0.2,
    length_norm: LengthNorm::None,
    divide_by_std: false,
    kl: 0.0,
};
const PAPER: Estimator = Estimator {
    factor: Factor::W,
    baseline: Baseline::WeightedGroup,
    ..PG
};
/// The baselines that do not depend on the completion itself.
const INDEPENDENT: [Baseline; 4] = [
    Baseline::None,
    Baseline::Loo,
    Baseline::WeightedLoo,
    Baseline::OptimalLoo,
];
/// Maximum number of tokens of a completion.
const MAX_TOKENS: usize = 8;

/// A completion as owned numbers.
#[derive(Debug, Clone)]
struct Owned {
    new: Vec<f32>,
    behaviour: Vec<f32>,
    reference: Vec<f32>,
    reward: Option<f64>,
}

/// A completion whose reference policy is the behaviour policy.
fn one(new: &[f32], behaviour: &[f32], reward: Option<f64>) -> Owned {
    Owned {
        new: new.to_vec(),
        behaviour: behaviour.to_vec(),
        reference: behaviour.to_vec(),
        reward,
    }
}

fn run(estimator: &Estimator, groups: &[Vec<Owned>]) -> Gradient {
    gradient(estimator, &views(groups), MAX_TOKENS).unwrap()
}

fn views(groups: &[Vec<Owned>]) -> Vec<Vec<Sample<'_>>> {
    groups
        .iter()
        .map(|group| {
            group
                .iter()
                .map(|s| Sample {
                    new: &s.new,
                    behaviour: &s.behaviour,
                    reference: Some(&s.reference),
                    reward: s.reward,
                    padding: 0.0,
                })
                .collect()
        })
        .collect()
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
    // b = (min(4, 2)·1 + ½·1 + 1·0) / 3 = 5/6; −(1/3)·w·(R − b).
    let expected = [
        -(4.0 / 3.0) * (1.0 / 6.0),
        -(0.5 / 3.0) * (1.0 / 6.0),
        (1.0 / 3.0) * (5.0 / 6.0),
        0.0,
    ];
    for (tokens, expected) in computed.dlogp.iter().zip(expected) {
        assert!(
            tokens.iter().all(|d| close(f64::from(*d), expected)),
            "{tokens:?} is not {expected}"
        );
    }
    assert_eq!(
        computed.dlogp.iter().map(Vec::len).collect::<Vec<_>>(),
        [2, 1, 3, 1]
    );

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
    assert!(close(
        m.kl_behaviour,
        (2.0 * (1.0 - ln2) + (-0.5 + ln2)) / 6.0
    ));
    // −(1/3) Σ w (R − b) Σ log π
    let loss =
        -(1.0 / 3.0) * (4.0 / 6.0 * (-2.0 + 2.0 * ln2) + 0.5 / 6.0 * -3.0 - 5.0 / 6.0 * -0.875);
    assert!(close(m.loss, loss), "{} is not {loss}", m.loss);
}

#[test]
fn pg_equals_the_reward_minus_the_group_mean_by_hand() {
    let group = |rewards: [f64; 4]| rewards.map(|r| one(&[-1.0], &[-2.0], Some(r))).to_vec();
    let computed = run(
        &PG,
        &[
            group([1.0, 0.0, 0.0, 0.0]),
            group([1.0; 4]),
            group([0.0; 4]),
        ],
    );
    let flat: Vec<f32> = computed.dlogp.concat();
    // N = 12.
    assert_eq!(
        flat[..4],
        [-0.75 / 12.0, 0.25 / 12.0, 0.25 / 12.0, 0.25 / 12.0].map(|d: f64| d as f32)
    );
    assert!(flat[4..].iter().all(|d| *d == 0.0));
}

#[test]
fn a_group_with_one_judged_completion_gives_no_gradient_counts_in_n_and_is_counted() {
    let single = vec![
        one(&[-1.0], &[-1.0], Some(1.0)),
        one(&[-1.0], &[-1.0], None),
    ];
    let empty = vec![one(&[-1.0], &[-1.0], None)];
    let pair = vec![
        one(&[-1.0], &[-1.0], Some(1.0)),
        one(&[-1.0], &[-1.0], Some(0.0)),
    ];
    for estimator in [PAPER, PG] {
        let computed = run(&estimator, &[single.clone(), empty.clone(), pair.clone()]);
        let flat = computed.dlogp.concat();
        assert_eq!(flat[..3], [0.0; 3]);
        assert!(close(f64::from(flat[3]), -0.5 / 3.0) && close(f64::from(flat[4]), 0.5 / 3.0));
        assert_eq!(
            (
                computed.metrics.groups_left_out,
                computed.metrics.judged,
                computed.metrics.masked
            ),
            (2, 3, 2)
        );
    }
}

#[test]
fn a_mini_batch_without_completions_or_without_rewards_gives_zeros() {
    assert_eq!(
        run(&PAPER, &[]).metrics,
        Metrics {
            eta: PG.eta,
            ..Metrics::default()
        }
    );
    let computed = run(&PAPER, &[vec![one(&[-1.0], &[-1.0], None); 3]]);
    assert_eq!(computed.dlogp, vec![vec![0.0]; 3]);
    assert_eq!(
        (
            computed.metrics.masked,
            computed.metrics.reward,
            computed.metrics.ess
        ),
        (3, 0.0, 0.0)
    );
}

#[test]
fn numbers_that_are_not_finite_are_refused_and_named() {
    let bad = |new: f32, behaviour: f32, reward: f64| {
        let group = [vec![
            one(&[-1.0], &[-1.0], Some(1.0)),
            one(&[-1.0, new], &[-1.0, behaviour], Some(reward)),
        ]];
        gradient(&PAPER, &views(&group), MAX_TOKENS)
            .unwrap_err()
            .to_string()
    };
    assert!(
        bad(f32::NAN, -1.0, 1.0)
            .starts_with("the log-probability of token 1 of completion 1 is NaN")
    );
    assert!(
        bad(-1.0, f32::NEG_INFINITY, 1.0)
            .starts_with("the log-probability of token 1 of completion 1 is -inf")
    );
    assert!(bad(-1.0, -1.0, f64::NAN).starts_with("the reward of completion 1 is NaN"));
    let short = [vec![one(&[-1.0], &[], Some(1.0))]];
    let error = gradient(&PAPER, &views(&short), MAX_TOKENS).unwrap_err();
    let words = "completion 0 has 1 log-probabilities under the policy and 0 under the behaviour";
    assert!(error.to_string().starts_with(words), "{error}");
}

/// The gradient in the logits, by the estimator's `dL/dlogp`, of a softmax policy over four completions of one token.
fn policy_gradient(
    estimator: &Estimator,
    logits: &[f64],
    sampled: &[usize],
    behaviour: &[f64],
    rewards: &[f64],
) -> Vec<f64> {
    let probabilities = softmax(logits);
    let group: Vec<Owned> = sampled
        .iter()
        .map(|y| {
            one(
                &[probabilities[*y].ln() as f32],
                &[behaviour[*y].ln() as f32],
                Some(rewards[*y]),
            )
        })
        .collect();
    let computed = run(estimator, &[group]);
    let mut total = vec![0.0; logits.len()];
    for (y, dlogp) in sampled.iter().zip(&computed.dlogp) {
        for (k, slot) in total.iter_mut().enumerate() {
            let delta = f64::from(u8::from(k == *y));
            *slot += f64::from(dlogp[0]) * (delta - probabilities[k]);
        }
    }
    total
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logits.iter().map(|x| (x - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| w / total).collect()
}

#[test]
fn the_gradient_agrees_with_numeric_differentiation_of_the_surrogate() {
    let (logits, behaviour) = ([0.3, -0.2, 0.5, 0.1], softmax(&[0.1, 0.4, -0.3, 0.2]));
    let (rewards, sampled) = ([1.0, 0.0, 1.0, 0.0], [0usize, 1, 2, 0, 3]);
    for estimator in [PAPER, PG] {
        let analytic = policy_gradient(&estimator, &logits, &sampled, &behaviour, &rewards);
        // The surrogate −(1/N) Σ factor (R − b) log π(y), with factor and b as constants at `logits`.
        let probabilities = softmax(&logits);
        let weight = |y: usize| probabilities[y] / behaviour[y];
        let value: f64 = sampled
            .iter()
            .map(|y| {
                rewards[*y]
                    * if estimator.baseline == Baseline::Group {
                        1.0
                    } else {
                        weight(*y).min(2.0)
                    }
            })
            .sum::<f64>()
            / sampled.len() as f64;
        let surrogate = |logits: &[f64]| -> f64 {
            let p = softmax(logits);
            -sampled
                .iter()
                .map(|y| if estimator.factor == Factor::One { 1.0 } else { weight(*y) } * (rewards[*y] - value) * p[*y].ln())
                .sum::<f64>()
                / sampled.len() as f64
        };
        for k in 0..logits.len() {
            let (mut up, mut down) = (logits, logits);
            up[k] += 1e-5;
            down[k] -= 1e-5;
            let numeric = (surrogate(&up) - surrogate(&down)) / 2e-5;
            assert!(
                (numeric - analytic[k]).abs() < 1e-6,
                "{estimator:?} logit {k}: {numeric} against {}",
                analytic[k]
            );
        }
    }
}

/// The expected gradient: the sum over all groups of three that μ can sample, weighted by their probabilities.
fn expectation(
    estimator: &Estimator,
    logits: &[f64],
    behaviour: &[f64],
    rewards: &[f64],
) -> Vec<f64> {
    let mut total = vec![0.0; logits.len()];
    let n = logits.len();
    for code in 0..n.pow(3) {
        let sampled = [code % n, code / n % n, code / n / n];
        let probability: f64 = sampled.iter().map(|y| behaviour[*y]).product();
        for (slot, g) in total.iter_mut().zip(policy_gradient(
            estimator, logits, &sampled, behaviour, rewards,
        )) {
            *slot += probability * g;
        }
    }
    total
}

#[test]
fn on_policy_a_group_baseline_gives_one_minus_one_over_g_of_the_gradient() {
    let (logits, rewards) = ([0.3, -0.2, 0.5, 0.1], [1.0, 0.0, 0.0, 1.0]);
    let p = softmax(&logits);
    let value: f64 = p.iter().zip(&rewards).map(|(p, r)| p * r).sum();
    for estimator in [PAPER, PG] {
        let expected = expectation(&estimator, &logits, &p, &rewards);
        for k in 0..4 {
            // −∇J = −p (R − V); with G = 3, a third of it is lost.
            let exact = -(2.0 / 3.0) * p[k] * (rewards[k] - value);
            assert!(
                (expected[k] - exact).abs() < 1e-6,
                "{estimator:?} logit {k}: {} against {exact}",
                expected[k]
            );
        }
    }
}

/// −∇J = −Σ_y π(y) (R(y) − V) in the logits: −p (R − V).
fn exact(logits: &[f64], rewards: &[f64]) -> Vec<f64> {
    let p = softmax(logits);
    let value: f64 = p.iter().zip(rewards).map(|(p, r)| p * r).sum();
    p.iter()
        .zip(rewards)
        .map(|(p, r)| -p * (r - value))
        .collect()
}

fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f64::max)
}

#[test]
fn off_policy_uncapped_weights_with_a_leave_one_out_baseline_are_unbiased_and_capped_ones_are_not()
{
    let (logits, rewards) = ([0.9, -0.2, 0.5, 0.1], [1.0, 0.0, 0.0, 1.0]);
    let behaviour = softmax(&[-0.3, 0.4, -0.3, 0.2]);
    let bias = |factor, baseline, eta| {
        let estimator = Estimator {
            factor,
            baseline,
            eta,
            ..PG
        };
        let expected = expectation(&estimator, &logits, &behaviour, &rewards);
        largest_difference(&expected, &exact(&logits, &rewards))
    };
    for baseline in INDEPENDENT {
        let bias_of_w = bias(Factor::W, baseline, 2.0);
        assert!(bias_of_w < 1e-6, "{baseline:?}: {bias_of_w}");
        // The largest weight here is 2.36: a cap above it changes nothing, and a lower cap gives more bias.
        let capped: Vec<f64> = [3.0, 2.0, 1.5, 1.0]
            .map(|eta| bias(Factor::WCapped, baseline, eta))
            .to_vec();
        assert!(capped[0] < 1e-6, "{baseline:?}: {capped:?}");
        assert!(
            capped[1] > 1e-3 && capped.is_sorted(),
            "{baseline:?}: {capped:?}"
        );
    }
    assert!(bias(Factor::One, Baseline::Loo, 2.0) > 1e-2);
    assert!(bias(Factor::W, Baseline::Group, 2.0) > 1e-3);
}

#[test]
fn on_policy_a_leave_one_out_baseline_is_unbiased() {
    let (logits, rewards) = ([0.3, -0.2, 0.5, 0.1], [1.0, 0.0, 0.0, 1.0]);
    for factor in Factor::ALL {
        for baseline in INDEPENDENT {
            let estimator = Estimator {
                factor,
                baseline,
                ..PG
            };
            let expected = expectation(&estimator, &logits, &softmax(&logits), &rewards);
            let bias = largest_difference(&expected, &exact(&logits, &rewards));
            assert!(bias < 1e-6, "{estimator:?}: {bias}");
        }
    }
}

#[test]
fn grpo_clip_equals_the_clipped_surrogate_by_hand() {
    // The ratios are 1.25 and 1 for a correct completion, ½ and 1 for a wrong one, 1 for another wrong one; ε = 0.2.
    let (ln2, up) = (std::f32::consts::LN_2, 1.25_f32.ln());
    let group = vec![
        one(&[-1.0 + up, -1.0], &[-1.0, -1.0], Some(1.0)),
        one(&[-1.0 - ln2, -2.0], &[-1.0, -2.0], Some(0.0)),
        one(&[-0.5], &[-0.5], Some(0.0)),
    ];
    let computed = run(&Preset::GrpoClip.estimator(), &[group]);
    // Mean ⅓; standard deviation of 1, 0, 0 with two degrees of freedom: 1/√3.
    let scale = 1.0 / 3.0_f64.sqrt() + STD_FLOOR;
    let (good, bad) = (2.0 / 3.0 / scale, -1.0 / 3.0 / scale);
    // The ratios 1.25 and ½ are clipped, since the gradient would move them further from 1: up for the correct one, down for the wrong one.
    let expected = [
        vec![0.0, -good / 6.0],
        vec![0.0, -bad / 6.0],
        vec![-bad / 3.0],
    ];
    for (dlogp, expected) in computed.dlogp.iter().zip(&expected) {
        for (d, expected) in dlogp.iter().zip(expected) {
            assert!(close(f64::from(*d), *expected), "{d} is not {expected}");
        }
    }
}

#[test]
fn each_length_norm_divides_by_its_own_count() {
    let group = vec![
        one(&[-1.0; 4], &[-1.0; 4], Some(1.0)),
        one(&[-1.0; 2], &[-1.0; 2], Some(0.0)),
        one(&[-1.0; 5], &[-1.0; 5], None),
    ];
    for (norm, right, wrong) in [
        (LengthNorm::None, 2.0, 2.0),
        (LengthNorm::Length, 8.0, 4.0),
        (LengthNorm::MaxLength, 16.0, 16.0),
        (LengthNorm::BatchTokens, 6.0, 6.0),
    ] {
        let estimator = Estimator {
            length_norm: norm,
            ..PG
        };
        let computed = run(&estimator, std::slice::from_ref(&group)).dlogp;
        assert!(close(f64::from(computed[0][3]), -0.5 / right), "{norm:?}");
        assert!(close(f64::from(computed[1][0]), 0.5 / wrong), "{norm:?}");
        assert_eq!(computed[2], [0.0; 5]);
    }
}

#[test]
fn without_a_group_baseline_a_group_of_one_has_a_gradient() {
    let single = vec![one(&[-1.0], &[-1.0], Some(1.0))];
    let pair = vec![one(&[-1.0], &[-1.0], Some(0.0)); 2];
    for (baseline, value) in [(Baseline::None, 0.0), (Baseline::Batch, 1.0 / 3.0)] {
        let estimator = Estimator { baseline, ..PG };
        let computed = run(&estimator, &[single.clone(), pair.clone()]).dlogp;
        assert!(close(f64::from(computed[0][0]), -(1.0 - value) / 3.0));
        assert!(close(f64::from(computed[1][0]), value / 3.0));
    }
}

#[test]
fn grpo_adds_the_gradient_of_the_kl_term_by_hand() {
    // Two completions of one token; std of (1, 0) is 1/√2, N = 2. r = π_ref/π is e^0.5 for the first, and 1 for the second.
    let group = vec![
        Owned {
            reference: vec![-0.5],
            ..one(&[-1.0], &[-1.0], Some(1.0))
        },
        one(&[-2.0], &[-2.0], Some(0.0)),
    ];
    let computed = run(&Preset::Grpo.estimator(), std::slice::from_ref(&group));
    let advantage = 0.5 / (0.5_f64.sqrt() + 1e-4);
    let pull = 0.04 * (0.5_f64.exp() - 1.0);
    assert!(close(
        f64::from(computed.dlogp[0][0]),
        -(advantage + pull) / 2.0
    ));
    assert!(close(f64::from(computed.dlogp[1][0]), advantage / 2.0));
    let k3 = 0.5_f64.exp() - 1.5;
    assert!(close(computed.metrics.kl_reference.unwrap(), k3 / 2.0));
    assert!(close(
        computed.metrics.loss,
        -(2.0 * advantage - advantage) / 2.0 + 0.04 * k3 / 2.0
    ));
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
    let broken = [vec![sample(1.0, f64::NAN), sample(0.0, 0.0)]];
    let error = gradient(&PAPER, &broken, MAX_TOKENS).unwrap_err();
    let words = "the log-probability of the padding of completion 0 is NaN";
    assert!(error.to_string().starts_with(words), "{error}");
}

#[test]
fn a_kl_term_without_a_reference_is_refused() {
    let sample = Sample {
        new: &[-1.0],
        behaviour: &[-1.0],
        reference: None,
        reward: Some(1.0),
        padding: 0.0,
    };
    let grpo = gradient(&Preset::Grpo.estimator(), &[vec![sample; 2]], 8);
    let error = grpo.unwrap_err().to_string();
    assert!(error.contains("0 under the reference policy"), "{error}");
    let pg = gradient(&PG, &[vec![sample; 2]], 8).unwrap();
    assert_eq!(pg.metrics.kl_reference, None);
}

#[test]
fn sft_is_the_mean_log_probability_of_all_tokens() {
    let groups = [
        vec![one(&[-1.0, -2.0, -3.0], &[0.0; 3], Some(1.0))],
        vec![one(&[-4.0], &[0.0], Some(1.0))],
    ];
    let computed = run(&Preset::Sft.estimator(), &groups);
    assert!(computed.dlogp.iter().flatten().all(|d| *d == -0.25));
    assert!(close(computed.metrics.loss, 2.5));
}

#[test]
fn an_adaptive_cap_equals_the_same_cap_set_by_hand() {
    let group = |ells: [f32; 3]| {
        let rewards = [1.0, 0.0, 1.0];
        let samples = ells.iter().zip(rewards);
        samples
            .map(|(ell, reward)| one(&[-9.0 + ell], &[-9.0], Some(reward)))
            .collect::<Vec<_>>()
    };
    let groups = [group([0.0, 0.1, 3.0]), group([-0.2, 0.3, 1.0])];
    let adaptive = Estimator {
        factor: Factor::WCapped,
        eta: 8.0,
        adaptive_eta: 0.8,
        ..PAPER
    };
    let computed = run(&adaptive, &groups);
    assert!(computed.metrics.eta > 1.0 && computed.metrics.eta < 8.0);
    let by_hand = Estimator {
        eta: computed.metrics.eta,
        adaptive_eta: 0.0,
        ..adaptive
    };
    assert_eq!(run(&by_hand, &groups), computed);
}

mod autograd;
mod metrics;
mod off_policy;
mod properties;
