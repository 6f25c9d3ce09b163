//! Loads MBPP+ in EvalPlus's record form (version 0.1.0): entry point and inputs as JSON, which has no tuples, sets and
//! complex numbers. These are restored by task id, as EvalPlus does when it reads this file. Results are not recorded: the
//! canonical solution has to compute them.

use std::collections::HashSet;
use std::path::Path;

use super::record::{self, Record};
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

/// Tasks whose result is compared as a set.
const SET: [u32; 7] = [2, 7, 111, 140, 232, 579, 769];

/// Tasks whose result is compared only for being `None` or not.
const NOT_NONE: [u32; 3] = [737, 787, 794];

/// Comparisons for tasks with an ambiguous question. EvalPlus accepts the other reading in this and every later version.
pub(super) fn other_reading(number: u64) -> Option<Compare> {
    match number {
        558 => Some(Compare::DigitDistance),
        581 => Some(Compare::PyramidSurface),
        _ => None,
    }
}

/// The Python types of a task's arguments that JSON lost.
#[derive(Clone, Copy)]
enum LostTypes {
    /// Every argument was a tuple.
    Tuples,
    /// Every element of every argument was a tuple.
    TuplesInLists,
    /// Every argument was a tuple of tuples.
    TuplesInTuples,
    /// The first argument was a list of tuples. The others are unchanged.
    TuplesInFirst,
    /// The first argument was a tuple.
    First,
    /// The second argument was a tuple.
    Second,
    /// Every list, however deep, was a tuple.
    Everything,
    /// The argument was a tuple, and so were the lists among its elements, but nothing deeper.
    TwoLevelsOfFirst,
    /// The values of the first argument, a dict, were tuples.
    DictValues,
    /// The last argument was a complex number, now text such as `1+2j`; a number before it was a float.
    Complex,
}

fn lost_types(number: u32) -> Option<LostTypes> {
    Some(match number {
        2 | 116 | 132 | 222 | 261 | 273 | 394 | 399 | 421 | 424 | 429 | 470 | 560 | 579 | 596
        | 616 | 630 | 726 | 740 | 744 | 809 => LostTypes::Tuples,
        63 | 64 | 70 | 94 | 120 | 237 | 272 | 299 | 409 | 417 | 473 | 614 | 780 => {
            LostTypes::TuplesInLists
        }
        259 | 401 | 445 => LostTypes::TuplesInTuples,
        75 | 413 | 444 | 753 => LostTypes::TuplesInFirst,
        250 | 307 | 405 | 446 | 617 | 720 | 763 | 808 => LostTypes::First,
        106 | 750 => LostTypes::Second,
        580 | 615 | 791 => LostTypes::Everything,
        278 => LostTypes::TwoLevelsOfFirst,
        722 => LostTypes::DictValues,
        124 | 252 => LostTypes::Complex,
        _ => return None,
    })
}

pub(super) fn open(path: &Path) -> Result<Dataset, DatasetError> {
    let mut tasks = Vec::new();
    for record in record::read(path)? {
        let number: u32 = record
            .text("task_id")?
            .rsplit('/')
            .next()
            .and_then(|n| n.parse().ok())
            .ok_or_else(|| record.error("task_id", "`Mbpp/` and a number are expected"))?;
        if !DROPPED.contains(&number) {
            tasks.push((number, task(&record, number)?));
        }
    }
    tasks.sort_by_key(|(number, _)| *number);
    let (train, eval): (Vec<_>, Vec<_>) = tasks
        .into_iter()
        .partition(|(number, _)| *number <= LAST_OF_TRAIN);
    let only_tasks = |tasks: Vec<(u32, Task)>| tasks.into_iter().map(|(_, task)| task).collect();
    Ok(Dataset {
        name: "mbppplus".to_owned(),
        train: only_tasks(train),
        eval: only_tasks(eval),
    })
}

fn task(record: &Record, number: u32) -> Result<Task, DatasetError> {
    let (question, example) = question_and_example(record.text("prompt")?).ok_or_else(|| {
        record.error(
            "prompt",
            "a docstring that ends in an assertion is expected",
        )
    })?;
    let mut seen = HashSet::new();
    let mut tests = Vec::new();
    for field in ["base_input", "plus_input"] {
        let inputs = match record.require(field)? {
            Value::List(inputs) => inputs.as_slice(),
            // One record without inputs has an empty object here.
            Value::Dict(entries) if entries.is_empty() => &[],
            other => {
                return Err(record.error(
                    field,
                    format!("an array is expected, not {}", record::kind(other)),
                ));
            }
        };
        for input in inputs {
            let Value::List(args) = input else {
                return Err(record.error(field, "an input is not an array of arguments"));
            };
            let args = match lost_types(number) {
                Some(lost) => restore(args.clone(), lost).ok_or_else(|| {
                    record.error(
                        field,
                        "an input does not have the types of this task's arguments",
                    )
                })?,
                None => args.clone(),
            };
            // The later record form has each input once.
            if seen.insert(Value::List(args.clone()).to_json_text()) {
                tests.push(CodeTest {
                    args,
                    expected: None,
                });
            }
        }
    }
    let canonical = record.text("canonical_solution")?;
    Ok(Task {
        id: format!("mbppplus/{number}"),
        question: question.to_owned(),
        spec: TaskSpec::Code(CodeTask {
            entry_point: record.text("entry_point")?.to_owned(),
            prefix: None,
            canonical: Some(canonical.to_owned()),
            imports: Vec::new(),
            example: Some(example.to_owned()),
            tests,
            asserts: Vec::new(),
            atol: record.optional_number("atol")?.unwrap_or(0.0),
            time_limit: None,
            compare: if let Some(other) = other_reading(number.into()) {
                other
            } else if SET.contains(&number) {
                Compare::Set
            } else if NOT_NONE.contains(&number) {
                Compare::NotNone
            } else {
                Compare::Equal
            },
        }),
    })
}

/// The two parts of `"""\nquestion\nassert …\n"""\n`.
fn question_and_example(prompt: &str) -> Option<(&str, &str)> {
    let body = prompt
        .trim()
        .strip_prefix("\"\"\"")?
        .strip_suffix("\"\"\"")?;
    let body = body.strip_prefix('\n').unwrap_or(body);
    let body = body.strip_suffix('\n').unwrap_or(body);
    let at = body.find("\nassert ")?;
    Some((&body[..at], &body[at + 1..]))
}

fn restore(mut args: Vec<Value>, lost: LostTypes) -> Option<Vec<Value>> {
    match lost {
        LostTypes::Tuples => args.into_iter().map(tuple).collect(),
        LostTypes::TuplesInLists => args.into_iter().map(list_of_tuples).collect(),
        LostTypes::TuplesInTuples => args
            .into_iter()
            .map(|arg| tuple(list_of_tuples(arg)?))
            .collect(),
        LostTypes::Everything => Some(args.into_iter().map(all_tuples).collect()),
        LostTypes::TuplesInFirst => change(args, 0, list_of_tuples),
        LostTypes::First => change(args, 0, tuple),
        LostTypes::Second => change(args, 1, tuple),
        LostTypes::TwoLevelsOfFirst => change(args, 0, |arg| match arg {
            Value::List(items) => Some(Value::Tuple(
                items
                    .into_iter()
                    .map(|item| match item {
                        Value::List(items) => Value::Tuple(items),
                        other => other,
                    })
                    .collect(),
            )),
            _ => None,
        }),
        LostTypes::DictValues => change(args, 0, |arg| match arg {
            Value::Dict(entries) => {
                let entries: Option<Vec<_>> = entries
                    .into_iter()
                    .map(|(k, v)| Some((k, tuple(v)?)))
                    .collect();
                entries.map(Value::Dict)
            }
            _ => None,
        }),
        LostTypes::Complex => {
            let last = args.pop()?;
            let number = |arg: Value| match arg {
                Value::Str(text) => Value::parse_python(&text).ok(),
                other => Some(other),
            };
            let mut restored = Vec::with_capacity(2);
            for arg in args {
                restored.push(match number(arg)? {
                    Value::Int(n) => Value::Float(n.to_string().parse().ok()?),
                    other => other,
                });
            }
            restored.push(match number(last)? {
                Value::Complex(re, im) => Value::Complex(re, im),
                Value::Int(n) => Value::Complex(n.to_string().parse().ok()?, 0.0),
                Value::Float(x) => Value::Complex(x, 0.0),
                _ => return None,
            });
            Some(restored)
        }
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
    match value {
        Value::List(items) => Some(Value::List(
            items.into_iter().map(tuple).collect::<Option<_>>()?,
        )),
        _ => None,
    }
}

fn all_tuples(value: Value) -> Value {
    match value {
        Value::List(items) => Value::Tuple(items.into_iter().map(all_tuples).collect()),
        other => other,
    }
}
