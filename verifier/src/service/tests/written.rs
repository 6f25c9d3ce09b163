//! Requests in the forms that other clients send.

use axum::extract::FromRequestParts as _;
use axum::response::IntoResponse as _;

use super::*;

/// The response to a body with this content coding: its status, its text, and its Accept-Encoding header.
async fn answer(
    app: &Router,
    body: Vec<u8>,
    coding: Option<&str>,
) -> (StatusCode, String, Option<String>) {
    let mut request = post("/v1/verify").header(header::CONTENT_LENGTH, body.len());
    if let Some(coding) = coding {
        request = request.header(header::CONTENT_ENCODING, coding);
    }
    let request = request.body(Body::from(body)).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let accepts = response.headers().get(header::ACCEPT_ENCODING);
    let accepts = accepts.map(|value| value.to_str().unwrap().to_owned());
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap(), accepts)
}

#[tokio::test]
async fn numeric_ids_are_repeated_as_written_and_a_prompt_may_be_absent() {
    let (app, _) = ready();
    let body = r#"{"items": [
        {"id": 1, "task": {"kind": "math", "answer": 2}, "completion": "\\boxed{2}"},
        {"id": 12345678901234567890.50, "task": {"kind": "math", "answer": 0.50}, "completion": "\\boxed{\\frac12}"},
        {"id": "1", "task": {"kind": "math", "answer": "2"}, "prompt": "", "completion": "\\boxed{2}"}
    ]}"#;
    let (status, text, _) = answer(&app, body.as_bytes().to_vec(), None).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    for id in [
        r#"{"id":1,"reward":1.0"#,
        r#"{"id":12345678901234567890.50,"reward":1.0"#,
        r#"{"id":"1","reward":1.0"#,
    ] {
        assert!(text.contains(id), "{id} in {text}");
    }
    let results: Json = serde_json::from_str(&text).unwrap();
    // An absent prompt is an empty one.
    assert_eq!(results["results"][0]["key"], results["results"][2]["key"]);
}

#[tokio::test]
async fn the_limit_applies_to_the_unpacked_size() {
    let (app, _) = ready();
    let limit = settings().limits.body_bytes;
    let packed_body = |length: usize| {
        let start = r#"{"items": []"#;
        gzip(format!("{start}{}}}", " ".repeat(length - start.len() - 1)).as_bytes())
    };
    let (status, text, _) = answer(&app, packed_body(limit), Some("gzip")).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let (status, text, _) = answer(&app, packed_body(limit + 1), Some("gzip")).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{text}");
    let bomb = gzip(&vec![b' '; 8 << 20]);
    assert!(bomb.len() < limit);
    let (status, text, _) = answer(&app, bomb, Some("gzip")).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{text}");
    assert!(text.contains("/problems/too-large"), "{text}");
    // The packed size is limited too, even if the body unpacks to nothing.
    let many = gzip(b"").repeat(limit / 20 + 1);
    let (status, _, _) = answer(&app, many, Some("gzip")).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_body_with_too_many_values_is_refused_with_the_limit() {
    let mut settings = settings();
    settings.limits.body_bytes = 64 << 20;
    let app = app(service(settings));
    let zeros = "0,".repeat(body_memory::MAX_VALUES);
    let task = format!(
        r#"{{"kind": "code", "entry_point": "f", "tests": [{{"args": [[{zeros}0]], "expected": 0}}]}}"#
    );
    let body = format!(r#"{{"items": [{{"id": 1, "task": {task}, "completion": ""}}]}}"#);
    let (status, text, _) = answer(&app, body.into_bytes(), None).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{text}");
    assert!(text.contains("/problems/too-many-values"), "{text}");
    assert!(text.contains("more than 4194304 numbers"), "{text}");
}

#[tokio::test]
async fn the_values_of_a_body_count_until_its_response() {
    let service = service(settings());
    let zeros = format!("[0{}]", ",0".repeat(999));
    let mut hold = hold::Hold::at_most(Duration::ZERO);
    let (mut parts, ()) = Request::new(()).into_parts();
    let Ok(sender) = sender::Sender::from_request_parts(&mut parts, &service).await;
    let received = body::receive(&sender, Body::from(zeros), &mut hold);
    let received = received.await.unwrap();
    received.parse(|_, _| Ok(())).await.unwrap();
    // Of 40,000 bytes, 2,000 are the text's and 50,000 the values'.
    assert!(service.body_memory.acquire(0).is_err());
    drop(sender);
    assert!(service.body_memory.acquire(30_000).is_ok());
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_given_up() {
    let service = service(settings());
    let pieces = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let (mut parts, ()) = Request::new(()).into_parts();
    let Ok(sender) = sender::Sender::from_request_parts(&mut parts, &service).await;
    let mut hold = hold::Hold::at_most(Duration::ZERO);
    let lag = Duration::from_millis(10);
    let body = Body::from_stream(pieces);
    let Err(problem) = body::receive_within(&sender, body, &mut hold, lag).await else {
        panic!("it arrived");
    };
    assert_eq!(
        problem.into_response().status(),
        StatusCode::REQUEST_TIMEOUT
    );
}

#[tokio::test]
async fn a_body_that_cannot_be_unpacked_is_refused() {
    let (app, _) = ready();
    let packed = gzip(br#"{"items": []}"#);
    let cut = packed[..packed.len() - 4].to_vec();
    for body in [br#"{"items": []}"#.to_vec(), cut] {
        let (status, text, _) = answer(&app, body, Some("gzip")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
        assert!(text.contains("/problems/not-gzip"), "{text}");
    }
    for coding in ["zstd", "br", "deflate", "gzip, gzip"] {
        let (status, text, accepts) = answer(&app, packed.clone(), Some(coding)).await;
        assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{text}");
        assert_eq!(accepts.as_deref(), Some("gzip"));
        assert!(text.contains("/problems/unknown-encoding"), "{text}");
    }
}

#[tokio::test]
async fn the_counted_unit_comes_from_the_prompt_else_from_the_data_sets_question() {
    let (app, _) = ready();
    let item_with_prompt = |task: Json, prompt: &str| {
        let mut item = item("a", &task, r"\boxed{2\text{ blorgs}}");
        item["prompt"] = json!(prompt);
        item
    };
    let inline = || json!({ "kind": "math", "answer": "2" });
    let items = json!([
        item_with_prompt(json!("sums/1"), ""),
        item_with_prompt(json!("sums/1"), "How many blorgs?"),
        item_with_prompt(inline(), "And how many blorgs?"),
        item_with_prompt(json!("sums/1"), "How many?"),
        item_with_prompt(inline(), ""),
    ]);
    let (_, body) = verify(&app, &items).await;
    let rewards = results(&body, "reward");
    assert_eq!(
        rewards,
        json!([[1.0], [1.0], [1.0], [0.0], [0.0]]),
        "{body}"
    );
    assert_eq!(distinct_keys(&body), 5);
}

/// A batch whose items with the ids 7 and "c" cannot be used.
fn half_usable() -> String {
    let items = json!([
        item("a", &json!("sums/1"), r"\boxed{2}"),
        { "id": 7, "task": "sums/7", "completion": "" },
        item("b", &json!("sums/1"), r"\boxed{3}"),
        { "id": "c", "task": { "kind": "math", "answer": "2" } },
    ]);
    json!({ "items": items }).to_string()
}

#[tokio::test]
async fn an_item_that_cannot_be_used_has_an_answer_of_its_own_if_the_client_asks_for_it() {
    let (app, _) = ready();
    let request = |path: &str| post(path).body(Body::from(half_usable())).unwrap();
    let (status, body, _) = send(&app, request("/v1/verify?errors=item")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        results(&body, "id verdict reward retryable"),
        json!([
            ["a", "correct", 1.0, false],
            [7, "unavailable", null, false],
            ["b", "incorrect", 0.0, false],
            ["c", "unavailable", null, false],
        ])
    );
    let [first, second] = [1, 3].map(|at| &body["results"][at]["detail"]);
    let problem = &second["problem"];
    let place = fields(problem, "item field status");
    assert_eq!(place, json!([3, "completion", 422]));
    assert_eq!(second["reason"], problem["detail"]);

    // The first problem is the one that a client is told if it does not ask.
    for path in ["/v1/verify", "/v1/verify?errors=request"] {
        let (status, problem, _) = send(&app, request(path)).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(problem, first["problem"]);
    }
}

#[tokio::test]
async fn an_item_without_an_id_and_an_unknown_parameter_are_the_requests_errors() {
    let (app, _) = ready();
    let nameless = json!({ "items": [{ "id": null, "task": "sums/1", "completion": "" }] });
    for (path, body, field) in [
        ("/v1/verify?errors=item", nameless.to_string(), "id"),
        (
            "/v1/verify?errors=item",
            r#"{"items": [1]}"#.to_owned(),
            "(item)",
        ),
        ("/v1/verify?errors=none", half_usable(), "errors"),
        (
            "/v1/verify?errors=item&errors=item",
            half_usable(),
            "errors",
        ),
    ] {
        let request = post(path).body(Body::from(body)).unwrap();
        let (status, problem, _) = send(&app, request).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{path}");
        assert_eq!(problem["field"], field, "{path}");
    }
}
