//! Reinforcement-learning fine-tuning of small language models: the library behind the `rapid` binary.
//!
//! Data flows one way, in the direction of the arrows. No two folders of modules import each other:
//!
//! ```text
//! config ──▶ data ──prompts──▶ rollout ──groups──▶ run ──metrics, checkpoints──▶ report
//!                               │   ▲               │
//!                    completions▼   │rewards        ▼ numbers
//!                              reward              algo
//! ```
//!
//! [`config`] resolves a recipe once. [`data`] makes prompts of tasks and orders them. [`rollout`] samples completions from a [`policy::Policy`] and has them judged
//! by [`reward`] as they finish. [`algo`] turns log-probabilities and rewards into the gradient that the policy consumes. [`run`] is the loop around them, its
//! folder, and its resumption. [`checkpoint_settings`] is the file of settings in a checkpoint. [`study`] measures the estimators of [`algo`]. [`sweep`] plans the runs
//! of a grid and keeps their folder. [`statistics`] has the tests that compare them, and [`paper`] the paper's own numbers. [`transcript`] writes samples, and [`tensorboard`] curves, for people to look at.

#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod algo;
pub mod atomic_file;
pub mod checkpoint_settings;
pub mod config;
pub mod data;
pub mod escape;
pub mod eval;
pub mod interrupt;
pub mod launcher_env;
mod missing_file;
mod paper;
pub mod plan;
pub mod policy;
pub mod record;
pub mod report;
pub mod resident_memory;
pub mod reward;
pub mod rollout;
pub mod run;
pub mod seed;
mod statistics;
pub mod stderr;
pub mod study;
pub mod sweep;
pub mod sweep_report;
pub mod tensorboard;
mod transcript;

#[cfg(test)]
mod fakes;
