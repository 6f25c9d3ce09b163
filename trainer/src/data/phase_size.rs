//! The rule of `algorithm.auto_h`: H of the next inference phase, from how fast the effective sample size fell in the last one. `run/auto_h.rs` applies it to a run's
//! log. docs/algorithms.md derives it.
//!
//! Update number t of a phase, counted from 0, has samples of staleness t. Let e(t) be the effective sample size of its weights, as a fraction of its completions. The
//! *lifetime* T of samples is the staleness at which e has fallen to the target. For −ln e(t) = a tᵇ with 1 ≤ b ≤ 2, a point (t, e(t)) and r = ln target / ln e(t) give
//! T = t r^(1/b), which is at least t min(r, √r). This is the estimate, so an error of the model makes phases too short, not too stale. b is not fitted, since a phase
//! has few points, each from a few groups.
//!
//! The point is that of the phase's most stale update. e cannot rise with staleness, so isotonic regression estimates −ln e there: it is the largest mean of −ln e
//! over the last k updates, for k = 1, 2, …. A last mini-batch with even weights by chance does not lengthen the next phase. One with uneven weights by chance
//! shortens it, for one phase.

use std::num::NonZeroUsize;

use serde::{Deserialize, Deserializer, Serialize};

/// Updates of the first phase: as many as it takes to measure one stale update.
const FIRST: usize = 2;

/// The next phase may have this many times the updates of the last, since the estimate reaches beyond the measured staleness.
const GROWTH: usize = 2;

/// Relative error of an estimated lifetime that is a whole number up to rounding.
const ROUNDING: f64 = 1e-9;

/// H of a phase, and why.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PhaseSize {
    /// H: updates of the phase, unless the run ends before.
    #[serde(deserialize_with = "at_least_one")]
    pub h: usize,
    /// Why it is not larger.
    pub reason: SizeReason,
    /// The estimated lifetime of samples, in updates; absent if the last phase has no stale update, or one with weights that are all equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<f64>,
}

fn at_least_one<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    NonZeroUsize::deserialize(from).map(NonZeroUsize::get)
}

/// Why H is not larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SizeReason {
    /// Nothing is measured before the first phase.
    First,
    /// The effective sample size would be below the target.
    Lifetime,
    /// It is twice the size of the last phase.
    Growth,
    /// It is the largest that is allowed.
    Max,
}

impl PhaseSize {
    /// The size of the phase that follows `last`, from 1 to `max`. `last` has the effective sample size of each update of the last phase, in order, as a fraction of
    /// its completions: `None` for an update without a verdict, and nothing before the first phase. `target` is the fraction below which no update should be, above
    /// 0 and below 1.
    ///
    /// The size never falls if a fraction rises.
    pub fn after(last: &[Option<f64>], target: f64, max: usize) -> Self {
        let max = max.max(1);
        if last.is_empty() {
            return Self {
                h: FIRST.min(max),
                reason: SizeReason::First,
                lifetime: None,
            };
        }
        let lifetime = lifetime(last, target);
        // Updates 0 to T have samples of staleness 0 to T. The conversion saturates.
        let lasting = ((lifetime * (1.0 + ROUNDING)) as usize).saturating_add(1);
        let grown = GROWTH.saturating_mul(last.len());
        let (h, reason) = [
            (lasting, SizeReason::Lifetime),
            (max, SizeReason::Max),
            (grown, SizeReason::Growth),
        ]
        .into_iter()
        .min_by_key(|(h, _)| *h)
        .unwrap_or((max, SizeReason::Max));
        Self {
            h,
            reason,
            lifetime: Some(lifetime).filter(|lifetime| lifetime.is_finite()),
        }
    }
}

/// The shortest lifetime that the family allows, in updates; infinite if no staleness was measured.
fn lifetime(last: &[Option<f64>], target: f64) -> f64 {
    // −ln e, from the most stale update back to the first stale one.
    let mut falls = last
        .iter()
        .enumerate()
        .skip(1)
        .rev()
        .filter_map(|(staleness, ess)| {
            let ess = ess.filter(|e| !e.is_nan())?;
            Some((staleness, -ess.clamp(0.0, 1.0).ln()))
        })
        .peekable();
    let Some((staleness, _)) = falls.peek().copied() else {
        return f64::INFINITY;
    };
    let (mut sum, mut fall) = (0.0, 0.0_f64);
    for (count, (_, own)) in (1..).zip(falls) {
        sum += own;
        fall = fall.max(sum / f64::from(count));
    }
    let ratio = -target.ln() / fall;
    staleness as f64 * ratio.min(ratio.sqrt())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The fractions of a phase of `h` updates, if e is 1/2 after `half_life` updates and −ln e grows as tᵇ.
    fn phase(h: usize, half_life: f64, b: f64) -> Vec<Option<f64>> {
        (0..h)
            .map(|t| Some((-(2.0_f64.ln()) * (t as f64 / half_life).powf(b)).exp()))
            .collect()
    }

    /// The sizes of phases one after the other, from the first.
    fn sizes(half_life: f64, b: f64, max: usize) -> Vec<usize> {
        let mut sizes = vec![PhaseSize::after(&[], 0.5, max).h];
        for _ in 0..12 {
            let last = phase(sizes[sizes.len() - 1], half_life, b);
            sizes.push(PhaseSize::after(&last, 0.5, max).h);
        }
        sizes
    }

    #[test]
    fn h_doubles_until_the_last_update_is_at_the_half_life() {
        assert_eq!(sizes(11.0, 2.0, 100)[..6], [2, 4, 8, 12, 12, 12]);
        // With b = 1 the first estimates are too short, since they assume b = 2, and the last is a whole number of updates.
        assert_eq!(sizes(11.0, 1.0, 100)[..7], [2, 4, 6, 8, 9, 10, 10]);
        assert_eq!(sizes(11.0, 2.0, 9)[..5], [2, 4, 8, 9, 9]);
        // A half-life below one update alternates with measuring it.
        assert_eq!(sizes(0.5, 1.5, 16)[..5], [2, 1, 2, 1, 2]);
    }

    #[test]
    fn the_reason_is_what_limits_h() {
        let of = |last: &[Option<f64>], max| {
            let size = PhaseSize::after(last, 0.5, max);
            (size.h, size.reason, size.lifetime.is_some())
        };
        assert_eq!(of(&[], 16), (2, SizeReason::First, false));
        assert_eq!(of(&[], 1), (1, SizeReason::First, false));
        // A phase of one update, and one without verdicts on its stale updates.
        assert_eq!(of(&[Some(1.0)], 16), (2, SizeReason::Growth, false));
        assert_eq!(of(&[Some(1.0), None], 16), (4, SizeReason::Growth, false));
        // Nothing has changed.
        assert_eq!(of(&[Some(1.0); 4], 16), (8, SizeReason::Growth, false));
        assert_eq!(of(&[Some(1.0); 4], 8), (8, SizeReason::Max, false));
        assert_eq!(of(&phase(4, 3.0, 2.0), 16), (4, SizeReason::Lifetime, true));
        assert_eq!(of(&phase(4, 30.0, 2.0), 5), (5, SizeReason::Max, true));
        let fallen = [Some(1.0), Some(0.0)];
        assert_eq!(of(&fallen, 16), (1, SizeReason::Lifetime, true));
    }

    #[test]
    fn the_most_stale_update_decides_the_next_phase() {
        let of_study = [Some(1.0), Some(0.95), Some(0.85), None, Some(0.51)];
        let with_last = |ess| [&phase(8, 8.0, 2.0)[..], &[Some(ess)]].concat();
        for (last, sizes) in [
            // SmolLM2 in the study, and the first updates of the same measurement.
            (of_study.to_vec(), 5..=5),
            (of_study[..3].to_vec(), 5..=5),
            (of_study[..2].to_vec(), 4..=4),
            // A phase that went too far is followed by one at the half-life or below.
            (phase(17, 8.0, 1.0), 9..=9),
            (phase(17, 8.0, 2.0), 5..=5),
            (phase(9, 8.0, 2.0), 9..=9),
            (with_last(1.0), 9..=13),
            (with_last(0.25), 5..=5),
        ] {
            let size = PhaseSize::after(&last, 0.5, 100).h;
            assert!(sizes.contains(&size), "{size}, not {sizes:?}");
        }
    }

    fn fractions() -> impl Strategy<Value = Vec<Option<f64>>> {
        let fraction = prop_oneof![
            8 => (0.0..=1.0).prop_map(Some),
            1 => Just(Some(0.0)),
            1 => Just(Some(1.0)),
            1 => Just(Some(f64::NAN)),
            1 => Just(None),
        ];
        prop::collection::vec(fraction, 0..40)
    }

    #[test]
    fn a_phase_without_updates_is_not_read() {
        let size = |h: usize| format!(r#"{{"h": {h}, "reason": "lifetime"}}"#);
        assert_eq!(serde_json::from_str::<PhaseSize>(&size(1)).unwrap().h, 1);
        assert!(serde_json::from_str::<PhaseSize>(&size(0)).is_err());
    }

    proptest! {
        #[test]
        fn h_is_bounded_and_its_lifetime_a_number(last in fractions(), target in 0.001..0.999, max in 1usize..200) {
            let size = PhaseSize::after(&last, target, max);
            prop_assert!((1..=max).contains(&size.h));
            prop_assert!(last.is_empty() || size.h <= 2 * last.len());
            prop_assert!(size.lifetime.is_none_or(|lifetime| lifetime >= 0.0 && lifetime.is_finite()), "{size:?}");
        }

        #[test]
        fn h_never_falls_if_a_fraction_rises(last in fractions(), at in 0usize..40, rise in 0.0..1.0, target in 0.001..0.999) {
            let of = |last: &[Option<f64>]| PhaseSize::after(last, target, 100).h;
            let mut raised = last.clone();
            if let Some(Some(fraction)) = raised.get_mut(at) {
                *fraction += rise * (1.0 - *fraction);
            }
            prop_assert!(of(&raised) >= of(&last), "{last:?}");
        }

        /// Whatever the member of the family, sizes that follow any phase with a stale update come to the half-life, or to less than two updates below it. No phase
        /// after the first of them goes beyond it.
        #[test]
        fn sizes_come_to_the_half_life_from_below(half_life in 1.0..60.0_f64, b in 1.0..=2.0, from in 2usize..130) {
            let mut h = from;
            for _ in 0..40 {
                h = PhaseSize::after(&phase(h, half_life, b), 0.5, 1000).h;
                prop_assert!((h - 1) as f64 <= half_life * (1.0 + 1e-6), "{h}");
                h = h.max(2);
            }
            let last = (h - 1) as f64;
            prop_assert!(last > half_life - 2.0 - 1.0 / last, "{last} of {half_life}");
        }
    }
}
