//! Tests of the client against servers that answer, refuse, break off or stay silent.

use std::time::Duration;

use datasets::TaskSpec;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use verifier_api::{Client, ClientError, Item, TaskRef, Verdict};

/// A server that answers one request with `answer` and returns the request. With `None`, it sends nothing and leaves the
/// connection open.
async fn server(answer: Option<String>) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let handle = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let read = stream.read(&mut buffer).await.unwrap();
            request.extend_from_slice(&buffer[..read]);
            let text = String::from_utf8_lossy(&request);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| {
                    line.to_ascii_lowercase()
                        .strip_prefix("content-length:")
                        .map(|length| length.trim().parse::<usize>().unwrap())
                });
                if body.len() >= length.unwrap_or(0) {
                    break;
                }
            }
            assert!(read > 0, "the client closed the connection");
        }
        match answer {
            Some(answer) => stream.write_all(answer.as_bytes()).await.unwrap(),
            None => tokio::time::sleep(Duration::from_secs(60)).await,
        }
        String::from_utf8(request).unwrap()
    });
    (url, handle)
}

fn http(status: &str, headers: &str, body: &str) -> Option<String> {
    Some(format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}",
        body.len()
    ))
}

fn client(url: &str) -> Client {
    Client::new(url, Some("secret".to_owned())).unwrap()
}

fn items() -> Vec<Item> {
    vec![Item {
        id: "a".to_owned(),
        task: TaskRef::Inline(TaskSpec::math("2")),
        prompt: "1+1".to_owned(),
        completion: "2".to_owned(),
        task_digest: None,
        all_tests: false,
    }]
}

fn judgement(id: &str) -> serde_json::Value {
    json!({ "id": id, "reward": 1.0, "verdict": "correct", "detail": {}, "retryable": false, "key": "", "cached": false, "deterministic": true, "elapsed_ms": 0.1 })
}

#[test]
fn the_debug_form_of_a_client_has_its_address_and_no_token() {
    let shown = format!("{:?}", client("http://127.0.0.1:9"));
    assert!(
        shown.contains("http://127.0.0.1:9/") && !shown.contains("secret"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_batch_is_sent_with_the_token_and_its_judgements_are_returned() {
    let results = json!({ "results": [judgement("a")] }).to_string();
    let (url, request) = server(http("200 OK", "", &results)).await;
    let client = client(&format!("{url}/prefix"));
    let judged = client.verify(&items()).await.unwrap();
    assert_eq!(judged[0].verdict, Verdict::Correct);
    let request = request.await.unwrap();
    for part in [
        "POST /prefix/v1/verify HTTP/1.1\r\n",
        "authorization: Bearer secret\r\n",
        "user-agent: rapid-verifier-api/",
        r#"{"items":[{"id":"a","task":{"kind":"math","answer":"2"},"prompt":"1+1","completion":"2"}]}"#,
    ] {
        assert!(request.contains(part), "{part} in {request}");
    }
}

#[tokio::test]
async fn a_status_is_retryable_if_another_attempt_may_succeed() {
    let detail = "the queue is full";
    let full = format!(
        r#"{{"type":"/problems/queue-full","title":"Full","status":429,"detail":"{detail}"}}"#
    );
    let page = "<html>not a problem document</html>";
    for (status, body, retryable) in [
        ("400 Bad Request", page, false),
        ("401 Unauthorized", page, false),
        ("408 Request Timeout", page, true),
        ("413 Payload Too Large", page, false),
        ("422 Unprocessable", page, false),
        ("429 Too Many Requests", &full, true),
        ("500 Internal", page, true),
        ("502 Bad Gateway", page, true),
        ("503 Unavailable", page, true),
    ] {
        let (url, _server) = server(http(status, "retry-after: 7\r\n", body)).await;
        let error = client(&url).verify(&items()).await.unwrap_err();
        assert_eq!(error.retryable(), retryable, "{status}: {error}");
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
        let says = if body == page { page } else { detail };
        for part in [&url, &status[..3], says] {
            assert!(error.to_string().contains(part), "{part} in {error}");
        }
    }
}

#[tokio::test]
async fn a_broken_connection_is_retryable_and_its_error_has_the_remedy() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"results\":[";
    let (broken, _server) = server(Some(half.to_owned())).await;
    for url in [refused, broken] {
        let error = client(&url).verify(&items()).await.unwrap_err();
        assert!(matches!(error, ClientError::Connection { .. }) && error.retryable());
        for part in [&url, "rapid-verifier serve"] {
            assert!(error.to_string().contains(part), "{part} in {error}");
        }
    }
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let (url, server) = server(None).await;
    let client = client(&url).with_timeout(Duration::from_millis(200));
    let error = client.verify(&items()).await.unwrap_err();
    assert!(matches!(error, ClientError::Timeout { .. }) && error.retryable());
    server.abort();
}

#[tokio::test]
async fn judgements_that_do_not_belong_to_the_items_are_refused() {
    for results in [
        json!([]),
        json!([judgement("b")]),
        json!([judgement("a"), judgement("a")]),
        json!("none"),
    ] {
        let body = json!({ "results": results }).to_string();
        let (url, _server) = server(http("200 OK", "", &body)).await;
        let error = client(&url).verify(&items()).await.unwrap_err();
        assert!(matches!(error, ClientError::Answer { .. }) && !error.retryable());
    }
}

#[tokio::test]
async fn the_answer_that_a_service_is_not_ready_is_not_an_error() {
    let body = json!({ "ready": false, "graders": [{ "name": "code", "version": "code-1", "state": "preparing", "reason": "the sandbox is being prepared" }] }).to_string();
    let (url, _server) = server(http("503 Service Unavailable", "", &body)).await;
    let readiness = client(&url).ready().await.unwrap();
    assert!(!readiness.ready && readiness.graders[0].reason.is_some());
    let (url, _server) = server(http("503 Service Unavailable", "", "upstream")).await;
    assert!(client(&url).ready().await.unwrap_err().retryable());
}

/// Addresses that are refused at once, with the error's words and its form of the address.
const BAD_ADDRESSES: &str = r#"
 | http:// is missing
localhost:8700 | http:// is missing
127.0.0.1:8700 | http:// is missing
verifier | http:// is missing
ftp://host/ | does not begin with http://
/v1 | http:// is missing
http:// | is not the address of a verifier
http://verifier:8700?key=s3cret | `http://verifier:8700` is not
http://verifier:8700/#s3cret | leave it out
http://user:s3cret@verifier:8700 | verifier:8700` is not
http://s3cret@verifier:8700 | RAPID_VERIFIER_TOKEN
http://user:s3cret/@s3cret?s3cret#@verifier:8700 | verifier:8700` is not
user:s3cret@verifier:8700 | `verifier:8700` is not
"#;

#[test]
fn an_impossible_address_is_refused_without_its_secrets() {
    for line in BAD_ADDRESSES.trim_matches('\n').lines() {
        let (url, says) = line.split_once(" | ").unwrap();
        let error = Client::new(url, None).unwrap_err();
        assert!(matches!(error, ClientError::Address { .. }) && !error.retryable());
        let error = error.to_string();
        assert!(error.contains(says) && !error.contains("s3cret"), "{error}");
    }
    let client = Client::new("https://verifier.example/base", None).unwrap();
    assert_eq!(client.url(), "https://verifier.example/base/");
}
