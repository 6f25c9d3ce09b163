//! Requests as other projects' clients send them.

use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use tokio::runtime::Runtime;

use super::queue::{Gate, gated_with, slow};
use super::*;

const OPENRLHF: &str = "/compat/openrlhf/get_reward";
const SLIME: &str = "/compat/slime/rm";
const NEMO_GYM: &str = "/compat/nemo-gym/verify";

/// Settings with which a request is held for so long.
fn holding(hold: Duration) -> ServiceSettings {
    let mut settings = settings();
    settings.compat.hold = hold;
    settings.limits.body_bytes = 100_000;
    settings
}

/// OpenRLHF's request for completions, each with its label.
fn openrlhf(samples: &[(&str, Json)]) -> Json {
    let prompt = "<|im_start|>user\nHow much?<|im_end|>\n<|im_start|>assistant\n";
    let query = |(completion, _): &(&str, Json)| format!("{prompt}{completion}<|im_end|>\n");
    json!({
        "query": samples.iter().map(query).collect::<Vec<_>>(),
        "prompts": vec![prompt; samples.len()],
        "labels": samples.iter().map(|(_, label)| label).collect::<Vec<_>>(),
    })
}

fn slime(completion: &str, label: &Json) -> Json {
    json!({ "prompt": [{ "role": "user", "content": "How much?" }], "response": completion, "label": label })
}

/// A row of NeMo Gym with a response of OpenAI's Responses API.
fn nemo_gym(completion: &str, label: &Json) -> Json {
    json!({
        "responses_create_params": { "input": [{ "role": "user", "content": "How much?" }], "temperature": 1.0, "tools": [] },
        "expected_answer": label,
        "_ng_task_index": 3,
        "response": {
            "id": "resp_1", "created_at": 1_764_054_000.25, "model": "m", "object": "response",
            "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
            "output": [
                { "id": "rs_1", "type": "reasoning", "summary": [{ "type": "summary_text", "text": "\\boxed{7}" }] },
                { "id": "fc_1", "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" },
                { "call_id": "c", "type": "function_call_output", "output": "\\boxed{8}" },
                { "id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
                  "content": [{ "type": "output_text", "text": completion, "annotations": [] }] }
            ]
        }
    })
}

#[tokio::test]
async fn openrlhf_gets_a_reward_for_each_completion() {
    let (app, _) = ready();
    let samples = [
        (r"It is \boxed{2}.", json!("2")),
        (r"It is \boxed{3}.", json!("2")),
        (r"\boxed{0.5}", json!(r"\frac12")),
        (r"\boxed{2}", json!("sums/1")),
        ("right", doubles()),
        ("wrong", json!(doubles().to_string())),
        ("", json!(2)),
    ];
    let (status, answer) = ask(&app, OPENRLHF, &openrlhf(&samples)).await;
    let rewards = json!([1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        answer,
        json!({ "rewards": rewards, "scores": rewards, "extra_logs": {} })
    );
}

#[tokio::test]
async fn openrlhf_gets_nothing_for_nothing() {
    let (app, _) = ready();
    let empty = json!({ "rewards": [], "scores": [], "extra_logs": {} });
    assert_eq!(
        ask(&app, OPENRLHF, &openrlhf(&[])).await,
        (StatusCode::OK, empty)
    );
}

#[tokio::test]
async fn slime_gets_a_bare_number() {
    let (app, _) = ready();
    for (completion, label, reward) in [
        (r"\boxed{2}<|im_end|>", json!("2"), 1.0),
        (r"\boxed{3}", json!("2"), 0.0),
        ("right", doubles(), 1.0),
    ] {
        let answer = ask(&app, SLIME, &slime(completion, &label)).await;
        assert_eq!(answer, (StatusCode::OK, json!(reward)), "{completion}");
    }
    let text = json!({ "prompt": "How much?", "response": r"\boxed{2}", "label": 2, "new": null });
    assert_eq!(ask(&app, SLIME, &text).await, (StatusCode::OK, json!(1.0)));
}

#[tokio::test]
async fn nemo_gym_gets_its_row_back_with_a_reward() {
    let (app, _) = ready();
    let seed = json!({ "responses_create_params": {} });
    let seeded = ask(&app, "/compat/nemo-gym/seed_session", &seed).await;
    assert_eq!(seeded, (StatusCode::OK, json!({})));
    for (completion, label, reward) in [
        (r"\boxed{2}", json!("2"), 1.0),
        (r"\boxed{7}", json!("2"), 0.0),
        ("right", json!(doubles().to_string()), 1.0),
    ] {
        let row = nemo_gym(completion, &label);
        let (status, mut answer) = ask(&app, NEMO_GYM, &row).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!(
            answer.as_object_mut().unwrap().remove("reward"),
            Some(json!(reward))
        );
        assert_eq!(answer, row);
    }
}

#[tokio::test]
async fn nemo_gym_needs_no_base_path_and_may_name_its_sessions() {
    let (app, _) = ready();
    let session =
        json!({ "resources_session_id": "s", "episode_id": {}, "task_id": {}, "task_data": {} });
    for base in ["", "/compat/nemo-gym"] {
        for route in ["seed_session", "close_session"] {
            let answer = ask(&app, &format!("{base}/{route}"), &session).await;
            let repeated = json!({ "resources_session_id": "s" });
            assert_eq!(answer, (StatusCode::OK, repeated), "{base}/{route}");
        }
        let row = nemo_gym(r"\boxed{2}", &json!("2"));
        let (_, answer) = ask(&app, &format!("{base}/verify"), &row).await;
        assert_eq!(answer["reward"], 1.0, "{base}");
        let mode = get(&app, &format!("{base}/reverify_mode")).await;
        assert_eq!(mode, (StatusCode::OK, json!("stateless")), "{base}");
    }
}

#[tokio::test]
async fn nemo_gym_gets_a_new_reward_for_a_row_that_was_verified_before() {
    let (app, _) = ready();
    let mut row = nemo_gym(r"\boxed{2}", &json!(null));
    row["verifier_metadata"] = json!({ "expected_answer": "2" });
    row.as_object_mut().unwrap().remove("expected_answer");
    let plain = ask(&app, NEMO_GYM, &row).await.1;
    for (name, value) in [
        ("reward", json!(0.0)),
        ("mask_sample", json!(true)),
        ("failure_kind", json!("judge_failed")),
        ("_ng_failure_class", json!("judge_failed")),
    ] {
        row[name] = value;
    }
    assert_eq!(ask(&app, NEMO_GYM, &row).await, (StatusCode::OK, plain));
}

#[tokio::test]
async fn a_response_without_a_message_is_no_right_answer() {
    let (app, _) = ready();
    let mut row = nemo_gym("", &json!("7"));
    row["response"]["output"].as_array_mut().unwrap().pop();
    let (status, answer) = ask(&app, NEMO_GYM, &row).await;
    assert_eq!((status, &answer["reward"]), (StatusCode::OK, &json!(0.0)));
}

#[tokio::test]
async fn a_body_that_cannot_be_used_is_refused_with_the_place() {
    let (app, _) = ready();
    let many = vec![("1", json!("1")); 21];
    let two = openrlhf(&many[..2]);
    assert_refused(
        &app,
        OPENRLHF,
        &openrlhf(&many),
        "/labels/0 = 1 | query | split them",
    )
    .await;
    let openrlhfs = r#"
whole = [] | (body) | an object
whole = {"query": ["a"]} | labels | missing
/labels = ["1"] | labels | 1 elements
/labels/1 = null | labels[1] | null
/labels/1 = "" | labels[1] | empty
/query/0 = 1 | query[0] | a string
/prompts = [] | prompts | 0 elements
"#;
    let slimes = r#"
/label = null | label | null
/label = "sums/7" | label | no task `sums/7`
whole = {"prompt": "", "response": "1"} | label | missing
whole = {"prompt": "", "label": "1"} | response | missing
/prompt = 1 | prompt | a string or messages
"#;
    let nemo_gyms = r#"
/expected_answer = null | expected_answer | null
/response = 1 | response | an object
/response/output = {} | response.output | an array
/response/output/3/content = 1 | response.output | the last message
/responses_create_params = {"input": 1} | responses_create_params.input | a string or messages
"#;
    assert_refused(&app, OPENRLHF, &two, openrlhfs).await;
    assert_refused(&app, SLIME, &slime("1", &json!("1")), slimes).await;
    assert_refused(&app, NEMO_GYM, &nemo_gym("1", &json!("1")), nemo_gyms).await;
    let aggregate = "/compat/nemo-gym/aggregate_metrics";
    let responses = r#"whole = {"verify_responses": [{}, 1]} | verify_responses[1] | an object"#;
    assert_refused(&app, aggregate, &json!({}), responses).await;
    for path in [OPENRLHF, SLIME, NEMO_GYM] {
        let request = post(path).body(Body::from("{")).unwrap();
        assert_eq!(send(&app, request).await.0, StatusCode::BAD_REQUEST);
        let request = post(path).body(Body::from("x".repeat(20_000))).unwrap();
        assert_eq!(send(&app, request).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    }
}

#[tokio::test]
async fn with_a_token_every_client_needs_it() {
    let service = service(ServiceSettings {
        token: Some(Token::new("secret")),
        ..settings()
    });
    service.prepare(opens(&Arc::new(FakeSandbox::doubling())));
    let app = app(service);
    for (path, body, _) in one_of_each() {
        let (status, _) = ask(&app, path, &body).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
        // The password of anyone:secret.
        let request = post(path).header(header::AUTHORIZATION, "Basic YW55b25lOnNlY3JldA==");
        let request = request.body(Body::from(body.to_string())).unwrap();
        assert_eq!(send(&app, request).await.0, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn verdicts_are_shared_with_the_native_route() {
    let (app, sandbox) = ready();
    let request = item("a", &doubles(), "right");
    let mut request = json!([request]);
    request[0]["prompt"] = json!("How much?");
    verify(&app, &request).await;
    let runs = sandbox.runs.load(Ordering::SeqCst);
    assert_eq!(
        ask(&app, SLIME, &slime("right", &doubles())).await.1,
        json!(1.0)
    );
    assert_eq!(
        ask(&app, NEMO_GYM, &nemo_gym("right", &doubles())).await.1["reward"],
        json!(1.0)
    );
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), runs);
}

/// A service whose sandbox fails while `broken` is set.
fn breakable(settings: ServiceSettings) -> (Router, Arc<AtomicBool>) {
    let service = service(settings);
    let broken = Arc::new(AtomicBool::new(false));
    let is_broken = Arc::clone(&broken);
    let sandbox = Arc::new(FakeSandbox::new(move |source, calls, _| {
        if is_broken.load(Ordering::SeqCst) {
            return Err(sandboxes::Deferred::Failed("no engine".to_owned()).into());
        }
        Ok(doubled(source, calls))
    }));
    service.prepare(opens(&sandbox));
    broken.store(true, Ordering::SeqCst);
    (app(service), broken)
}

/// A request of each client for one sample of a code task, and where the reward is in its answer.
fn one_of_each() -> [(&'static str, Json, &'static str); 3] {
    [
        (OPENRLHF, openrlhf(&[("right", doubles())]), "/rewards/0"),
        (SLIME, slime("right", &doubles()), ""),
        (NEMO_GYM, nemo_gym("right", &doubles()), "/reward"),
    ]
}

#[tokio::test]
async fn an_outage_gives_503_and_no_reward() {
    let (app, broken) = breakable(holding(Duration::from_millis(200)));
    for (path, body, _) in one_of_each() {
        let (status, problem) = ask(&app, path, &body).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("no engine"), "{detail}");
    }
    // One sample that cannot be judged withholds the rewards of its request.
    let two = openrlhf(&[(r"\boxed{1}", json!("1")), ("right", doubles())]);
    let (status, _) = ask(&app, OPENRLHF, &two).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    broken.store(false, Ordering::SeqCst);
    for (path, body, place) in one_of_each() {
        let (status, answer) = ask(&app, path, &body).await;
        assert_eq!(
            (status, answer.pointer(place)),
            (StatusCode::OK, Some(&json!(1.0)))
        );
    }
    let (_, metrics) = get(&app, "/metrics").await;
    for line in [
        r#"rapid_verifier_client_items_total{client="openrlhf",outcome="withheld"} 3"#,
        r#"rapid_verifier_client_items_total{client="openrlhf",outcome="correct"} 1"#,
        r#"rapid_verifier_client_items_total{client="slime",outcome="withheld"} 1"#,
        r#"rapid_verifier_client_items_total{client="nemo-gym",outcome="correct"} 1"#,
    ] {
        let metrics = metrics.as_str().unwrap();
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
}

#[tokio::test]
async fn a_request_is_held_until_an_outage_is_over() {
    let (app, broken) = breakable(settings());
    let repaired = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        broken.store(false, Ordering::SeqCst);
    });
    let answer = ask(&app, SLIME, &slime("right", &doubles())).await;
    assert_eq!(answer, (StatusCode::OK, json!(1.0)));
    repaired.await.unwrap();
}

#[tokio::test]
async fn a_task_that_can_never_be_judged_is_refused_at_once() {
    let (app, _) = ready();
    let lean = json!({ "kind": "lean", "header": "", "statement": "theorem t : True := by" });
    let sample = slime("trivial", &lean);
    let refused = ask(&app, SLIME, &sample);
    let (status, problem) = tokio::time::timeout(Duration::from_secs(5), refused)
        .await
        .unwrap();
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(problem["detail"].as_str().unwrap().contains("no Lean"));
}

#[tokio::test]
async fn the_failsafe_form_is_masked_and_counted() {
    let mut settings = holding(Duration::from_millis(100));
    settings.compat.nemo_gym_failsafe = true;
    let (app, _) = breakable(settings);
    let row = nemo_gym("right", &doubles());
    let (status, answer) = ask(&app, NEMO_GYM, &row).await;
    assert_eq!(status, StatusCode::OK);
    for (name, value) in [
        ("reward", json!(0.0)),
        ("mask_sample", json!(true)),
        ("failure_kind", json!("verifier_error")),
        ("_ng_failure_class", json!("verifier_error")),
        ("response", row["response"].clone()),
    ] {
        assert_eq!(answer[name], value, "{name}");
    }
    let reason = answer["failure_reason"].as_str().unwrap();
    assert!(reason.contains("no engine"), "{reason}");
    let (_, metrics) = get(&app, "/metrics").await;
    let line = r#"rapid_verifier_client_items_total{client="nemo-gym",outcome="failsafe"} 1"#;
    assert!(metrics.as_str().unwrap().contains(line));
    // Only NeMo Gym knows this form.
    let (status, _) = ask(&app, SLIME, &slime("right", &doubles())).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_gives_503_and_a_request_is_held_until_it_has_room() {
    let gate = Gate::shut();
    let (service, _) = gated_with(holding(Duration::from_secs(30)), &gate);
    let app = app(Arc::clone(&service));
    let judging = verifying(&app, &slow(0, 18));
    until(|| service.first_pass_pool.load().1 >= 2).await;
    let samples: Vec<String> = (100..110).map(|n| format!("right slow {n}")).collect();
    let samples = samples.iter().map(|text| (text.as_str(), doubles()));
    let samples: Vec<(&str, Json)> = samples.collect();
    let body = openrlhf(&samples);
    let held = asking(&app, OPENRLHF, body);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!held.is_finished());
    gate.open();
    let (status, answer) = held.await.unwrap();
    assert_eq!(
        (status, &answer["rewards"]),
        (StatusCode::OK, &json!(vec![1.0; 10]))
    );
    judging.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn judging_that_takes_longer_than_the_client_waits_gives_503_and_goes_on() {
    let gate = Gate::shut();
    let (service, sandbox) = gated_with(holding(Duration::from_millis(200)), &gate);
    let app = app(service);
    let before = sandbox.runs.load(Ordering::SeqCst);
    let (status, problem) = ask(&app, SLIME, &slime("right slow", &doubles())).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("judging takes longer"), "{detail}");
    gate.open();
    let again = ask(&app, SLIME, &slime("right slow", &doubles())).await;
    assert_eq!(again, (StatusCode::OK, json!(1.0)));
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), before + 1);
}

#[tokio::test]
async fn aggregated_metrics_have_nemo_gyms_names() {
    let (app, _) = ready();
    let responses = json!({ "verify_responses": [
        { "_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0 },
        { "_ng_task_index": 0, "_ng_rollout_index": 1, "reward": 0.0 },
    ] });
    let (status, answer) = ask(&app, "/compat/nemo-gym/aggregate_metrics", &responses).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["key_metrics"], json!({ "mean/reward": 0.5 }));
    assert_eq!(answer["group_level_metrics"][0]["_ng_task_index"], 0);
}

/// A runtime and a service for bodies that are no client's.
static ANY: LazyLock<(Runtime, Router)> = LazyLock::new(|| (Runtime::new().unwrap(), ready().0));

/// Pieces of JSON that a parser may not expect.
const PIECES: [&str; 14] = [
    "",
    "null",
    "[]",
    "{}",
    "[[",
    "\"",
    "\\ud800",
    "-",
    "1e999",
    "\u{0}",
    ",",
    ":",
    "{\"kind\":\"code\"}",
    "\"a/b\"",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// The fuzz targets (`verifier/fuzz`) look longer.
    #[test]
    fn no_body_makes_a_route_fail(which in 0..6usize, from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(), piece in 0..PIECES.len()) {
        let snippets = json!({ "snippets": [{ "id": "a", "code": "#check Nat" }], "timeout": 30 });
        let responses = json!({ "verify_responses": [{ "reward": 1.0, "_ng_task_index": 0 }] });
        let (path, body) = [
            (OPENRLHF, openrlhf(&[(r"\boxed{2}", json!("sums/1")), ("right", doubles())])),
            (SLIME, slime("right", &doubles())),
            (NEMO_GYM, nemo_gym(r"\boxed{2}", &json!("2"))),
            ("/compat/nemo-gym/aggregate_metrics", responses),
            ("/compat/kimina/api/check", snippets),
            ("/v1/verify", json!({ "items": [item("a", &doubles(), "right")] })),
        ][which].clone();
        let text = body.to_string().into_bytes();
        let (from, to) = (from.index(text.len()), to.index(text.len()));
        let mut changed = text[..from.min(to)].to_vec();
        changed.extend_from_slice(PIECES[piece].as_bytes());
        changed.extend_from_slice(&text[from.max(to)..]);
        let (runtime, app) = &*ANY;
        let request = post(path).body(Body::from(changed.clone())).unwrap();
        let (status, answer, _) = runtime.block_on(send(app, request));
        prop_assert!(
            matches!(status.as_u16(), 200 | 400 | 422 | 503),
            "{} {}: {} {}", path, String::from_utf8_lossy(&changed), status, answer
        );
    }
}
