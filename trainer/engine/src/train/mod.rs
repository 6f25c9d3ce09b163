//! Training: groups → packs → one optimiser update, or sketches of gradients.

pub mod adamw;
pub mod checkpoint;
pub(crate) mod kept;
pub mod pack;
pub mod projection;
pub mod sketch;
pub mod step;

pub use projection::Sketch;
pub use sketch::sketch;
pub use step::{score, step};
