//! Loads HumanEval's record form, in which a completion is the rest of a function, and HumanEval+'s two forms: EvalPlus's own, with
//! inputs, and the Hugging Face one, with inputs and results as Python literals.
//!
//! A task's tests may use the code before the function in its prompt (imports, helper functions), so this code is run before them.

use std::path::Path;

use super::{Folder, or_if_missing, record};
use crate::fields::{FieldError, Fields};
use crate::task::{time_limit, tolerance};
use crate::{CodeTask, CodeTest, Compare, Dataset, DatasetError, Task, TaskSpec, Value};

/// The file's name in a data folder, unpacked and as it is fetched.
const FILES: [&str; 2] = ["HumanEval.jsonl", "HumanEval.jsonl.gz"];

pub(super) fn open(folder: &Folder<'_>) -> Result<Dataset, DatasetError> {
    let [unpacked, packed] = FILES;
    or_if_missing(dataset(folder, unpacked), || dataset(folder, packed))
}

fn dataset(folder: &Folder<'_>, file: &str) -> Result<Dataset, DatasetError> {
    let [file] = folder.files([file])?;
    Ok(Dataset {
        name: "humaneval".to_owned(),
        train: Vec::new(),
        eval: tasks(&file)?,
    })
}

fn tasks(path: &Path) -> Result<Vec<Task>, DatasetError> {
    record::read(path, |_, fields| task("humaneval", fields))
}

/// Whether a record has this form: a prompt that ends in the entry point's head, the rest of a right program, and tests or inputs.
pub(super) fn is_record(fields: &mut Fields<'_>) -> bool {
    let mut text = |field| fields.optional_string(field).ok().flatten();
    match (text("prompt"), text("entry_point")) {
        (Some(prompt), Some(entry_point)) => {
            fields.has("canonical_solution")
                && (fields.has("test") || fields.has("base_input"))
                && head(&prompt, &entry_point).is_some()
        }
        _ => false,
    }
}

/// Byte offset of the head of the entry point.
fn head(prompt: &str, entry_point: &str) -> Option<usize> {
    let head = format!("def {entry_point}(");
    let heads = prompt.match_indices(&head).map(|(at, _)| at);
    let begins_line = |at: &usize| *at == 0 || prompt.as_bytes()[at - 1] == b'\n';
    heads.filter(begins_line).last()
}

/// The task of a record for which [`is_record`] holds.
pub(super) fn task(dataset: &str, fields: &mut Fields<'_>) -> Result<Task, FieldError> {
    let id = record::id(fields, "task_id")?;
    let number = id.rsplit('/').next().unwrap_or(&id);
    let (prompt, entry_point) = (fields.string("prompt")?, fields.string("entry_point")?);
    let at = head(&prompt, &entry_point).ok_or_else(|| {
        let reason = format!("no line begins with `def {entry_point}(`");
        fields.fault("prompt", reason)
    })?;
    let preamble = prompt[..at].trim();
    let mut atol = tolerance(fields)?;
    let (mut tests, mut asserts) = (Vec::new(), Vec::new());
    if fields.has("base_input") {
        for field in ["base_input", "plus_input"] {
            tests.extend(record::inputs(fields, field)?);
        }
    } else {
        let program = fields.string("test")?;
        match literals(&program) {
            Some((found, tolerance)) => (tests, atol) = (found, tolerance),
            None => asserts.push(program),
        }
    }
    let is_root = (number, &*entry_point) == ("32", "find_zero");
    let compare = match is_root && asserts.is_empty() {
        true => Compare::Root,
        false => Compare::Equal,
    };
    let preamble = (!preamble.is_empty()).then(|| preamble.to_owned());
    let solution = fields.string("canonical_solution")?;
    Ok(Task {
        id: format!("{dataset}/{number}"),
        question: prompt.clone(),
        example: None,
        spec: TaskSpec::Code(CodeTask {
            entry_point,
            tests,
            asserts,
            canonical: Some(format!("{prompt}{solution}")),
            imports: preamble.into_iter().collect(),
            prefix: Some(prompt),
            atol,
            compare,
            time_limit: time_limit(fields)?,
        }),
    })
}

/// The tests and the tolerance of a program that lists `inputs` and `results`, and compares as EvalPlus does; `None` for any other program.
fn literals(program: &str) -> Option<(Vec<CodeTest>, f64)> {
    let list = |name: &str| {
        let start = format!("\n    {name} = ");
        let at = program.find(&start)? + start.len();
        match Value::parse_python_prefix(&program[at..]) {
            Ok(Value::List(items)) => Some(items),
            _ => None,
        }
    };
    let call = program
        .lines()
        .rev()
        .find_map(|line| line.trim().strip_prefix("assertion(candidate(*inp), exp, "))?;
    let atol = call.strip_suffix(')')?.parse().ok()?;
    if !program.contains("assert out == exp") {
        return None;
    }
    let (inputs, results) = (list("inputs")?, list("results")?);
    if inputs.len() != results.len() {
        return None;
    }
    let tests = inputs
        .into_iter()
        .zip(results)
        .map(|(args, expected)| match args {
            Value::List(args) | Value::Tuple(args) => Some(CodeTest {
                args,
                expected: Some(expected),
            }),
            _ => None,
        })
        .collect::<Option<_>>()?;
    Some((tests, atol))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_inputs_and_results_are_parsed_and_other_programs_are_test_code() {
        let program = "def assertion(out, exp, atol):\n    assert out == exp\\n\ndef check(candidate):\n    inputs = [[1], [2]]\n    results = [1, 4]\n    for i, (inp, exp) in enumerate(zip(inputs, results)):\n        assertion(candidate(*inp), exp, 1e-06)\n";
        let (tests, atol) = literals(program).unwrap();
        assert_eq!((tests.len(), atol), (2, 1e-6));
        assert_eq!(tests[1].expected, Some(Value::from(4)));
        for other in [
            program.replace("results = [1, 4]", "results = [ref(1)]"),
            program.replace("[[1], [2]]", "[[1]]"),
            program.replace(", exp, 1e-06", ", exp, tolerance"),
            program.replace("assert out == exp", "pass"),
        ] {
            assert!(literals(&other).is_none(), "{other}");
        }
    }
}
