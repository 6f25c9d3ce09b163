//! slime: `--rm-type remote_rm --rm-url http://…/compat/slime/rm`.
//!
//! Its client sends one sample at a time. It takes the answer, a bare number, as the reward. It waits 120 seconds, and repeats a failed request nine times before it
//! ends; older versions end at the first failure.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use datasets::fields::{FieldError, Fields};
use serde_json::Value;
use serde_json::value::RawValue;

use super::client::{self, Client};
use super::{completion, label, messages};
use crate::item::JudgeItem;
use crate::service::request_context::RequestContext;
use crate::service::{ProblemResponse, Service};

const CLIENT: Client = Client {
    name: "slime",
    patience: Duration::from_secs(100),
    refusal: ProblemResponse::unavailable,
};

pub(super) async fn rm(context: RequestContext, body: Body) -> Result<Json<f64>, ProblemResponse> {
    let (rewards, ()) = CLIENT.judge(&context, body, "withheld", items).await?;
    match &rewards.map_err(|withheld| CLIENT.refused(&withheld))?[..] {
        [item] => Ok(Json(item.reward)),
        _ => Err(ProblemResponse::internal()),
    }
}

fn items(service: &Service, mut fields: Fields<'_>) -> Result<(Vec<JudgeItem>, ()), FieldError> {
    let prompt = fields.optional("prompt").map(RawValue::get);
    let prompt = prompt
        .map_or(Ok(Value::Null), serde_json::from_str)
        .ok()
        .and_then(|prompt| messages::prompt(&prompt))
        .ok_or_else(|| fields.fault("prompt", "it must be a string or messages"))?;
    let response = fields.string("response")?;
    let label = fields.take("label")?;
    let task = label::task("label", label, &service.judge.registry)?;
    let completion = completion::without_end_tokens(&response);
    Ok((vec![client::item(task, prompt, completion)], ()))
}
