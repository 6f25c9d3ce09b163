//! Comparison of a device with the CPU backend: every operation, then whole models, on the same random numbers. For `rapid doctor --device cuda:0`, and for
//! tests.

mod invariants;
mod models;
mod operations;
mod sizes;

pub use self::invariants::{Claim, phases, recordings, repeated_step};
use self::models::model;
pub(crate) use self::operations::every_operation;
pub use self::sizes::{Sizes, true_sizes};
use crate::api::AdamW;
use crate::backend::{Backend, Dtype, cpu};
use crate::config::Family;
use crate::error::EngineError;
use crate::sample::uniform;

/// Settings of the models' updates.
const ADAMW: AdamW = AdamW {
    beta2: 0.99,
    weight_decay: 0.01,
    ..AdamW::new(1e-3)
};

/// Opens a device with products in a number format.
pub type Open<'a> = &'a dyn Fn(Dtype) -> Result<Box<dyn Backend>, EngineError>;

/// Numbers that a device has computed, with the names of the computations.
type Results = Vec<(&'static str, Vec<f32>)>;

/// How much is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Everything, at the sizes of real models: on a GPU, a minute.
    Full,
    /// The same code at small sizes: for an emulated device, and for tools that slow a GPU down a hundredfold.
    Reduced,
}

/// The distance of a device's numbers from the CPU backend's.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Compared {
    /// Name of the computation.
    pub what: String,
    /// ‖device − cpu‖ / ‖cpu‖; infinite if a number is not finite.
    pub distance: f64,
    /// The largest distance that rounding explains.
    pub limit: f64,
}

impl Compared {
    /// Whether the two agree.
    pub fn agrees(&self) -> bool {
        self.distance <= self.limit
    }

    /// Compares the results of a computation `of` something.
    fn all(
        device: &Results,
        cpu: &Results,
        of: impl Fn(&str) -> String,
        limit: f64,
    ) -> impl Iterator<Item = Self> {
        device
            .iter()
            .zip(cpu)
            .map(move |((what, device), (_, cpu))| Self {
                what: of(what),
                distance: distance(device, cpu),
                limit,
            })
    }
}

fn distance(ours: &[f32], theirs: &[f32]) -> f64 {
    if ours.len() != theirs.len() || ours.iter().chain(theirs).any(|x| !x.is_finite()) {
        return f64::INFINITY;
    }
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let difference = ours.iter().zip(theirs);
    let difference = norm(&mut difference.map(|(a, b)| f64::from(*a) - f64::from(*b)));
    difference / norm(&mut theirs.iter().map(|x| f64::from(*x))).max(1e-30)
}

/// Compares a device with the CPU backend: operations, then logits, log-probabilities, gradients and decoded tokens of small random models of each family.
/// Reduced, it compares one width of heads and one family.
///
/// # Errors
/// If the device fails.
pub fn with_cpu(
    open: Open<'_>,
    dtype: Dtype,
    extent: Extent,
) -> Result<Vec<Compared>, EngineError> {
    let (head_dims, families): (&[usize], &[Family]) = match extent {
        Extent::Full => (&[64, 128, 256], &Family::ALL),
        Extent::Reduced => (&[64], &[Family::Gemma3]),
    };
    let (exact, rounded) = limits(dtype);
    let on_cpu = || cpu::open_with(None, dtype, None);
    let mut results = Vec::new();
    for head_dim in head_dims {
        let device = every_operation(open(dtype)?.as_mut(), *head_dim)?;
        let reference = every_operation(on_cpu()?.as_mut(), *head_dim)?;
        let of = |what: &str| format!("{what}, heads of {head_dim}");
        results.extend(Compared::all(&device, &reference, of, exact));
    }
    for family in families {
        let device = model(*family, open(dtype)?)?;
        let reference = model(*family, on_cpu()?)?;
        let of = |what: &str| format!("{}: {what}", family.name());
        results.extend(Compared::all(&device, &reference, of, rounded));
    }
    Ok(results)
}

/// The largest distances that rounding explains: of one operation, and of a whole model.
fn limits(dtype: Dtype) -> (f64, f64) {
    match dtype {
        Dtype::F32 => (1e-5, 1e-4),
        Dtype::Bf16 => (1e-2, 5e-2),
    }
}

/// Pseudo-random numbers between −1 and 1, a function of the seed.
pub(crate) fn numbers(len: usize, seed: u64) -> Vec<f32> {
    (0..len as u64)
        .map(|i| (2.0 * uniform(seed, i) - 1.0) as f32)
        .collect()
}
