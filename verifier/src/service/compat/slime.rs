//! slime: `--rm-type remote_rm --rm-url http://…/compat/slime/rm`.
//!
//! Its client sends one sample at a time. It takes the answer, a bare number, as the reward. It waits 120 seconds, and repeats a failed request nine times before it
//! ends; older versions end at the first failure.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use serde_json::Value;
use serde_json::value::RawValue;

use super::client::{self, Client};
use super::{completion, label, messages};
use crate::item::JudgeItem;
use crate::service::request::read_object;
use crate::service::sender::Sender;
use crate::service::{ProblemResponse, Service};

const CLIENT: Client = Client {
    name: "slime",
    patience: Duration::from_secs(100),
    refusal: ProblemResponse::unavailable,
};

pub(super) async fn rm(sender: Sender, body: Body) -> Result<Json<f64>, ProblemResponse> {
    let parse = |service: &Service, body: &[u8]| Ok((vec![item(service, body)?], ()));
    match &CLIENT.judge(&sender, body, parse).await?.0[..] {
        [item] => Ok(Json(item.reward)),
        _ => Err(ProblemResponse::internal()),
    }
}

fn item(service: &Service, body: &[u8]) -> Result<JudgeItem, ProblemResponse> {
    read_object(body, |mut fields| {
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
        Ok(client::item(task, prompt, completion))
    })
}
