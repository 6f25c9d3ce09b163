//! Training: groups → packs → one optimiser update, or sketches of gradients.

pub(crate) mod activations;
pub mod adamw;
pub mod checkpoint;
pub mod pack;
pub mod projection;
pub mod sketch;
pub mod step;

pub use projection::Sketch;
pub use sketch::sketch;
pub use step::{score, step};
