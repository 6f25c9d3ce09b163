//! SandboxFusion's routes. A request without an answer is held and then refused. It never gets an invented result.

use std::time::{Duration, Instant};

use super::compat::breakable;
use super::queue::{Gate, gated, gated_with, slow};
use super::*;

pub(super) const RUN_CODE: &str = "/compat/sandbox-fusion/run_code";
const SUBMIT: &str = "/compat/sandbox-fusion/submit";

/// verl's request.
pub(super) fn of_verl(timeout: f64) -> Json {
    json!({ "compile_timeout": timeout, "run_timeout": timeout, "code": "x", "stdin": "", "memory_limit_MB": 1024,
            "language": "python", "files": {}, "fetch_files": [] })
}

/// Sends a request without a possible answer, and checks that it is held and then refused.
async fn held_and_refused(app: &Router, path: &str, body: &Json, says: &str) {
    let started = Instant::now();
    let (status, problem) = ask(app, path, body).await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT, "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(says), "{problem}");
    // Both timeouts and ten seconds, less two.
    let held = started.elapsed().as_secs_f64();
    assert!((8.0..10.0).contains(&held), "{held}");
}

fn submission() -> Json {
    json!({ "dataset": "any", "id": 1, "completion": "right",
            "config": { "compile_timeout": 0, "run_timeout": 0, "provided_data": doubles() } })
}

#[tokio::test]
async fn without_a_working_sandbox_requests_are_held_and_then_refused() {
    let without = service(settings());
    let open = no_sandbox("there is no interpreter".to_owned());
    without.judge.prepare(open);
    let (failing, without) = (breakable(settings()).0, app(without));
    let (code, completion) = (of_verl(0.0), submission());
    tokio::join!(
        held_and_refused(&failing, RUN_CODE, &code, "no engine"),
        held_and_refused(&failing, SUBMIT, &completion, "no engine"),
        held_and_refused(&without, RUN_CODE, &code, "there is no interpreter"),
        held_and_refused(&without, SUBMIT, &completion, "there is no interpreter"),
    );
    let (_, metrics) = get(&without, "/metrics").await;
    let line = r#"rapid_verifier_client_items_total{client="sandbox-fusion",outcome="withheld"} 2"#;
    assert!(metrics.as_str().unwrap().contains(line), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn under_overload_requests_are_held_until_there_is_room_or_refused() {
    let gate = Gate::shut();
    let mut roomy = settings();
    roomy.limits.body_bytes = 100_000;
    let (service, sandbox) = gated_with(roomy, &gate);
    let app = app(Arc::clone(&service));
    // Two run, and twenty fill the queue.
    let mut others = Vec::new();
    for (from, count, load) in [(100, 2, (0, 2)), (0, 20, (20, 2))] {
        others.push(verifying(&app, &slow(from, count)));
        until(|| service.judge.short.load() == load).await;
    }
    let before = sandbox.runs();
    let (code, completion) = (of_verl(0.0), submission());
    tokio::join!(
        held_and_refused(&app, RUN_CODE, &code, "the queue is full"),
        held_and_refused(&app, SUBMIT, &completion, "the queue is full"),
    );
    assert_eq!(sandbox.runs(), before);
    let held = asking(&app, RUN_CODE, of_verl(10.0));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!held.is_finished());
    gate.open();
    assert_eq!(held.await.unwrap().0, StatusCode::OK);
    for other in others {
        assert_eq!(other.await.unwrap().0, StatusCode::OK);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_waits_in_the_queue_once_for_verdict_and_program() {
    // A cached verdict waits for its program alone.
    for (judged_before, waiting) in [(true, 1), (false, 2)] {
        let gate = Gate::shut();
        let (service, _) = gated(&gate);
        let app = app(Arc::clone(&service));
        if judged_before {
            assert_eq!(ask(&app, SUBMIT, &submission()).await.0, StatusCode::OK);
        }
        let others = verifying(&app, &slow(0, 2));
        until(|| service.judge.short.load() == (0, 2)).await;
        let submitted = asking(&app, SUBMIT, submission());
        until(|| service.judge.short.load().0 == waiting || submitted.is_finished()).await;
        assert!(!submitted.is_finished());
        gate.open();
        let (status, body) = submitted.await.unwrap();
        assert_eq!(status, StatusCode::OK);
        assert_eq!(body["extracted_code"], "right");
        assert_eq!(others.await.unwrap().0, StatusCode::OK);
    }
}
