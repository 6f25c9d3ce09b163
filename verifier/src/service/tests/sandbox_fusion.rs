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

#[tokio::test]
async fn a_program_is_run_and_what_it_writes_is_returned() {
    let (app, _) = running(|source, stdin, limits| {
        assert_eq!(limits.memory, 1 << 30);
        assert!(limits.fuel <= 6_000_000_000, "3 s");
        Ok(exited(
            i32::from(source.contains("fail")),
            &stdin[0].to_uppercase(),
        ))
    });
    let (status, body) = ask(&app, RUN_CODE, &of_verl("x", &json!("abc"), 3.0)).await;
    assert_eq!(status, StatusCode::OK);
    let ends = fields(&body, "status message compile_result");
    assert_eq!(ends, json!(["Success", "", null]));
    let run = &body["run_result"];
    let ends = fields(run, "status return_code stdout stderr");
    assert_eq!(ends, json!(["Finished", 0, "ABC", ""]));
    assert!(run["execution_time"].is_number());

    let (status, body) = ask(&app, RUN_CODE, &of_verl("fail", &Json::Null, 3.0)).await;
    assert_eq!(
        (status, &body["status"]),
        (StatusCode::OK, &json!("Failed"))
    );
    let run = &body["run_result"];
    assert_eq!(fields(run, "status return_code"), json!(["Finished", 1]));
    assert!(run["stderr"].as_str().unwrap().contains("ValueError"));
}

#[tokio::test]
async fn a_program_that_is_stopped_failed() {
    use sandboxes::End;
    for (end, run_status, return_code) in [
        (End::OutOfFuel, "TimeLimitExceeded", Json::Null),
        (End::OutOfTime, "TimeLimitExceeded", Json::Null),
        (End::OutOfMemory, "Finished", json!(137)),
        (End::TooMuchOutput, "Finished", json!(1)),
        (End::Died("abort".to_owned()), "Finished", json!(134)),
    ] {
        let (app, _) = running(move |_, _, _| Ok(ended(Vec::new(), end.clone())));
        let (status, body) = ask(&app, RUN_CODE, &of_verl("x", &json!(""), 10.0)).await;
        assert_eq!(
            (status, &body["status"]),
            (StatusCode::OK, &json!("Failed"))
        );
        let ends = fields(&body["run_result"], "status return_code");
        assert_eq!(ends, json!([run_status, return_code]));
    }
}

#[tokio::test]
async fn what_does_not_run_here_is_refused_with_the_remedy() {
    let (app, sandbox) = running(|_, _, _| Ok(exited(0, "")));
    let before = sandbox.runs.load(Ordering::SeqCst);
    let good = of_verl("x", &json!(""), 1.0);
    let table = r#"
/language = "cpp" | language | SandboxFusion's own
/files = {"a.txt": "aGk="} | files | no files
/fetch_files = ["a.txt"] | fetch_files | no files
/args = ["-v"] | args | no arguments
/run_timeout = -1 | run_timeout | at most
/compile_timeout = 1e9 | compile_timeout | at most
"#;
    assert_refused(&app, RUN_CODE, &good, table).await;
    for wrong in [
        r#"{"language": "python"}"#,
        "[]",
        r#"{"code": 1, "language": "python"}"#,
    ] {
        let body = changed(&good, &format!("whole = {wrong}"));
        let (got, problem) = ask(&app, RUN_CODE, &body).await;
        assert_eq!(got, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    }
    let (got, _, _) = send(&app, post(RUN_CODE).body(Body::from("{")).unwrap()).await;
    assert_eq!(got, StatusCode::BAD_REQUEST);
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), before);
    let (status, _) = get(&app, RUN_CODE).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn the_routes_require_the_token() {
    let service = service(ServiceSettings {
        token: Some(Token::new("secret")),
        ..settings()
    });
    let app = app(service);
    for path in [RUN_CODE, SUBMIT] {
        let (status, _) = ask(&app, path, &json!({})).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
    }
    let (status, _) = get(&app, "/compat/sandbox-fusion/v1/ping").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let ping = Request::get("/compat/sandbox-fusion/v1/ping")
        .header(header::AUTHORIZATION, "Bearer secret")
        .body(Body::empty());
    let (status, body, _) = send(&app, ping.unwrap()).await;
    assert_eq!((status, body), (StatusCode::OK, json!("pong")));
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

#[tokio::test]
async fn a_submission_is_judged_as_by_verify() {
    let (app, _) = ready();
    let (status, body) = ask(&app, SUBMIT, &submission("right")).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!((&body["id"], &body["accepted"]), (&json!(1), &json!(true)));
    assert_eq!(body["extracted_code"], json!("right"));
    assert_eq!(body["tests"].as_array().unwrap().len(), 2);
    assert_eq!(body["tests"][1]["passed"], json!(true));
    assert_eq!(body["extra"]["verdict"], json!("correct"));

    let (_, body) = ask(&app, SUBMIT, &submission("wrong")).await;
    assert_eq!(body["accepted"], json!(false));
    let tests = body["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 1);
    assert_eq!(tests[0]["exec_info"]["status"], json!("Failed"));
    assert_eq!(tests[0]["test_info"]["expected"], json!("2"));

    // A task of the service, by the number or by the whole id.
    for id in [json!(1), json!("1"), json!("sums/1"), json!("Sums/1")] {
        let body = json!({ "dataset": "sums", "id": id, "completion": r"\boxed{2}", "config": {} });
        let (status, body) = ask(&app, SUBMIT, &body).await;
        assert_eq!(
            (status, &body["accepted"]),
            (StatusCode::OK, &json!(true)),
            "{body}"
        );
        assert_eq!((&body["id"], &body["extracted_code"]), (&id, &json!("2")));
    }
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

#[tokio::test]
async fn a_submission_that_cannot_be_judged_is_refused_with_the_remedy() {
    let (app, _) = ready();
    let good = json!({ "dataset": "sums", "id": 1, "completion": "x", "config": {} });
    let table = r#"
/id = 9 | id | no task `sums/9`
/dataset = "sum" | id | Did you mean `sums/…`?
/id = null | id | a string or a number
/config/language = "cpp" | config.language | only `python`
/config/custom_extract_logic = "x" | config.custom_extract_logic | leave it out
/config/provided_data = {} | config.provided_data | `kind`
/config/provided_data = [] | config.provided_data | `kind`
/config/provided_data = {"test": []} | config.provided_data | at least one
/config/provided_data = {"test": " [] "} | config.provided_data | at least one
/config/provided_data = {"test": "[{\"input\": {}}]"} | config.provided_data | a text with it in JSON
/config/provided_data = {"kind": "math"} | config.provided_data.answer | missing
/config/provided_data = {"test": [{"input": {"stdin": "", "a.txt": ""}, "output": {"stdout": ""}}]} | config.provided_data | `kind`
"#;
    assert_refused(&app, SUBMIT, &good, table).await;
}

#[tokio::test]
async fn stdin_tests_and_humanevals_form_are_tasks() {
    let (app, sandbox) = running(|source, calls, _| {
        if calls[0] == "21\n" {
            return Ok(exited(0, "42\n"));
        }
        Ok(doubled(source, calls))
    });
    let submission = |data: Json| json!({ "dataset": "x", "id": "a", "completion": "right", "config": { "provided_data": data } });
    let tests = json!([{ "input": { "stdin": "21\n" }, "output": { "stdout": "42" } }]);
    let text = tests.to_string();
    for test in [
        tests,
        json!(text),
        json!(format!("\u{feff}\r\n {text}\n")),
        json!(text.replace("[{", r#"[{"more": "\ud800", "#)),
    ] {
        let stdio = json!({ "test": test, "prompt": "", "entry_point": null });
        let (status, body) = ask(&app, SUBMIT, &submission(stdio)).await;
        let found = (status, &body["accepted"]);
        assert_eq!(found, (StatusCode::OK, &json!(true)), "{test}: {body}");
    }
    let humaneval = json!({ "prompt": "import math\n\ndef f(n):\n", "entry_point": "f",
                            "test": "def check(candidate):\n    assert candidate(1) == 2\n" });
    let runs = sandbox.runs.load(Ordering::SeqCst);
    let (status, body) = ask(&app, SUBMIT, &submission(humaneval)).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert!(
        body["extracted_code"]
            .as_str()
            .unwrap()
            .starts_with("import math")
    );
    assert!(sandbox.runs.load(Ordering::SeqCst) > runs);
}
