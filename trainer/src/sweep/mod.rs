//! A sweep: the runs of a grid of settings, in one folder.
//!
//! [`file`](mod@file) reads the sweep file, [`plan`] makes the list of runs of it, [`folder`] is the folder with what ran, [`schedule`] says which run is next, and
//! [`estimate`] how long the rest takes. The command `rapid sweep` starts each run as a process of its own.

mod error;
pub mod estimate;
pub mod file;
pub mod folder;
pub mod manifest;
pub mod plan;
pub mod schedule;

pub use error::SweepError;
pub use file::{Arm, Compare, SweepFile};
pub use folder::{RunState, SweepFolder, is_sweep};
pub use manifest::{Event, ManifestLine};
pub use plan::{Block, Plan, PlannedRun};

#[cfg(test)]
mod tests;
