//! Reads a task from JSON: a record of a user's file, or an item of a request. An error names the field and the remedy.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

use super::{
    CodeTask, CodeTest, Compare, CustomTask, LeanTask, ProgramTask, ProgramTest, TaskSpec,
    is_grader_name,
};
use crate::did_you_mean::{hint, nearest};
use crate::excerpt::excerpt;
use crate::fields::{FieldError, Fields, of_kind, wrong_kind};
use crate::{Value, decimal, python_name, right_answer};

/// The longest time limit of a task, in seconds.
pub(crate) const MAX_TIME_LIMIT: f64 = 60.0;

impl TaskSpec {
    /// The task in an object with `kind`. It has the fields of that kind and no others.
    ///
    /// # Errors
    /// What is wrong with a field, and what to do.
    pub fn read(mut fields: Fields<'_>) -> Result<TaskSpec, FieldError> {
        let kind = fields.string("kind")?;
        let task = TaskSpec::of_kind(&kind, &mut fields)?;
        fields.done()?;
        Ok(task)
    }

    /// [`TaskSpec::read`] at the place `task` of an item.
    ///
    /// # Errors
    /// Those of [`TaskSpec::read`], and if it is no object.
    pub fn inline(json: &RawValue) -> Result<TaskSpec, FieldError> {
        if !json.get().starts_with('{') {
            let reason = wrong_kind("a task's id or an object with `kind`", json);
            return Err(("task".to_owned(), reason));
        }
        TaskSpec::read(Fields::new("task.", json)?)
    }

    /// The task of this `kind` that the fields describe. There may be others.
    ///
    /// # Errors
    /// As [`TaskSpec::read`].
    pub(crate) fn of_kind(kind: &str, fields: &mut Fields<'_>) -> Result<TaskSpec, FieldError> {
        Ok(match kind {
            "math" => TaskSpec::math(answer(fields)?),
            "lean" => TaskSpec::Lean(LeanTask {
                header: fields.string("header")?,
                statement: fields.string("statement")?,
            }),
            "code" => TaskSpec::Code(code(fields)?),
            "program" => TaskSpec::Program(program(fields)?),
            grader if is_grader_name(grader) => TaskSpec::Custom(custom(grader, fields)?),
            other => return Err(fields.fault("kind", unknown_kind(other, &[]))),
        })
    }
}

/// The reason that a task of this kind cannot be judged, where the operator's graders are those of `custom`.
#[must_use]
pub fn unknown_kind(kind: &str, custom: &[String]) -> String {
    let kinds = ["math", "code", "program", "lean"].into_iter();
    let known: Vec<&str> = kinds.chain(custom.iter().map(String::as_str)).collect();
    let near = hint(nearest(kind, known.iter().copied()));
    let (kind, known) = (excerpt(kind), known.join("`, `"));
    format!("`{kind}` is not one of `{known}`{near}")
}

/// A task for the operator's grader, which gets all the fields.
fn custom(grader: &str, fields: &mut Fields<'_>) -> Result<CustomTask, FieldError> {
    let names: Vec<String> = fields.all().keys().cloned().collect();
    let mut all = serde_json::Map::new();
    for name in names {
        let json = fields.take(&name)?;
        let read = serde_json::from_str(json.get());
        let read = read.map_err(|error| fields.fault(&name, excerpt(&error.to_string())))?;
        all.insert(name, read);
    }
    Ok(CustomTask {
        grader: grader.to_owned(),
        fields: all,
    })
}

impl<'de> Deserialize<'de> for TaskSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TaskSpec, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        TaskSpec::inline(&json)
            .map_err(|(field, reason)| D::Error::custom(format!("`{field}`: {reason}")))
    }
}

/// A math task's answer: a string, or a number as it was written. The end of a string counts if it is a worked solution.
fn answer(fields: &mut Fields<'_>) -> Result<String, FieldError> {
    let answer = fields.take("answer")?;
    if let Some(text) = of_kind::<String>(answer) {
        return right_answer(&text).map_err(|error| fields.fault("answer", error.to_string()));
    }
    let number = answer.get();
    if !number.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        return Err(fields.fault("answer", wrong_kind("a string or a number", answer)));
    }
    decimal::from_json_number(number).map_err(|reason| fields.fault("answer", reason))
}

fn code(fields: &mut Fields<'_>) -> Result<CodeTask, FieldError> {
    let name = fields.string("entry_point")?;
    let class_name = fields.optional_string("class_name")?;
    let canonical = fields.optional_string("canonical")?;
    let prefix = fields.optional_string("prefix")?;
    let sources = [canonical.as_deref(), prefix.as_deref()];
    let entry_point = python_name::entry_point(&name, class_name.as_deref(), &sources)
        .map_err(|reason| fields.fault("entry_point", excerpt(&reason)))?;
    let mut tests = Vec::new();
    for (index, test) in fields.list("tests")?.into_iter().enumerate() {
        let test = fields.within(&format!("tests[{index}]"), test)?;
        tests.push(code_test(test, canonical.is_some())?);
    }
    let asserts = fields.texts("asserts")?;
    if let Some(index) = asserts.iter().position(|text| text.trim().is_empty()) {
        let reason = "it is empty, and tests nothing; leave it out";
        return Err(fields.fault(&format!("asserts[{index}]"), reason));
    }
    if tests.is_empty() && asserts.is_empty() {
        let reason = "a code task needs at least one element in `tests` or `asserts`";
        return Err(fields.fault("tests", reason));
    }
    Ok(CodeTask {
        entry_point,
        tests,
        asserts,
        prefix,
        canonical,
        imports: fields.texts("imports")?,
        atol: tolerance(fields)?,
        compare: compare(fields)?,
        time_limit: time_limit(fields)?,
    })
}

fn code_test(mut fields: Fields<'_>, has_canonical: bool) -> Result<CodeTest, FieldError> {
    let args = fields.required_list("args")?.into_iter().enumerate();
    let args = args
        .map(|(at, arg)| value(arg).map_err(|reason| fields.fault(&format!("args[{at}]"), reason)));
    let args = args.collect::<Result<_, _>>()?;
    let expected = fields.get("expected").map(value).transpose();
    let expected = expected.map_err(|reason| fields.fault("expected", reason))?;
    // A misspelt `expected` is named as such.
    fields.done()?;
    if expected.is_none() && !has_canonical {
        let reason = "it is missing, and there is no `canonical` program to compute it";
        return Err(fields.fault("expected", reason));
    }
    Ok(CodeTest { args, expected })
}

fn program(fields: &mut Fields<'_>) -> Result<ProgramTask, FieldError> {
    let mut tests = Vec::new();
    for (index, test) in fields.required_list("tests")?.into_iter().enumerate() {
        let mut fields = fields.within(&format!("tests[{index}]"), test)?;
        tests.push(ProgramTest {
            stdin: fields.string("stdin")?,
            stdout: fields.string("stdout")?,
        });
        fields.done()?;
    }
    if tests.is_empty() {
        return Err(fields.fault("tests", "a program needs at least one test"));
    }
    Ok(ProgramTask {
        tests,
        time_limit: time_limit(fields)?,
    })
}

/// The optional field `atol`; 0 if it is absent.
pub(crate) fn tolerance(fields: &mut Fields<'_>) -> Result<f64, FieldError> {
    match fields.optional("atol") {
        None => Ok(0.0),
        Some(json) => of_kind(json)
            .filter(|atol: &f64| atol.is_finite() && *atol >= 0.0)
            .ok_or_else(|| fields.fault("atol", "it must be a number, 0 or more")),
    }
}

/// The optional field `time_limit`, which is in seconds.
pub(crate) fn time_limit(fields: &mut Fields<'_>) -> Result<Option<Duration>, FieldError> {
    let Some(json) = fields.optional("time_limit") else {
        return Ok(None);
    };
    let seconds = value(json).map_err(|reason| fields.fault("time_limit", reason))?;
    let is_allowed = |seconds: &f64| *seconds > 0.0 && *seconds <= MAX_TIME_LIMIT;
    let seconds = seconds.real().filter(is_allowed);
    let reason = "a number of seconds is expected, above 0 and at most 60";
    let seconds = seconds.ok_or_else(|| fields.fault("time_limit", reason))?;
    Ok(Some(Duration::from_secs_f64(seconds)))
}

fn compare(fields: &mut Fields<'_>) -> Result<Compare, FieldError> {
    match fields.optional_string("compare")? {
        None => Ok(Compare::Equal),
        Some(name) => serde_json::from_value(name.into())
            .map_err(|error| fields.fault("compare", excerpt(&error.to_string()))),
    }
}

fn value(json: &RawValue) -> Result<Value, String> {
    Value::parse_json(json.get()).map_err(|error| excerpt(&error.to_string()))
}
