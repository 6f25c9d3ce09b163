//! Requests that a web page could send.

use super::*;

/// A request to verify one item, with these headers.
fn verifying(headers: &[(header::HeaderName, &str)]) -> Request<Body> {
    let items = json!({ "items": [item("a", &json!("sums/1"), r"\boxed{2}")] });
    let mut request = Request::post("/v1/verify");
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    request.body(Body::from(items.to_string())).unwrap()
}

fn with_token(token: Option<&str>) -> Router {
    app(service(ServiceSettings {
        token: token.map(Token::new),
        ..settings()
    }))
}

#[tokio::test]
async fn without_a_token_a_web_page_is_refused_with_the_remedy() {
    let app = with_token(None);
    let json = (header::CONTENT_TYPE, "application/json");
    let own = (header::HOST, "127.0.0.1:8700");
    for (headers, status, remedy) in [
        (
            vec![json.clone(), (header::HOST, "evil.example:8700")],
            StatusCode::MISDIRECTED_REQUEST,
            "allowed_hosts",
        ),
        (
            vec![
                json.clone(),
                own.clone(),
                (header::ORIGIN, "https://evil.example"),
            ],
            StatusCode::FORBIDDEN,
            "give the server a token",
        ),
        (
            vec![own.clone(), (header::CONTENT_TYPE, "text/plain")],
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Content-Type: application/json",
        ),
    ] {
        let (refused, problem, answered) = send(&app, verifying(&headers)).await;
        let detail = problem["detail"].as_str().unwrap();
        assert_eq!(refused, status, "{headers:?}");
        assert!(detail.contains(remedy), "{detail}");
        let accept = (refused == StatusCode::UNSUPPORTED_MEDIA_TYPE).then_some("application/json");
        let given = answered
            .get(header::ACCEPT)
            .map(|accept| accept.to_str().unwrap());
        assert_eq!(given, accept);
    }
    let (status, ..) = send(&app, verifying(&[json, own])).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn without_a_token_every_route_is_only_for_this_machines_names() {
    let app = with_token(None);
    for path in [
        "/v1/info",
        "/healthz",
        "/metrics",
        "/openapi.json",
        "/nothing",
    ] {
        let request = Request::get(path).header(header::HOST, "evil.example");
        let (status, ..) = send(&app, request.body(Body::empty()).unwrap()).await;
        assert_eq!(status, StatusCode::MISDIRECTED_REQUEST, "{path}");
    }
}

#[tokio::test]
async fn with_a_token_only_the_token_counts() {
    let app = with_token(Some("secret"));
    let headers = [
        (header::HOST, "verifier.example"),
        (header::ORIGIN, "https://dashboard.example"),
        (header::CONTENT_TYPE, "text/plain"),
        (header::AUTHORIZATION, "Bearer secret"),
    ];
    assert_eq!(send(&app, verifying(&headers)).await.0, StatusCode::OK);
}
