//! Loads MBPP+ in EvalPlus's record form (version 0.1.0): entry point and inputs as JSON, which has no tuples, sets and
//! complex numbers. These are restored by task id, as EvalPlus does when it reads this file. Results are not recorded: the
//! canonical solution has to compute them.

use std::collections::HashSet;
use std::path::Path;

use super::record;
use crate::fields::{FieldError, Fields};
use crate::task::tolerance;
use crate::{CodeTask, CodeTest, Compare, Dataset, DatasetError, Task, TaskSpec, Value};

/// The file's name in a data folder.
pub(super) const FILE: &str = "evalplus-v0.1.0.jsonl";

/// Tasks that later versions of MBPP+ dropped as broken or ill-posed. The paper's split does not have them.
const DROPPED: [u32; 21] = [
    83, 115, 117, 143, 164, 229, 249, 295, 396, 400, 407, 431, 438, 442, 461, 574, 582, 595, 640,
    746, 783,
];

/// The last id of the training split.
const LAST_OF_TRAIN: u32 = 593;

/// Tasks with results that are compared as sets.
const SET: [u32; 7] = [2, 7, 111, 140, 232, 579, 769];

/// Tasks with results that are compared only for being `None` or not.
const NOT_NONE: [u32; 3] = [737, 787, 794];

/// Comparisons for tasks with an ambiguous question. EvalPlus accepts the other reading in this and every later version.
pub(super) fn other_reading(number: u64) -> Option<Compare> {
    match number {
        558 => Some(Compare::DigitDistance),
        581 => Some(Compare::PyramidSurface),
        _ => None,
    }
}

pub(super) fn open(path: &Path) -> Result<Dataset, DatasetError> {
    let mut tasks = record::read(path, |_, fields| {
        let id = fields.string("task_id")?;
        let number: Option<u32> = id.rsplit('/').next().and_then(|number| number.parse().ok());
        let number =
            number.ok_or_else(|| fields.fault("task_id", "`Mbpp/` and a number are expected"))?;
        Ok(match DROPPED.contains(&number) {
            true => None,
            false => Some((number, task(fields, number)?)),
        })
    })?;
    tasks.sort_by_key(|task| task.as_ref().map(|(number, _)| *number));
    let tasks = tasks.into_iter().flatten();
    let (train, eval): (Vec<_>, Vec<_>) = tasks.partition(|(number, _)| *number <= LAST_OF_TRAIN);
    let [train, eval] =
        [train, eval].map(|split| split.into_iter().map(|(_, task)| task).collect());
    Ok(Dataset {
        name: "mbppplus".to_owned(),
        train,
        eval,
    })
}

fn task(fields: &mut Fields<'_>, number: u32) -> Result<Task, FieldError> {
    let prompt = fields.string("prompt")?;
    let no_assertion = "a docstring that ends in an assertion is expected";
    let (question, example) =
        question_and_example(&prompt).ok_or_else(|| fields.fault("prompt", no_assertion))?;
    let mut seen = HashSet::new();
    let mut tests = Vec::new();
    for field in ["base_input", "plus_input"] {
        // One record without inputs has an empty object here.
        if fields.take(field)?.get() == "{}" {
            continue;
        }
        for input in record::inputs(fields, field)? {
            let args = restored(number, input.args).ok_or_else(|| {
                let reason = "an input does not have the types of this task's arguments";
                fields.fault(field, reason)
            })?;
            // The later record form has each input once.
            if seen.insert(Value::List(args.clone()).to_json_text()) {
                tests.push(CodeTest {
                    args,
                    expected: None,
                });
            }
        }
    }
    Ok(Task {
        id: format!("mbppplus/{number}"),
        question: question.to_owned(),
        example: Some(example.to_owned()),
        spec: TaskSpec::Code(CodeTask {
            entry_point: fields.string("entry_point")?,
            canonical: Some(fields.string("canonical_solution")?),
            tests,
            atol: tolerance(fields)?,
            compare: if let Some(other) = other_reading(number.into()) {
                other
            } else if SET.contains(&number) {
                Compare::Set
            } else if NOT_NONE.contains(&number) {
                Compare::NotNone
            } else {
                Compare::Equal
            },
            ..CodeTask::default()
        }),
    })
}

/// The two parts of `"""\nquestion\nassert …\n"""\n`.
fn question_and_example(prompt: &str) -> Option<(&str, &str)> {
    let body = prompt.trim().strip_prefix("\"\"\"")?;
    let body = body.strip_suffix("\"\"\"")?;
    let body = body.strip_prefix('\n').unwrap_or(body);
    let body = body.strip_suffix('\n').unwrap_or(body);
    let at = body.find("\nassert ")?;
    Some((&body[..at], &body[at + 1..]))
}

/// The arguments of a task's test with the Python types that JSON lost; `None` if they are of other types.
fn restored(number: u32, mut args: Vec<Value>) -> Option<Vec<Value>> {
    match number {
        // Every argument was a tuple.
        2 | 116 | 132 | 222 | 261 | 273 | 394 | 399 | 421 | 424 | 429 | 470 | 560 | 579 | 596
        | 616 | 630 | 726 | 740 | 744 | 809 => args.into_iter().map(tuple).collect(),
        // Every element of every argument was a tuple.
        63 | 64 | 70 | 94 | 120 | 237 | 272 | 299 | 409 | 417 | 473 | 614 | 780 => {
            args.into_iter().map(list_of_tuples).collect()
        }
        // Every argument was a tuple of tuples.
        259 | 401 | 445 => {
            let restored = args.into_iter().map(|arg| tuple(list_of_tuples(arg)?));
            restored.collect()
        }
        // The first argument was a list of tuples, or a tuple, or the second one was.
        75 | 413 | 444 | 753 => change(args, 0, list_of_tuples),
        250 | 307 | 405 | 446 | 617 | 720 | 763 | 808 => change(args, 0, tuple),
        106 | 750 => change(args, 1, tuple),
        // Every list, however deep, was a tuple.
        580 | 615 | 791 => {
            let restored = args.into_iter().map(|arg| tuples(arg, usize::MAX));
            Some(restored.collect())
        }
        // The argument was a tuple, and so were the lists among its elements, but nothing deeper.
        278 => change(args, 0, |arg| Some(tuples(arg, 2))),
        // The values of the first argument, a dict, were tuples.
        722 => change(args, 0, |arg| match arg {
            Value::Dict(entries) => {
                let entries = entries.into_iter().map(|(k, v)| Some((k, tuple(v)?)));
                entries.collect::<Option<_>>().map(Value::Dict)
            }
            _ => None,
        }),
        // The last argument was a complex number, now text such as `1+2j`; a number before it was a float.
        124 | 252 => {
            for arg in &mut args {
                if let Value::Str(text) = arg {
                    *arg = Value::parse_python(text).ok()?;
                }
                if let Some(real) = arg.real() {
                    *arg = Value::Float(real);
                }
            }
            let last = args.last_mut()?;
            match last {
                Value::Complex(..) => {}
                Value::Float(x) => *last = Value::Complex(*x, 0.0),
                _ => return None,
            }
            Some(args)
        }
        _ => Some(args),
    }
}

fn change(
    mut args: Vec<Value>,
    index: usize,
    how: impl Fn(Value) -> Option<Value>,
) -> Option<Vec<Value>> {
    let arg = args.get_mut(index)?;
    *arg = how(std::mem::replace(arg, Value::None))?;
    Some(args)
}

/// Converts like Python's `tuple()`: a string becomes its characters.
fn tuple(value: Value) -> Option<Value> {
    match value {
        Value::List(items) => Some(Value::Tuple(items)),
        Value::Str(text) => Some(Value::Tuple(
            text.chars().map(|c| Value::Str(c.to_string())).collect(),
        )),
        _ => None,
    }
}

fn list_of_tuples(value: Value) -> Option<Value> {
    let Value::List(items) = value else {
        return None;
    };
    let items = items.into_iter().map(tuple);
    items.collect::<Option<_>>().map(Value::List)
}

/// Converts the lists on the outermost `levels`.
fn tuples(value: Value, levels: usize) -> Value {
    match value {
        Value::List(items) if levels > 0 => {
            let items = items.into_iter().map(|item| tuples(item, levels - 1));
            Value::Tuple(items.collect())
        }
        other => other,
    }
}
