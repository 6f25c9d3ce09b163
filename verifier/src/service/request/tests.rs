use datasets::{CodeTask, CodeTest, Value};
use serde_json::json;

use super::*;
use crate::registry::questions;

const LIMITS: RequestLimits = RequestLimits {
    body_bytes: 1 << 20,
    items: 3,
    queue: 10,
};

/// The item of a request with this one item, or the problem.
fn only(item: &str, registry: &Registry) -> Result<JudgeItem, String> {
    let body = format!(r#"{{"items": [{item}]}}"#);
    let mut items = read(body.as_bytes(), registry, &LIMITS).unwrap();
    items
        .remove(0)
        .map_err(|bad| bad.problem.problem().detail.clone())
}

/// The item with this task and more fields.
fn with_task(task: &str, more: &str) -> JudgeItem {
    let item = format!(r#"{{"id": "", "task": {task}, "completion": ""{more}}}"#);
    only(&item, &Registry::default()).unwrap()
}

fn code_of(item: &JudgeItem) -> &CodeTask {
    match &item.task.spec {
        TaskSpec::Code(code) => code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_inline_code_task_may_have_every_field() {
    let mut whole = json!({
        "kind": "code", "entry_point": "f", "tests": [{"args": [1]}, {"args": [2], "expected": null}], "asserts": ["assert f(1)"],
        "prefix": "def f(n):\n", "canonical": "def f(n):\n    return n\n", "imports": ["import math"], "atol": 1.0, "compare": "not-none",
        "class_name": "Solution", "time_limit": 2.5
    });
    let item = with_task(&whole.to_string(), "");
    assert!(item.task.inline);
    let fields = whole.as_object_mut().unwrap();
    fields.remove("class_name");
    fields["entry_point"] = json!("Solution().f");
    assert_eq!(json!(item.task.spec), whole);
}

#[test]
fn optional_fields_may_be_absent_or_null() {
    let math = r#"{"kind": "math", "answer": "1"}"#;
    let nulls = r#", "prompt": null, "task_digest": null, "all_tests": null"#;
    let plain = with_task(math, "");
    assert_eq!(with_task(math, nulls), plain);
    assert_eq!(with_task(math, r#", "prompt": """#), plain);
    let code = |more: &str| {
        let task = r#"{"kind": "code", "entry_point": "f", "asserts": ["x"]"#;
        with_task(&format!("{task}{more}}}"), "")
    };
    let nulls = r#", "tests": null, "prefix": null, "canonical": null, "imports": null, "atol": null, "compare": null, "class_name": null, "time_limit": null"#;
    assert_eq!(code(nulls), code(""));
    let expected = CodeTask {
        entry_point: "f".to_owned(),
        asserts: vec!["x".to_owned()],
        ..CodeTask::default()
    };
    assert_eq!(code_of(&code("")), &expected);
}

#[test]
fn the_values_of_tests_are_parsed_without_loss_and_not_too_deeply() {
    let task = |args: &str| {
        let expected = r#"{"z": [{"y": 1.0, "x": 1}]}"#;
        format!(
            r#"{{"kind": "code", "entry_point": "f", "tests": [{{"args": [{args}], "expected": {expected}}}]}}"#
        )
    };
    let args = r#"{"b": 1, "a": 123456789012345678901234567890}, -9223372036854775809"#;
    let item = with_task(&task(args), "");
    let CodeTest { args, expected } = &code_of(&item).tests[0];
    let values: Vec<String> = args.iter().chain(expected).map(Value::to_python).collect();
    assert_eq!(
        values,
        [
            "{'b': 1, 'a': 123456789012345678901234567890}",
            "-9223372036854775809",
            "{'z': [{'y': 1.0, 'x': 1}]}"
        ]
    );
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let item = format!(
        r#"{{"id": "", "task": {}, "completion": ""}}"#,
        task(&nested)
    );
    let problem = only(&item, &Registry::default()).unwrap_err();
    assert!(problem.contains("`task.tests[0].args[0]`"), "{problem}");
}

#[test]
fn a_task_has_to_have_the_digest_that_the_client_sends() {
    let sums = questions("sums", &[(1, "1 + 1?", "2")]);
    let digest = sums.train[0].spec.digest().to_string();
    let mut registry = Registry::default();
    registry.add(sums);
    for (sent, same) in [
        (digest.as_str(), true),
        ("", false),
        (&digest[1..], false),
        (&"0".repeat(64), false),
    ] {
        let item = json!({"id": "", "task": "sums/1", "task_digest": sent, "completion": ""});
        let read = only(&item.to_string(), &registry);
        assert_eq!(read.is_ok(), same, "{sent}: {read:?}");
    }
}
