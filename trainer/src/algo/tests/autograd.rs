//! Compares the gradient of every combination of an estimator's choices with candle's automatic differentiation of the loss as the papers write it, on a toy policy.

use candle_core::{DType, Device, Result, Tensor, Var};

use super::*;

const POSITIONS: usize = 3;
const WORDS: usize = 4;

/// A completion of the toy policy, which has logits for each position and samples the tokens independently.
struct Completion {
    tokens: Vec<u32>,
    reward: f64,
}

/// Three groups of completions of one to three tokens; all completions of the second group are correct.
fn completions() -> Vec<Vec<Completion>> {
    let one = |tokens: &[u32], reward| Completion {
        tokens: tokens.to_vec(),
        reward,
    };
    vec![
        vec![
            one(&[0, 1, 2], 1.0),
            one(&[3], 0.0),
            one(&[2, 2], 0.5),
            one(&[1, 0], 0.0),
        ],
        vec![one(&[0, 0], 1.0), one(&[1], 1.0)],
        vec![
            one(&[3, 3, 3], 0.0),
            one(&[0, 3], 1.0),
            one(&[2, 1, 0], 0.25),
        ],
    ]
}

/// Pseudo-random numbers between −1 and 1, determined by the seed.
fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed;
    std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    })
    .take(count)
    .collect()
}

fn policy(logits: &[f64]) -> Result<Var> {
    Var::from_tensor(&Tensor::from_slice(
        logits,
        (POSITIONS, WORDS),
        &Device::Cpu,
    )?)
}

/// log π of each token of a completion.
fn log_probabilities(logits: &Tensor, tokens: &[u32]) -> Result<Tensor> {
    let logits = logits.narrow(0, 0, tokens.len())?;
    let total = logits.exp()?.sum_keepdim(1)?.log()?;
    let index = Tensor::from_slice(tokens, (tokens.len(), 1), &Device::Cpu)?;
    logits.broadcast_sub(&total)?.gather(&index, 1)?.squeeze(1)
}

/// J of one completion. Only log π (or, for the clipped surrogate, its ratios) is differentiated; the factor and the advantage are constants.
fn objective(
    estimator: &Estimator,
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
fn advantages_of(estimator: &Estimator, rewards: &[f64], weights: &[f64], batch: f64) -> Vec<f64> {
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

/// The largest difference between the gradient by `dL/dlogp` and the gradient by automatic differentiation, over all logits, and the largest absolute value of the
/// latter.
fn compare(estimator: &Estimator) -> Result<(f64, f64)> {
    let logits = policy(&numbers(1, POSITIONS * WORDS))?;
    let behaviour = policy(&numbers(2, POSITIONS * WORDS))?;
    let reference = policy(&numbers(3, POSITIONS * WORDS))?;
    let groups = completions();
    let all: Vec<&Completion> = groups.iter().flatten().collect();
    let judged = all.len() as f64;
    let tokens: usize = all.iter().map(|completion| completion.tokens.len()).sum();
    let batch = all.iter().map(|completion| completion.reward).sum::<f64>() / judged;

    let mut loss = Tensor::zeros((), DType::F64, &Device::Cpu)?;
    let mut samples = Vec::new();
    for group in &groups {
        let mut sampled = Vec::new();
        let pairs: Vec<(Tensor, Tensor)> = group
            .iter()
            .map(|completion| {
                let mu = log_probabilities(&behaviour, &completion.tokens)?.detach();
                Ok((log_probabilities(&logits, &completion.tokens)?, mu))
            })
            .collect::<Result<_>>()?;
        let weights: Vec<f64> = pairs
            .iter()
            .map(|(logp, mu)| logp.sub(mu)?.sum_all()?.exp()?.to_scalar::<f64>())
            .collect::<Result<_>>()?;
        let rewards: Vec<f64> = group.iter().map(|completion| completion.reward).collect();
        let advantages = advantages_of(estimator, &rewards, &weights, batch);
        for ((completion, (logp, mu)), advantage) in group.iter().zip(&pairs).zip(advantages) {
            let norm = match estimator.length_norm {
                LengthNorm::None => judged,
                LengthNorm::Length => judged * completion.tokens.len() as f64,
                LengthNorm::MaxLength => judged * MAX_TOKENS as f64,
                LengthNorm::BatchTokens => tokens as f64,
            };
            let frozen = log_probabilities(&reference, &completion.tokens)?.detach();
            let log_ratio = frozen.sub(logp)?;
            let k3 = log_ratio
                .exp()?
                .sub(&log_ratio)?
                .affine(1.0, -1.0)?
                .sum_all()?;
            let term =
                objective(estimator, logp, mu, advantage)?.sub(&k3.affine(estimator.kl, 0.0)?)?;
            loss = loss.sub(&term.affine(1.0 / norm, 0.0)?)?;
            let single = |values: &Tensor| values.to_dtype(DType::F32)?.to_vec1::<f32>();
            sampled.push(Owned {
                new: single(logp)?,
                behaviour: single(mu)?,
                reference: single(&frozen)?,
                reward: Some(completion.reward),
            });
        }
        samples.push(sampled);
    }
    let by_candle: Vec<f64> = loss
        .backward()?
        .get(&logits)
        .expect("the loss depends on the logits")
        .flatten_all()?
        .to_vec1()?;

    let computed = run(estimator, &samples);
    let mut ours = [0.0; POSITIONS * WORDS];
    let values: Vec<f64> = logits.flatten_all()?.to_vec1()?;
    for (completion, dlogp) in all.iter().zip(&computed.dlogp) {
        for (position, (token, d)) in completion.tokens.iter().zip(dlogp).enumerate() {
            let row = &values[position * WORDS..][..WORDS];
            let total: f64 = row.iter().map(|x| x.exp()).sum();
            for word in 0..WORDS {
                let delta = f64::from(u8::from(word == *token as usize));
                ours[position * WORDS + word] += f64::from(*d) * (delta - row[word].exp() / total);
            }
        }
    }
    let differences = ours.iter().zip(&by_candle).map(|(a, b)| (a - b).abs());
    Ok((
        differences.fold(0.0, f64::max),
        by_candle
            .iter()
            .fold(0.0, |largest: f64, g| largest.max(g.abs())),
    ))
}

#[test]
fn every_combination_of_choices_agrees_with_automatic_differentiation() {
    for factor in Factor::ALL {
        for baseline in Baseline::ALL {
            for length_norm in LengthNorm::ALL {
                for (divide_by_std, kl) in [(false, 0.0), (true, 0.0), (false, 0.5), (true, 0.04)] {
                    let estimator = Estimator {
                        factor,
                        baseline,
                        eta: 1.2,
                        length_norm,
                        divide_by_std,
                        kl,
                        ..Preset::Dapo.estimator()
                    };
                    let (difference, largest) = compare(&estimator).unwrap();
                    // Only the group of equal rewards, divided by 1e-4, has large numbers.
                    assert!(
                        difference < 1e-6 * (1.0 + largest),
                        "{estimator:?}: {difference} of {largest}"
                    );
                    assert!(largest > 1e-3, "{estimator:?}: {largest}");
                }
            }
        }
    }
}

#[test]
fn every_preset_agrees_with_automatic_differentiation() {
    for preset in Preset::ALL {
        let (difference, largest) = compare(&preset.estimator()).unwrap();
        assert!(
            difference < 1e-6 && largest > 1e-3,
            "{preset:?}: {difference} of {largest}"
        );
    }
}
