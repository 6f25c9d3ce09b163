//! Parses the body of `POST /v1/verify`. An error names the item and the field.
//!
//! Every part stays raw text until its type is known: the values of tests have integers of any size and ordered dictionaries, neither of which [`serde_json::Value`]
//! preserves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use datasets::did_you_mean::{hint, nearest};
use datasets::{
    CodeTask, CodeTest, Compare, LeanTask, MathTask, OwnTask, ProgramTask, ProgramTest, TaskSpec,
    Value, loose_json, python_name, right_answer, time_limit,
};
use serde::Deserialize;
use serde_json::Value as Json;
use serde_json::value::RawValue;
use verifier_api::{Id, RequestLimits};

use super::{ProblemResponse, decimal};
use crate::grade::code::{Known, TestMode};
use crate::grade::excerpt;
use crate::item::JudgeItem;
use crate::registry::{RegisteredTask, Registry};

/// Maximum length of an id in JSON, in bytes.
const MAX_ID: usize = 1_024;

/// An error in a field: the field's path, and the reason.
pub(super) type FieldError = (String, String);

/// An item that cannot be judged.
#[derive(Debug)]
pub(super) struct BadItem {
    /// Its id, if it has one.
    pub(super) id: Option<Id>,
    pub(super) problem: ProblemResponse,
}

/// Parses the items of a request's body, each by itself.
///
/// # Errors
/// If the body cannot be used at all.
pub(super) fn read(
    body: &[u8],
    registry: &Registry,
    limits: &RequestLimits,
) -> Result<Vec<Result<JudgeItem, BadItem>>, ProblemResponse> {
    let bad = |field: &str, reason: &str| ProblemResponse::bad(None, field, reason);
    let mut body: BTreeMap<String, &RawValue> = of_kind(json(body)?)
        .ok_or_else(|| bad("items", "the body is not an object with `items`"))?;
    let items: Vec<&RawValue> = body
        .remove("items")
        .and_then(of_kind)
        .ok_or_else(|| bad("items", "it is required, and must be an array"))?;
    if let Some(key) = body.keys().next() {
        return Err(bad(key, "the body has only `items`"));
    }
    check_count("items", items.len(), limits).map_err(|(field, reason)| bad(&field, &reason))?;
    let items = items.into_iter().enumerate().map(|(index, item)| {
        judge_item(item, registry).map_err(|(field, reason)| BadItem {
            id: Fields::new("", item)
                .and_then(|mut fields| fields.id("id"))
                .ok(),
            problem: ProblemResponse::bad(Some(index), &field, &reason),
        })
    });
    Ok(items.collect())
}

/// Parses a body that is an object, of which `parse` takes what it knows. For the routes of other projects' clients, whose bodies may have more fields.
pub(super) fn read_object<T>(
    body: &[u8],
    parse: impl FnOnce(Fields<'_>) -> Result<T, FieldError>,
) -> Result<T, ProblemResponse> {
    Fields::new("", json(body)?)
        .map_err(|(_, reason)| ("(body)".to_owned(), reason))
        .and_then(parse)
        .map_err(|(field, reason)| ProblemResponse::bad(None, &field, &reason))
}

fn json(body: &[u8]) -> Result<&RawValue, ProblemResponse> {
    serde_json::from_slice(body)
        .map_err(|error| ProblemResponse::not_json(loose_json::reason(body, &error)))
}

/// Fails if the list `field` has more items than a request may hold.
pub(super) fn check_count(
    field: &str,
    items: usize,
    limits: &RequestLimits,
) -> Result<(), FieldError> {
    if items > limits.items {
        let reason = format!(
            "{items} items are more than the {} that one request may hold; split them",
            limits.items
        );
        return Err((field.to_owned(), reason));
    }
    Ok(())
}

/// The value, if it is of this kind; `None` for anything else.
pub(super) fn of_kind<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Option<T> {
    serde_json::from_str(json.get()).ok()
}

/// The id of an item, or the reason why it is none.
pub(super) fn id(json: &RawValue) -> Result<Id, String> {
    let length = json.get().len();
    if length > MAX_ID {
        return Err(format!(
            "it has {length} bytes, and may have {MAX_ID}, since answers repeat it; give a shorter one"
        ));
    }
    Id::of(json).ok_or_else(|| wrong_kind("a string or a number", json))
}

/// The kind of a JSON value, for messages.
pub(crate) fn json_kind(json: &RawValue) -> &'static str {
    match json.get().as_bytes().first() {
        Some(b'"') => "a text",
        Some(b'[') => "an array",
        Some(b'{') => "an object",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// The reason if a value is not of the expected kind.
pub(super) fn wrong_kind(expected: &str, json: &RawValue) -> String {
    format!("it must be {expected}, not {}", json_kind(json))
}

fn judge_item(item: &RawValue, registry: &Registry) -> Result<JudgeItem, FieldError> {
    let mut fields = Fields::new("", item)?;
    let id = fields.id("id")?;
    let (reference, digest) = (fields.take("task")?, fields.optional_string("task_digest")?);
    let prompt = fields.optional_string("prompt")?.unwrap_or_default();
    let item = JudgeItem {
        id,
        task: match of_kind::<String>(reference) {
            Some(id) => registered_task(&id, digest.as_deref(), registry)?,
            None if digest.is_some() => {
                return Err(fields.fault(
                    "task_digest",
                    "it belongs to a named task; leave it out of an item with an inline task",
                ));
            }
            None => {
                let task = inline_task(reference, registry)?;
                if let TaskSpec::Code(code) = &task
                    && let Some(reason) = python_name::asks_for_method(&prompt, &code.entry_point)
                {
                    return Err(fields.fault("task.entry_point", &excerpt(&reason)));
                }
                Arc::new(RegisteredTask::inline(task))
            }
        },
        prompt,
        completion: fields.string("completion")?,
        known: Known::default(),
        test_mode: match fields.optional("all_tests").map(RawValue::get) {
            None | Some("false") => TestMode::UntilFailure,
            Some("true") => TestMode::All,
            Some(_) => return Err(fields.fault("all_tests", "it must be true or false")),
        },
    };
    fields.done()?;
    Ok(item)
}

/// The registered task with this id. If the client sends a digest, it must be the task's.
fn registered_task(
    id: &str,
    digest: Option<&str>,
    registry: &Registry,
) -> Result<Arc<RegisteredTask>, FieldError> {
    let task = registry
        .get(id)
        .ok_or_else(|| ("task".to_owned(), registry.missing(id)))?;
    match digest {
        Some(digest) if digest != task.content.to_string() => Err((
            "task_digest".to_owned(),
            format!(
                "the server's task `{id}` differs from the client's; use the same data set on both sides, or send the task inline"
            ),
        )),
        _ => Ok(task),
    }
}

pub(super) fn inline_task(
    inline: &RawValue,
    registry: &Registry,
) -> Result<TaskSpec, FieldError> {
    if !inline.get().starts_with('{') {
        return Err((
            "task".to_owned(),
            wrong_kind("a task's id or an object with `kind`", inline),
        ));
    }
    task_spec(Fields::new("task.", inline)?, registry)
}

/// The task that an object with `kind` describes.
pub(super) fn task_spec(
    mut fields: Fields<'_>,
    registry: &Registry,
) -> Result<TaskSpec, FieldError> {
    let kind = fields.string("kind")?;
    if registry.own_graders.contains(&kind) {
        return own(kind, fields).map(TaskSpec::Own);
    }
    let task = match kind.as_str() {
        "math" => TaskSpec::Math(MathTask {
            answer: answer(&mut fields)?,
        }),
        "lean" => TaskSpec::Lean(LeanTask {
            header: fields.string("header")?,
            statement: fields.string("statement")?,
        }),
        "code" => TaskSpec::Code(code(&mut fields)?),
        "program" => TaskSpec::Program(program(&mut fields)?),
        other => {
            let own = registry.own_graders.iter().map(String::as_str);
            let known = ["math", "code", "program", "lean"].into_iter().chain(own);
            let known: Vec<&str> = known.collect();
            let near = hint(nearest(other, known.iter().copied()));
            let reason = format!(
                "`{}` is not one of `{}`{near}",
                excerpt(other),
                known.join("`, `")
            );
            return Err(fields.fault("kind", &reason));
        }
    };
    fields.done()?;
    Ok(task)
}

/// A math task's answer: a string, of which the end counts if it is a worked solution, or a number as it was written.
fn answer(fields: &mut Fields<'_>) -> Result<String, FieldError> {
    let answer = fields.take("answer")?;
    if let Some(text) = of_kind::<String>(answer) {
        return right_answer(&text).map_err(|error| fields.fault("answer", &error.to_string()));
    }
    if !answer
        .get()
        .starts_with(|c: char| c == '-' || c.is_ascii_digit())
    {
        return Err(fields.wrong("answer", "a string or a number", answer));
    }
    decimal::from_json_number(answer.get()).map_err(|reason| fields.fault("answer", reason))
}

fn code(fields: &mut Fields<'_>) -> Result<CodeTask, FieldError> {
    let name = fields.string("entry_point")?;
    let class_name = fields.optional_string("class_name")?;
    let canonical = fields.optional_string("canonical")?;
    let prefix = fields.optional_string("prefix")?;
    let sources = [canonical.as_deref(), prefix.as_deref()];
    let entry_point = python_name::entry_point(&name, class_name.as_deref(), &sources)
        .map_err(|reason| fields.fault("entry_point", &excerpt(&reason)))?;
    let mut tests = Vec::new();
    for (index, test) in fields.list("tests")?.into_iter().enumerate() {
        let path = format!("{}tests[{index}]", fields.path);
        let mut fields = Fields::new(&format!("{path}."), test)?;
        let args = fields.required_list("args")?;
        let args = args
            .iter()
            .enumerate()
            .map(|(at, arg)| value(&format!("{path}.args[{at}]"), arg))
            .collect::<Result<_, _>>()?;
        let expected = match fields.remove("expected") {
            Some(expected) => Some(value(&format!("{path}.expected"), expected)?),
            None if canonical.is_some() => None,
            None => {
                return Err(fields.fault(
                    "expected",
                    "it is missing, and there is no `canonical` program to compute it",
                ));
            }
        };
        fields.done()?;
        tests.push(CodeTest { args, expected });
    }
    let asserts = fields.texts("asserts")?;
    if let Some(index) = asserts.iter().position(|text| text.trim().is_empty()) {
        return Err(fields.fault(
            &format!("asserts[{index}]"),
            "it is empty, and tests nothing; leave it out",
        ));
    }
    if tests.is_empty() && asserts.is_empty() {
        return Err(fields.fault(
            "tests",
            "a code task needs at least one element in `tests` or `asserts`",
        ));
    }
    Ok(CodeTask {
        entry_point,
        prefix,
        canonical,
        imports: fields.texts("imports")?,
        example: None,
        tests,
        asserts,
        atol: tolerance(fields)?,
        compare: compare(fields)?,
        time_limit: seconds(fields)?,
    })
}

fn program(fields: &mut Fields<'_>) -> Result<ProgramTask, FieldError> {
    let mut tests = Vec::new();
    for (index, test) in fields.required_list("tests")?.into_iter().enumerate() {
        let mut fields = Fields::new(&format!("{}tests[{index}].", fields.path), test)?;
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
        time_limit: seconds(fields)?,
    })
}

/// A task for the operator's own grader `grader`, which gets the fields as they are.
fn own(grader: String, mut fields: Fields<'_>) -> Result<OwnTask, FieldError> {
    let mut own = serde_json::Map::from_iter([("kind".to_owned(), Json::from(grader.as_str()))]);
    for name in fields.left().keys().cloned().collect::<Vec<_>>() {
        let value = fields.take(&name)?;
        let read = serde_json::from_str(value.get());
        let read = read.map_err(|error| fields.fault(&name, &excerpt(&error.to_string())))?;
        own.insert(name, read);
    }
    Ok(OwnTask {
        grader,
        fields: own,
    })
}

fn tolerance(fields: &mut Fields<'_>) -> Result<f64, FieldError> {
    match fields.optional("atol") {
        None => Ok(0.0),
        Some(json) => of_kind(json)
            .filter(|atol: &f64| atol.is_finite() && *atol >= 0.0)
            .ok_or_else(|| fields.fault("atol", "it must be a number, 0 or more")),
    }
}

fn seconds(fields: &mut Fields<'_>) -> Result<Option<Duration>, FieldError> {
    let Some(json) = fields.optional("time_limit") else {
        return Ok(None);
    };
    let limit = time_limit(&value(&format!("{}time_limit", fields.path), json)?);
    limit
        .map(Some)
        .map_err(|reason| fields.fault("time_limit", reason))
}

fn compare(fields: &mut Fields<'_>) -> Result<Compare, FieldError> {
    match fields.optional_string("compare")? {
        None => Ok(Compare::Equal),
        Some(name) => serde_json::from_value(Json::String(name))
            .map_err(|error| fields.fault("compare", &excerpt(&error.to_string()))),
    }
}

fn value(path: &str, json: &RawValue) -> Result<Value, FieldError> {
    Value::parse_json(json.get()).map_err(|error| (path.to_owned(), excerpt(&error.to_string())))
}

/// The fields of an object that are not parsed yet, and the object's path.
pub(super) struct Fields<'a> {
    path: String,
    left: BTreeMap<String, &'a RawValue>,
    /// Those that are `null`, if these count as absent.
    nulls: BTreeMap<String, &'a RawValue>,
    /// The names of those that were asked for.
    known: Vec<String>,
}

impl<'a> Fields<'a> {
    /// Parses an object whose fields have paths that begin with `path`.
    pub(super) fn new(path: &str, json: &'a RawValue) -> Result<Fields<'a>, FieldError> {
        match of_kind(json) {
            Some(left) => Ok(Fields {
                path: path.to_owned(),
                left,
                nulls: BTreeMap::new(),
                known: Vec::new(),
            }),
            None => {
                let place = path.trim_end_matches('.');
                let place = if place.is_empty() { "(item)" } else { place };
                Err((place.to_owned(), wrong_kind("an object", json)))
            }
        }
    }

    pub(super) fn fault(&self, name: &str, reason: &str) -> FieldError {
        (format!("{}{name}", self.path), reason.to_owned())
    }

    fn wrong(&self, name: &str, expected: &str, json: &RawValue) -> FieldError {
        self.fault(name, &wrong_kind(expected, json))
    }

    fn remove(&mut self, name: &str) -> Option<&'a RawValue> {
        self.known.push(name.to_owned());
        self.left.remove(name)
    }

    pub(super) fn take(&mut self, name: &str) -> Result<&'a RawValue, FieldError> {
        let reason = if self.nulls.contains_key(name) {
            "it is null"
        } else {
            "it is missing"
        };
        self.remove(name).ok_or_else(|| self.fault(name, reason))
    }

    /// An optional field. `null` counts as absent, as in files of tasks.
    pub(super) fn optional(&mut self, name: &str) -> Option<&'a RawValue> {
        self.remove(name).filter(|json| json.get() != "null")
    }

    /// A field, which is of the `expected` kind.
    fn need<T: Deserialize<'a>>(&mut self, name: &str, expected: &str) -> Result<T, FieldError> {
        let json = self.take(name)?;
        of_kind(json).ok_or_else(|| self.wrong(name, expected, json))
    }

    /// An optional field, which is of the `expected` kind.
    fn get<T: Deserialize<'a>>(
        &mut self,
        name: &str,
        expected: &str,
    ) -> Result<Option<T>, FieldError> {
        let json = self.optional(name);
        json.map(|json| of_kind(json).ok_or_else(|| self.wrong(name, expected, json)))
            .transpose()
    }

    pub(super) fn id(&mut self, name: &str) -> Result<Id, FieldError> {
        let json = self.take(name)?;
        id(json).map_err(|reason| self.fault(name, &reason))
    }

    pub(super) fn string(&mut self, name: &str) -> Result<String, FieldError> {
        self.need(name, "a string")
    }

    pub(super) fn optional_string(&mut self, name: &str) -> Result<Option<String>, FieldError> {
        self.get(name, "a string")
    }

    pub(super) fn required_list(&mut self, name: &str) -> Result<Vec<&'a RawValue>, FieldError> {
        self.need(name, "an array")
    }

    fn list(&mut self, name: &str) -> Result<Vec<&'a RawValue>, FieldError> {
        Ok(self.get(name, "an array")?.unwrap_or_default())
    }

    /// An optional list of Python texts.
    fn texts(&mut self, name: &str) -> Result<Vec<String>, FieldError> {
        let texts = self.list(name)?.into_iter().enumerate();
        let text = |(at, text): (usize, &RawValue)| {
            of_kind(text)
                .ok_or_else(|| self.wrong(&format!("{name}[{at}]"), "a string of Python", text))
        };
        texts.map(text).collect()
    }

    /// All fields that are not parsed yet, by name.
    pub(super) fn left(&self) -> &BTreeMap<String, &'a RawValue> {
        &self.left
    }

    /// These fields without those that are `null`. Tables give each row the fields of all, so `null` is absent.
    pub(super) fn without_nulls(mut self) -> Fields<'a> {
        let is_null = |(_, value): &(String, &RawValue)| value.get() == "null";
        (self.nulls, self.left) = self.left.into_iter().partition(is_null);
        self
    }

    /// Fails if a field is left that was not asked for.
    fn done(&self) -> Result<(), FieldError> {
        let Some(name) = self.left.keys().next() else {
            return Ok(());
        };
        let near = nearest(name, self.known.iter().map(String::as_str))
            .map(|near| format!("; did you mean `{near}`?"))
            .unwrap_or_default();
        Err(self.fault(name, &format!("there is no such field{near}")))
    }
}

#[cfg(test)]
mod tests;
