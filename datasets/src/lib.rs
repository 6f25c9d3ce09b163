//! What both programs share: task records, loaders, splits, prompt templates, the fetching of data, models and artifacts, Pass@k, and the declaration of settings.
//!
//! - [`open`] turns a data set's files into [`Task`]s: `load/` has one file for each data set. [`TaskSpec`] is a task wherever it is: in files, requests and graders;
//! - [`right_answer`] reads the right answer of a mathematics problem, also at the end of a worked solution;
//! - [`template`] turns a task into a prompt;
//! - [`overlap()`] finds training prompts that are also in the evaluation set;
//! - [`digest`] computes digests of tasks and data sets from their content;
//! - [`passk`] estimates Pass@k and its interval, for both programs;
//! - [`manifest`] lists what can be fetched, with sources and checksums; [`fetch`] fetches it into the cache folder;
//! - [`jsonl`] reads JSON Lines and other texts, packed or not; [`loose_json`] repairs what the parser would refuse;
//! - [`settings`](mod@settings) declares the settings of a program, reads them and explains them, for both programs;
//! - [`log_levels`] reads which messages a program logs;
//! - [`did_you_mean`] suggests the nearest known name for a misspelt one;
//! - [`fields`] reads a JSON object field by field; [`decimal`] writes a JSON number as an answer;
//! - [`excerpt`](mod@excerpt) shortens texts of others for messages;
//! - [`python_name`] checks names of Python functions;
//! - [`Value`] is a Python value, read from a literal or from tagged JSON.

#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod answer;
pub mod decimal;
pub mod did_you_mean;
pub mod digest;
pub mod error;
pub mod excerpt;
pub mod fetch;
pub mod fields;
pub mod jsonl;
mod load;
pub mod log_levels;
pub mod loose_json;
pub mod manifest;
mod overlap;
pub mod passk;
pub mod python_name;
pub mod random;
#[cfg(feature = "openapi")]
pub mod schema;
pub mod settings;
pub mod task;
pub mod template;
pub mod value;

pub use answer::{AnswerError, is_worked_solution, right_answer};
pub use error::DatasetError;
pub use load::{NAMES, Source, is_user_file, open};
pub use overlap::overlap;
pub use task::{
    CodeTask, CodeTest, Compare, CustomTask, Dataset, LeanTask, MathTask, ProgramTask, ProgramTest,
    Split, Task, TaskSpec, is_grader_name, unknown_kind,
};
pub use template::Template;
pub use value::Value;
