//! Inline tasks with all fields that a data set's record may have.

use super::*;

fn humaneval() -> Json {
    json!({
        "kind": "code", "entry_point": "f", "prefix": "def f(n):\n", "canonical": "def f(n):\n    return n + n\n", "imports": ["import math"],
        "tests": [{ "args": [1] }, { "args": [3] }], "asserts": ["assert f(2) == 4"]
    })
}

#[tokio::test]
async fn a_completion_continues_the_prefix_and_is_compared_with_the_canonical_solution() {
    let (app, _) = ready();
    let items = json!([
        item("a", &humaneval(), "    return 2 * n\n"),
        item("b", &humaneval(), "    return n * n\n"),
        item("c", &humaneval(), ""),
    ]);
    let (status, body) = verify(&app, &items).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(
        results(&body, "verdict passed total"),
        json!([
            ["correct", 3, 3],
            ["incorrect", 0, 3],
            ["malformed", null, null],
        ])
    );
    let (_, again) = verify(&app, &items).await;
    assert_eq!(again["results"][0]["cached"], true);
}

#[tokio::test]
async fn every_field_of_a_task_is_part_of_the_key() {
    let (app, _) = ready();
    let mut items = vec![item("a", &humaneval(), "    return 2 * n\n")];
    for (field, other) in [
        ("prefix", json!("def f(m):\n")),
        ("canonical", json!("def f(n):\n    return 2 * n\n")),
        ("imports", json!([])),
        ("atol", json!(0.5)),
        ("compare", json!("set")),
        ("time_limit", json!(1)),
        ("tests", json!([{ "args": [1], "expected": 2 }])),
    ] {
        let mut task = humaneval();
        task[field] = other;
        items.push(item("a", &task, "    return 2 * n\n"));
    }
    let count = items.len();
    let (status, body) = verify(&app, &json!(items)).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(distinct_keys(&body), count);
}

#[tokio::test]
async fn a_canonical_solution_without_values_makes_completions_unavailable() {
    let service = service(settings());
    let sandbox = Arc::new(FakeSandbox::new(|source, calls, _| {
        if source.contains("broken") {
            let unloadable = sandboxes::End::Unloadable {
                kind: "SyntaxError".to_owned(),
                message: "line 1".to_owned(),
            };
            return Ok(ended(Vec::new(), unloadable));
        }
        Ok(doubled(source, calls))
    }));
    service.prepare(opens(&sandbox));
    let app = app(service);
    let mut task = humaneval();
    task["canonical"] = json!("broken");
    let (_, body) = verify(&app, &json!([item("a", &task, "    return 2 * n\n")])).await;
    let result = &body["results"][0];
    let verdict = fields(result, "verdict reward retryable");
    assert_eq!(verdict, json!(["unavailable", null, false]));
    let reason = result["detail"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("canonical solution") && reason.contains("SyntaxError"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_task_id_with_another_digest_is_refused_and_named() {
    let (app, _) = ready();
    let meant = |answer: &str| {
        let spec = TaskSpec::Math(MathTask {
            answer: answer.to_owned(),
        });
        let mut item = item("a", &json!("sums/1"), r"\boxed{2}");
        item["task_digest"] = json!(spec.digest().to_string());
        item
    };
    let (status, body) = verify(&app, &json!([meant("2")])).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(results(&body, "verdict"), json!([["correct"]]));
    let (_, problem) = verify(&app, &json!([meant("2"), meant("3")])).await;
    let place = fields(&problem, "status item field");
    assert_eq!(place, json!([422, 1, "task_digest"]));
}
