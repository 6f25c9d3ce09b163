mod answers;
mod bodies;
mod compat;
mod connections;
mod parked;
mod queue;
mod sandbox_fusion;

use std::collections::HashSet;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode, header};
use flate2::Compression;
use flate2::write::GzEncoder;
use sandboxes::lean::Lean;
use sandboxes::{Call, Limits, Sandbox};
use serde_json::{Value as Json, json};
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use super::*;
use crate::config::{Config, SandboxKind};
use crate::fake_sandbox::{FakeSandbox, completed, doubled, ended};
use crate::grade::lean::LeanGrader;
use crate::graders::{OpenSandbox, no_sandbox};
use crate::judging::DiskStores;
use crate::registry::{Registry, questions};
use crate::setup;

/// The settings of a service without a token and without a sandbox of its own.
pub(crate) fn settings() -> ServiceSettings {
    let mut config = Config::default();
    (config.workers, config.code.sandbox) = (2, SandboxKind::None);
    let limits = &mut config.limits;
    (limits.body_bytes, limits.items, limits.queue) = (10_000, 20, 20);
    (config.cache.memory_bytes, config.cache.expected_bytes) = (1 << 20, 1 << 20);
    config.compat.hold_seconds = 10;
    setup::settings(&config, None)
}

fn registry() -> Registry {
    let question = "How many blorgs are 1 blorg and 1 blorg?";
    let mut registry = Registry::default();
    registry.add(questions("sums", &[(1, question, "2")]));
    registry
}

fn service(settings: ServiceSettings) -> Arc<Service> {
    Service::new(settings, registry(), DiskStores::default()).unwrap()
}

/// Opens a fake sandbox.
pub(crate) fn opens(sandbox: &Arc<FakeSandbox>) -> OpenSandbox {
    let sandbox: Arc<dyn Sandbox> = Arc::<FakeSandbox>::clone(sandbox);
    Box::new(move || Ok(sandbox))
}

/// A prepared service with a fake sandbox.
fn ready() -> (Router, Arc<FakeSandbox>) {
    let service = service(settings());
    let sandbox = Arc::new(FakeSandbox::doubling());
    service.judge.prepare(opens(&sandbox));
    (app(service), sandbox)
}

/// The answer to a request: its status, its text and its headers.
async fn answer_to(app: &Router, request: Request<Body>) -> (StatusCode, String, HeaderMap) {
    let response = app.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    (head.status, text, head.headers)
}

/// [`answer_to`], parsed.
async fn send(app: &Router, request: Request<Body>) -> (StatusCode, Json) {
    let (status, text, _) = answer_to(app, request).await;
    let parsed = serde_json::from_str(&text);
    (status, parsed.unwrap_or(Json::String(text)))
}

/// The head of a request with a JSON body.
fn post(path: &str) -> axum::http::request::Builder {
    Request::post(path).header(header::CONTENT_TYPE, "application/json")
}

async fn get(app: &Router, path: &str) -> (StatusCode, Json) {
    send(app, Request::get(path).body(Body::empty()).unwrap()).await
}

/// The answer to a body.
async fn ask(app: &Router, path: &str, body: &Json) -> (StatusCode, Json) {
    send(app, post(path).body(Body::from(body.to_string())).unwrap()).await
}

async fn verify(app: &Router, items: &Json) -> (StatusCode, Json) {
    ask(app, "/v1/verify", &json!({ "items": items })).await
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// [`verify`] in a task of its own.
fn verifying(app: &Router, items: &Json) -> JoinHandle<(StatusCode, Json)> {
    asking(app, "/v1/verify", json!({ "items": items }))
}

/// [`ask`] in a task of its own.
fn asking(app: &Router, path: &'static str, body: Json) -> JoinHandle<(StatusCode, Json)> {
    let app = app.clone();
    tokio::spawn(async move { ask(&app, path, &body).await })
}

/// Waits until a condition holds.
async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// These fields of an object.
fn fields(object: &Json, names: &str) -> Json {
    let names = names.split(' ');
    names.map(|name| object[name].clone()).collect()
}

/// These fields of each result of an answer.
fn results(answer: &Json, names: &str) -> Json {
    let results = answer["results"].as_array().unwrap().iter();
    results.map(|result| fields(result, names)).collect()
}

/// `body` with another value at a JSON pointer, as in `/labels/1 = null`, without it, as in `/labels = -`, or another body, as in `whole = []`.
fn changed(body: &Json, change: &str) -> Json {
    let (pointer, value) = change.split_once(" = ").unwrap();
    let mut body = body.clone();
    let Some((folder, name)) = pointer.rsplit_once('/') else {
        return serde_json::from_str(value).unwrap();
    };
    let holder = body.pointer_mut(folder).unwrap();
    match (value, name.parse::<usize>()) {
        ("-", _) => drop(holder.as_object_mut().unwrap().remove(name)),
        (value, Ok(index)) => holder[index] = serde_json::from_str(value).unwrap(),
        (value, Err(_)) => holder[name] = serde_json::from_str(value).unwrap(),
    }
    body
}

/// The grader of a Lean without libraries.
fn grader_of(lean: Arc<dyn Lean>) -> LeanGrader {
    LeanGrader::new(lean, Vec::new())
}

fn item(id: &str, task: &Json, completion: &str) -> Json {
    json!({ "id": id, "task": task, "prompt": "p", "completion": completion })
}

fn doubles() -> Json {
    json!({ "kind": "code", "entry_point": "f", "tests": [{ "args": [1], "expected": 2 }, { "args": [3], "expected": 6 }] })
}

#[tokio::test]
async fn equal_items_are_judged_once_and_the_verdict_can_be_read_by_its_key() {
    let (app, sandbox) = ready();
    let before = sandbox.runs();
    let items = json!(["a", "b", "c"].map(|id| item(id, &doubles(), "right")));
    let (_, first) = verify(&app, &items).await;
    assert_eq!(results(&first, "verdict"), json!(vec![["correct"]; 3]));
    let (_, second) = verify(&app, &items).await;
    assert_eq!(sandbox.runs(), before + 1);
    assert_eq!(results(&first, "cached"), json!([[false], [true], [true]]));
    assert_eq!(results(&second, "cached"), json!(vec![[true]; 3]));
    let key = first["results"][0]["key"].as_str().unwrap();
    assert_eq!(second["results"][0]["key"], key);
    let (status, stored) = get(&app, &format!("/v1/verdicts/{key}")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(fields(&stored, "verdict passed"), json!(["correct", 2]));
}

#[tokio::test]
async fn the_key_depends_on_prompt_completion_and_every_field_of_the_task() {
    let (app, _) = ready();
    let task = json!({
        "kind": "code", "entry_point": "f", "prefix": "def f(n):\n", "canonical": "def f(n):\n    return n + n\n", "imports": ["import math"],
        "tests": [{ "args": [1] }, { "args": [3] }], "asserts": ["assert f(2) == 4"]
    });
    let first = item("a", &task, "    return 2 * n\n");
    let mut items = vec![first.clone()];
    for change in [
        r#"/prompt = "q""#,
        r#"/completion = "    return 2 * n""#,
        r#"/task = {"kind": "math", "answer": "1"}"#,
        r#"/task = {"kind": "math", "answer": "2"}"#,
        r#"/task/prefix = "def f(m):\n""#,
        r#"/task/canonical = "def f(n):\n    return 2 * n\n""#,
        "/task/imports = []",
        "/task/atol = 0.5",
        r#"/task/compare = "set""#,
        "/task/time_limit = 1",
        r#"/task/tests = [{"args": [1], "expected": 2}]"#,
    ] {
        items.push(changed(&first, change));
    }
    let count = items.len();
    let (status, body) = verify(&app, &json!(items)).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let keys = results(&body, "key");
    let keys: HashSet<&Json> = keys.as_array().unwrap().iter().collect();
    assert_eq!(keys.len(), count);
}

#[tokio::test]
async fn a_service_is_ready_once_its_graders_are_prepared() {
    let service = service(settings());
    let app = app(Arc::clone(&service));
    assert_eq!(get(&app, "/readyz").await.0.as_u16(), 503);
    assert_eq!(get(&app, "/healthz").await.0, StatusCode::OK);
    let (_, body) = verify(&app, &json!([item("a", &doubles(), "right")])).await;
    let verdicts = results(&body, "verdict retryable");
    assert_eq!(verdicts, json!([["unavailable", true]]));
    let sandbox = Arc::new(FakeSandbox::doubling());
    service.judge.prepare(opens(&sandbox));
    let (status, body) = get(&app, "/readyz").await;
    assert_eq!((status, &body["ready"]), (StatusCode::OK, &json!(true)));
    // The unavailable verdict was not cached.
    let (_, body) = verify(&app, &json!([item("a", &doubles(), "right")])).await;
    assert_eq!(body["results"][0]["verdict"], "correct");
}

#[tokio::test]
async fn an_unavailable_grader_blocks_readiness_only_if_required() {
    for (require, status) in [
        (vec![], StatusCode::OK),
        (vec!["math"], StatusCode::OK),
        (vec!["code"], StatusCode::SERVICE_UNAVAILABLE),
    ] {
        let mut settings = settings();
        settings.graders.require = require.into_iter().map(str::to_owned).collect();
        let service = service(settings);
        let open = no_sandbox("there is no sandbox".to_owned());
        service.judge.prepare(open);
        let app = app(service);
        let (actual, body) = get(&app, "/readyz").await;
        assert_eq!(actual, status);
        let mut graders = body["graders"].as_array().unwrap().iter();
        let code = graders.find(|grader| grader["name"] == "code").unwrap();
        let state = fields(code, "state reason");
        assert_eq!(state, json!(["unavailable", "there is no sandbox"]));
        let (_, body) = verify(&app, &json!([item("a", &doubles(), "right")])).await;
        let verdicts = results(&body, "verdict retryable");
        assert_eq!(verdicts, json!([["unavailable", false]]));
        // Nothing was judged.
        let (_, metrics) = get(&app, "/metrics").await;
        assert!(!metrics.as_str().unwrap().contains("judge_seconds_count"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_during_preparation_has_a_key_with_its_interpreter() {
    let service = service(settings());
    let app = app(Arc::clone(&service));
    let items = json!([item("a", &doubles(), "right")]);
    let (_, body) = verify(&app, &items).await;
    let early: crate::cache::Key = body["results"][0]["key"].as_str().unwrap().parse().unwrap();
    let sandbox = Arc::new(FakeSandbox::doubling());
    let preparing = service.judge.prepare_in_background(opens(&sandbox));
    preparing.unwrap();
    let judged = async {
        loop {
            let (_, body) = verify(&app, &items).await;
            if body["results"][0]["verdict"] == "correct" {
                break body["results"][0]["key"].clone();
            }
        }
    };
    let judged = tokio::time::timeout(Duration::from_secs(60), judged);
    assert_ne!(judged.await.unwrap(), json!(early.to_string()));
    assert_eq!(service.judge.cache.get(&early), None);
}

#[tokio::test]
async fn a_sandbox_that_passes_a_wrong_program_is_unavailable() {
    let service = service(settings());
    service.judge.prepare(Box::new(|| {
        let run = |calls| vec![Call::Returned("42".to_owned()); calls];
        let sandbox = FakeSandbox::new(move |_, calls, _| Ok(completed(run(calls.len()))));
        Ok(Arc::new(sandbox) as Arc<dyn Sandbox>)
    }));
    let readiness = service.judge.readiness();
    let mut graders = readiness.graders.iter();
    let code = graders.find(|grader| grader.name == "code").unwrap();
    assert_eq!(code.state, verifier_api::GraderState::Unavailable);
}

#[tokio::test]
async fn the_openapi_document_has_every_route() {
    let (app, _) = ready();
    let (_, document) = get(&app, "/openapi.json").await;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let path = path
                .replace("{key}", &"0".repeat(64))
                .replace("{name}", "sums")
                .replace("{id}", "1");
            let request = Request::builder()
                .method(method.to_uppercase().as_str())
                .header(header::CONTENT_TYPE, "application/json")
                .uri(&path);
            let (_, body) = send(&app, request.body(Body::empty()).unwrap()).await;
            for unknown in ["/problems/unknown-route", "/problems/wrong-method"] {
                assert_ne!(body["type"], unknown, "{method} {path}");
            }
        }
    }
    assert_eq!(document["paths"].as_object().unwrap().len(), 22);
}
