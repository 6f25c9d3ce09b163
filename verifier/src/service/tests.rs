mod bodies;
mod canonical_queue;
mod compat;
mod connections;
mod inline;
mod kimina;
mod queue;
mod sandbox_fusion;
mod strangers;
mod written;

use std::collections::HashSet;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use datasets::{Dataset, MathTask, Task, TaskSpec};
use flate2::Compression;
use flate2::write::GzEncoder;
use sandboxes::{Call, Limits, Sandbox};
use serde_json::{Value as Json, json};
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use super::*;
use crate::fake_sandbox::{FakeSandbox, completed, doubled, ended};
use crate::grade::math;
use crate::graders::no_sandbox;

fn settings() -> ServiceSettings {
    ServiceSettings {
        limits: RequestLimits {
            body_bytes: 10_000,
            items: 20,
            queue: 20,
        },
        connections: 100,
        workers: 2,
        cache_bytes: 1 << 20,
        token: None,
        allowed_hosts: Vec::new(),
        compat: CompatSettings {
            hold: Duration::from_secs(10),
            nemo_gym_failsafe: false,
        },
        graders: GraderSettings {
            lean: crate::grade::lean::LeanSettings::default(),
            workers: 1,
            math: math::MathSettings::default(),
            code: crate::grade::code::Extraction::default(),
            limits: Limits::default(),
            memory_pool: None,
            expected_bytes: 1 << 20,
            require: Vec::new(),
        },
    }
}

fn registry() -> Registry {
    let task = Task {
        id: "sums/1".to_owned(),
        question: "How many blorgs are 1 blorg and 1 blorg?".to_owned(),
        spec: TaskSpec::Math(MathTask {
            answer: "2".to_owned(),
        }),
    };
    let mut registry = Registry::default();
    registry.add(Dataset {
        name: "sums".to_owned(),
        train: vec![task],
        eval: Vec::new(),
    });
    registry
}

fn service(settings: ServiceSettings) -> Arc<Service> {
    Service::new(settings, registry(), DiskStores::default()).unwrap()
}

fn opens(sandbox: &Arc<FakeSandbox>) -> OpenSandbox {
    let sandbox: Arc<dyn Sandbox> = Arc::<FakeSandbox>::clone(sandbox);
    Box::new(move || Ok(sandbox))
}

/// A prepared service with a fake sandbox.
fn ready() -> (Router, Arc<FakeSandbox>) {
    let service = service(settings());
    let sandbox = Arc::new(FakeSandbox::doubling());
    service.prepare(opens(&sandbox));
    (app(service), sandbox)
}

async fn send(app: &Router, request: Request<Body>) -> (StatusCode, Json, axum::http::HeaderMap) {
    let response = app.clone().oneshot(request).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let body =
        serde_json::from_slice(&body).unwrap_or_else(|_| json!(String::from_utf8_lossy(&body)));
    (status, body, headers)
}

/// The head of a request with a JSON body.
fn post(path: &str) -> axum::http::request::Builder {
    Request::post(path).header(header::CONTENT_TYPE, "application/json")
}

async fn get(app: &Router, path: &str) -> (StatusCode, Json) {
    let (status, body, _) = send(app, Request::get(path).body(Body::empty()).unwrap()).await;
    (status, body)
}

/// The answer to a body.
async fn ask(app: &Router, path: &str, body: &Json) -> (StatusCode, Json) {
    let request = post(path).body(Body::from(body.to_string())).unwrap();
    let (status, body, _) = send(app, request).await;
    (status, body)
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

/// Number of different keys in an answer.
fn distinct_keys(answer: &Json) -> usize {
    let results = answer["results"].as_array().unwrap().iter();
    let keys: HashSet<_> = results.map(|result| result["key"].as_str()).collect();
    keys.len()
}

/// `body` with another value at a place, as in `/labels/1 = null`, or another body, as in `whole = []`.
fn changed(body: &Json, change: &str) -> Json {
    let (place, value) = change.split_once(" = ").unwrap();
    let value: Json = serde_json::from_str(value).unwrap();
    let mut body = body.clone();
    let Some((folder, name)) = place.rsplit_once('/') else {
        return value;
    };
    match body.pointer_mut(place) {
        Some(old) => *old = value,
        None => body.pointer_mut(folder).unwrap()[name] = value,
    }
    body
}

/// Changes a body by each line of a table, and checks that it is refused: `change | field of the problem | what its detail says`.
async fn assert_refused(app: &Router, path: &str, body: &Json, table: &str) {
    for line in table.trim().lines() {
        let [change, field, says] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let (status, problem) = ask(app, path, &changed(body, change)).await;
        assert_eq!(
            status,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{line}: {problem}"
        );
        assert_eq!(problem["field"], field, "{line}: {problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{line}: {detail}");
    }
}

fn item(id: &str, task: &Json, completion: &str) -> Json {
    json!({ "id": id, "task": task, "prompt": "p", "completion": completion })
}

fn doubles() -> Json {
    json!({ "kind": "code", "entry_point": "f", "tests": [{ "args": [1], "expected": 2 }, { "args": [3], "expected": 6 }] })
}

#[tokio::test]
async fn a_batch_is_answered_in_order() {
    let (app, _) = ready();
    let items = json!([
        item("a", &json!("sums/1"), r"\boxed{2}"),
        item("b", &json!({ "kind": "math", "answer": "3" }), r"\boxed{4}"),
        item("c", &doubles(), "right"),
        item("d", &doubles(), "wrong"),
        item(
            "e",
            &json!({ "kind": "lean", "header": "", "statement": "theorem t : True := by" }),
            "trivial"
        ),
        item("f", &json!("sums/1"), "two"),
    ]);
    let (status, body) = verify(&app, &items).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        results(&body, "id verdict reward"),
        json!([
            ["a", "correct", 1.0],
            ["b", "incorrect", 0.0],
            ["c", "correct", 1.0],
            ["d", "incorrect", 0.0],
            ["e", "unavailable", null],
            ["f", "malformed", 0.0],
        ])
    );
    assert_eq!(fields(&body["results"][3], "passed total"), json!([0, 2]));
}

#[tokio::test]
async fn the_second_request_is_answered_from_the_cache_and_the_verdict_can_be_read_by_key() {
    let (app, sandbox) = ready();
    let items = json!([item("a", &doubles(), "right")]);
    let (_, first) = verify(&app, &items).await;
    let runs = sandbox.runs.load(Ordering::SeqCst);
    let (_, second) = verify(&app, &items).await;
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), runs);
    assert_eq!(results(&first, "cached"), json!([[false]]));
    assert_eq!(results(&second, "cached"), json!([[true]]));
    let key = first["results"][0]["key"].as_str().unwrap();
    assert_eq!(second["results"][0]["key"], key);
    let (status, stored) = get(&app, &format!("/v1/verdicts/{key}")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(fields(&stored, "verdict passed"), json!(["correct", 2]));
    for (key, kind) in [
        ("0".repeat(64).as_str(), "/problems/unknown-key"),
        ("short", "/problems/bad-item"),
        ("%ff", "/problems/bad-item"),
    ] {
        let (_, problem) = get(&app, &format!("/v1/verdicts/{key}")).await;
        assert_eq!(problem["type"], kind, "{key}");
    }
}

#[tokio::test]
async fn the_key_depends_on_task_prompt_and_completion() {
    let (app, _) = ready();
    let mut other_prompt = item("a", &doubles(), "right");
    other_prompt["prompt"] = json!("q");
    let items = json!([
        item("a", &doubles(), "right"),
        other_prompt,
        item("a", &doubles(), "right "),
        item("a", &json!({ "kind": "math", "answer": "1" }), "right"),
        item("a", &json!({ "kind": "math", "answer": "2" }), "right"),
    ]);
    let (_, body) = verify(&app, &items).await;
    assert_eq!(distinct_keys(&body), 5);
}

#[tokio::test]
async fn all_tests_are_run_if_the_item_requests_it() {
    let (app, _) = ready();
    // A wrong program squares.
    let tests = json!([{ "args": [1], "expected": 2 }, { "args": [2], "expected": 4 }]);
    let task = json!({ "kind": "code", "entry_point": "f", "tests": tests });
    let mut all = item("a", &task, "wrong");
    all["all_tests"] = json!(true);
    let (_, body) = verify(&app, &json!([item("a", &task, "wrong"), all])).await;
    let results = body["results"].as_array().unwrap();
    let passed = |index: usize| results[index]["passed"].as_u64().unwrap();
    assert!(passed(0) < passed(1), "{body}");
    assert_ne!(results[0]["key"], results[1]["key"]);
    let mut wrong = item("a", &doubles(), "wrong");
    wrong["all_tests"] = json!("yes");
    let (status, body) = verify(&app, &json!([wrong])).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(body["field"], "all_tests");
}

#[tokio::test]
async fn equal_items_in_flight_are_judged_once() {
    let (app, sandbox) = ready();
    let before = sandbox.runs.load(Ordering::SeqCst);
    let items = json!([
        item("a", &doubles(), "right"),
        item("b", &doubles(), "right"),
        item("c", &doubles(), "right")
    ]);
    let (_, body) = verify(&app, &items).await;
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), before + 1);
    assert_eq!(results(&body, "verdict"), json!(vec![["correct"]; 3]));
}

#[tokio::test]
async fn a_bad_item_fails_the_whole_batch_and_is_named() {
    let (app, _) = ready();
    let body =
        json!({ "items": [item("a", &json!("sums/1"), ""), item("b", &json!("sums/7"), "")] })
            .to_string();
    let (status, problem, headers) =
        send(&app, post("/v1/verify").body(Body::from(body)).unwrap()).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
    let place = fields(&problem, "item field status");
    assert_eq!(place, json!([1, "task", 422]));
    assert!(problem["detail"].as_str().unwrap().contains("sums/7"));
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_get_problem_documents() {
    let (app, _) = ready();
    for case in [
        "/verify/ => `POST /v1/verify`?",
        "/v1/verify/ => `POST /v1/verify`?",
        "//v1//verify => `POST /v1/verify`?",
        "/v1/v1/Verify/ => `POST /v1/verify`?",
        "/v2/verify => `POST /v1/verify`?",
        "/v1/verfy => `POST /v1/verify`?",
        "/v1/healthz => `GET /healthz`?",
        "/ => nothing at `/`;",
        "/favicon.ico => nothing at `/favicon.ico`;",
    ] {
        let (path, says) = case.split_once(" => ").unwrap();
        let (status, problem) = get(&app, path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{detail}");
    }
    let (_, problem) = ask(&app, "/verify", &json!({ "items": [] })).await;
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.ends_with("at `POST /v1/verify`"), "{detail}");
    let (status, problem) = get(&app, "/v1/verify").await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(problem["type"], "/problems/wrong-method");
}

#[tokio::test]
async fn with_a_token_v1_requires_it() {
    let app = app(service(ServiceSettings {
        token: Some(Token::new("secret")),
        ..settings()
    }));
    for (path, authorization, status) in [
        ("/v1/info", None, 401),
        ("/v1/info", Some("Bearer wrong"), 401),
        ("/v1/info", Some("Basic secret"), 401),
        ("/v1/info", Some("Bearer secret"), 200),
        // anyone:secret, secret: and anyone:wrong.
        ("/v1/info", Some("Basic YW55b25lOnNlY3JldA=="), 200),
        ("/v1/info", Some("Basic c2VjcmV0Og=="), 200),
        ("/v1/info", Some("Basic YW55b25lOndyb25n"), 401),
        ("/compat/kimina/health", None, 401),
        ("/v1/info", Some("bearer secret"), 200),
        ("/v1/datasets", None, 401),
        ("/healthz", None, 200),
        ("/openapi.json", None, 200),
        ("/metrics", None, 200),
    ] {
        let mut request = Request::get(path);
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let (got, ..) = send(&app, request.body(Body::empty()).unwrap()).await;
        assert_eq!(got.as_u16(), status, "{path} {authorization:?}");
    }
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
    service.prepare(opens(&Arc::new(FakeSandbox::doubling())));
    let (status, body) = get(&app, "/readyz").await;
    assert_eq!((status, &body["ready"]), (StatusCode::OK, &json!(true)));
    let (_, body) = verify(&app, &json!([item("a", &doubles(), "right")])).await;
    assert_eq!(
        body["results"][0]["verdict"], "correct",
        "the unavailable verdict was not cached"
    );
}

#[tokio::test]
async fn an_unavailable_grader_has_a_reason_and_blocks_readiness_only_if_required() {
    for (require, status) in [
        (vec![], StatusCode::OK),
        (vec!["math"], StatusCode::OK),
        (vec!["code"], StatusCode::SERVICE_UNAVAILABLE),
    ] {
        let mut settings = settings();
        settings.graders.require = require.into_iter().map(str::to_owned).collect();
        let service = service(settings);
        service.prepare(no_sandbox("there is no sandbox".to_owned()));
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
        let (_, metrics) = get(&app, "/metrics").await;
        assert!(
            !metrics.as_str().unwrap().contains("judge_seconds_count"),
            "nothing was judged"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_requested_while_the_grader_is_prepared_has_a_key_with_its_interpreter() {
    let service = service(settings());
    let app = app(Arc::clone(&service));
    let items = json!([item("a", &doubles(), "right")]);
    let (_, body) = verify(&app, &items).await;
    let early: crate::cache::Key = body["results"][0]["key"].as_str().unwrap().parse().unwrap();
    let sandbox = Arc::new(FakeSandbox::doubling());
    service.prepare_in_background(opens(&sandbox)).unwrap();
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
    assert_eq!(service.cache.get(&early), None);
}

#[tokio::test]
async fn a_sandbox_that_passes_a_wrong_program_is_unavailable() {
    let service = service(settings());
    service.prepare(Box::new(|| {
        let run = |calls| vec![Call::Returned("42".to_owned()); calls];
        let sandbox = FakeSandbox::new(move |_, calls, _| Ok(completed(run(calls.len()))));
        Ok(Arc::new(sandbox) as Arc<dyn Sandbox>)
    }));
    let readiness = service.readiness();
    let mut graders = readiness.graders.iter();
    let code = graders.find(|grader| grader.name == "code").unwrap();
    assert_eq!(code.state, verifier_api::GraderState::Unavailable);
}

#[tokio::test]
async fn an_unavailable_verdict_is_not_cached_for_joined_items() {
    let service = service(settings());
    let sandbox = Arc::new(FakeSandbox::new(|source, calls, _| {
        if source.contains("broken") {
            return Err(sandboxes::Deferred::Failed("not now".to_owned()).into());
        }
        Ok(doubled(source, calls))
    }));
    service.prepare(opens(&sandbox));
    let twice = json!([
        item("a", &doubles(), "broken"),
        item("b", &doubles(), "broken")
    ]);
    let (_, body) = verify(&app(service), &twice).await;
    let verdicts = results(&body, "verdict cached");
    assert_eq!(verdicts, json!(vec![json!(["unavailable", false]); 2]));
}

#[tokio::test]
async fn a_panic_in_a_grader_affects_only_its_item() {
    let service = service(settings());
    let sandbox = Arc::new(FakeSandbox::new(|source, calls, _| {
        assert!(!source.contains("poison"), "on purpose");
        Ok(doubled(source, calls))
    }));
    service.prepare(opens(&sandbox));
    let app = app(service);
    let items = ["poison", "right"].map(|text| item("a", &doubles(), text));
    let (status, body) = verify(&app, &json!(items)).await;
    assert_eq!(status, StatusCode::OK);
    let verdicts = results(&body, "verdict retryable");
    assert_eq!(verdicts, json!([["unavailable", true], ["correct", false]]));
}

#[tokio::test]
async fn the_service_reports_its_info_and_its_metrics() {
    let (app, _) = ready();
    let (_, info) = get(&app, "/v1/info").await;
    let info: verifier_api::ServiceInfo = serde_json::from_value(info).unwrap();
    assert_eq!((info.api.as_str(), info.graders.len()), ("v1", 3));
    assert_eq!(info.datasets[0].name, "sums");
    let (_, sets) = get(&app, "/v1/datasets").await;
    assert_eq!(sets["datasets"][0]["train"], 1);
    let (_, task) = get(&app, "/v1/datasets/sums/tasks/1").await;
    assert_eq!(fields(&task, "id grader"), json!(["sums/1", "math"]));
    let (status, problem) = get(&app, "/v1/datasets/smus/tasks/1/2").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("Did you mean `sums/…`?"), "{detail}");
    verify(&app, &json!([item("a", &json!("sums/1"), r"\boxed{2}")])).await;
    let (_, metrics) = get(&app, "/metrics").await;
    let metrics = metrics.as_str().unwrap();
    for line in [
        "rapid_verifier_judgements_total{grader=\"math\",verdict=\"correct\",cached=\"false\"} 1",
        "rapid_verifier_requests_total{route=\"/v1/verify\",status=\"200\"} 1",
        "rapid_verifier_ready 1",
    ] {
        assert!(
            metrics.lines().any(|other| other == line),
            "{line} in\n{metrics}"
        );
    }
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
            let (_, body, _) = send(&app, request.body(Body::empty()).unwrap()).await;
            assert!(
                !matches!(
                    body["type"].as_str(),
                    Some("/problems/unknown-route" | "/problems/wrong-method")
                ),
                "{method} {path}"
            );
        }
    }
    assert_eq!(document["paths"].as_object().unwrap().len(), 22);
}
