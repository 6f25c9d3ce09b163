//! A training run: inference phases of H × N_step completions, H updates on each, evaluations, checkpoints; and its resumption to the bit.
//!
//! [`launch`](launch()) turns a recipe into a [`Job`], and [`train`] runs it: `train_loop.rs` is the loop, `phase.rs` its sampling, `update.rs` its updates,
//! `auto_h.rs` the sizes of its phases, `evaluate.rs` its evaluations. `clock.rs` measures what the time is spent on. `folder/` is everything on disk,
//! `observers/` are the observers.
//!
//! A resumed run equals one that was never killed. Weights, moments and the number of updates are loaded to the bit from the newest checkpoint. The order of the data
//! and each sample's seed are pure functions of the run's seed ([`crate::seed`]). The samples of a phase are on disk before its first update. The tasks must be
//! those that the run began with. Every log is truncated to the checkpoint before a line is appended. What was chosen during the run (`algorithm.auto_h`) follows
//! from the lines that remain.

mod auto_h;
mod clock;
mod error;
mod evaluate;
mod extend;
mod folder;
mod freeze_config;
mod job;
mod launch;
mod learning_rate;
mod masked;
pub mod observers;
mod phase;
mod resume;
mod sft;
mod train_loop;
mod update;

pub use clock::Clock;
pub use error::{TrainError, is_divergence};
pub use folder::checkpoint::folder_of as checkpoint_folder;
pub use folder::model_digest::digest as model_digest;
pub use folder::provenance::{Provenance, data_dir_of, device_name, tasks_digest};
pub use folder::{Log, RunFolder, read_log};
pub use freeze_config::absolute;
pub(crate) use freeze_config::pin;
pub use job::{Job, RunOutcome, Summary};
pub use launch::{Launch, Target, check_epoch, launch, locate_model, resume_config};
pub use observers::{Journal, Progress};
pub use sft::count_teacher_lines;
pub use train_loop::train;

#[cfg(test)]
mod tests;
