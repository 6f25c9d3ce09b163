//! The numbers of one AdamW update, including clipping.

use crate::api::AdamW;
use crate::backend::AdamWStep;

/// Numbers of update `count` (from 1), given the global gradient norm.
///
/// Clipping is that of `torch.nn.utils.clip_grad_norm_`: the gradient is multiplied by `clip / (norm + 1e-6)` if that is below 1.
pub fn numbers(adamw: &AdamW, count: u64, norm: f64) -> AdamWStep {
    let t = i32::try_from(count).unwrap_or(i32::MAX);
    let factor = f64::from(adamw.clip_norm) / (norm + 1e-6);
    AdamWStep {
        lr: adamw.lr,
        beta1: adamw.beta1,
        beta2: adamw.beta2,
        eps: adamw.eps,
        decay: adamw.weight_decay,
        bias1: (1.0 - f64::from(adamw.beta1).powi(t)) as f32,
        bias2: (1.0 - f64::from(adamw.beta2).powi(t)) as f32,
        grad_scale: factor.min(1.0) as f32,
    }
}
