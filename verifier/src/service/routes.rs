//! The handlers: one function for each route.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{MatchedPath, Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use verifier_api::{API_VERSION, Datasets, ServiceInfo, StoredVerdict};

use super::gzip::Coding;
use super::id::{Answers, Id};
use super::judge::{Batch, Refusal, judge};
use super::{ProblemResponse, Service, body, gzip, openapi, request};
use crate::cache::Key;
use crate::metrics;

type Shared = State<Arc<Service>>;

pub(super) async fn verify(
    State(service): Shared,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ProblemResponse> {
    let full = |Refusal::Full { retry_after }| ProblemResponse::full(retry_after);
    let limit = service.limits.body_bytes;
    let coding = gzip::coding(&headers)?;
    let length = body::length(&headers, limit)?;
    let mut permit = service.body_memory.acquire(length).map_err(full)?;
    let body = body::read(body, limit, body::TIMEOUT).await?;
    permit.shrink(body.len());
    let _open = service.open_requests.begin();
    // Unpacking and parsing a large body and computing its keys would block a thread that serves other requests too.
    let (ids, batch, _permit) = {
        let service = Arc::clone(&service);
        tokio::task::spawn_blocking(move || {
            let body = match coding {
                Coding::Plain => body,
                Coding::Gzip => {
                    let unpacked = gzip::unpacked(&body[..], body.len(), limit, &mut permit)?;
                    drop(body);
                    permit.shrink(unpacked.len());
                    unpacked
                }
            };
            let items = request::read(&body, &service.registry, &service.limits)?;
            let ids: Vec<Id> = items.iter().map(|item| item.id.clone()).collect();
            Ok((ids, Batch::new(&service, items), permit))
        })
        .await
        .map_err(|_| ProblemResponse::unread())??
    };
    let judgements = judge(&service, batch).await.map_err(full)?;
    Ok(Json(Answers::new(&ids, &judgements)).into_response())
}

pub(super) async fn datasets(State(service): Shared) -> Json<Datasets> {
    Json(Datasets {
        datasets: service.registry.datasets(),
    })
}

pub(super) async fn info(State(service): Shared) -> Json<ServiceInfo> {
    Json(ServiceInfo {
        service: "rapid-verifier".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        api: API_VERSION.to_owned(),
        graders: service.graders.info(),
        datasets: service.registry.datasets(),
        limits: service.limits,
    })
}

pub(super) async fn verdict(
    State(service): Shared,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<StoredVerdict>, ProblemResponse> {
    let no_key = || ProblemResponse::bad(None, "key", "a key is 64 hexadecimal digits");
    let Path(text) = path.map_err(|_| no_key())?;
    let key: Key = text.parse().map_err(|_| no_key())?;
    let found = tokio::task::spawn_blocking(move || service.cache.get(&key))
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
        deterministic: grading.deterministic,
    }))
}

pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

pub(super) async fn readyz(State(service): Shared) -> Response {
    let readiness = service.readiness();
    let status = if readiness.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(readiness)).into_response()
}

pub(super) async fn metrics(State(service): Shared) -> Response {
    let text = service.metrics.render(service.gauges());
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

pub(super) async fn openapi() -> Json<serde_json::Value> {
    Json(openapi::document())
}

pub(super) async fn unknown(uri: Uri) -> ProblemResponse {
    ProblemResponse::unknown_route(uri.path())
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
    service.metrics.request(&route, response.status().as_u16());
    response
}
