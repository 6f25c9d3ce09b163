//! Parses the body of `POST /v1/verify`. An error names the item and the field.

use std::collections::BTreeMap;
use std::sync::Arc;

use datasets::excerpt::excerpt;
use datasets::fields::{FieldError, Fields, of_kind, wrong_kind};
use datasets::{TaskSpec, loose_json, python_name};
use serde_json::value::RawValue;
use verifier_api::{Id, RequestLimits};

use super::ProblemResponse;
use crate::grade::code::{SampleState, TestMode};
use crate::item::JudgeItem;
use crate::registry::{RegisteredTask, Registry};

/// Maximum length of an id in JSON, in bytes.
const MAX_ID: usize = 1_024;

/// An item that cannot be judged.
#[derive(Debug)]
pub(super) struct BadItem {
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
        judge_item(item, registry).map_err(|(field, reason)| {
            let field = if field.is_empty() { "(item)" } else { &field };
            BadItem {
                id: Fields::new("", item)
                    .and_then(|mut fields| id_of(&mut fields, "id"))
                    .ok(),
                problem: ProblemResponse::bad(Some(index), field, &reason),
            }
        })
    });
    Ok(items.collect())
}

/// Parses a body that is an object. `parse` takes the fields that it knows; other projects' clients may send more.
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

/// The id of an item, or why it is not an id.
pub(super) fn id(json: &RawValue) -> Result<Id, String> {
    let length = json.get().len();
    if length > MAX_ID {
        return Err(format!(
            "it has {length} bytes, and may have {MAX_ID}, since answers repeat it; give a shorter one"
        ));
    }
    Id::of(json).ok_or_else(|| wrong_kind("a string or a number", json))
}

pub(super) fn id_of(fields: &mut Fields<'_>, name: &str) -> Result<Id, FieldError> {
    let json = fields.take(name)?;
    id(json).map_err(|reason| fields.fault(name, reason))
}

fn judge_item(item: &RawValue, registry: &Registry) -> Result<JudgeItem, FieldError> {
    let mut fields = Fields::new("", item)?;
    let id = id_of(&mut fields, "id")?;
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
                let task = registry.inline("task.kind", TaskSpec::inline(reference)?)?;
                if let TaskSpec::Code(code) = &task.spec
                    && let Some(reason) = python_name::asks_for_method(&prompt, &code.entry_point)
                {
                    return Err(fields.fault("task.entry_point", excerpt(&reason)));
                }
                task
            }
        },
        prompt,
        completion: fields.string("completion")?,
        state: SampleState::default(),
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

#[cfg(test)]
mod tests;
