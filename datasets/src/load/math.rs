//! Loads MATH with PRM800K's split: 12,000 problems to train on, MATH-500 to evaluate on.

use std::path::Path;

use super::record;
use crate::{DatasetError, Task, TaskSpec};

/// The tasks of one file. Records with an empty answer or the answer `None`, a known flaw of the training file, are left out with a warning, since no completion
/// could be right.
pub(super) fn tasks(path: &Path) -> Result<Vec<Task>, DatasetError> {
    let mut left_out = Vec::new();
    let tasks = record::read(path, |line, fields| {
        let id = match fields.optional_string("unique_id")? {
            Some(id) => format!("math/{id}"),
            None => format!("math/line-{line}"),
        };
        let answer = fields.string("answer")?;
        if matches!(answer.trim(), "" | "None") {
            left_out.push(id);
            return Ok(None);
        }
        let answer = record::answer(fields, &answer)?;
        let question = fields.string("problem")?;
        Ok(Some(Task::new(id, question, TaskSpec::math(answer))))
    })?;
    if !left_out.is_empty() {
        tracing::warn!(
            "{}: {} record(s) without a right answer are left out: {}",
            path.display(),
            left_out.len(),
            left_out.join(", ")
        );
    }
    Ok(tasks.into_iter().flatten().collect())
}
