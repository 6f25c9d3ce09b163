//! Loads GSM8K: 7,473 word problems to train on, 1,319 to evaluate on.

use std::path::Path;

use super::record;
use crate::{DatasetError, Task, TaskSpec};

pub(super) fn tasks(path: &Path) -> Result<Vec<Task>, DatasetError> {
    let split = path.file_stem().unwrap_or_default().display();
    record::read(path, |line, fields| {
        let solution = fields.string("answer")?;
        if !solution.contains("####") {
            let reason = "the final answer is expected after `####`, which is missing";
            return Err(fields.fault("answer", reason));
        }
        let answer = record::answer(fields, &solution)?;
        let (id, question) = (format!("gsm8k/{split}/{line}"), fields.string("question")?);
        Ok(Task::new(id, question, TaskSpec::math(answer)))
    })
}
