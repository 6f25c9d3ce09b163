//! Low-rank adapters (LoRA, Hu et al. 2021). Every matrix `W` of a block has an adapter `A` (rank × inputs) and `B` (outputs × rank), and `y = x·Wᵀ + (alpha /
//! rank) · x·Aᵀ·Bᵀ`. Only `A` and `B` are trained.
//!
//! Matrices that share their input share `A`: queries, keys and values have one `A`, gate and up another.

use crate::backend::{Backend, Buf, Linear, Purpose};
use crate::config::ModelConfig;
use crate::error::EngineError;
use crate::model::layout::{Projection, Region, TensorLayout};
use crate::model::workspace::Widths;
use crate::sample::uniform;

/// Settings of the adapters.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Lora {
    /// Rows of `A` and columns of `B`; at least 1.
    pub rank: usize,
    /// The adapters' contribution is multiplied by `alpha / rank`.
    pub alpha: f32,
    /// Seed of the initial values of `A`.
    pub seed: u64,
}

impl Lora {
    /// Rejects settings out of range.
    pub fn check(&self) -> Result<(), String> {
        if self.rank == 0 {
            return Err("the rank of adapters is 0; give it at least 1".into());
        }
        if !(self.alpha > 0.0 && self.alpha.is_finite()) {
            return Err(format!(
                "the adapters' alpha is {}; give a number above 0",
                self.alpha
            ));
        }
        Ok(())
    }
}

/// An adapter's two matrices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Adapter {
    pub(crate) a: Region,
    pub(crate) b: Region,
}

/// The adapters of a model, in a buffer of their own.
pub(crate) struct Adapters {
    /// `A` and `B` of all blocks.
    pub(crate) weights: Buf,
    pub(crate) rank: usize,
    /// alpha / rank.
    pub(crate) scale: f32,
    /// Whether they are applied; without them the model is as it was loaded.
    pub(crate) active: bool,
    blocks: Vec<[Adapter; 4]>,
    pub(crate) layout: TensorLayout,
}

impl Adapters {
    /// Creates adapters that change nothing yet: `B` is 0, and `A` is uniform between ∓1/√inputs.
    pub(crate) fn new(
        backend: &mut dyn Backend,
        config: &ModelConfig,
        lora: Lora,
    ) -> Result<Self, EngineError> {
        lora.check().map_err(EngineError::Request)?;
        let (layout, blocks) = lay_out(config, lora.rank);
        let weights = backend.allocate(Purpose::Weights, layout.len)?;
        for (number, adapter) in blocks.iter().flatten().enumerate() {
            let a = adapter.a.within(weights);
            let bound = 1.0 / ((a.len() / lora.rank) as f64).sqrt();
            let first = (number as u64) << 32;
            let values: Vec<f32> = (0..a.len() as u64)
                .map(|i| ((2.0 * uniform(lora.seed, first + i) - 1.0) * bound) as f32)
                .collect();
            backend.upload(a, &values);
        }
        Ok(Self {
            weights,
            rank: lora.rank,
            scale: lora.alpha / lora.rank as f32,
            active: true,
            blocks,
            layout,
        })
    }

    pub(crate) fn adapter(&self, layer: usize, which: Projection) -> Adapter {
        self.blocks[layer][which as usize]
    }

    /// Sizes of the product `x·Aᵀ`, given those of the block's product.
    pub(crate) fn down(&self, size: Linear) -> Linear {
        Linear {
            outputs: self.rank,
            ..size
        }
    }

    /// Sizes of the product with `Bᵀ`.
    pub(crate) fn up(&self, size: Linear) -> Linear {
        Linear {
            inputs: self.rank,
            ..size
        }
    }
}

fn lay_out(config: &ModelConfig, rank: usize) -> (TensorLayout, Vec<[Adapter; 4]>) {
    // The head has no adapter.
    let widths = Widths::new(config, 1);
    let mut layout = TensorLayout::default();
    let blocks = (0..config.num_hidden_layers).map(|layer| {
        Projection::ALL.map(|which| {
            let size = widths.projection(which, 0);
            let name = |part| format!("model.layers.{layer}.{}.lora_{part}", which.name());
            Adapter {
                a: layout.put([(name("A"), vec![rank, size.inputs])]),
                b: layout.put([(name("B"), vec![size.outputs, rank])]),
            }
        })
    });
    let blocks = blocks.collect();
    (layout, blocks)
}

/// Number of elements of a model's adapters.
pub(crate) fn adapter_elements(config: &ModelConfig, rank: usize) -> usize {
    lay_out(config, rank).0.len
}

/// Adds `scale · B·A` to rows of a matrix; `b` holds those rows of `B`.
pub(crate) fn merge(matrix: &mut [f32], a: &[f32], b: &[f32], rank: usize, scale: f32) {
    let inputs = a.len() / rank;
    for (row, b) in matrix.chunks_exact_mut(inputs).zip(b.chunks_exact(rank)) {
        for (factor, a) in b.iter().zip(a.chunks_exact(inputs)) {
            let factor = factor * scale;
            for (value, a) in row.iter_mut().zip(a) {
                *value += factor * a;
            }
        }
    }
}
