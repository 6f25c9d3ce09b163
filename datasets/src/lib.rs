//! Task records, loaders, splits, prompt templates, and the fetching of data, models and artifacts.

#![forbid(unsafe_code)]

pub mod task;
pub mod value;

pub use task::{CodeTask, CodeTest, Compare, Dataset, LeanTask, MathTask, Split, Task, TaskSpec};
pub use value::Value;
