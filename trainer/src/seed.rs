//! The random numbers of a run. Each is a pure function of the run's seed and of its purpose, so that resuming a run needs no stored state of a generator.

use datasets::random::SplitMix;

/// The seed of one sample. It follows from the run's seed, the epoch, the task, and the number of the sample in its group.
pub fn of_sample(run: u64, epoch: usize, task: &str, sample: usize) -> u64 {
    derive(run, "sample", &[epoch as u64, sample as u64], task)
}

/// The order of `n` prompts in an epoch: a permutation of `0..n`.
pub fn permutation(run: u64, epoch: usize, n: usize) -> Vec<usize> {
    shuffled(derive(run, "order", &[epoch as u64], ""), n)
}

/// The order of the `n` prompts of a set of a mixture, in an epoch of the set: a permutation of `0..n`.
pub fn permutation_of_set(run: u64, set: usize, epoch: usize, n: usize) -> Vec<usize> {
    shuffled(derive(run, "set", &[set as u64, epoch as u64], ""), n)
}

/// The order in which the `n` completions of a phase are used with `algorithm.mix_groups`: a permutation of `0..n`.
pub fn completion_order(run: u64, phase: usize, n: usize) -> Vec<usize> {
    shuffled(derive(run, "mixture", &[phase as u64], ""), n)
}

/// The epoch number of the prompts that replace others in a phase, in round `round`. No epoch of the data has such a number, so a prompt that was sampled before gets
/// other completions. No two replacements have the same number.
pub fn replacement_epoch(run: u64, phase: usize, round: usize) -> usize {
    const FIRST: usize = usize::MAX / 2;
    if round < 256 {
        return FIRST + (phase << 16) + round;
    }
    // Larger numbers are hashed into the range below.
    let numbers = [phase, 0, round].map(|number| number as u64);
    FIRST / 2 + derive(run, "reserve", &numbers, "") as usize % (FIRST / 2)
}

/// Fisher–Yates.
fn shuffled(seed: u64, n: usize) -> Vec<usize> {
    let mut random = SplitMix(seed);
    let mut order: Vec<usize> = (0..n).collect();
    for last in (1..n).rev() {
        order.swap(last, random.below(last + 1));
    }
    order
}

/// `count` standard normal numbers (Box & Muller 1958) for a purpose.
pub fn normals(run: u64, purpose: &str, count: usize) -> Vec<f64> {
    let mut random = SplitMix(derive(run, "normal", &[], purpose));
    let mut uniform = || (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
    (0..count)
        .map(|_| {
            let (u, v) = (1.0 - uniform(), uniform());
            (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
        })
        .collect()
}

/// BLAKE3 of the seed and the purpose, so that different purposes get unrelated numbers.
fn derive(run: u64, purpose: &str, numbers: &[u64], text: &str) -> u64 {
    let mut hasher = blake3::Hasher::new_derive_key("rapid trainer seeds 1");
    hasher.update(&run.to_le_bytes());
    hasher.update(&(purpose.len() as u64).to_le_bytes());
    hasher.update(purpose.as_bytes());
    for number in numbers {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(text.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{normals, of_sample, permutation};

    #[test]
    fn normal_numbers_have_mean_0_and_variance_1_and_differ_by_purpose() {
        let all = normals(5, "a", 20_000);
        let mean = all.iter().sum::<f64>() / 2e4;
        let square = all.iter().map(|x| x * x).sum::<f64>() / 2e4;
        assert!(mean.abs() < 0.03, "{mean}");
        assert!((square - 1.0).abs() < 0.04, "{square}");
        assert_eq!(all[..3], normals(5, "a", 3));
        assert_ne!(all[..3], normals(5, "b", 3));
    }

    #[test]
    fn each_epoch_has_every_task_once_in_its_own_order() {
        let first = permutation(7, 0, 100);
        assert_eq!(first, permutation(7, 0, 100));
        assert_ne!(first, permutation(7, 1, 100));
        assert_ne!(first, permutation(8, 0, 100));
        assert_eq!(first.iter().collect::<HashSet<_>>().len(), 100);
        assert_eq!(permutation(7, 0, 0), Vec::<usize>::new());
    }

    #[test]
    fn every_position_is_equally_likely() {
        let mut counts = [[0u32; 4]; 4];
        for run in 0..4000 {
            for (position, task) in permutation(run, 0, 4).into_iter().enumerate() {
                counts[position][task] += 1;
            }
        }
        // 1000 expected; the standard deviation is 27.
        let mut all = counts.iter().flatten();
        assert!(all.all(|n| (860..1140).contains(n)), "{counts:?}");
    }

    #[test]
    fn runs_epochs_tasks_and_numbers_have_different_seeds() {
        let mut seeds = HashSet::new();
        for number in 0..3 * 3 * 3 * 8 {
            let task = ["a/1", "a/2", "b/1"][number % 3];
            let (run, epoch, sample) = (number as u64 / 3 % 3, number / 9 % 3, number / 27);
            assert!(seeds.insert(of_sample(run, epoch, task, sample)));
        }
    }
}
