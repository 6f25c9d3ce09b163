//! Loads GSM8K: 7,473 word problems to train on, 1,319 to evaluate on.

use std::path::Path;

use super::{Folder, record};
use crate::{Dataset, DatasetError, MathTask, Task, TaskSpec};

pub(super) fn open(folder: &Folder<'_>) -> Result<Dataset, DatasetError> {
    folder.splits(tasks)
}

fn tasks(path: &Path) -> Result<Vec<Task>, DatasetError> {
    let split = path.file_stem().unwrap_or_default().display();
    record::read(path)?
        .iter()
        .map(|record| {
            let solution = record.text("answer")?;
            if !solution.contains("####") {
                return Err(record.error(
                    "answer",
                    "the final answer is expected after `####`, which is missing",
                ));
            }
            let answer = record.right_answer(solution)?;
            Ok(Task {
                id: format!("gsm8k/{split}/{}", record.line),
                question: record.text("question")?.to_owned(),
                spec: TaskSpec::Math(MathTask { answer }),
            })
        })
        .collect()
}
