//! Loads users' files: JSON Lines, one object per line. The records of the starter sets have the same form.
//!
//! A record has the fields of a task of its kind ([`TaskSpec::read`]), and these:
//!
//! | field | kind | meaning |
//! | --- | --- | --- |
//! | `question`, `prompt` or `problem` | all | the problem's text; a theorem may lack it |
//! | `example` | code, optional | the assertion shown in the prompt |
//! | `id` | optional | unique in the file; without it, the line's number |
//! | `split` | optional | `train` or `eval`; `test`, `validation` and `dev` are `eval` |
//!
//! A theorem may lack the `header`, and its statement has to end in `:= by`. docs/tasks.md describes all fields for users.
//!
//! Records in HumanEval's and HumanEval+'s own form are accepted unchanged (`humaneval.rs`).
//!
//! A record whose `kind` can be the name of an operator's own grader is a task for it, which gets all fields but `split`. Otherwise one with a `statement` is a theorem, otherwise a record with an `entry_point` is a function, otherwise one with an `answer` is a
//! question, otherwise one with `tests` is a program. Other fields are ignored, unless their name is almost one of these and the record lacks that field. If no record of a file
//! has a `split`, each is both for training and for evaluation. Otherwise a record without it is for training.

use std::collections::HashMap;
use std::path::Path;

use super::{humaneval, record};
use crate::did_you_mean::nearest;
use crate::fields::{FieldError, Fields, of_kind};
use crate::python_name::asks_for_method;
use crate::{Dataset, DatasetError, LeanTask, Split, Task, TaskSpec, Value, is_grader_name};

const FIELDS: &str = "question prompt problem answer entry_point class_name tests asserts canonical prefix imports example atol compare time_limit statement header id split proof";

/// The fields that may have a task's text. The first that a record has is its question.
const QUESTIONS: [&str; 3] = ["question", "prompt", "problem"];

pub(super) fn open(path: &Path) -> Result<Dataset, DatasetError> {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let end = file.to_ascii_lowercase().rfind(".jsonl");
    let name = &file[..end.unwrap_or(file.len())];
    let mut ids = Ids::default();
    let records = record::read(path, |line, fields| ids.task(name, line, fields))?;
    Ok(dataset(name, records))
}

/// The data set in a text that is part of the program.
pub(super) fn parse(name: &str, text: &str) -> Result<Dataset, DatasetError> {
    let mut ids = Ids::default();
    let file = format!("{name}.jsonl");
    let records = record::parse(&file, text, |line, fields| ids.task(name, line, fields))?;
    Ok(dataset(name, records))
}

fn dataset(name: &str, records: Vec<(Task, Option<Split>)>) -> Dataset {
    let has_splits = records.iter().any(|(_, split)| split.is_some());
    let mut dataset = Dataset {
        name: name.to_owned(),
        train: Vec::new(),
        eval: Vec::new(),
    };
    for (task, split) in records {
        match split {
            _ if !has_splits => {
                dataset.train.push(task.clone());
                dataset.eval.push(task);
            }
            None | Some(Split::Train) => dataset.train.push(task),
            Some(Split::Eval) => dataset.eval.push(task),
        }
    }
    dataset
}

/// The ids of a file, each with its line.
#[derive(Default)]
struct Ids(HashMap<String, usize>);

impl Ids {
    /// The task of a record, whose id no other has, and its split.
    fn task(
        &mut self,
        dataset: &str,
        line: usize,
        fields: &mut Fields<'_>,
    ) -> Result<(Task, Option<Split>), FieldError> {
        let task = match humaneval::is_record(fields) {
            true => humaneval::task(dataset, fields)?,
            false => task(dataset, line, fields)?,
        };
        if let Some(first) = self.0.insert(task.id.clone(), line) {
            let reason = format!("the id is also that of line {first}; ids are unique in a file");
            return Err(fields.fault("id", reason));
        }
        Ok((task, split(fields)?))
    }
}

fn split(fields: &mut Fields<'_>) -> Result<Option<Split>, FieldError> {
    let split = fields.optional_string("split")?;
    split
        .map(|split| match &*split {
            "train" => Ok(Split::Train),
            "eval" | "test" | "validation" | "valid" | "val" | "dev" => Ok(Split::Eval),
            other => Err(fields.fault(
                "split",
                format!(
                    "`train`, `eval`, `test`, `validation` or `dev` is expected, not `{other}`"
                ),
            )),
        })
        .transpose()
}

fn task(dataset: &str, line: usize, fields: &mut Fields<'_>) -> Result<Task, FieldError> {
    let custom = custom_grader(fields);
    if custom.is_none() {
        refuse_misspelt(fields)?;
    }
    let id = match fields.has("id") {
        true => record::id(fields, "id")?,
        false => line.to_string(),
    };
    let mut spec = match custom {
        Some(grader) => TaskSpec::of_kind(&grader, fields)?,
        None => spec(fields)?,
    };
    if let TaskSpec::Custom(task) = &mut spec {
        task.fields.remove("split");
    }
    let mut question = None;
    for field in QUESTIONS {
        if question.is_none() {
            question = fields.optional_string(field)?;
        }
    }
    let question = match (question, &spec) {
        (Some(question), _) if !question.trim().is_empty() => question,
        (_, TaskSpec::Lean(_)) => String::new(),
        (Some(_), _) => return Err(fields.fault("question", "the text is empty")),
        (None, _) => {
            let reason = format!(
                "the field is missing (`prompt` and `problem` work too); the record has {}",
                fields.listed()
            );
            return Err(fields.fault("question", reason));
        }
    };
    let example = match &spec {
        TaskSpec::Code(_) => fields.optional_string("example")?,
        _ => None,
    };
    Ok(Task {
        id: format!("{dataset}/{id}"),
        question,
        example,
        spec,
    })
}

/// The operator's own grader that a record names.
fn custom_grader(fields: &mut Fields<'_>) -> Option<String> {
    let kind: Option<String> = fields.get("kind").and_then(of_kind);
    kind.filter(|kind| is_grader_name(kind))
}

/// Refuses a field whose name is almost that of a known field that the record lacks: such a typo would change the record's meaning.
fn refuse_misspelt(fields: &Fields<'_>) -> Result<(), FieldError> {
    let is_known = |name: &str| FIELDS.split(' ').any(|known| known == name);
    for name in fields.all().keys().filter(|name| !is_known(name)) {
        let absent = FIELDS.split(' ').filter(|field| !fields.has(field));
        if let Some(meant) = nearest(name, absent) {
            let reason = format!("the field `{name}` is not known; did you mean `{meant}`?");
            return Err(record::whole(reason));
        }
    }
    Ok(())
}

/// The task that a record describes, whose fields tell its kind.
fn spec(fields: &mut Fields<'_>) -> Result<TaskSpec, FieldError> {
    if fields.has("statement") {
        theorem(fields)
    } else if fields.has("entry_point") {
        function(fields)
    } else if fields.has("answer") {
        question(fields)
    } else if fields.has("tests") {
        TaskSpec::of_kind("program", fields).map_err(|(field, reason)| match &*field {
            "time_limit" => (field, reason),
            _ => (
                field,
                format!(
                    "{reason}; a test of a program is {{\"stdin\": …, \"stdout\": …}}, both text; the record of a function has an `entry_point`"
                ),
            ),
        })
    } else {
        Err(record::whole(format!(
            "the record has neither `answer` (math) nor `entry_point` (a function) nor `tests` (a program) nor `statement` (Lean); it has {}",
            fields.listed()
        )))
    }
}

fn theorem(fields: &mut Fields<'_>) -> Result<TaskSpec, FieldError> {
    let header = fields.optional_string("header")?.unwrap_or_default();
    let statement = fields.string("statement")?;
    let statement = statement.trim_end();
    if !statement.ends_with(":= by") {
        return Err(fields.fault(
            "statement",
            "the statement is expected to end in `:= by`, after which the proof follows",
        ));
    }
    Ok(TaskSpec::Lean(LeanTask {
        header: header.trim_end().to_owned(),
        statement: statement.to_owned(),
    }))
}

fn function(fields: &mut Fields<'_>) -> Result<TaskSpec, FieldError> {
    let spec = TaskSpec::of_kind("code", fields)?;
    if let TaskSpec::Code(code) = &spec {
        let questions = QUESTIONS.map(|field| fields.optional_string(field));
        let mut questions = questions.into_iter().flatten().flatten();
        if let Some(reason) = questions.find_map(|text| asks_for_method(&text, &code.entry_point)) {
            return Err(fields.fault("entry_point", reason));
        }
    }
    Ok(spec)
}

/// A question. An answer that is a number is written as Python does, but without an exponent, because the parser of mathematical answers reads `e` as Euler's number.
fn question(fields: &mut Fields<'_>) -> Result<TaskSpec, FieldError> {
    let answer = match Value::parse_json(fields.take("answer")?.get()) {
        Ok(Value::Float(number)) if !number.is_finite() => {
            return Err(fields.fault("answer", "it is no finite number; give a text or a number"));
        }
        Ok(number @ (Value::Int(_) | Value::Float(_))) => number,
        _ => return TaskSpec::of_kind("math", fields),
    };
    let written = match (answer.to_python(), &answer) {
        (text, Value::Float(number)) if text.contains('e') => number.to_string(),
        (text, _) => text,
    };
    Ok(TaskSpec::math(written))
}

#[cfg(test)]
mod tests;
