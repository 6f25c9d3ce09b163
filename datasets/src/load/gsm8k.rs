//! Loads GSM8K: 7,473 word problems to train on, 1,319 to evaluate on.

use std::path::Path;

use super::{Folder, record};
use crate::{Dataset, DatasetError, MathTask, Task, TaskSpec, right_answer};

pub(super) fn open(folder: &Folder<'_>) -> Result<Dataset, DatasetError> {
    let [train, eval] = folder.files(["train.jsonl", "eval.jsonl"])?;
    Ok(Dataset {
        name: "gsm8k".to_owned(),
        train: tasks(&train, "train")?,
        eval: tasks(&eval, "eval")?,
    })
}

fn tasks(path: &Path, split: &str) -> Result<Vec<Task>, DatasetError> {
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
            let answer = right_answer(solution)
                .map_err(|error| record.error("answer", error.to_string()))?;
            Ok(Task {
                id: format!("gsm8k/{split}/{}", record.line),
                question: record.text("question")?.to_owned(),
                spec: TaskSpec::Math(MathTask { answer }),
            })
        })
        .collect()
}
