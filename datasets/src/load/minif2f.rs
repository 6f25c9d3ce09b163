//! Loads MiniF2F in Lean 4: 244 theorems of the validation split to train on, 244 of the test split to evaluate on.

use super::{Folder, record};
use crate::{Dataset, DatasetError, LeanTask, Task, TaskSpec};

pub(super) fn open(folder: &Folder<'_>) -> Result<Dataset, DatasetError> {
    let [path] = folder.files(["minif2f.jsonl"])?;
    let (mut train, mut eval) = (Vec::new(), Vec::new());
    record::read(&path, |_, fields| {
        let statement = fields.string("formal_statement")?;
        let statement = statement.trim_end();
        if !statement.ends_with(":= by") {
            let reason = "the statement is expected to end in `:= by`";
            return Err(fields.fault("formal_statement", reason));
        }
        let informal = fields.optional_string("informal_prefix")?;
        let id = format!("minif2f/{}", fields.string("name")?);
        let spec = TaskSpec::Lean(LeanTask {
            header: fields.string("header")?.trim_end().to_owned(),
            statement: statement.to_owned(),
        });
        // `/-- text -/` as `text`.
        let question = informal.as_deref().unwrap_or_default().trim();
        let question = question.strip_prefix("/--").unwrap_or(question);
        let question = question.strip_suffix("-/").unwrap_or(question).trim();
        let task = Task::new(id, question, spec);
        match &*fields.string("split")? {
            "valid" => train.push(task),
            "test" => eval.push(task),
            other => {
                let reason = format!("`valid` or `test` is expected, not `{other}`");
                return Err(fields.fault("split", reason));
            }
        }
        Ok(())
    })?;
    Ok(Dataset {
        name: "minif2f".to_owned(),
        train,
        eval,
    })
}
