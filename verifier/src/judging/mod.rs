//! The judging side of the service: from an item and its key to a verdict.

mod batch;
mod in_flight;
mod judge;
mod parked;
mod work;

pub(crate) use batch::no_judgement;
pub use batch::{Batch, judge};
pub use judge::{DiskStores, Judge};
pub(crate) use work::queued;
