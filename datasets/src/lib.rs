//! Task records, loaders, splits, prompt templates, and the fetching of data, models and artifacts.
//!
//! - [`open`] turns a data set's files into [`Task`]s: `load/` has one file for each data set;
//! - [`template`] turns a task into a prompt;
//! - [`overlap()`] finds training prompts that also stand in the evaluation set;
//! - [`digest`] tells tasks and data sets apart by what they hold;
//! - [`passk`] estimates Pass@k and its interval, for both programs;
//! - [`manifest`] says what can be fetched, from where, with which checksum; [`fetch`] fetches it into the cache folder;
//! - [`lines`] reads JSON Lines, packed or not;
//! - [`settings`](mod@settings) declares the settings of a program, reads them and explains them, for both programs; [`nearest`](mod@nearest) finds the name that was meant;
//! - [`Value`] is a Python value, read from a literal or from tagged JSON.

#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod digest;
pub mod error;
pub mod fetch;
pub mod lines;
mod load;
pub mod manifest;
pub mod name;
pub mod nearest;
mod overlap;
pub mod passk;
pub mod settings;
pub mod task;
pub mod template;
pub mod value;

pub use error::DatasetError;
pub use load::{NAMES, open};
pub use overlap::overlap;
pub use task::{CodeTask, CodeTest, Compare, Dataset, LeanTask, MathTask, Split, Task, TaskSpec};
pub use template::Template;
pub use value::Value;
