//! Training: groups → packs → one optimiser update, or sketches of gradients.

pub(crate) mod activations;
pub mod checkpoint;
pub mod count_sketch;
pub(crate) mod exchange;
pub mod gradient_sketches;
pub mod pack;
pub(crate) mod slices;
pub mod step;

pub use count_sketch::CountSketch;
pub use gradient_sketches::sketch;
pub use step::{score, step};
