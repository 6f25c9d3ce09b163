//! Training: groups → packs → one optimiser update.

pub mod adamw;
pub mod checkpoint;
mod kept;
pub mod pack;
pub mod step;

pub use step::{score, step};
