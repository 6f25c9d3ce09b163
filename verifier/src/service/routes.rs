//! The handlers: one function for each route.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{MatchedPath, Path, Query, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use verifier_api::{
    API_VERSION, Datasets, Id, Judgement, Problem, ServiceInfo, StoredVerdict, TaskInfo,
    VerifyResponse,
};

use super::backoff::Backoff;
use super::request::BadItem;
use super::request_context::RequestContext;
use super::{ProblemResponse, Service, body, openapi, request};
use crate::cache::Key;
use crate::judging::{Batch, judge, no_judgement};
use crate::metrics;

type Shared = State<Arc<Service>>;

#[derive(Default, Deserialize)]
pub(super) struct VerifyQuery {
    #[serde(default)]
    errors: ErrorScope,
}

/// What an unusable item invalidates.
#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ErrorScope {
    /// The whole request.
    #[default]
    Request,
    /// Only the item.
    Item,
}

pub(super) async fn verify(
    query: Result<Query<VerifyQuery>, QueryRejection>,
    context: RequestContext,
    body: Body,
) -> Result<Json<VerifyResponse>, ProblemResponse> {
    let Query(VerifyQuery { errors }) = query.map_err(|_| {
        ProblemResponse::bad(None, "errors", "it must be `request` or `item`, once")
    })?;
    let mut backoff = Backoff::at_most(Duration::ZERO);
    let parse = move |service: &Service, body: &[u8]| {
        let (mut refused, mut judged) = (Vec::new(), Vec::new());
        for item in request::read(body, &service.judge.registry, &service.settings.limits)? {
            refused.push(match item {
                Ok(item) => {
                    judged.push(item);
                    None
                }
                Err(BadItem {
                    id: Some(id),
                    problem,
                }) if errors == ErrorScope::Item => Some(refusal(id, problem.problem())),
                Err(BadItem { problem, .. }) => return Err(problem),
            });
        }
        Ok((refused, Batch::new(&service.judge, judged)))
    };
    let (refused, batch) = body::read(&context, body, &mut backoff, parse).await?;
    let judged = judge(&context.service.judge, context.client, batch).await?;
    let mut judged = judged.into_iter();
    let results = refused
        .into_iter()
        .filter_map(|refusal| refusal.or_else(|| judged.next()))
        .collect();
    Ok(Json(VerifyResponse { results }))
}

/// The judgement of an unusable item.
fn refusal(id: Id, problem: &Problem) -> Judgement {
    let detail = json!({ "reason": problem.detail, "problem": problem });
    no_judgement(id, detail, false)
}

pub(super) async fn datasets(State(service): Shared) -> Json<Datasets> {
    Json(Datasets {
        datasets: service.judge.registry.datasets(),
    })
}

pub(super) async fn task(
    State(service): Shared,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<TaskInfo>, ProblemResponse> {
    let no_text = || ProblemResponse::bad(None, "id", "it is not UTF-8");
    let Path((dataset, rest)) = path.map_err(|_| no_text())?;
    let id = format!("{dataset}/{rest}");
    let registry = &service.judge.registry;
    match registry.get(&id) {
        None => Err(ProblemResponse::unknown_task(&registry.missing(&id))),
        Some(task) => Ok(Json(TaskInfo {
            grader: task.spec.kind().to_owned(),
            digest: task.content.to_string(),
            id,
        })),
    }
}

pub(super) async fn info(State(service): Shared) -> Json<ServiceInfo> {
    Json(ServiceInfo {
        service: "rapid-verifier".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        api: API_VERSION.to_owned(),
        graders: service.judge.graders.info(),
        datasets: service.judge.registry.datasets(),
        limits: service.settings.limits,
    })
}

pub(super) async fn verdict(
    State(service): Shared,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<StoredVerdict>, ProblemResponse> {
    let no_key = || ProblemResponse::bad(None, "key", "a key is 64 hexadecimal digits");
    let Path(text) = path.map_err(|_| no_key())?;
    let key: Key = text.parse().map_err(|_| no_key())?;
    let found = tokio::task::spawn_blocking(move || service.judge.cache.get(&key))
        .await
        .ok()
        .flatten();
    let grading = found.ok_or_else(|| ProblemResponse::unknown_key(&text))?;
    Ok(Json(StoredVerdict {
        key: key.to_string(),
        reward: grading.reward(),
        verdict: grading.verdict,
        detail: grading.detail,
        passed: grading.passed,
        total: grading.total,
        terms: grading.terms,
        deterministic: grading.deterministic,
    }))
}

pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

pub(super) async fn readyz(State(service): Shared) -> Response {
    let readiness = service.judge.readiness();
    let status = if readiness.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(readiness)).into_response()
}

pub(super) async fn metrics(State(service): Shared) -> Response {
    let text = service.judge.metrics.render(service.judge.gauges());
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

pub(super) async fn openapi() -> Response {
    static DOCUMENT: LazyLock<Bytes> =
        LazyLock::new(|| openapi::document().to_string().into_bytes().into());
    let json = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, json)], DOCUMENT.clone()).into_response()
}

pub(super) async fn unknown(uri: Uri) -> ProblemResponse {
    ProblemResponse::unknown_route(uri.path(), openapi::nearest_route(uri.path()))
}

pub(super) async fn wrong_method(method: Method, uri: Uri) -> ProblemResponse {
    ProblemResponse::wrong_method(method.as_str(), uri.path())
}

/// Counts responses by route, not by path, so that requests for other paths cannot fill the counters.
pub(super) async fn count(State(service): Shared, request: Request, next: Next) -> Response {
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("other", MatchedPath::as_str)
        .to_owned();
    let response = next.run(request).await;
    let (metrics, status) = (&service.judge.metrics, response.status());
    metrics.request(&route, status.as_u16());
    response
}
