//! Reads records of code in the forms in which known data sets are published: MBPP, APPS and CodeContests. (`humaneval.rs` reads that of HumanEval.)

use std::time::Duration;

use serde_json::value::RawValue;

use crate::fields::{FieldError, Fields, of_kind};
use crate::python_name::{self, line_defines};
use crate::task::MAX_TIME_LIMIT;
use crate::{CodeTask, CodeTest, ProgramTask, ProgramTest, TaskSpec, Value};

pub(super) struct Described {
    pub(super) spec: TaskSpec,
    /// The question, if it is in a column of the published form alone.
    pub(super) question: Option<String>,
    pub(super) example: Option<String>,
}

impl From<TaskSpec> for Described {
    fn from(spec: TaskSpec) -> Described {
        Described {
            spec,
            question: None,
            example: None,
        }
    }
}

/// The columns with tests in CodeContests' form.
const CONTEST_TESTS: [&str; 3] = ["public_tests", "private_tests", "generated_tests"];

/// Python's own functions that an assertion may call around the tested function.
const CALLED_AROUND: &str = "abs all any assert bool dict float frozenset int isinstance len list max min not round set sorted str sum tuple type";

/// Whether a record has one of these forms.
pub(super) fn is_record(fields: &Fields<'_>) -> bool {
    let mut names = ["test_list", "input_output"].iter().chain(&CONTEST_TESTS);
    names.any(|name| fields.has(name))
}

/// The task of a record for which [`is_record`] holds.
pub(super) fn read(fields: &mut Fields<'_>) -> Result<Described, FieldError> {
    if fields.has("test_list") {
        mbpp(fields)
    } else if fields.has("input_output") {
        apps(fields)
    } else {
        contest(fields)
    }
}

/// MBPP, in its two forms: `text` and `test_setup_code`, or `prompt` and `test_imports`.
fn mbpp(fields: &mut Fields<'_>) -> Result<Described, FieldError> {
    let question = fields.optional_string("text")?;
    let asserts = fields.texts("test_list")?;
    let canonical = fields.optional_string("code")?;
    let mut imports = fields.texts("test_imports")?;
    imports.extend(fields.optional_string("test_setup_code")?);
    imports.retain(|code| !code.trim().is_empty());
    let called = asserts
        .first()
        .and_then(|text| called(text, canonical.as_deref()));
    let called =
        called.ok_or_else(|| fields.fault("test_list", "no assertion calls a function"))?;
    let entry_point = python_name::entry_point(called, None, &[canonical.as_deref()])
        .map_err(|reason| fields.fault("test_list", reason))?;
    Ok(Described {
        question,
        example: asserts.first().cloned(),
        spec: TaskSpec::Code(CodeTask {
            entry_point,
            asserts,
            canonical,
            imports,
            ..CodeTask::default()
        }),
    })
}

/// The function that an assertion tests: the first called one that `code` defines, or else the first that is not Python's own.
fn called<'a>(assertion: &'a str, code: Option<&str>) -> Option<&'a str> {
    let is_part = |c: char| c == '_' || c.is_alphanumeric();
    let name = |(at, _)| {
        let before: &str = &assertion[..at];
        let name = &before[before.trim_end_matches(is_part).len()..];
        let is_attribute = before[..before.len() - name.len()].ends_with('.');
        (!name.is_empty() && !is_attribute).then_some(name)
    };
    let calls = || assertion.match_indices('(').filter_map(name);
    let is_defined =
        |name: &&str| code.is_some_and(|code| code.lines().any(|line| line_defines(line, name)));
    let is_own = |name: &&str| !CALLED_AROUND.split(' ').any(|known| known == *name);
    calls().find(is_defined).or_else(|| calls().find(is_own))
}

/// APPS: `input_output` has inputs and outputs, of a program or, with `fn_name`, of a function.
fn apps(fields: &mut Fields<'_>) -> Result<Described, FieldError> {
    let json = fields.take("input_output")?;
    let text: Option<String> = of_kind(json);
    let text = text.as_deref().unwrap_or(json.get());
    let json: &RawValue = serde_json::from_str(text)
        .map_err(|error| fields.fault("input_output", format!("it is not JSON: {error}")))?;
    let mut tests = fields.within("input_output", json)?;
    let pairs = pairs(&mut tests, "inputs", "outputs")?;
    if pairs.is_empty() {
        return Err(fields.fault("input_output", "it has no test"));
    }
    let function = tests.optional_string("fn_name")?;
    let starter = fields.optional_string("starter_code")?;
    let starter = starter.filter(|code| !code.trim().is_empty());
    let spec = match function {
        None => {
            let lines =
                |json| of_kind(json).or_else(|| Some(of_kind::<Vec<String>>(json)?.join("\n")));
            let test = |(input, output)| {
                Some(ProgramTest {
                    stdin: lines(input)?,
                    stdout: lines(output)?,
                })
            };
            let all: Option<Vec<_>> = pairs.into_iter().map(test).collect();
            let reason = "inputs and outputs of a program are texts, or lists of lines";
            program(
                all.ok_or_else(|| fields.fault("input_output", reason))?,
                None,
            )
        }
        Some(name) => {
            let class = starter
                .as_ref()
                .filter(|code| code.contains("class Solution"));
            let entry_point = python_name::entry_point(&name, class.map(|_| "Solution"), &[])
                .map_err(|reason| tests.fault("fn_name", reason))?;
            let tests = calls(&pairs).map_err(|reason| fields.fault("input_output", reason))?;
            TaskSpec::Code(CodeTask {
                entry_point,
                tests,
                ..CodeTask::default()
            })
        }
    };
    let question = starter.map(|starter| {
        let question = fields.string("question");
        question.map(|question| format!("{}\n\n{starter}", question.trim_end()))
    });
    Ok(Described {
        question: question.transpose()?,
        ..spec.into()
    })
}

/// Calls of a function. Most of APPS' tasks have each result in a list of its own: if all results of a task are lists of one element, the elements are the results.
fn calls(pairs: &[(&RawValue, &RawValue)]) -> Result<Vec<CodeTest>, String> {
    let value = |json: &RawValue| Value::parse_plain_json(json.get()).map_err(|e| e.to_string());
    let mut tests = Vec::new();
    for (input, output) in pairs {
        let Value::List(args) = value(input)? else {
            return Err("an input of a function is not a list of arguments".to_owned());
        };
        tests.push((args, value(output)?));
    }
    let is_wrapped =
        |(_, result): &(_, Value)| matches!(result, Value::List(items) if items.len() == 1);
    let are_wrapped = tests.iter().all(is_wrapped);
    let result = |result| match result {
        Value::List(items) if are_wrapped => items.into_iter().next(),
        other => Some(other),
    };
    let test = |(args, expected)| CodeTest {
        args,
        expected: result(expected),
    };
    Ok(tests.into_iter().map(test).collect())
}

/// CodeContests: lists of inputs and of outputs, and a time limit in seconds and nanoseconds.
fn contest(fields: &mut Fields<'_>) -> Result<Described, FieldError> {
    let mut tests = Vec::new();
    for name in CONTEST_TESTS {
        let Some(json) = fields.optional(name) else {
            continue;
        };
        let mut of_name = fields.within(name, json)?;
        for (input, output) in pairs(&mut of_name, "input", "output")? {
            let (Some(stdin), Some(stdout)) = (of_kind(input), of_kind(output)) else {
                return Err(fields.fault(name, "inputs and outputs are texts"));
            };
            tests.push(ProgramTest { stdin, stdout });
        }
    }
    if tests.is_empty() {
        return Err(fields.fault("public_tests", "a program needs at least one test"));
    }
    let mut time_limit = None;
    if let Some(json) = fields.optional("time_limit") {
        let mut parts = fields.within("time_limit", json)?.without_nulls();
        let seconds: Option<f64> = parts.optional_of("seconds", "a number")?;
        let nanos: Option<f64> = parts.optional_of("nanos", "a number")?;
        let sum = seconds.unwrap_or_default() + nanos.unwrap_or_default() * 1e-9;
        if !(0.0..=MAX_TIME_LIMIT).contains(&sum) {
            return Err(fields.fault("time_limit", "it is not from 0 to 60 seconds"));
        }
        time_limit = (sum > 0.0).then(|| Duration::from_secs_f64(sum));
    }
    Ok(Described {
        question: Some(fields.string("description")?),
        ..program(tests, time_limit).into()
    })
}

fn program(tests: Vec<ProgramTest>, time_limit: Option<Duration>) -> TaskSpec {
    TaskSpec::Program(ProgramTask { tests, time_limit })
}

/// Each element of the list `inputs` with that of the list `outputs`. The lists are equally long.
fn pairs<'a>(
    fields: &mut Fields<'a>,
    inputs: &str,
    outputs: &str,
) -> Result<Vec<(&'a RawValue, &'a RawValue)>, FieldError> {
    let (all, results) = (fields.list(inputs)?, fields.list(outputs)?);
    if all.len() != results.len() {
        let reason = format!("there are {} for {} {inputs}", results.len(), all.len());
        return Err(fields.fault(outputs, reason));
    }
    Ok(all.into_iter().zip(results).collect())
}
