//! Tests of the exact JSON of the wire types, since other people's clients rely on it.

use datasets::{Compare, TaskSpec, Value};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use verifier_api::{
    Id, Judgement, Problem, Readiness, TaskRef, Verdict, VerifyRequest, VerifyResponse,
};

/// The value of a text, which is written again without a difference.
fn same<T: Serialize + DeserializeOwned>(text: &str) -> T {
    let value: T = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&value).unwrap(), text);
    value
}

#[test]
fn a_request_has_the_json_of_the_contract() {
    let text = concat!(
        r#"{"items":[{"id":"a","task":"mbppplus/2","task_digest":"00","prompt":"p","completion":"c","all_tests":true},"#,
        r#"{"id":"a","task":{"kind":"math","answer":"\\frac12"},"prompt":"p","completion":"c"},"#,
        r#"{"id":"a","task":{"kind":"code","entry_point":"f","tests":[{"args":[1,{"$tuple":[2]}],"expected":3}],"asserts":["assert f(1)==2"]},"prompt":"p","completion":"c"},"#,
        r#"{"id":"a","task":{"kind":"code","entry_point":"C().f","tests":[{"args":[1]},{"args":[1],"expected":null}],"#,
        r#""prefix":"def f(n):","canonical":"def f(n): return n","imports":["import math"],"atol":0.5,"compare":"not-none","time_limit":2.5},"prompt":"p","completion":"c"},"#,
        r#"{"id":"a","task":{"kind":"program","tests":[{"stdin":"1","stdout":"2"}],"time_limit":1.5},"prompt":"p","completion":"c"},"#,
        r#"{"id":"a","task":{"kind":"lean","header":"import Mathlib","statement":"theorem t : 1+1=2 := by"},"prompt":"p","completion":"c"}]}"#
    );
    let request: VerifyRequest = same(text);
    let TaskRef::Inline(TaskSpec::Code(code)) = &request.items[3].task else {
        panic!("no code")
    };
    // `null` is the value `None`, which differs from no value.
    assert_eq!(
        (&code.tests[0].expected, &code.tests[1].expected),
        (&None, &Some(Value::None))
    );
    let other = text.replace("canonical", "cannonical");
    assert!(serde_json::from_str::<VerifyRequest>(&other).is_err());
    let without_prompt = text.replace(r#","prompt":"p""#, "");
    let request: VerifyRequest = serde_json::from_str(&without_prompt).unwrap();
    assert!(request.items.iter().all(|item| item.prompt.is_empty()));
}

#[test]
fn a_judgement_has_the_json_of_the_contract() {
    let answer: VerifyResponse = same(concat!(
        r#"{"results":[{"id":"a","reward":1.0,"verdict":"correct","detail":{},"passed":3,"total":3,"retryable":false,"key":"00","cached":true,"deterministic":true,"elapsed_ms":0.4},"#,
        r#"{"id":1.50,"reward":null,"verdict":"unavailable","detail":{"reason":"x"},"retryable":true,"key":"","cached":false,"deterministic":true,"elapsed_ms":0.0}]}"#
    ));
    let [Judgement { id, reward, .. }, masked] = &answer.results[..] else {
        panic!("not two")
    };
    assert_eq!((id, *reward), (&Id::Text("a".to_owned()), Some(1.0)));
    assert_eq!(
        (&masked.id, masked.reward),
        (&Id::Number("1.50".into()), None)
    );
}

#[test]
fn every_comparison_and_every_verdict_has_its_word() {
    let comparisons: Vec<Compare> =
        same(r#"["equal","set","not-none","pyramid-surface","digit-distance","root"]"#);
    assert_eq!(comparisons[2], Compare::NotNone);
    let verdicts: Vec<Verdict> =
        same(r#"["correct","incorrect","timeout","memory","malformed","unavailable"]"#);
    assert_eq!(verdicts[4], Verdict::Malformed);
}

#[test]
fn a_new_field_of_the_server_does_not_break_this_client() {
    let text = r#"{"ready":true,"graders":[{"name":"math","version":"math-10","state":"ready","news":[1]}],"news":{}}"#;
    let readiness: Readiness = serde_json::from_str(text).unwrap();
    assert!(readiness.ready && !readiness.graders[0].required);
}

#[test]
fn an_incomplete_problem_document_is_parsed() {
    let problem: Problem = serde_json::from_value(json!({ "title": "No" })).unwrap();
    let written = serde_json::to_value(problem).unwrap();
    let expected = json!({ "type": "about:blank", "title": "No", "status": 0, "detail": "" });
    assert_eq!(written, expected);
}
