//! SandboxFusion's routes. A request that the service cannot answer is held and then refused; it never gets a result that no run had.

use std::time::{Duration, Instant};

use super::queue::{Gate, gated, gated_with, slow};
use super::*;
use crate::fake_sandbox::exited;

const RUN_CODE: &str = "/compat/sandbox-fusion/run_code";
const SUBMIT: &str = "/compat/sandbox-fusion/submit";

/// verl's request.
fn of_verl(code: &str, stdin: &Json, timeout: f64) -> Json {
    json!({ "compile_timeout": timeout, "run_timeout": timeout, "code": code, "stdin": stdin, "memory_limit_MB": 1024,
            "language": "python", "files": {}, "fetch_files": [] })
}

/// A prepared service whose programs run as `run` says.
fn running(
    run: impl Fn(&str, &[String], &Limits) -> Result<sandboxes::Run, sandboxes::SandboxError>
    + Send
    + Sync
    + 'static,
) -> (Router, Arc<FakeSandbox>) {
    let service = service(settings());
    let sandbox = Arc::new(FakeSandbox::new(move |source, calls, limits| {
        // The service tries itself first.
        if source.contains("def double") || source.starts_with("\"\"\"Finds the tests") {
            return Ok(doubled(source, calls));
        }
        run(source, calls, limits)
    }));
    service.prepare(opens(&sandbox));
    (app(service), sandbox)
}

/// Sends a request that nobody can answer, and checks that it is held and then refused.
async fn held_and_refused(app: &Router, path: &str, body: &Json, says: &str) {
    let started = Instant::now();
    let (status, problem) = ask(app, path, body).await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT, "{problem}");
    assert!(
        problem["detail"].as_str().unwrap().contains(says),
        "{problem}"
    );
    // Both timeouts and ten seconds, less two.
    let held = started.elapsed();
    assert!(
        (Duration::from_secs(8)..Duration::from_secs(10)).contains(&held),
        "{held:?}"
    );
}

fn submission(completion: &str) -> Json {
    json!({ "dataset": "any", "id": 1, "completion": completion,
            "config": { "compile_timeout": 0, "run_timeout": 0, "provided_data": doubles() } })
}

#[tokio::test]
async fn while_the_sandbox_fails_requests_are_held_and_then_refused() {
    let failing = || {
        running(|_, _, _| Err(sandboxes::Deferred::Failed("the engine is gone".to_owned()).into()))
            .0
    };
    let (run, submit) = (failing(), failing());
    let (code, completion) = (of_verl("x", &json!(""), 0.0), submission("right"));
    tokio::join!(
        held_and_refused(&run, RUN_CODE, &code, "the engine is gone"),
        held_and_refused(&submit, SUBMIT, &completion, "the engine is gone"),
    );
}

#[tokio::test]
async fn without_a_sandbox_requests_are_held_and_then_refused() {
    let service = service(settings());
    service.prepare(no_sandbox("there is no interpreter".to_owned()));
    let app = app(service);
    let (code, completion) = (of_verl("x", &json!(""), 0.0), submission("right"));
    tokio::join!(
        held_and_refused(&app, RUN_CODE, &code, "there is no interpreter"),
        held_and_refused(&app, SUBMIT, &completion, "there is no interpreter"),
    );
    let (_, metrics) = get(&app, "/metrics").await;
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
        let app = app.clone();
        others.push(tokio::spawn(async move {
            verify(&app, &slow(from, count)).await.0
        }));
        until(|| service.first_pass_pool.load() == load).await;
    }
    let before = sandbox.runs.load(Ordering::SeqCst);
    let (code, completion) = (of_verl("x", &json!(""), 0.0), submission("right"));
    tokio::join!(
        held_and_refused(&app, RUN_CODE, &code, "the queue is full"),
        held_and_refused(&app, SUBMIT, &completion, "the queue is full"),
    );
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), before);
    let held = tokio::spawn({
        let app = app.clone();
        async move { ask(&app, RUN_CODE, &of_verl("x", &json!(""), 10.0)).await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!held.is_finished());
    gate.open();
    assert_eq!(held.await.unwrap().0, StatusCode::OK);
    for other in others {
        assert_eq!(other.await.unwrap(), StatusCode::OK);
    }
}

#[tokio::test]
async fn a_sandbox_that_recovers_answers_the_held_request() {
    let started = Instant::now();
    let (app, _) = running(move |_, _, _| {
        if started.elapsed() < Duration::from_secs(1) {
            return Err(sandboxes::Deferred::Failed("the engine restarts".to_owned()).into());
        }
        Ok(exited(0, "42"))
    });
    let (status, body) = ask(&app, RUN_CODE, &of_verl("x", &json!(""), 1.0)).await;
    assert_eq!(
        (status, &body["run_result"]["stdout"]),
        (StatusCode::OK, &json!("42"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_waits_in_the_queue_for_its_verdict_and_its_program_at_once() {
    // A cached verdict waits for its program alone.
    for (judged_before, places) in [(true, 1), (false, 2)] {
        let gate = Gate::shut();
        let (service, _) = gated(&gate);
        let app = app(Arc::clone(&service));
        let submit = || {
            let app = app.clone();
            tokio::spawn(async move { ask(&app, SUBMIT, &submission("right")).await })
        };
        if judged_before {
            assert_eq!(submit().await.unwrap().0, StatusCode::OK);
        }
        let others = verifying(&app, &slow(0, 2));
        until(|| service.first_pass_pool.load() == (0, 2)).await;
        let submitted = submit();
        while service.first_pass_pool.load().0 < places {
            assert!(!submitted.is_finished());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        gate.open();
        let (status, body) = submitted.await.unwrap();
        assert_eq!(
            (status, &body["extracted_code"]),
            (StatusCode::OK, &json!("right"))
        );
        assert_eq!(others.await.unwrap().0, StatusCode::OK);
    }
}
