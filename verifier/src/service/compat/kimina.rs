//! Kimina: `KiminaClient(api_url="http://…/compat/kimina")`, and the older `/verify`.
//!
//! Its client sends snippets of Lean, which need not prove anything, and reads Lean's messages about each. So this route runs whatever code a snippet has, only in a
//! jail. The snippet can forge these messages, because its own process writes them. `/v1/verify` decides on proofs, by a kernel. The client waits 600 seconds, repeats
//! a failed request twice, and then reports an `error` of its own for each snippet.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use datasets::excerpt::excerpt;
use datasets::fields::{FieldError, Fields};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::client::{self, Client, Rewarded};
use crate::item::JudgeItem;
use crate::registry::RegisteredTask;
use crate::service::request::{check_count, id_of};
use crate::service::request_context::RequestContext;
use crate::service::{ProblemResponse, Service};

const CLIENT: Client = Client {
    name: "kimina",
    patience: Duration::from_secs(570),
    refusal: ProblemResponse::unavailable,
};

/// A form of the request and its answer.
#[derive(Clone, Copy)]
struct Form {
    /// The list of snippets.
    list: &'static str,
    /// The field with a snippet's id, here and in the answer.
    id: &'static str,
    /// The fields that may have the text; one of them does.
    texts: &'static [&'static str],
    /// What asks for Lean's info trees.
    infotree: &'static str,
    /// The seconds that a snippet may take if the request does not say.
    seconds: u64,
    /// Whether the time is a part of `response`.
    time_in_response: bool,
}

const CHECK_FORM: Form = Form {
    list: "snippets",
    id: "id",
    texts: &["code"],
    infotree: "infotree",
    seconds: 30,
    time_in_response: false,
};

const VERIFY_FORM: Form = Form {
    list: "codes",
    id: "custom_id",
    texts: &["proof", "code"],
    infotree: "infotree_type",
    seconds: 300,
    time_in_response: true,
};

pub(super) async fn check(
    context: RequestContext,
    body: Body,
) -> Result<Json<Value>, ProblemResponse> {
    answer(&context, body, CHECK_FORM).await
}

pub(super) async fn verify(
    context: RequestContext,
    body: Body,
) -> Result<Json<Value>, ProblemResponse> {
    answer(&context, body, VERIFY_FORM).await
}

/// Whether snippets are run here.
pub(super) async fn health(
    State(service): State<Arc<Service>>,
) -> Result<Json<Value>, ProblemResponse> {
    check_jail(&service)?;
    let snippet = RegisteredTask::snippet(1);
    match service.judge.graders.unavailable_grading(&snippet.spec) {
        None => Ok(Json(json!({ "status": "ok" }))),
        Some(grading) => {
            let reason = grading.detail["reason"].as_str().unwrap_or_default();
            Err(ProblemResponse::unavailable(reason))
        }
    }
}

fn check_jail(service: &Service) -> Result<(), ProblemResponse> {
    let checked = service.judge.graders.check_jail();
    checked.map_err(ProblemResponse::no_jail)
}

async fn answer(
    context: &RequestContext,
    body: Body,
    form: Form,
) -> Result<Json<Value>, ProblemResponse> {
    check_jail(&context.service)?;
    let judged = CLIENT.judge(context, body, "withheld", move |service, fields| {
        items(service, fields, form)
    });
    let (rewards, ids) = judged.await?;
    let rewards = rewards.map_err(|withheld| CLIENT.refused(&withheld))?;
    let results = ids.iter().zip(&rewards);
    let results: Vec<Value> = results.map(|(id, item)| result(id, item, form)).collect();
    Ok(Json(json!({ "results": results })))
}

/// The items of a request, and the ids of their snippets.
fn items(
    service: &Service,
    mut fields: Fields<'_>,
    form: Form,
) -> Result<(Vec<JudgeItem>, Vec<String>), FieldError> {
    let snippets = fields.required_list(form.list)?;
    check_count(form.list, snippets.len(), &service.settings.limits)?;
    if fields.optional(form.infotree).is_some() {
        return Err(fields.fault(form.infotree, "info trees are not supported; leave it out"));
    }
    let seconds = seconds(&mut fields, form)?;
    // Equal limits give equal tasks, so that verdicts are shared.
    let seconds = seconds.clamp(1, service.judge.graders.max_lean_seconds());
    let task = Arc::new(RegisteredTask::snippet(seconds));
    let mut ids = Vec::with_capacity(snippets.len());
    let mut items = Vec::with_capacity(snippets.len());
    let mut seen = HashSet::new();
    for (index, snippet) in snippets.into_iter().enumerate() {
        let (id, code) = snippet_of(&format!("{}[{index}].", form.list), snippet, form)?;
        if !seen.insert(id.clone()) {
            let id = excerpt(&id);
            let reason = format!("two snippets have the {} `{id}`", form.id);
            return Err(fields.fault(&format!("{}[{index}]", form.list), reason));
        }
        ids.push(id);
        items.push(client::item(Arc::clone(&task), String::new(), &code));
    }
    Ok((items, ids))
}

fn seconds(fields: &mut Fields<'_>, form: Form) -> Result<u64, FieldError> {
    match fields.optional("timeout") {
        None => Ok(form.seconds),
        Some(json) => serde_json::from_str(json.get())
            .map_err(|_| fields.fault("timeout", "it must be a whole number of seconds")),
    }
}

/// The id and the text of a snippet at this path.
fn snippet_of(path: &str, snippet: &RawValue, form: Form) -> Result<(String, String), FieldError> {
    let mut fields = Fields::new(path, snippet)?;
    let id = id_of(&mut fields, form.id)?;
    for name in form.texts {
        if let Some(code) = fields.optional_string(name)? {
            return Ok((id.to_string(), code));
        }
    }
    Err(fields.fault(form.texts[form.texts.len() - 1], "it is missing"))
}

/// The client's result for a snippet: Lean's response, or why there is none.
fn result(id: &str, item: &Rewarded, form: Form) -> Value {
    let (detail, seconds) = (&item.judgement.detail, item.judgement.elapsed_ms / 1e3);
    let mut result = json!({ form.id: id });
    if !form.time_in_response {
        result["time"] = json!(seconds);
    }
    if let Some(reason) = detail.get("reason") {
        result["error"] = reason.clone();
        return result;
    }
    let mut response = without_nulls(detail);
    if form.time_in_response {
        response["time"] = json!(seconds);
    }
    result["response"] = response;
    result
}

/// Without the fields that are null or an empty list. Lean's REPL leaves them out too.
fn without_nulls(json: &Value) -> Value {
    match json {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null() && *value != &json!([]))
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
