//! The numbers of one AdamW update, including clipping.

use crate::api::AdamW;
use crate::backend::AdamWStep;

/// Numbers of update `count` (from 1), given the global gradient norm.
pub fn numbers(adamw: &AdamW, count: u64, norm: f64) -> AdamWStep {
    let t = i32::try_from(count).unwrap_or(i32::MAX);
    AdamWStep {
        lr: adamw.lr,
        beta1: adamw.beta1,
        beta2: adamw.beta2,
        eps: adamw.eps,
        decay: adamw.weight_decay,
        bias1: (1.0 - f64::from(adamw.beta1).powi(t)) as f32,
        bias2: (1.0 - f64::from(adamw.beta2).powi(t)) as f32,
        grad_scale: adamw.grad_scale(norm) as f32,
    }
}
