//! The judging side of the service: from an item and its key to a verdict.

mod batch;
mod in_flight;
mod judge;
mod passes;
mod queue;
mod sample;

pub use batch::{Batch, judge};
pub use judge::{DiskStores, Judge};
pub(crate) use passes::{run_canonical_solution, run_queued};
pub(crate) use sample::no_judgement;
