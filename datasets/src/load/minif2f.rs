//! Loads MiniF2F in Lean 4: 244 theorems of the validation split to train on, 244 of the test split to evaluate on.

use super::{Folder, record};
use crate::{Dataset, DatasetError, LeanTask, Task, TaskSpec};

pub(super) fn open(folder: &Folder<'_>) -> Result<Dataset, DatasetError> {
    let [path] = folder.files(["minif2f.jsonl"])?;
    let (mut train, mut eval) = (Vec::new(), Vec::new());
    for record in record::read(&path)? {
        let statement = record.text("formal_statement")?.trim_end();
        if !statement.ends_with(":= by") {
            return Err(record.error(
                "formal_statement",
                "the statement is expected to end in `:= by`",
            ));
        }
        let task = Task {
            id: format!("minif2f/{}", record.text("name")?),
            question: without_comment_marks(record.optional_text("informal_prefix")?.unwrap_or("")),
            spec: TaskSpec::Lean(LeanTask {
                header: record.text("header")?.trim_end().to_owned(),
                statement: statement.to_owned(),
            }),
        };
        match record.text("split")? {
            "valid" => train.push(task),
            "test" => eval.push(task),
            other => {
                return Err(record.error(
                    "split",
                    format!("`valid` or `test` is expected, not `{other}`"),
                ));
            }
        }
    }
    Ok(Dataset {
        name: "minif2f".to_owned(),
        train,
        eval,
    })
}

/// `/-- text -/` as `text`.
fn without_comment_marks(text: &str) -> String {
    let text = text.trim();
    let text = text.strip_prefix("/--").unwrap_or(text);
    text.strip_suffix("-/").unwrap_or(text).trim().to_owned()
}
