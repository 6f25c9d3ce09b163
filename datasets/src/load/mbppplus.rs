//! Loads MBPP+ in the Hugging Face record form: a test program that contains inputs and results as Python literals.
//!
//! The paper's split: ids sorted, the first 264 (2 to 593) to train on, the last 114 (594 to 809) to evaluate on.

use std::path::Path;

use super::{Folder, evalplus, or_if_missing, record};
use crate::fields::{FieldError, Fields};
use crate::{CodeTask, CodeTest, Compare, Dataset, DatasetError, Task, TaskSpec, Value};

pub(super) fn open(folder: &Folder<'_>) -> Result<Dataset, DatasetError> {
    or_if_missing(folder.splits(tasks), || {
        let [file] = folder.files([evalplus::FILE])?;
        evalplus::open(&file)
    })
}

fn tasks(path: &Path) -> Result<Vec<Task>, DatasetError> {
    let mut tasks = record::read(path, |_, fields| task(fields))?;
    tasks.sort_by_key(|(number, _)| *number);
    Ok(tasks.into_iter().map(|(_, task)| task).collect())
}

fn task(fields: &mut Fields<'_>) -> Result<(u64, Task), FieldError> {
    let id = record::id(fields, "task_id")?;
    let number = id.rsplit('/').next().and_then(|number| number.parse().ok());
    let number: u64 = number.ok_or_else(|| fields.fault("task_id", "a number is expected"))?;
    let program = &*fields.string("test")?;
    let (entry_point, atol) = call(program).map_err(|reason| fields.fault("test", reason))?;
    let inputs = assigned(fields, program, "inputs")?
        .ok_or_else(|| fields.fault("test", "no line begins with `inputs = `"))?;
    // Three records compute their results with a reference function instead of listing them.
    let results = assigned(fields, program, "results")?;
    if let Some(results) = &results
        && results.len() != inputs.len()
    {
        let counts = format!("{} inputs but {} results", inputs.len(), results.len());
        return Err(fields.fault("test", counts));
    }
    let mut results = results.map(Vec::into_iter);
    let tests = inputs
        .into_iter()
        .map(|args| match args {
            Value::List(args) | Value::Tuple(args) => Ok(CodeTest {
                args,
                expected: results.as_mut().and_then(Iterator::next),
            }),
            _ => Err(fields.fault("test", "an element of `inputs` is not a list of arguments")),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let task = Task {
        id: format!("mbppplus/{number}"),
        question: fields.string("prompt")?,
        example: fields.texts("test_list")?.into_iter().next(),
        spec: TaskSpec::Code(CodeTask {
            entry_point: entry_point.to_owned(),
            canonical: Some(fields.string("code")?),
            imports: fields.texts("test_imports")?,
            tests,
            atol,
            compare: evalplus::other_reading(number)
                .or_else(|| compare(program))
                .ok_or_else(|| {
                    fields.fault(
                        "test",
                        "its function `assertion` compares in a way that this loader doesn't know",
                    )
                })?,
            ..CodeTask::default()
        }),
    };
    Ok((number, task))
}

/// The list literal that the test program assigns to `name`.
fn assigned(
    fields: &Fields<'_>,
    program: &str,
    name: &str,
) -> Result<Option<Vec<Value>>, FieldError> {
    let start = format!("\n{name} = ");
    let begins = program.starts_with(&start[1..]).then_some(start.len() - 1);
    let at = begins.or_else(|| Some(program.find(&start)? + start.len()));
    let Some(literal) = at.map(|at| &program[at..]) else {
        return Ok(None);
    };
    match Value::parse_python_prefix(literal) {
        Ok(Value::List(items)) => Ok(Some(items)),
        Ok(_) => Err(fields.fault("test", format!("`{name}` is not a list"))),
        Err(e) => Err(fields.fault("test", format!("`{name}` is not a literal: {e}"))),
    }
}

/// The entry point and the tolerance in the call of the test program's loop: `    assertion(similar_elements(*inp), exp, 0)`.
fn call(program: &str) -> Result<(&str, f64), &'static str> {
    let mut lines = program.lines().rev();
    let call = lines.find_map(|line| line.trim_start().strip_prefix("assertion("));
    let call = call.ok_or("no line calls `assertion(`")?;
    let (entry_point, rest) = call
        .split_once("(*inp)")
        .ok_or("the call of `assertion` does not pass `ENTRY_POINT(*inp)`")?;
    let atol = rest
        .trim_end()
        .strip_suffix(')')
        .and_then(|rest| rest.rsplit_once(", "))
        .and_then(|(_, atol)| atol.parse().ok())
        .filter(|atol: &f64| atol.is_finite() && *atol >= 0.0)
        .ok_or("the call of `assertion` does not end in a tolerance")?;
    Ok((entry_point, atol))
}

/// The one of EvalPlus's three oracles that the function `assertion` is.
fn compare(program: &str) -> Option<Compare> {
    if program.contains("exact_match = exp == (out is not None)") {
        Some(Compare::NotNone)
    } else if program.contains("out = set(out)") {
        Some(Compare::Set)
    } else if program.contains("assert out == exp") {
        Some(Compare::Equal)
    } else {
        None
    }
}
