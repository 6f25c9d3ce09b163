//! NeMo Gym: a resources server, at the base path `/compat/nemo-gym`. It also answers without the base path, since NeMo Gym knows a server by its host and port only.
//!
//! An agent sends the row of the data set, with its `responses_create_params`, and the model's `response` in the form of OpenAI's Responses API. It gets all of this
//! back with a `reward`. The row's `expected_answer` says which task is judged. An error ends the agent's rollout; its collector repeats it or counts it, and gives no
//! reward.

mod aggregate;

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use datasets::fields::{FieldError, Fields, wrong_kind};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::client::{self, Client};
use super::{completion, label, messages};
use crate::item::JudgeItem;
use crate::service::request::check_count;
use crate::service::request_context::RequestContext;
use crate::service::{ProblemResponse, Service};

const CLIENT: Client = Client {
    name: "nemo-gym",
    // The client itself waits without a limit.
    patience: Duration::from_secs(600),
    refusal: ProblemResponse::unavailable,
};

/// A row that is verified again has these fields of the earlier answer.
const ANSWER_FIELDS: [&str; 6] = [
    "reward",
    "mask_sample",
    "failure_kind",
    "failure_reason",
    "_ng_failure_class",
    "_ng_failure_judge_error",
];

/// The fields of a row, as they were sent.
type Row = BTreeMap<String, Box<RawValue>>;

/// Begins or ends a session. Judging needs no state, so this only repeats the session's id. NeMo Gym has sent it since 0.7.
pub(super) async fn session(
    context: RequestContext,
    body: Body,
) -> Result<Json<Value>, ProblemResponse> {
    const ID: &str = "resources_session_id";
    let mut backoff = CLIENT.backoff(&context.service);
    let id = CLIENT.read_object(&context, body, &mut backoff, |_, mut fields| {
        fields.optional_string(ID)
    });
    Ok(Json(match id.await? {
        Some(id) => json!({ ID: id }),
        None => json!({}),
    }))
}

/// That a row can be verified again by itself.
pub(super) async fn reverify_mode() -> Json<&'static str> {
    Json("stateless")
}

pub(super) async fn verify(
    context: RequestContext,
    body: Body,
) -> Result<Json<Row>, ProblemResponse> {
    let has_failsafe = context.service.settings.nemo_gym_failsafe;
    let outcome = if has_failsafe { "failsafe" } else { "withheld" };
    let (rewards, mut row) = CLIENT.judge(&context, body, outcome, item_and_row).await?;
    let fields = match rewards {
        Ok(rewards) => json!({ "reward": rewards.first().map(|item| item.reward) }),
        Err(withheld) if has_failsafe => failsafe(&withheld.reason),
        Err(withheld) => return Err(CLIENT.refused(&withheld)),
    };
    for (name, value) in fields.as_object().into_iter().flatten() {
        let value = to_raw_value(value).map_err(|_| ProblemResponse::internal())?;
        row.insert(name.clone(), value);
    }
    Ok(Json(row))
}

/// The answer where the operator wants no errors: reward 0, with the marks by which NeMo Gym and its trainers leave the sample out.
fn failsafe(reason: &str) -> Value {
    json!({
        "reward": 0.0,
        "mask_sample": true,
        "failure_kind": "verifier_error",
        "failure_reason": reason,
        "_ng_failure_class": "verifier_error",
    })
}

fn item_and_row(
    service: &Service,
    mut fields: Fields<'_>,
) -> Result<(Vec<JudgeItem>, Row), FieldError> {
    let row = fields
        .all()
        .iter()
        .filter(|(name, _)| !ANSWER_FIELDS.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), (*value).to_owned()))
        .collect();
    let (path, label) = expected_answer(&mut fields)?;
    let task = label::task(&path, label, &service.judge.registry)?;
    let prompt = prompt(&mut fields)?;
    let completion = completion(&mut fields)?;
    let completion = completion::without_end_tokens(&completion);
    Ok((vec![client::item(task, prompt, completion)], row))
}

/// The path of a row's label, and the label. Newer rows have it in `verifier_metadata`.
fn expected_answer<'a>(fields: &mut Fields<'a>) -> Result<(String, &'a RawValue), FieldError> {
    const NAME: &str = "expected_answer";
    if !fields.has(NAME)
        && let Some(metadata) = fields.optional("verifier_metadata")
    {
        let path = "verifier_metadata.";
        let label = Fields::new(path, metadata)?.take(NAME)?;
        return Ok((format!("{path}{NAME}"), label));
    }
    let label = fields.take(NAME).map_err(|(field, reason)| {
        let hint = "this is NeMo Gym's route, and `items` are judged at `POST /v1/verify`";
        (field, format!("{reason}; {hint}"))
    })?;
    Ok((NAME.to_owned(), label))
}

/// The question of a row, or else the user's last message.
fn prompt(fields: &mut Fields<'_>) -> Result<String, FieldError> {
    if let Some(question) = fields.optional_string("question")? {
        return Ok(question);
    }
    let path = "responses_create_params.";
    let mut params = Fields::new(path, fields.take("responses_create_params")?)?;
    let Some(input) = params.optional("input") else {
        return Ok(String::new());
    };
    serde_json::from_str(input.get())
        .ok()
        .and_then(|input| messages::prompt(&input))
        .ok_or_else(|| params.fault("input", "it must be a string or messages"))
}

/// The text of the model's last message. Empty if there is none, as after a final tool call.
fn completion(fields: &mut Fields<'_>) -> Result<String, FieldError> {
    let mut response = Fields::new("response.", fields.take("response")?)?;
    let output: Vec<Value> = serde_json::from_str(response.take("output")?.get())
        .map_err(|_| response.fault("output", "it must be an array"))?;
    let wrong = "the content of the last message must be a string or an array of parts";
    match messages::last(&output, "assistant") {
        None => Ok(String::new()),
        Some(content) => messages::text(content).ok_or_else(|| response.fault("output", wrong)),
    }
}

pub(super) async fn aggregate_metrics(
    context: RequestContext,
    body: Body,
) -> Result<Json<Value>, ProblemResponse> {
    let mut backoff = CLIENT.backoff(&context.service);
    let metrics = CLIENT.read_object(&context, body, &mut backoff, |service, fields| {
        Ok(aggregate::metrics(&responses(service, fields)?))
    });
    Ok(Json(metrics.await?))
}

fn responses(
    service: &Service,
    mut fields: Fields<'_>,
) -> Result<Vec<Map<String, Value>>, FieldError> {
    let name = "verify_responses";
    let responses = fields.required_list(name)?;
    check_count(name, responses.len(), &service.settings.limits)?;
    let parse = |(index, response): (usize, &RawValue)| {
        serde_json::from_str(response.get()).map_err(|_| {
            let path = format!("{name}[{index}]");
            (path, wrong_kind("an object", response))
        })
    };
    responses.into_iter().enumerate().map(parse).collect()
}
