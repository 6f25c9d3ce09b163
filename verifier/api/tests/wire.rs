//! Tests of the exact JSON of the wire types, since other people's clients rely on it.

use serde_json::{Value as Json, json};
use verifier_api::{
    CodeTest, Compare, Id, InlineTask, Item, Judgement, Problem, Readiness, TaskRef, Verdict,
    VerifyRequest, VerifyResponse,
};

fn sent(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

fn item(task: TaskRef) -> Item {
    Item {
        id: "a".to_owned(),
        task,
        prompt: "p".to_owned(),
        completion: "c".to_owned(),
        task_digest: None,
        all_tests: false,
    }
}

#[test]
fn a_request_has_the_json_of_the_contract() {
    let request = VerifyRequest {
        items: vec![
            item(TaskRef::Named("mbppplus/2".to_owned())),
            item(TaskRef::Inline(InlineTask::Math {
                answer: "\\frac12".to_owned(),
            })),
            item(TaskRef::Inline(InlineTask::Code {
                entry_point: "f".to_owned(),
                class_name: None,
                tests: vec![CodeTest {
                    args: vec![json!(1), json!({ "$tuple": [2] })],
                    expected: Some(json!(3)),
                }],
                asserts: vec!["assert f(1)==2".to_owned()],
                prefix: None,
                canonical: None,
                imports: Vec::new(),
                atol: 0.0,
                compare: Compare::Equal,
                time_limit: None,
            })),
            item(TaskRef::Inline(InlineTask::Lean {
                header: "import Mathlib".to_owned(),
                statement: "theorem t : 1+1=2 := by".to_owned(),
            })),
        ],
    };
    assert_eq!(
        sent(&request),
        concat!(
            r#"{"items":[{"id":"a","task":"mbppplus/2","prompt":"p","completion":"c"},"#,
            r#"{"id":"a","task":{"kind":"math","answer":"\\frac12"},"prompt":"p","completion":"c"},"#,
            r#"{"id":"a","task":{"kind":"code","entry_point":"f","tests":[{"args":[1,{"$tuple":[2]}],"expected":3}],"asserts":["assert f(1)==2"]},"prompt":"p","completion":"c"},"#,
            r#"{"id":"a","task":{"kind":"lean","header":"import Mathlib","statement":"theorem t : 1+1=2 := by"},"prompt":"p","completion":"c"}]}"#
        )
    );
    let back: VerifyRequest = serde_json::from_str(&sent(&request)).unwrap();
    assert_eq!(back, request);
}

#[test]
fn an_inline_task_has_everything_that_decides_its_verdicts() {
    let test = |expected| CodeTest {
        args: vec![json!(1)],
        expected,
    };
    let whole = item(TaskRef::Inline(InlineTask::Code {
        entry_point: "f".to_owned(),
        class_name: Some("C".to_owned()),
        // `null` is the value `None`, which differs from no value.
        tests: vec![test(None), test(Some(Json::Null))],
        asserts: Vec::new(),
        prefix: Some("def f(n):".to_owned()),
        canonical: Some("def f(n): return n".to_owned()),
        imports: vec!["import math".to_owned()],
        atol: 0.5,
        compare: Compare::NotNone,
        time_limit: Some(2.5),
    }));
    let named = Item {
        task_digest: Some("00".to_owned()),
        ..item(TaskRef::Named("mbppplus/2".to_owned()))
    };
    let request = VerifyRequest {
        items: vec![whole, named],
    };
    assert_eq!(
        sent(&request),
        concat!(
            r#"{"items":[{"id":"a","task":{"kind":"code","entry_point":"f","class_name":"C","tests":[{"args":[1]},{"args":[1],"expected":null}],"#,
            r#""prefix":"def f(n):","canonical":"def f(n): return n","imports":["import math"],"atol":0.5,"compare":"not-none","time_limit":2.5},"prompt":"p","completion":"c"},"#,
            r#"{"id":"a","task":"mbppplus/2","task_digest":"00","prompt":"p","completion":"c"}]}"#
        )
    );
    let back: VerifyRequest = serde_json::from_str(&sent(&request)).unwrap();
    assert_eq!(back, request);
    let other = sent(&request).replace("canonical", "cannonical");
    assert!(serde_json::from_str::<VerifyRequest>(&other).is_err());
}

#[test]
fn a_missing_prompt_is_an_empty_prompt() {
    let text = r#"{"items":[{"id":"a","task":"mbppplus/2","completion":"c"}]}"#;
    let request: VerifyRequest = serde_json::from_str(text).unwrap();
    assert_eq!(request.items[0].prompt, "");
    assert!(sent(&request).contains(r#""prompt":"""#));
}

#[test]
fn every_comparison_has_its_word() {
    for (compare, word) in [
        (Compare::Equal, "equal"),
        (Compare::Set, "set"),
        (Compare::NotNone, "not-none"),
        (Compare::PyramidSurface, "pyramid-surface"),
        (Compare::DigitDistance, "digit-distance"),
        (Compare::Root, "root"),
    ] {
        assert_eq!(serde_json::to_value(compare).unwrap(), json!(word));
    }
}

#[test]
fn a_judgement_has_the_json_of_the_contract() {
    let judgement = Judgement {
        id: Id::Text("a".to_owned()),
        reward: Some(1.0),
        verdict: Verdict::Correct,
        detail: json!({}),
        passed: Some(3),
        total: Some(3),
        retryable: false,
        key: "00".to_owned(),
        cached: true,
        deterministic: true,
        elapsed_ms: 0.4,
    };
    assert_eq!(
        sent(&VerifyResponse {
            results: vec![judgement]
        }),
        r#"{"results":[{"id":"a","reward":1.0,"verdict":"correct","detail":{},"passed":3,"total":3,"retryable":false,"key":"00","cached":true,"deterministic":true,"elapsed_ms":0.4}]}"#
    );
}

#[test]
fn an_unavailable_judgement_has_a_null_reward() {
    let text = r#"{"id":"a","reward":null,"verdict":"unavailable","detail":{"reason":"x"},"retryable":true,"key":"","cached":false,"deterministic":true,"elapsed_ms":0}"#;
    let judgement: Judgement = serde_json::from_str(text).unwrap();
    assert_eq!(
        (
            judgement.reward,
            judgement.verdict,
            judgement.retryable,
            judgement.passed
        ),
        (None, Verdict::Unavailable, true, None)
    );
}

#[test]
fn every_verdict_has_its_word() {
    let words = [
        (Verdict::Correct, "correct"),
        (Verdict::Incorrect, "incorrect"),
        (Verdict::Timeout, "timeout"),
        (Verdict::Memory, "memory"),
        (Verdict::Malformed, "malformed"),
        (Verdict::Unavailable, "unavailable"),
    ];
    for (verdict, word) in words {
        assert_eq!(serde_json::to_value(verdict).unwrap(), json!(word));
    }
}

#[test]
fn a_new_field_of_the_server_does_not_break_this_client() {
    let text = r#"{"ready":true,"graders":[{"name":"math","version":"math-10","state":"ready","news":[1]}],"news":{}}"#;
    let readiness: Readiness = serde_json::from_str(text).unwrap();
    assert!(readiness.ready && !readiness.graders[0].required);
}

#[test]
fn an_incomplete_problem_document_is_parsed() {
    let problem: Problem = serde_json::from_value::<Problem>(json!({ "title": "No" })).unwrap();
    assert_eq!(
        (
            problem.kind.as_str(),
            problem.title.as_str(),
            problem.status
        ),
        ("about:blank", "No", 0)
    );
    let written: Json = serde_json::to_value(problem).unwrap();
    assert!(written.get("type").is_some() && written.get("item").is_none());
}
