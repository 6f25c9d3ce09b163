//! OpenRLHF: `remote_rm_url = http://…/compat/openrlhf/get_reward`.
//!
//! Its client sends `query` (the prompt and the completion, with special tokens), `prompts` and `labels`, all empty for some of several servers. It waits 180 seconds,
//! repeats a request that fails four times after a second, and then trains without the sample.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use datasets::fields::{FieldError, Fields, of_kind, wrong_kind};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::client::{self, Client};
use super::{completion, label};
use crate::item::JudgeItem;
use crate::service::request::check_count;
use crate::service::request_context::RequestContext;
use crate::service::{ProblemResponse, Service};

const CLIENT: Client = Client {
    name: "openrlhf",
    patience: Duration::from_secs(150),
    refusal: ProblemResponse::unavailable,
};

pub(super) async fn get_reward(
    context: RequestContext,
    body: Body,
) -> Result<Json<Value>, ProblemResponse> {
    let (rewards, ()) = CLIENT.judge(&context, body, "withheld", items).await?;
    let rewards = rewards.map_err(|withheld| CLIENT.refused(&withheld))?;
    let rewards: Vec<f64> = rewards.iter().map(|item| item.reward).collect();
    // The client filters prompts by the scores, and logs them.
    Ok(Json(
        json!({ "rewards": rewards, "scores": rewards, "extra_logs": {} }),
    ))
}

fn items(service: &Service, mut fields: Fields<'_>) -> Result<(Vec<JudgeItem>, ()), FieldError> {
    let queries = fields.required_list("query")?;
    check_count("query", queries.len(), &service.settings.limits)?;
    let labels = list_like(&mut fields, "labels", queries.len())?;
    let prompts = match fields.has("prompts") {
        true => list_like(&mut fields, "prompts", queries.len())?,
        false => Vec::new(),
    };
    let mut items = Vec::with_capacity(queries.len());
    for (index, (query, label)) in queries.into_iter().zip(labels).enumerate() {
        let text = |name: &str, json| {
            let wrong = || (format!("{name}[{index}]"), wrong_kind("a string", json));
            of_kind::<String>(json).ok_or_else(wrong)
        };
        let query = text("query", query)?;
        let prompt = prompts
            .get(index)
            .map_or(Ok(String::new()), |prompt| text("prompts", *prompt))?;
        let task = label::task(&format!("labels[{index}]"), label, &service.judge.registry)?;
        let completion = completion::after_prompt(&query, &prompt);
        items.push(client::item(task, prompt.clone(), completion));
    }
    Ok((items, ()))
}

/// A list with as many elements as `query`.
fn list_like<'a>(
    fields: &mut Fields<'a>,
    name: &str,
    count: usize,
) -> Result<Vec<&'a RawValue>, FieldError> {
    let list = fields.required_list(name)?;
    if list.len() == count {
        return Ok(list);
    }
    let reason = format!("it has {} elements, and `query` has {count}", list.len());
    Err(fields.fault(name, reason))
}
