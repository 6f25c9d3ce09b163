//! The learning rate of each update.

use std::f64::consts::PI;

use crate::config::{LrSchedule, Optimiser};

/// The learning rate of update `number`, counted from 1, of `updates` in all. It rises linearly to `lr` at the end of the warm-up. Then it falls so that an update after
/// the last one would have the final rate.
pub(super) fn learning_rate(optimiser: &Optimiser, number: usize, updates: usize) -> f64 {
    let (lr, warmup, final_lr) = (optimiser.lr, optimiser.warmup, optimiser.final_lr);
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

    #[test]
    fn the_rate_rises_in_the_warm_up_and_falls_to_the_final_share() {
        use LrSchedule::{Constant, Cosine, Linear};
        let half = 1.0 + 0.5f64.sqrt();
        for (schedule, warmup, final_lr, rates) in [
            (Constant, 0, 0.0, &[2.0; 3][..]),
            (Constant, 4, 0.0, &[0.5, 1.0, 1.5, 2.0, 2.0, 2.0]),
            (Linear, 0, 0.0, &[2.0, 1.5, 1.0, 0.5]),
            (Linear, 2, 0.4, &[1.0, 2.0, 1.6, 1.2]),
            (Cosine, 1, 0.0, &[2.0, half, 1.0, 2.0 - half]),
            // A warm-up that is longer than the run is cut short.
            (Linear, 8, 0.0, &[0.25, 0.5, 0.75]),
            (Cosine, 8, 0.0, &[0.25, 0.5, 0.75]),
            (Cosine, 3, 0.0, &[2.0 / 3.0, 4.0 / 3.0, 2.0]),
            (Linear, 0, 0.0, &[2.0]),
        ] {
            let optimiser = Optimiser {
                lr: 2.0,
                schedule,
                warmup,
                final_lr,
                ..Optimiser::default()
            };
            for (number, expected) in (1..).zip(rates) {
                let rate = learning_rate(&optimiser, number, rates.len());
                assert!((rate - expected).abs() < 1e-12, "{rate} for {expected}");
            }
        }
    }
}
