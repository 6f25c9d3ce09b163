//! Requests as other projects' clients send them.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use tokio::runtime::Runtime;

use super::queue::{Gate, gated_with, slow};
use super::sandbox_fusion::{RUN_CODE, of_verl};
use super::*;

const OPENRLHF: &str = "/compat/openrlhf/get_reward";
const SLIME: &str = "/compat/slime/rm";
const NEMO_GYM: &str = "/compat/nemo-gym/verify";

/// Settings with `compat_hold`.
fn holding(hold: Duration) -> ServiceSettings {
    let mut settings = settings();
    settings.compat_hold = hold;
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
        "responses_create_params": { "input": [{ "role": "user", "content": "How much?" }] },
        "expected_answer": label,
        "response": { "output": [{ "role": "assistant", "content": [{ "type": "output_text", "text": completion }] }] }
    })
}

#[tokio::test]
async fn verdicts_are_shared_with_the_native_route() {
    let (app, sandbox) = ready();
    let request = changed(&item("a", &doubles(), "right"), r#"/prompt = "How much?""#);
    verify(&app, &json!([request])).await;
    let runs = sandbox.runs();
    for (path, body, pointer) in one_of_each().into_iter().skip(1) {
        let (_, answer) = ask(&app, path, &body).await;
        assert_eq!(answer.pointer(pointer), Some(&json!(1.0)), "{path}");
    }
    assert_eq!(sandbox.runs(), runs);
}

/// A service with a sandbox that fails while `broken` is set.
pub(super) fn breakable(settings: ServiceSettings) -> (Router, Arc<AtomicBool>) {
    let service = service(settings);
    let broken = Arc::new(AtomicBool::new(false));
    let is_broken = Arc::clone(&broken);
    let sandbox = Arc::new(FakeSandbox::new(move |source, calls, _| {
        if is_broken.load(Ordering::SeqCst) {
            return Err(sandboxes::Deferred::Failed("no engine".to_owned()).into());
        }
        Ok(doubled(source, calls))
    }));
    service.judge.prepare(opens(&sandbox));
    broken.store(true, Ordering::SeqCst);
    (app(service), broken)
}

/// A request of each client for one sample of a code task, and the JSON pointer of the reward in its answer.
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
    for (path, body, pointer) in one_of_each() {
        let (status, answer) = ask(&app, path, &body).await;
        let found = (status, answer.pointer(pointer));
        assert_eq!(found, (StatusCode::OK, Some(&json!(1.0))));
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
    let held = [
        asking(&app, SLIME, slime("right", &doubles())),
        asking(&app, RUN_CODE, of_verl(1.0)),
    ];
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(held.iter().all(|held| !held.is_finished()));
    broken.store(false, Ordering::SeqCst);
    for held in held {
        assert_eq!(held.await.unwrap().0, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_task_that_can_never_be_judged_is_refused_at_once() {
    let (app, _) = ready();
    let lean = json!({ "kind": "lean", "header": "", "statement": "theorem t : True := by" });
    let sample = slime("trivial", &lean);
    let refused = tokio::time::timeout(Duration::from_secs(5), ask(&app, SLIME, &sample));
    let (status, _) = refused.await.unwrap();
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn the_failsafe_form_is_masked_and_counted() {
    let mut settings = holding(Duration::from_millis(100));
    settings.nemo_gym_failsafe = true;
    let (app, _) = breakable(settings);
    let row = nemo_gym("right", &doubles());
    let (status, answer) = ask(&app, NEMO_GYM, &row).await;
    assert_eq!(status, StatusCode::OK);
    let names = "reward mask_sample failure_kind _ng_failure_class response";
    let failure = "verifier_error";
    let masked = json!([0.0, true, failure, failure, row["response"]]);
    assert_eq!(fields(&answer, names), masked);
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
    until(|| service.judge.short.load().1 >= 2).await;
    let samples: Vec<String> = (100..110).map(|n| format!("right slow {n}")).collect();
    let samples = samples.iter().map(|text| (text.as_str(), doubles()));
    let samples: Vec<(&str, Json)> = samples.collect();
    let body = openrlhf(&samples);
    let held = asking(&app, OPENRLHF, body);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!held.is_finished());
    gate.open();
    let (status, answer) = held.await.unwrap();
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["rewards"], json!(vec![1.0; 10]));
    judging.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn judging_that_takes_longer_than_the_client_waits_gives_503_and_goes_on() {
    let gate = Gate::shut();
    let (service, sandbox) = gated_with(holding(Duration::from_millis(200)), &gate);
    let app = app(service);
    let before = sandbox.runs();
    let (status, problem) = ask(&app, SLIME, &slime("right slow", &doubles())).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("judging takes longer"), "{detail}");
    gate.open();
    let again = ask(&app, SLIME, &slime("right slow", &doubles())).await;
    assert_eq!(again, (StatusCode::OK, json!(1.0)));
    assert_eq!(sandbox.runs(), before + 1);
}

/// A runtime and a service for arbitrary bodies.
static ANY: LazyLock<(Runtime, Router)> = LazyLock::new(|| (Runtime::new().unwrap(), ready().0));

/// Pieces of JSON that a parser may not expect, separated by spaces. The first is empty.
const PIECES: &str = " null [] {} [[ \" \\ud800 - 1e999 \0 , : {\"kind\":\"code\"} \"a/b\"";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// The fuzz targets (`verifier/fuzz`) look longer.
    #[test]
    fn no_body_makes_a_route_fail(which in 0..6usize, from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(), piece in any::<prop::sample::Index>()) {
        let snippets = json!({ "snippets": [{ "id": "a", "code": "#check Nat" }], "timeout": 30 });
        let responses = json!({ "verify_responses": [{ "reward": 1.0, "_ng_task_index": 0 }] });
        let items = json!({ "items": [item("a", &doubles(), "right")] });
        let others = [
            ("/compat/nemo-gym/aggregate_metrics", responses, ""),
            ("/compat/kimina/api/check", snippets, ""),
            ("/v1/verify", items, ""),
        ];
        let (path, body, _) = &[one_of_each(), others].concat()[which];
        // Labels are also texts: an id, or an answer.
        let body = match which {
            0 => &openrlhf(&[(r"\boxed{2}", json!("sums/1")), ("right", doubles())]),
            2 => &nemo_gym(r"\boxed{2}", &json!("2")),
            _ => body,
        };
        let mut text = body.to_string().into_bytes();
        let (from, to) = (from.index(text.len()), to.index(text.len()));
        let pieces: Vec<&str> = PIECES.split(' ').collect();
        text.splice(from.min(to)..from.max(to), piece.get(&pieces).bytes());
        let (runtime, app) = &*ANY;
        let request = post(path).body(Body::from(text.clone())).unwrap();
        let (status, answer) = runtime.block_on(send(app, request));
        prop_assert!(
            matches!(status.as_u16(), 200 | 400 | 422 | 503),
            "{} {}: {} {}", path, String::from_utf8_lossy(&text), status, answer
        );
    }
}
