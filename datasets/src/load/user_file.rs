//! Reads the records of users' files, of data sets of the hub and of the starter sets.
//!
//! A record has the fields of a task of its kind ([`TaskSpec::read`]), and these:
//!
//! | field | kind | meaning |
//! | --- | --- | --- |
//! | `question`, or another of [`QUESTIONS`] | all | the problem's text; a theorem may lack it |
//! | `example` | code, optional | the assertion shown in the prompt |
//! | `id` | optional | unique in the file; without it, the record's number |
//! | `split` | optional | `train` or `eval`; `test`, `validation` and `dev` are `eval` |
//!
//! A theorem may lack the `header`, and its statement has to end in `:= by`. docs/data.md and docs/tasks.md describe all fields for users.
//!
//! A source may name other columns for the fields (`columns.rs`), and the kind of the tasks. Otherwise the first of these in a record tells its kind: HumanEval's
//! form makes it such a task (`humaneval.rs`). A `kind` that can be the name of an operator's own grader makes it a task for that grader, which gets all fields but
//! `split`. A `statement` makes it a theorem, an `entry_point` a function, an `answer` a question, and `tests` a program. Last come a published form
//! (`published.rs`), and an answer under another name. Other fields are ignored, unless their name is almost one of these and the record of a file lacks that field.
//! If no record of a file has a `split`, each is both for training and for evaluation. Otherwise a record without it is for training.

use std::collections::HashMap;
use std::path::Path;

use super::columns::{self, FIELDS, QUESTIONS};
use super::published::{self, Described};
use super::rows::Format;
use super::source::Source;
use super::{humaneval, record};
use crate::did_you_mean::nearest;
use crate::fields::{FieldError, Fields, of_kind};
use crate::python_name::asks_for_method;
use crate::{Dataset, DatasetError, LeanTask, Split, Task, TaskSpec, Value, is_grader_name};

pub(super) fn open(source: &Source) -> Result<Dataset, DatasetError> {
    let path = Path::new(&source.dataset);
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let name = Format::of(&file).map_or(&*file, |(_, stem)| stem);
    let mut reader = Reader::new(source, name);
    let records = record::read(path, |number, fields| reader.task(number, fields))?;
    Ok(dataset(name, records))
}

/// The data set in a text that is part of the program.
pub(super) fn parse(name: &str, text: &str) -> Result<Dataset, DatasetError> {
    let source = Source::default();
    let mut reader = Reader::new(&source, name);
    let file = format!("{name}.jsonl");
    let records = record::parse(&file, text, |number, fields| reader.task(number, fields))?;
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

/// Makes tasks of the records of a file, or of the files of one split.
pub(super) struct Reader<'a> {
    source: &'a Source,
    /// What ids begin with.
    dataset: &'a str,
    is_of_hub: bool,
    /// The ids, each with its record's number.
    ids: HashMap<String, usize>,
}

impl Reader<'_> {
    pub(super) fn new<'a>(source: &'a Source, dataset: &'a str) -> Reader<'a> {
        Reader {
            source,
            dataset,
            is_of_hub: source.is_of_hub(),
            ids: HashMap::new(),
        }
    }

    /// The task of a record, and its split. No other record has its id.
    pub(super) fn task(
        &mut self,
        number: usize,
        fields: &mut Fields<'_>,
    ) -> Result<(Task, Option<Split>), FieldError> {
        columns::map(self.source, fields)?;
        let task = match self.source.grader.is_none() && humaneval::is_record(fields) {
            true => humaneval::task(self.dataset, fields)?,
            false => self.other(number, fields)?,
        };
        if let Some(first) = self.ids.insert(task.id.clone(), number) {
            let reason = format!("number {first} has the same id; ids are unique in a file");
            return Err(fields.fault("id", reason));
        }
        // A file of the hub belongs to one split.
        let split = match self.is_of_hub {
            true => None,
            false => split(fields)?,
        };
        Ok((task, split))
    }

    fn other(&self, number: usize, fields: &mut Fields<'_>) -> Result<Task, FieldError> {
        let kind = self.source.grader.clone();
        let kind = kind.or_else(|| custom_grader(fields));
        let custom = kind.as_deref().filter(|kind| is_grader_name(kind));
        if custom.is_none() && !self.is_of_hub && self.source.columns.is_empty() {
            refuse_misspelt(fields)?;
        }
        // The ids in others' files need not be unique.
        let id = match fields.has("id") && !self.is_of_hub {
            true => record::id(fields, "id")?,
            false => number.to_string(),
        };
        let id = format!("{}/{id}", self.dataset);
        let Described {
            mut spec,
            question,
            example,
        } = match custom {
            Some(grader) => TaskSpec::of_kind(grader, fields)?.into(),
            None => described(kind.as_deref(), fields)?,
        };
        if let TaskSpec::Custom(task) = &mut spec {
            task.fields.remove("split");
            let kind = task.grader.clone().into();
            task.fields.insert("kind".to_owned(), kind);
        }
        let question = match question {
            None => columns::question(fields)?,
            question => question,
        };
        let question = match (question, &spec) {
            (Some(question), _) if !question.trim().is_empty() => question,
            (_, TaskSpec::Lean(_)) => String::new(),
            (Some(_), _) => return Err(fields.fault("question", "the text is empty")),
            (None, _) => return Err(columns::no_question(fields)),
        };
        let example = match &spec {
            TaskSpec::Code(_) if example.is_none() => fields.optional_string("example")?,
            _ => example,
        };
        Ok(Task {
            id,
            question,
            example,
            spec,
        })
    }
}

fn split(fields: &mut Fields<'_>) -> Result<Option<Split>, FieldError> {
    match fields.optional_string("split")?.as_deref() {
        None => Ok(None),
        Some("train") => Ok(Some(Split::Train)),
        Some("eval" | "test" | "validation" | "valid" | "val" | "dev") => Ok(Some(Split::Eval)),
        Some(other) => {
            let reason = format!(
                "`train`, `eval`, `test`, `validation` or `dev` is expected, not `{other}`"
            );
            Err(fields.fault("split", reason))
        }
    }
}

/// The operator's own grader that a record names.
fn custom_grader(fields: &mut Fields<'_>) -> Option<String> {
    let kind: Option<String> = fields.get("kind").and_then(of_kind);
    kind.filter(|kind| is_grader_name(kind))
}

/// Refuses a field with a name that is almost a known field's, if the record lacks that one: such a typo would change the record's meaning.
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

/// What a record describes. Its `kind`, or else its fields, tell which.
fn described(kind: Option<&str>, fields: &mut Fields<'_>) -> Result<Described, FieldError> {
    let may_be = |name| kind.is_none_or(|kind| kind == name);
    let spec = if may_be("lean") && (fields.has("statement") || kind.is_some()) {
        theorem(fields)
    } else if may_be("code") && fields.has("entry_point") {
        function(fields)
    } else if may_be("math") && fields.has("answer") {
        question(fields)
    } else if may_be("program") && fields.has("tests") {
        program(fields)
    } else if kind != Some("math") && published::is_record(fields) {
        return published::read(fields);
    } else if kind == Some("code") {
        function(fields)
    } else if kind == Some("program") {
        program(fields)
    } else if let Some(column) = columns::find_answer(fields) {
        // The error names the column.
        question(fields).map_err(|(field, reason)| match &*field {
            "answer" => (column.to_owned(), reason),
            _ => (field, reason),
        })
    } else {
        Err(record::whole(format!(
            "the record has neither `answer` (math) nor `entry_point` (a function) nor `tests` (a program) nor `statement` (Lean); it has {}{}",
            fields.listed(),
            columns::answer_hint(fields)
        )))
    };
    spec.map(Described::from)
}

fn program(fields: &mut Fields<'_>) -> Result<TaskSpec, FieldError> {
    TaskSpec::of_kind("program", fields).map_err(|(field, reason)| match &*field {
        "time_limit" => (field, reason),
        _ => (
            field,
            format!(
                "{reason}; a test of a program is {{\"stdin\": …, \"stdout\": …}}, both text; the record of a function has an `entry_point`"
            ),
        ),
    })
}

fn theorem(fields: &mut Fields<'_>) -> Result<TaskSpec, FieldError> {
    let header = fields.optional_string("header")?.unwrap_or_default();
    let statement = fields.string("statement")?;
    let statement = statement.trim_end();
    if !statement.ends_with(":= by") {
        let reason = "the statement is expected to end in `:= by`, after which the proof follows";
        return Err(fields.fault("statement", reason));
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
