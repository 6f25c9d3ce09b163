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

#[test]
fn a_value_that_nests_too_deeply_is_refused() {
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let tests = format!(r#"[{{"args": [{nested}], "expected": 1}}]"#);
    let task = format!(r#"{{"kind": "code", "entry_point": "f", "tests": {tests}}}"#);
    let item = format!(r#"{{"id": "", "task": {task}, "completion": ""}}"#);
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
