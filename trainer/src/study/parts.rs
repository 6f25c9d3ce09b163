//! Many estimators of one group as combinations of few gradients.
//!
//! A backward pass takes a second, and the study has a hundred estimators. But what they give a completion's tokens differs mostly by a factor: one number for the
//! whole completion (every factor of the sequence), or the same ratios times an advantage (those of its tokens). So each completion's `dL/dlogp` is taken apart into
//! directions, each met by some estimators; a backward pass is made for each direction, and an estimate is a sum of those, since gradients are linear in `dL/dlogp`.

/// `dL/dlogp` of every token of a group's completions.
pub(super) type Dlogp = Vec<Vec<f32>>;

/// Directions that differ by less than this, relative to their largest element, are one: single precision has them differ by a ten-millionth.
const NEAR: f32 = 1e-5;

/// What several estimators make of one group.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Parts {
    /// A completion and a direction in its tokens, scaled to a largest element of 1.
    directions: Vec<(usize, Vec<f32>)>,
    /// For each estimator, which directions it adds up, and how much of each.
    pub(super) sums: Vec<Vec<(usize, f32)>>,
}

impl Parts {
    /// Takes apart what each estimator made of the group.
    pub(super) fn of(estimates: &[Dlogp]) -> Self {
        let mut parts = Self::default();
        for estimate in estimates {
            let live = estimate.iter().enumerate();
            let sum = live.filter_map(|(completion, dlogp)| parts.part(completion, dlogp));
            let sum = sum.collect();
            parts.sums.push(sum);
        }
        parts
    }

    /// The direction of a completion's `dL/dlogp`, new or known, and its size; nothing of zeros.
    fn part(&mut self, completion: usize, dlogp: &[f32]) -> Option<(usize, f32)> {
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
        let known = self.directions.iter().position(|(other, known)| {
            let far = |(a, b): (&f32, &f32)| (a - b).abs() > NEAR;
            *other == completion && !known.iter().zip(&direction).any(far)
        });
        let place = known.unwrap_or_else(|| {
            self.directions.push((completion, direction));
            self.directions.len() - 1
        });
        Some((place, largest))
    }

    /// A `dL/dlogp` for each direction, for completions of these lengths.
    pub(super) fn sets(&self, lengths: &[usize]) -> Vec<Dlogp> {
        let each = self.directions.iter();
        each.map(|(completion, direction)| {
            let mut set: Dlogp = lengths.iter().map(|tokens| vec![0.0; *tokens]).collect();
            set[*completion].clone_from(direction);
            set
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algo::gradient;
    use crate::seed;
    use crate::study::{grid, sample};

    #[test]
    fn the_parts_of_every_estimator_add_up_to_it_and_are_few() {
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
        let estimates: Vec<Dlogp> = grid()
            .iter()
            .map(|setting| gradient(&setting.estimator, &[group()], 4).unwrap().dlogp)
            .collect();
        let parts = Parts::of(&estimates);
        let sets = parts.sets(&lengths);
        // Whole completions; token ratios, their caps, and what PPO's clip leaves of them on either side.
        assert!(sets.len() <= 3 * 6, "{} of {}", sets.len(), estimates.len());
        for (estimate, sum) in estimates.iter().zip(&parts.sums) {
            for (completion, dlogp) in estimate.iter().enumerate() {
                for (t, d) in dlogp.iter().enumerate() {
                    let made: f32 = sum
                        .iter()
                        .map(|(place, size)| size * sets[*place][completion][t])
                        .sum();
                    assert!((made - d).abs() < 1e-5, "{made} for {d}");
                }
            }
        }
        assert!(
            sets.iter().all(|set| set[3] == [0.0; 2]),
            "the masked completion"
        );
    }

    #[test]
    fn zeros_have_no_part() {
        let parts = Parts::of(&[vec![vec![0.0; 2], vec![0.0; 3]]]);
        assert_eq!(parts.sums, [vec![]]);
        assert!(parts.sets(&[2, 3]).is_empty());
    }
}
