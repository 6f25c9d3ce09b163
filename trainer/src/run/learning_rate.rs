//! The learning rate of each update.

use std::f64::consts::PI;

use crate::config::{LrSchedule, Optimiser};

/// The learning rate of update `number`, counted from 1, of `updates` in all. It rises linearly to `lr` at the end of the warm-up. Then it falls so that an update after
/// the last one would have the final rate.
pub(super) fn learning_rate(optimiser: &Optimiser, number: usize, updates: usize) -> f64 {
    let Optimiser {
        lr,
        warmup,
        final_lr,
        ..
    } = *optimiser;
    if number < warmup {
        return lr * number as f64 / warmup as f64;
    }
    let highest = warmup.max(1);
    let past = number.saturating_sub(highest) as f64 / (updates + 1 - highest.min(updates)) as f64;
    let height = match optimiser.schedule {
        LrSchedule::Constant => return lr,
        LrSchedule::Linear => 1.0 - past,
        LrSchedule::Cosine => (1.0 + (PI * past).cos()) / 2.0,
    };
    lr * (final_lr + (1.0 - final_lr) * height)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(schedule: LrSchedule, warmup: usize, final_lr: f64, updates: usize) -> Vec<f64> {
        let optimiser = Optimiser {
            lr: 2.0,
            schedule,
            warmup,
            final_lr,
            ..Optimiser::default()
        };
        (1..=updates)
            .map(|number| learning_rate(&optimiser, number, updates))
            .collect()
    }

    fn assert_close(rates: &[f64], expected: &[f64]) {
        assert_eq!(rates.len(), expected.len());
        for (rate, expected) in rates.iter().zip(expected) {
            assert!((rate - expected).abs() < 1e-12, "{rate} for {expected}");
        }
    }

    #[test]
    fn the_rate_rises_and_stays_constant() {
        assert_close(&rates(LrSchedule::Constant, 0, 0.0, 3), &[2.0; 3]);
        let risen = [0.5, 1.0, 1.5, 2.0, 2.0, 2.0];
        assert_close(&rates(LrSchedule::Constant, 4, 0.0, 6), &risen);
    }

    #[test]
    fn the_rate_falls_to_the_final_share() {
        let falling = [2.0, 1.5, 1.0, 0.5];
        assert_close(&rates(LrSchedule::Linear, 0, 0.0, 4), &falling);
        let after_a_rise = [1.0, 2.0, 1.6, 1.2];
        assert_close(&rates(LrSchedule::Linear, 2, 0.4, 4), &after_a_rise);
        let half = 1.0 + 0.5f64.sqrt();
        let cosine = [2.0, half, 1.0, 2.0 - half];
        assert_close(&rates(LrSchedule::Cosine, 1, 0.0, 4), &cosine);
    }

    #[test]
    fn a_warm_up_longer_than_the_run_is_cut_short() {
        for schedule in [LrSchedule::Linear, LrSchedule::Cosine] {
            assert_close(&rates(schedule, 8, 0.0, 3), &[0.25, 0.5, 0.75]);
            assert_close(&rates(schedule, 3, 0.0, 3), &[2.0 / 3.0, 4.0 / 3.0, 2.0]);
            assert_close(&rates(schedule, 0, 0.0, 1), &[2.0]);
        }
    }
}
