//! Compares `dL/dlogp` of every combination of an estimator's choices with candle's automatic differentiation of the loss as the papers write it.

use candle_core::{DType, Device, Result, Tensor, Var};

use super::*;

/// Three groups of completions, each with its number of tokens and its reward; all completions of the second group are correct.
const GROUPS: [&[(usize, f64)]; 3] = [
    &[(3, 1.0), (1, 0.0), (2, 0.5), (2, 0.0)],
    &[(2, 1.0), (1, 1.0)],
    &[(3, 0.0), (2, 1.0), (3, 0.25)],
];

/// The completions with log-probabilities between −2.5 and −0.5, pseudo-random and always the same.
fn completions() -> Vec<Vec<Owned>> {
    let mut state = 1_u64;
    let mut number = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        -0.5 - 2.0 * (state >> 40) as f32 / (1_u32 << 24) as f32
    };
    let mut one = |&(tokens, reward): &(usize, f64)| {
        let [new, behaviour, reference] = [(); 3].map(|()| (0..tokens).map(&mut number).collect());
        Owned {
            new,
            behaviour,
            reference,
            reward: Some(reward),
        }
    };
    let group = |group: &[(usize, f64)]| -> Vec<Owned> { group.iter().map(&mut one).collect() };
    GROUPS.map(group).into()
}

fn tensor(values: &[f32]) -> Result<Tensor> {
    Tensor::new(values, &Device::Cpu)?.to_dtype(DType::F64)
}

/// J of one completion. Only log π (or, for the clipped surrogate, its ratios) is differentiated; the factor and the advantage are constants.
fn objective(
    estimator: &Algorithm,
    logp: &Tensor,
    behaviour: &Tensor,
    advantage: f64,
) -> Result<Tensor> {
    let log_ratio = logp.sub(behaviour)?;
    let (ratio, weight) = (log_ratio.exp()?, log_ratio.sum_all()?.exp()?.reshape(1)?);
    let clipped = ratio.clamp(1.0 - estimator.clip_low, 1.0 + estimator.clip_high)?;
    let factor = match estimator.factor {
        Factor::One => Tensor::ones(1, DType::F64, &Device::Cpu)?,
        Factor::W => weight,
        Factor::WCapped => weight.minimum(estimator.eta)?,
        Factor::TokenCapped => ratio.minimum(estimator.eta)?,
        Factor::TokenMasked => ratio.mul(&ratio.le(estimator.eta)?.to_dtype(DType::F64)?)?,
        Factor::Cispo => clipped,
        Factor::Geometric => log_ratio.mean_all()?.exp()?.reshape(1)?,
        Factor::TokenPpoClip => {
            let surrogate = ratio.affine(advantage, 0.0)?;
            return surrogate
                .minimum(&clipped.affine(advantage, 0.0)?)?
                .sum_all();
        }
    };
    let terms = factor.detach().broadcast_mul(logp)?;
    terms.sum_all()?.affine(advantage, 0.0)
}

/// The advantages of a group, from its rewards, its weights and the mean reward of the mini-batch.
fn advantages_of(estimator: &Algorithm, rewards: &[f64], weights: &[f64], batch: f64) -> Vec<f64> {
    let n = rewards.len() as f64;
    let mean = rewards.iter().sum::<f64>() / n;
    let squares: f64 = rewards.iter().map(|r| (r - mean).powi(2)).sum();
    let scale = match estimator.divide_by_std {
        true => (squares / (n - 1.0)).sqrt() + 1e-4,
        false => 1.0,
    };
    let capped = |j: usize| rewards[j] * weights[j].min(estimator.eta);
    let advantage = |own: usize| {
        let all = 0..rewards.len();
        let others = || all.clone().filter(|j| *j != own);
        let square = |j: usize| weights[j].powi(2);
        let baseline = match estimator.baseline {
            Baseline::None => 0.0,
            Baseline::Batch => batch,
            Baseline::Group => mean,
            Baseline::Loo => others().map(|j| rewards[j]).sum::<f64>() / (n - 1.0),
            Baseline::WeightedGroup => all.clone().map(capped).sum::<f64>() / n,
            Baseline::WeightedLoo => others().map(capped).sum::<f64>() / (n - 1.0),
            Baseline::OptimalLoo => {
                let sum: f64 = others().map(|j| square(j) * rewards[j]).sum();
                sum / others().map(square).sum::<f64>()
            }
        };
        (rewards[own] - baseline) / scale
    };
    (0..rewards.len()).map(advantage).collect()
}

/// The largest difference between `dL/dlogp` and the gradient by automatic differentiation, over all tokens, or between the losses; and the largest absolute value of
/// the gradient.
fn compare(estimator: &Algorithm) -> Result<(f64, f64)> {
    let groups = completions();
    let all: Vec<&Owned> = groups.iter().flatten().collect();
    let judged = all.len() as f64;
    let tokens: usize = all.iter().map(|completion| completion.new.len()).sum();
    let batch = all.iter().filter_map(|it| it.reward).sum::<f64>() / judged;

    let mut loss = Tensor::zeros((), DType::F64, &Device::Cpu)?;
    let mut variables = Vec::new();
    for group in &groups {
        let weight = |completion: &Owned| {
            let log_ratio = tensor(&completion.new)?.sub(&tensor(&completion.behaviour)?)?;
            log_ratio.sum_all()?.exp()?.to_scalar::<f64>()
        };
        let weights: Vec<f64> = group.iter().map(weight).collect::<Result<_>>()?;
        let rewards: Vec<f64> = group.iter().filter_map(|it| it.reward).collect();
        let advantages = advantages_of(estimator, &rewards, &weights, batch);
        for (completion, advantage) in group.iter().zip(advantages) {
            let norm = match estimator.length_norm {
                LengthNorm::None => judged,
                LengthNorm::Length => judged * completion.new.len() as f64,
                LengthNorm::MaxLength => judged * MAX_TOKENS as f64,
                LengthNorm::BatchTokens => tokens as f64,
            };
            let logp = Var::from_tensor(&tensor(&completion.new)?)?;
            let log_ratio = tensor(&completion.reference)?.sub(&logp)?;
            let k3 = log_ratio
                .exp()?
                .sub(&log_ratio)?
                .affine(1.0, -1.0)?
                .sum_all()?;
            let behaviour = tensor(&completion.behaviour)?;
            let term = objective(estimator, &logp, &behaviour, advantage)?
                .sub(&k3.affine(estimator.kl, 0.0)?)?;
            loss = loss.sub(&term.affine(1.0 / norm, 0.0)?)?;
            variables.push(logp);
        }
    }
    let gradients = loss.backward()?;
    let ours = run(estimator, &groups);
    let (mut difference, mut largest) = (0.0, 0.0);
    // Only the gradient of PPO's surrogate is that of the logged loss.
    if estimator.factor != Factor::TokenPpoClip {
        difference = (ours.metrics.loss - loss.to_scalar::<f64>()?).abs();
    }
    for (logp, ours) in variables.iter().zip(&ours.dlogp) {
        // There is none if the loss does not depend on it.
        let by_candle = match gradients.get(logp) {
            Some(gradient) => gradient.to_vec1::<f64>()?,
            None => vec![0.0; ours.len()],
        };
        for (ours, by_candle) in ours.iter().zip(by_candle) {
            difference = f64::max(difference, (f64::from(*ours) - by_candle).abs());
            largest = f64::max(largest, by_candle.abs());
        }
    }
    Ok((difference, largest))
}

#[test]
fn every_combination_of_choices_agrees_with_automatic_differentiation() {
    let mut estimators = Preset::ALL.map(Algorithm::of).to_vec();
    for factor in Factor::ALL {
        for baseline in Baseline::ALL {
            for length_norm in LengthNorm::ALL {
                for (divide_by_std, kl) in [(false, 0.0), (true, 0.0), (false, 0.5), (true, 0.04)] {
                    estimators.push(Algorithm {
                        factor,
                        baseline,
                        eta: 1.2,
                        length_norm,
                        divide_by_std,
                        kl,
                        ..Algorithm::of(Preset::Dapo)
                    });
                }
            }
        }
    }
    for estimator in estimators {
        let (difference, largest) = compare(&estimator).unwrap();
        // Only the group of equal rewards, divided by 1e-4, has large numbers.
        assert!(
            difference < 1e-6 * (1.0 + largest),
            "{estimator:?}: {difference} of {largest}"
        );
        assert!(largest > 1e-3, "{estimator:?}: {largest}");
    }
}
