//! Kimina's requests: snippets that Lean runs.

use std::sync::atomic::AtomicUsize;

use kernel::Axioms;
use sandboxes::Identity;
use sandboxes::lean::{Compiled, Lean, LeanError, Message, Messages, Position, Severity};

use super::*;
use crate::grade::lean::LeanGrader;

const CHECK: &str = "/compat/kimina/api/check";

/// A Lean whose messages about a file are determined by its words.
#[derive(Default)]
struct FakeLean {
    runs: AtomicUsize,
}

impl Lean for FakeLean {
    fn compile_within(&self, _: &str, body: &str, seconds: u64) -> Result<Compiled, LeanError> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let message = |severity, data: &str| Message {
            severity,
            pos: Position { line: 1, column: 0 },
            end: Some(Position { line: 1, column: 6 }),
            data: data.to_owned(),
        };
        let (messages, compiles) = match body {
            "wait" => return Err(LeanError::Timeout(seconds)),
            "loop" => return Err(LeanError::ProcessorTime(seconds)),
            "fill" => return Err(LeanError::Memory(8)),
            "crash" => return Err(LeanError::Crashed("signal 11".to_owned())),
            "lost" => return Err(LeanError::Missing("no such file".to_owned())),
            "exit" => (Vec::new(), false),
            "#check Nat" => (vec![message(Severity::Information, "Nat : Type")], true),
            "wrong" => (vec![message(Severity::Error, "unknown identifier")], false),
            "sorry" => (
                vec![message(Severity::Warning, "declaration uses 'sorry'")],
                true,
            ),
            "talk" => (
                vec![message(Severity::Information, &"a".repeat(2 << 20))],
                true,
            ),
            _ => (Vec::new(), true),
        };
        Ok(Compiled {
            messages: Messages {
                header: Vec::new(),
                body: messages,
            },
            files: compiles.then(Vec::new).into_iter().collect(),
        })
    }
}

/// The grader of a Lean without libraries.
pub(super) fn grader_of(lean: Arc<dyn Lean>) -> LeanGrader {
    let identity = Identity {
        backend: "lean".to_owned(),
        interpreter: String::new(),
        digest: String::new(),
    };
    LeanGrader::new(lean, Axioms::Followed, Vec::new(), Vec::new(), identity)
}

/// A service whose Lean runs in a jail, or not.
fn service_with_lean(jailed: bool) -> (Router, Arc<FakeLean>) {
    let mut settings = settings();
    settings.compat.hold = Duration::from_millis(200);
    let service = service(settings);
    let lean = Arc::new(FakeLean::default());
    let grader = grader_of(Arc::clone(&lean) as Arc<dyn Lean>);
    let grader = if jailed { grader.in_jail() } else { grader };
    service.graders.set_lean(grader);
    (app(service), lean)
}

/// A request of the client for these snippets, each with itself as its id.
fn check(snippets: &[&str]) -> Json {
    let snippet = |code: &&str| json!({ "id": code, "code": code });
    json!({ "snippets": snippets.iter().map(snippet).collect::<Vec<_>>(), "timeout": 30, "debug": false, "reuse": true, "infotree": null })
}

#[tokio::test]
async fn each_snippet_has_leans_messages_or_the_reason_why_there_are_none() {
    let (app, _) = service_with_lean(true);
    let (pos, end) = (
        json!({ "line": 1, "column": 0 }),
        json!({ "line": 1, "column": 6 }),
    );
    let message = |severity: &str, data: &str| json!({ "severity": severity, "pos": pos, "endPos": end, "data": data });
    let said = |severity, data| json!({ "response": { "messages": [message(severity, data)] } });
    let failed = |reason: &str| json!({ "error": reason });
    let sorry = json!({ "response": {
        "messages": [message("warning", "declaration uses 'sorry'")],
        "sorries": [{ "pos": pos, "endPos": end, "goal": "" }]
    } });
    let ended = "Lean ended before it had read the whole snippet";
    let ended = json!({ "severity": "error", "pos": pos, "data": ended });
    let cases = [
        ("#check Nat", said("info", "Nat : Type")),
        ("wrong", said("error", "unknown identifier")),
        ("sorry", sorry),
        ("exit", json!({ "response": { "messages": [ended] } })),
        ("example : 1 = 1 := rfl", json!({ "response": {} })),
        ("wait", failed("Lean timed out after 30 seconds")),
        ("loop", failed("Lean timed out after 30 seconds")),
        ("fill", failed("Lean needed more than 8 MiB of memory")),
        ("crash", failed("Lean gave no answer: signal 11")),
        (
            "talk",
            failed("Lean's messages have 2097152 bytes, more than 1048576"),
        ),
    ];
    let snippets: Vec<&str> = cases.iter().map(|(code, _)| *code).collect();
    let (status, mut answer) = ask(&app, CHECK, &check(&snippets)).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let results = answer["results"].as_array_mut().unwrap();
    assert_eq!(results.len(), cases.len());
    for (result, (code, expected)) in results.iter_mut().zip(cases) {
        let fields = result.as_object_mut().unwrap();
        assert_eq!(fields.remove("id"), Some(json!(code)));
        assert!(fields.remove("time").unwrap().is_number());
        assert_eq!(*result, expected, "{code}");
    }
}

#[tokio::test]
async fn the_older_form_has_its_own_names() {
    let (app, _) = service_with_lean(true);
    let body = json!({ "codes": [{ "custom_id": 7, "proof": "wrong" }, { "custom_id": "b", "code": "loop" }], "timeout": 9, "infotree_type": null, "disable_cache": false });
    let (status, answer) = ask(&app, "/compat/kimina/verify", &body).await;
    assert_eq!(status, StatusCode::OK);
    let results = &answer["results"];
    assert_eq!(results[0]["custom_id"], "7");
    assert_eq!(results[0]["response"]["messages"][0]["severity"], "error");
    assert!(results[0]["response"]["time"].is_number());
    assert_eq!(
        results[1],
        json!({ "custom_id": "b", "error": "Lean timed out after 9 seconds" })
    );
}

#[tokio::test]
async fn a_snippet_is_run_once() {
    let (app, lean) = service_with_lean(true);
    ask(&app, CHECK, &check(&["a", "b"])).await;
    ask(&app, CHECK, &check(&["b", "a"])).await;
    assert_eq!(lean.runs.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn without_a_jail_nothing_is_run() {
    let (app, lean) = service_with_lean(false);
    let health = get(&app, "/compat/kimina/health").await;
    let checked = ask(&app, CHECK, &check(&["a"])).await;
    for (status, problem) in [health, checked] {
        assert_eq!(status, StatusCode::NOT_IMPLEMENTED);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("bubblewrap"), "{detail}");
    }
    assert_eq!(lean.runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_lean_that_does_not_start_gives_503_and_no_results() {
    let (app, _) = service_with_lean(true);
    let healthy = get(&app, "/compat/kimina/health").await;
    assert_eq!(healthy, (StatusCode::OK, json!({ "status": "ok" })));
    let (status, problem) = ask(&app, CHECK, &check(&["a", "lost"])).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(problem.get("results"), None);
    let (app, _) = ready();
    let health = get(&app, "/compat/kimina/health").await;
    let checked = ask(&app, CHECK, &check(&["a"])).await;
    for (status, problem) in [health, checked] {
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(problem["detail"].as_str().unwrap().contains("no Lean"));
    }
}

#[tokio::test]
async fn a_bad_request_is_refused_with_the_place() {
    let (app, _) = service_with_lean(true);
    let table = r#"
whole = {} | snippets | missing
/snippets/1/id = "a" | snippets[1] | two snippets
/snippets/1/id = null | snippets[1].id | not null
/snippets/1/code = null | snippets[1].code | missing
/timeout = -1 | timeout | a whole number
/infotree = "full" | infotree | not supported
"#;
    assert_refused(&app, CHECK, &check(&["a", "b"]), table).await;
}
