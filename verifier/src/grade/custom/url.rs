//! An HTTP server that rewards an item. Its form is that of this service's `/v1/verify`, or of a server for another trainer.

use std::time::Duration;

use datasets::excerpt::excerpt;
use futures::StreamExt as _;
use reqwest::{StatusCode, Url};
use serde_json::{Map, Value as Json, json};
use tokio::runtime::{Builder, Runtime};

use super::answer::{Answer, Failure, Question};
use super::settings::{CustomSettings, RequestForm};

/// Maximum length of a response, in bytes.
const MAX_RESPONSE: usize = 1 << 20;
/// The fields of a task that may hold the label of the other trainers, in order of precedence.
const LABELS: [&str; 5] = [
    "label",
    "ground_truth",
    "expected_answer",
    "answer",
    "solution",
];

/// A server that is asked for one item at a time.
pub(super) struct Server {
    client: reqwest::Client,
    url: Url,
    form: RequestForm,
    /// Polls the requests of the threads that wait for them.
    runtime: Runtime,
}

impl Server {
    pub(super) fn open(url: &str, settings: &CustomSettings) -> Result<Self, String> {
        let time = Duration::try_from_secs_f64(settings.seconds).unwrap_or(Duration::MAX);
        let client = verifier_api::http_client().timeout(time).build();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("custom-grader")
            .enable_all()
            .build();
        Ok(Self {
            client: client.map_err(|error| error.to_string())?,
            url: Url::parse(url).map_err(|error| format!("{url}: {error}"))?,
            form: settings.form,
            runtime: runtime.map_err(|error| format!("its thread cannot be started: {error}"))?,
        })
    }

    pub(super) fn ask(&self, question: &Question<'_>) -> Result<Answer, Failure> {
        let body = self
            .runtime
            .block_on(self.post(&request(self.form, question)))?;
        let response: Json = serde_json::from_slice(&body).map_err(|error| {
            let text = excerpt(&String::from_utf8_lossy(&body));
            Failure::new(format!("{} answered no JSON ({error}): {text}", self.url))
        })?;
        let found = answer(self.form, &response);
        let text = || excerpt(&response.to_string());
        found
            .ok_or_else(|| Failure::new(format!("{} answered no reward: {}", self.url, text())))?
            .check()
    }

    async fn post(&self, body: &Json) -> Result<Vec<u8>, Failure> {
        let broken = |error: reqwest::Error| {
            let error = error.without_url();
            match error.is_timeout() {
                true => Failure::new(format!("{} did not answer in time", self.url)),
                false => Failure::passing(format!(
                    "{} cannot be reached: {}",
                    self.url,
                    verifier_api::chain(&error)
                )),
            }
        };
        let response = self.client.post(self.url.clone()).json(body).send().await;
        let response = response.map_err(broken)?;
        let status = response.status();
        let (mut body, mut pieces) = (Vec::new(), response.bytes_stream());
        while let Some(piece) = pieces.next().await {
            body.extend_from_slice(&piece.map_err(broken)?);
            if body.len() > MAX_RESPONSE {
                let limit = MAX_RESPONSE >> 20;
                return Err(Failure::new(format!(
                    "{} answered more than {limit} MiB",
                    self.url
                )));
            }
        }
        if status.is_success() {
            return Ok(body);
        }
        let reason = format!(
            "{} answered {status}: {}",
            self.url,
            excerpt(String::from_utf8_lossy(&body).trim())
        );
        let retryable = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        Err(Failure { reason, retryable })
    }
}

/// The label of a task for the other trainers: the first of [`LABELS`] that it has, or else the whole task.
fn label(task: &Map<String, Json>) -> Json {
    let found = LABELS.iter().find_map(|name| task.get(*name));
    found.cloned().unwrap_or_else(|| json!(task))
}

fn request(form: RequestForm, question: &Question<'_>) -> Json {
    let (task, prompt, completion) = (question.task, question.prompt, question.completion);
    match form {
        RequestForm::Verify => json!({ "items": [
            { "id": "0", "task": task, "prompt": prompt, "completion": completion }
        ] }),
        RequestForm::OpenRlhf => json!({
            "query": [format!("{prompt}{completion}")],
            "prompts": [prompt],
            "labels": [label(task)],
        }),
        RequestForm::Slime => json!({
            "prompt": prompt,
            "response": completion,
            "label": label(task),
        }),
        RequestForm::NemoGym => {
            let text = json!([{ "type": "output_text", "text": completion, "annotations": [] }]);
            let message = json!({
                "id": "0", "type": "message", "role": "assistant", "status": "completed",
                "content": text,
            });
            json!({
                "responses_create_params": { "input": [{ "role": "user", "content": prompt }] },
                "response": { "id": "0", "output": [message] },
                "expected_answer": label(task),
                "verifier_metadata": task,
            })
        }
    }
}

/// The answer in a response; `None` if it has none.
fn answer(form: RequestForm, response: &Json) -> Option<Answer> {
    match form {
        RequestForm::Verify => {
            serde_json::from_value(response.get("results")?.get(0)?.clone()).ok()
        }
        RequestForm::OpenRlhf => Some(Answer::bare(response.get("rewards")?.get(0)?.clone())),
        RequestForm::Slime => Some(Answer::bare(response.clone())),
        RequestForm::NemoGym => Some(Answer::bare(response.get("reward")?.clone())),
    }
}
