//! Loads users' files: JSON Lines, one object per line. The records of the starter sets have the same form.
//!
//! | field | kind | meaning |
//! | --- | --- | --- |
//! | `question`, `prompt` or `problem` | all | the problem's text; a theorem may lack it |
//! | `answer` | math | the right answer, text or a number; of a worked solution, what follows the last `####`, or the only box at its end |
//! | `entry_point` | code | the function to write, or `Solution().method` |
//! | `class_name` | code, optional | the class of which the entry point is a method |
//! | `time_limit` | code and program, optional | seconds that a program may take natively |
//! | `tests` | program | `[{"stdin": …, "stdout": …}, …]`, texts |
//! | `tests` | code | `[{"args": […], "expected": …}, …]`, values as in [`Value`]'s JSON form; `expected` may be missing if there is a `canonical` |
//! | `asserts` | code | Python statements that must run without an exception, or definitions of tests: `unittest` classes, `test_…` functions, `check(candidate)` |
//! | `canonical`, `imports`, `example`, `atol`, `compare` | code, optional | a right program; import lines of the tests; the assertion shown in the prompt; absolute tolerance; `equal`, `set` or `not-none` |
//! | `prefix` | code, optional | code that the completion continues |
//! | `statement` | lean | the theorem, up to and including `:= by` |
//! | `header` | lean, optional | imports and options before it |
//! | `id` | optional | unique in the file; without it, the line's number |
//! | `split` | optional | `train` or `eval`; `test`, `validation` and `dev` are `eval` |
//!
//! Records in HumanEval's and HumanEval+'s own form are accepted unchanged (`humaneval.rs`).
//!
//! A record with a `kind` that is not one of these is for the grader of that name, which gets all of its fields but `split`. Else a record with a `statement` is a theorem, otherwise a record with an `entry_point` is a function, otherwise one with an `answer` is a
//! question, otherwise one with `tests` is a program. Other fields are ignored, unless their name is almost one of these and the record lacks that field. If no record of a file
//! has a `split`, each is both for training and for evaluation. Otherwise a record without it is for training.

use std::collections::HashMap;
use std::path::Path;

use super::humaneval;
use super::record::{self, Record};
use crate::did_you_mean::nearest;
use crate::python_name;
use crate::{
    CodeTask, CodeTest, Compare, Dataset, DatasetError, LeanTask, MathTask, OwnTask, ProgramTask,
    ProgramTest, Split, Task, TaskSpec, Value, is_grader_name,
};

const FIELDS: &str = "question prompt problem answer entry_point class_name tests asserts canonical prefix imports example atol compare time_limit statement header id split proof";

pub(super) fn open(path: &Path) -> Result<Dataset, DatasetError> {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let end = file.to_ascii_lowercase().rfind(".jsonl");
    let name = &file[..end.unwrap_or(file.len())];
    from_records(name.to_owned(), &record::read(path)?)
}

pub(super) fn from_records(name: String, records: &[Record]) -> Result<Dataset, DatasetError> {
    let has_splits = records.iter().any(|record| record.has("split"));
    let mut dataset = Dataset {
        name,
        train: Vec::new(),
        eval: Vec::new(),
    };
    let mut lines: HashMap<String, usize> = HashMap::new();
    for record in records {
        let task = task(&dataset.name, record)?;
        if let Some(first) = lines.insert(task.id.clone(), record.line) {
            let reason = format!("the id is also that of line {first}; ids are unique in a file");
            return Err(record.error("id", reason));
        }
        match split(record)? {
            _ if !has_splits => {
                dataset.train.push(task.clone());
                dataset.eval.push(task);
            }
            Split::Train => dataset.train.push(task),
            Split::Eval => dataset.eval.push(task),
        }
    }
    Ok(dataset)
}

fn split(record: &Record) -> Result<Split, DatasetError> {
    match record.optional_text("split")? {
        None | Some("train") => Ok(Split::Train),
        Some("eval" | "test" | "validation" | "valid" | "val" | "dev") => Ok(Split::Eval),
        Some(other) => Err(record.error(
            "split",
            format!("`train`, `eval`, `test`, `validation` or `dev` is expected, not `{other}`"),
        )),
    }
}

fn task(dataset: &str, record: &Record) -> Result<Task, DatasetError> {
    if humaneval::is_record(record) {
        return humaneval::task(dataset, record);
    }
    if grader(record).is_none() {
        refuse_misspelt(record)?;
    }
    let id = match record.get("id") {
        None => record.line.to_string(),
        Some(Value::Str(id)) => id.clone(),
        Some(Value::Int(n)) => n.to_string(),
        Some(other) => {
            let kind = record::kind(other);
            let reason = format!("a string or a whole number is expected, not {kind}");
            return Err(record.error("id", reason));
        }
    };
    let listed = record.listed();
    let spec = if let Some(grader) = grader(record) {
        TaskSpec::Own(own(record, grader))
    } else if record.has("statement") {
        TaskSpec::Lean(lean(record)?)
    } else if record.has("entry_point") {
        TaskSpec::Code(code(record)?)
    } else if record.has("answer") {
        let answer = answer(record)?;
        TaskSpec::Math(MathTask { answer })
    } else if record.has("tests") {
        TaskSpec::Program(program(record)?)
    } else {
        let reason = format!(
            "the record has neither `answer` (math) nor `entry_point` (a function) nor `tests` (a program) nor `statement` (Lean); it has {listed}"
        );
        return Err(record.error(None, reason));
    };
    let mut question = None;
    for field in ["question", "prompt", "problem"] {
        if question.is_none() {
            question = record.optional_text(field)?;
        }
    }
    let question = match (question, &spec) {
        (Some(question), _) if !question.trim().is_empty() => question,
        (_, TaskSpec::Lean(_)) => "",
        (Some(_), _) => return Err(record.error("question", "the text is empty")),
        (None, _) => {
            let reason = format!(
                "the field is missing (`prompt` and `problem` work too); the record has {listed}"
            );
            return Err(record.error("question", reason));
        }
    };
    Ok(Task {
        id: format!("{dataset}/{id}"),
        question: question.to_owned(),
        spec,
    })
}

/// The grader of the operator's own that a record names.
fn grader(record: &Record) -> Option<&str> {
    match record.get("kind") {
        Some(Value::Str(name)) if is_grader_name(name) => Some(name),
        _ => None,
    }
}

fn own(record: &Record, grader: &str) -> OwnTask {
    let fields = record.fields().filter(|(name, _)| *name != "split");
    OwnTask {
        grader: grader.to_owned(),
        fields: fields
            .map(|(name, value)| (name.to_owned(), value.to_json()))
            .collect(),
    }
}

/// Refuses a field whose name is almost that of a known field that the record lacks: such a typo would change the record's meaning.
fn refuse_misspelt(record: &Record) -> Result<(), DatasetError> {
    for name in record.field_names() {
        if FIELDS.split(' ').any(|known| known == name) {
            continue;
        }
        let absent = FIELDS.split(' ').filter(|field| !record.has(field));
        if let Some(meant) = nearest(name, absent) {
            let reason = format!("the field `{name}` is not known; did you mean `{meant}`?");
            return Err(record.error(None, reason));
        }
    }
    Ok(())
}

fn answer(record: &Record) -> Result<String, DatasetError> {
    match record.require("answer")? {
        Value::Str(text) => record.right_answer(text),
        number @ Value::Int(_) => Ok(number.to_python()),
        Value::Float(number) if number.is_finite() => Ok(decimal(*number)),
        other => Err(record.error(
            "answer",
            format!("text or a number is expected, not {}", record::kind(other)),
        )),
    }
}

/// The number without an exponent, because the parser of mathematical answers reads `e` as Euler's number.
fn decimal(number: f64) -> String {
    let text = Value::Float(number).to_python();
    if text.contains('e') {
        return number.to_string();
    }
    text
}

fn lean(record: &Record) -> Result<LeanTask, DatasetError> {
    let statement = record.text("statement")?.trim_end();
    if !statement.ends_with(":= by") {
        return Err(record.error(
            "statement",
            "the statement is expected to end in `:= by`, after which the proof follows",
        ));
    }
    let header = record.optional_text("header")?.unwrap_or_default();
    Ok(LeanTask {
        header: header.trim_end().to_owned(),
        statement: statement.to_owned(),
    })
}

fn code(record: &Record) -> Result<CodeTask, DatasetError> {
    let canonical = record.optional_text("canonical")?.map(str::to_owned);
    let prefix = record.optional_text("prefix")?.map(str::to_owned);
    let sources = [canonical.as_deref(), prefix.as_deref()];
    let class_name = record.optional_text("class_name")?;
    let entry_point = python_name::entry_point(record.text("entry_point")?, class_name, &sources)
        .map_err(|reason| record.error("entry_point", reason))?;
    let questions = ["question", "prompt", "problem"].map(|field| record.optional_text(field));
    let mut questions = questions.into_iter().flatten().flatten();
    if let Some(reason) =
        questions.find_map(|text| python_name::asks_for_method(text, &entry_point))
    {
        return Err(record.error("entry_point", reason));
    }
    let tests = tests(record, |item| test(item, canonical.is_some()))?;
    let asserts = record.texts("asserts")?;
    if let Some(blank) = asserts.iter().position(|text| text.trim().is_empty()) {
        let reason = format!("text {} is empty, so it tests nothing", blank + 1);
        return Err(record.error("asserts", reason));
    }
    if tests.is_empty() && asserts.is_empty() {
        let reason = "the task has no tests: give `tests` or `asserts`, and at least one of them";
        return Err(record.error("tests", reason));
    }
    let atol = record.optional_number("atol")?.unwrap_or(0.0);
    if !(atol.is_finite() && atol >= 0.0) {
        let reason = format!("a tolerance of 0 or more is expected, not {atol}");
        return Err(record.error("atol", reason));
    }
    let compare = match record.optional_text("compare")? {
        None | Some("equal") => Compare::Equal,
        Some("set") => Compare::Set,
        Some("not-none") => Compare::NotNone,
        Some(other) => {
            let reason = format!("`equal`, `set` or `not-none` is expected, not `{other}`");
            return Err(record.error("compare", reason));
        }
    };
    Ok(CodeTask {
        entry_point,
        prefix,
        canonical,
        imports: record.texts("imports")?,
        example: record.optional_text("example")?.map(str::to_owned),
        tests,
        asserts,
        atol,
        compare,
        time_limit: record.time_limit()?,
    })
}

fn program(record: &Record) -> Result<ProgramTask, DatasetError> {
    let tests = tests(record, program_test)?;
    if tests.is_empty() {
        return Err(record.error("tests", "the task has no tests; give at least one"));
    }
    Ok(ProgramTask {
        tests,
        time_limit: record.time_limit()?,
    })
}

/// The tests of a record, each read by `read`, whose error names the test.
fn tests<T>(
    record: &Record,
    read: impl Fn(&Value) -> Result<T, String>,
) -> Result<Vec<T>, DatasetError> {
    let numbered = record.list("tests")?.iter().zip(1..);
    let tests = numbered.map(|(item, number)| {
        let wrong = |reason| record.error("tests", format!("test {number}: {reason}"));
        read(item).map_err(wrong)
    });
    tests.collect()
}

fn program_test(item: &Value) -> Result<ProgramTest, String> {
    const FORM: &str = "a test of a program is {\"stdin\": …, \"stdout\": …}, both text; the record of a function has an `entry_point`";
    let Value::Dict(entries) = item else {
        return Err(format!("{FORM}; this one is {}", record::kind(item)));
    };
    let (mut stdin, mut stdout) = (None, None);
    for entry in entries {
        match entry {
            (Value::Str(key), Value::Str(text)) if key == "stdin" => stdin = Some(text.clone()),
            (Value::Str(key), Value::Str(text)) if key == "stdout" => stdout = Some(text.clone()),
            (key, _) => return Err(format!("`{}` does not fit: {FORM}", text_of(key))),
        }
    }
    let given = |text: Option<String>, name| text.ok_or(format!("`{name}` is missing: {FORM}"));
    Ok(ProgramTest {
        stdin: given(stdin, "stdin")?,
        stdout: given(stdout, "stdout")?,
    })
}

/// The name of a field.
fn text_of(key: &Value) -> &str {
    match key {
        Value::Str(key) => key,
        _ => "",
    }
}

fn test(item: &Value, has_canonical: bool) -> Result<CodeTest, String> {
    let Value::Dict(entries) = item else {
        let kind = record::kind(item);
        return Err(format!(
            "{{\"args\": […], \"expected\": …}} is expected, not {kind}"
        ));
    };
    let (mut args, mut expected) = (None, None);
    for (key, value) in entries {
        let field = match text_of(key) {
            "args" => &mut args,
            "expected" => &mut expected,
            other => {
                let hint = crate::did_you_mean::hint(nearest(other, ["args", "expected"]));
                return Err(format!(
                    "the field `{other}` is not known{hint}; a test has `args` and `expected`"
                ));
            }
        };
        *field = Some(value.clone().untag()?);
    }
    let args = match args {
        Some(Value::List(args)) => args,
        Some(_) => return Err("`args` is not an array".to_owned()),
        None => return Err("`args` is missing".to_owned()),
    };
    if expected.is_none() && !has_canonical {
        return Err(
            "`expected` is missing, and there is no `canonical` program to compute it".to_owned(),
        );
    }
    Ok(CodeTest { args, expected })
}

#[cfg(test)]
mod tests;
