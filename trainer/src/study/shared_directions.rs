//! The estimates of many estimators for one group, as linear combinations of few gradients.
//!
//! A backward pass takes a second, and the study has a hundred estimators. But most of them give a completion the same `dL/dlogp` up to a scalar: a factor of the sequence
//! gives all tokens one number, and a factor of tokens gives the same ratios times an advantage. So each completion's `dL/dlogp` is split into a direction and a size,
//! and estimators share directions. One backward pass runs for each direction, and an estimate is a sum of them, since gradients are linear in `dL/dlogp`.

/// `dL/dlogp` of every token of a group's completions.
pub(super) type Dlogp = Vec<Vec<f32>>;

/// Directions that differ by less than this, relative to their largest element, are the same. Single precision makes them differ by a ten-millionth.
const TOLERANCE: f32 = 1e-5;

/// The estimates of several estimators for one group.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct SharedDirections {
    /// A completion's index and a direction in its tokens, scaled to a largest element of 1.
    directions: Vec<(usize, Vec<f32>)>,
    /// For each estimator, the indices of its directions and their coefficients.
    pub(super) sums: Vec<Vec<(usize, f32)>>,
}

impl SharedDirections {
    /// Splits each estimator's `dL/dlogp` of the group.
    pub(super) fn of(estimates: &[Dlogp]) -> Self {
        let mut shared = Self::default();
        for estimate in estimates {
            let completions = estimate.iter().enumerate();
            let sum = completions.filter_map(|(completion, dlogp)| shared.split(completion, dlogp));
            let sum = sum.collect();
            shared.sums.push(sum);
        }
        shared
    }

    /// The index of the direction of a completion's `dL/dlogp`, which is added if it is new, and the size; `None` if all elements are 0.
    fn split(&mut self, completion: usize, dlogp: &[f32]) -> Option<(usize, f32)> {
        let largest = dlogp.iter().fold(
            0.0,
            |largest: f32, d| {
                if d.abs() > largest.abs() { *d } else { largest }
            },
        );
        if largest == 0.0 {
            return None;
        }
        let direction: Vec<f32> = dlogp.iter().map(|d| d / largest).collect();
        let existing = self.directions.iter().position(|(other, existing)| {
            let differ = |(a, b): (&f32, &f32)| (a - b).abs() > TOLERANCE;
            *other == completion && !existing.iter().zip(&direction).any(differ)
        });
        let index = existing.unwrap_or_else(|| {
            self.directions.push((completion, direction));
            self.directions.len() - 1
        });
        Some((index, largest))
    }

    /// The `dL/dlogp` of the whole group for each direction; `lengths` are the completions' numbers of tokens.
    pub(super) fn objectives(&self, lengths: &[usize]) -> Vec<Dlogp> {
        let each = self.directions.iter();
        each.map(|(completion, direction)| {
            let mut dlogp: Dlogp = lengths.iter().map(|tokens| vec![0.0; *tokens]).collect();
            dlogp[*completion].clone_from(direction);
            dlogp
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algo::gradient;
    use crate::seed;
    use crate::study::{estimators, sample};

    #[test]
    fn the_directions_of_every_estimator_sum_to_it_and_are_few() {
        let lengths = [3, 1, 4, 2];
        let rewards = [Some(1.0), Some(0.0), Some(1.0), None];
        let logp = |purpose: &str| -> Dlogp {
            let mut numbers = seed::normals(3, purpose, 10).into_iter();
            let each = lengths.iter();
            each.map(|n| {
                (0..*n)
                    .map(|_| (-1.0 - 0.3 * numbers.next().unwrap().abs()) as f32)
                    .collect()
            })
            .collect()
        };
        let (new, behaviour) = (logp("new"), logp("behaviour"));
        let group = || {
            let each = new.iter().zip(&behaviour).zip(rewards);
            each.map(|((new, behaviour), reward)| sample(new, behaviour, reward))
                .collect()
        };
        let estimates: Vec<Dlogp> = estimators()
            .iter()
            .map(|setting| gradient(&setting.estimator, &[group()], 4).unwrap().dlogp)
            .collect();
        let shared = SharedDirections::of(&estimates);
        let objectives = shared.objectives(&lengths);
        // Whole completions; token ratios, their caps, and PPO's clip of them on either side.
        assert!(
            objectives.len() <= 3 * 6,
            "{} of {}",
            objectives.len(),
            estimates.len()
        );
        for (estimate, sum) in estimates.iter().zip(&shared.sums) {
            for (completion, dlogp) in estimate.iter().enumerate() {
                for (t, d) in dlogp.iter().enumerate() {
                    let total: f32 = sum
                        .iter()
                        .map(|(index, size)| size * objectives[*index][completion][t])
                        .sum();
                    assert!((total - d).abs() < 1e-5, "{total} for {d}");
                }
            }
        }
        assert!(
            objectives.iter().all(|dlogp| dlogp[3] == [0.0; 2]),
            "the masked completion"
        );
    }

    #[test]
    fn a_dlogp_of_zeros_has_no_direction() {
        let shared = SharedDirections::of(&[vec![vec![0.0; 2], vec![0.0; 3]]]);
        assert_eq!(shared.sums, [vec![]]);
        assert!(shared.objectives(&[2, 3]).is_empty());
    }
}
