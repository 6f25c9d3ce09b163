//! The judging side of the service: from an item and its key to a verdict.

mod batch;
mod in_flight;
mod judge;
mod queue;
mod sample;
mod work;

pub use batch::{Batch, judge};
pub use judge::{DiskStores, Judge};
pub(crate) use sample::no_judgement;
pub(crate) use work::queued;
