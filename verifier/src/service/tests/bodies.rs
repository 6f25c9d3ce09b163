//! How bodies of requests are read, and which are refused.

use super::*;

#[tokio::test]
async fn a_body_is_read_alike_however_it_was_written() {
    let (app, _) = ready();
    let task = json!({ "kind": "math", "answer": "1" });
    let plain = json!({ "items": [item("a", &task, "\\boxed{1} CUT")] }).to_string();
    let plain = plain.replace("CUT", "\\ud83d").replace(',', ",\r\n");
    let marked = format!("\u{feff}{plain}\r\n");
    for (coding, body) in [
        ("identity", plain.clone().into_bytes()),
        ("identity", marked.clone().into_bytes()),
        ("gzip", gzip(marked.as_bytes())),
        ("x-gzip", gzip(marked.as_bytes())),
        ("GZip", gzip(plain.as_bytes())),
        ("identity", gzip(plain.as_bytes())),
    ] {
        let request = post("/v1/verify").header(header::CONTENT_ENCODING, coding);
        let (status, body, _) = send(&app, request.body(Body::from(body)).unwrap()).await;
        assert_eq!(status, StatusCode::OK, "{coding}: {body}");
        assert_eq!(body["results"][0]["verdict"], "correct", "{coding}: {body}");
    }
    for path in [
        "/v1/verify",
        "/compat/sandbox-fusion/run_code",
        "/compat/openrlhf/get_reward",
    ] {
        let body = Body::from("{\"items\": [{\"id\": 1,\n\"answer\": NaN}]}");
        let (status, problem, _) = send(&app, post(path).body(body).unwrap()).await;
        let detail = problem["detail"].as_str().unwrap();
        let named = detail.contains("(JSON has no number `NaN`, at line 2 column ");
        assert!(
            status == StatusCode::BAD_REQUEST && named,
            "{path}: {detail}"
        );
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_whether_its_length_is_announced_or_not() {
    let (app, _) = ready();
    let long = "x".repeat(20_000);
    let announced = post("/v1/verify")
        .header(header::CONTENT_LENGTH, "20000")
        .body(Body::from(long.clone()))
        .unwrap();
    assert_eq!(send(&app, announced).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    let pieces = futures::stream::iter(
        long.into_bytes()
            .chunks(1_000)
            .map(|piece| Ok::<_, std::io::Error>(piece.to_vec()))
            .collect::<Vec<_>>(),
    );
    let streamed = post("/v1/verify").body(Body::from_stream(pieces)).unwrap();
    assert_eq!(send(&app, streamed).await.0, StatusCode::PAYLOAD_TOO_LARGE);
}
