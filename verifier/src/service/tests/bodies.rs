//! How bodies of requests are read, and which are refused.

use axum::extract::FromRequestParts as _;
use axum::response::IntoResponse as _;

use super::backoff::Backoff;
use super::request_context::RequestContext;
use super::*;

/// The answer to a body with this content coding.
async fn coded(app: &Router, coding: &str, body: Vec<u8>) -> (StatusCode, String, HeaderMap) {
    let request = post("/v1/verify").header(header::CONTENT_ENCODING, coding);
    answer_to(app, request.body(Body::from(body)).unwrap()).await
}

#[tokio::test]
async fn a_body_is_read_alike_however_it_was_written() {
    let (app, _) = ready();
    let task = json!({ "kind": "math", "answer": "1" });
    let plain = json!({ "items": [item("a", &task, "\\boxed{1} CUT")] }).to_string();
    let plain = plain.replace("CUT", "\\ud83d").replace(',', ",\r\n");
    let marked = format!("\u{feff}{plain}\r\n");
    let parts = [&plain[..9], "", &plain[9..]];
    let members = parts.map(|part| gzip(part.as_bytes())).concat();
    for (coding, body) in [
        ("identity", plain.clone().into_bytes()),
        ("identity", marked.clone().into_bytes()),
        ("gzip", gzip(marked.as_bytes())),
        ("gzip", members),
        ("x-gzip", gzip(marked.as_bytes())),
        ("GZip", gzip(plain.as_bytes())),
        ("identity", gzip(plain.as_bytes())),
    ] {
        let (status, text, _) = coded(&app, coding, body).await;
        assert_eq!(status, StatusCode::OK, "{coding}: {text}");
        assert!(text.contains("\"correct\""), "{coding}: {text}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_or_cannot_be_unpacked_is_refused() {
    let (app, _) = ready();
    let limit = settings().limits.body_bytes;
    let body = |length: usize| format!("{:length$}", r#"{"items": []}"#).into_bytes();
    let bomb = gzip(&vec![b' '; 8 << 20]);
    assert!(bomb.len() < limit);
    let packed = gzip(&body(20));
    let cut = packed[..packed.len() - 4].to_vec();
    // The packed size is limited too, even if the body unpacks to nothing.
    let many = gzip(b"").repeat(limit / 20 + 1);
    for (coding, body, status, kind) in [
        ("identity", body(limit), 200, "results"),
        ("identity", body(limit + 1), 413, "/problems/too-large"),
        ("gzip", gzip(&body(limit)), 200, "results"),
        ("gzip", gzip(&body(limit + 1)), 413, "/problems/too-large"),
        ("gzip", bomb, 413, "/problems/too-large"),
        ("gzip", many, 413, "/problems/too-large"),
        ("gzip", body(20), 400, "/problems/not-gzip"),
        ("gzip", cut, 400, "/problems/not-gzip"),
        ("zstd", packed.clone(), 415, "/problems/unknown-encoding"),
        ("gzip, gzip", packed, 415, "/problems/unknown-encoding"),
    ] {
        let length = body.len();
        let (code, text, headers) = coded(&app, coding, body).await;
        assert_eq!(code.as_u16(), status, "{coding} {length}: {text}");
        assert!(text.contains(kind), "{coding} {length}: {text}");
        let accepted = (status == 415).then_some("gzip");
        let accepts = headers.get(header::ACCEPT_ENCODING);
        assert_eq!(accepts.map(|value| value.to_str().unwrap()), accepted);
    }
    let announced = post("/compat/slime/rm").header(header::CONTENT_LENGTH, limit + 1);
    let pieces = (0..=limit / 1000).map(|_| Ok::<_, std::io::Error>(vec![b' '; 1000]));
    let pieces = Body::from_stream(futures::stream::iter(pieces));
    for request in [
        announced.body(Body::empty()),
        post("/v1/verify").body(pieces),
    ] {
        let (status, _) = send(&app, request.unwrap()).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    }
}

#[tokio::test]
async fn a_body_with_too_many_values_is_refused_with_the_limit() {
    let mut settings = settings();
    settings.limits.body_bytes = 64 << 20;
    let app = app(service(settings));
    let zeros = "0,".repeat(body_memory::MAX_VALUES);
    let body = format!(r#"{{"items": [{zeros}0]}}"#);
    let (status, text, _) = coded(&app, "identity", body.into_bytes()).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{text}");
    assert!(text.contains("more than 4194304 numbers"), "{text}");
}

#[tokio::test]
async fn long_text_of_a_client_is_shortened_in_its_problem() {
    let mut roomy = settings();
    roomy.limits.body_bytes = 1 << 20;
    let app = app(service(roomy));
    let long = "long".repeat(10_000);
    let item = |field: &str, value: Json| {
        let mut item = json!({ "id": "", "task": "x/1", "completion": "" });
        item[field] = value;
        ("/v1/verify", json!({ "items": [item] }))
    };
    let code = |field: &str, value: Json| {
        let mut code = json!({ "kind": "code", "entry_point": "f", "asserts": ["x"] });
        code[field] = value;
        item("task", code)
    };
    let label = |label: Json| {
        let body = json!({ "response": "", "label": label });
        ("/compat/slime/rm", body)
    };
    let submitted = json!({ "dataset": long, "id": 1, "completion": "" });
    let tagged = json!([{ "args": [{ (format!("${long}")): [] }], "expected": 1 }]);
    for (path, body) in [
        item("id", json!(long)),
        item("task", json!(long)),
        item("task", json!({ "kind": long })),
        item(&long, json!(1)),
        code("entry_point", json!(format!("{long}()"))),
        code("compare", json!(long)),
        code("tests", tagged),
        label(json!(format!("{long}/1"))),
        label(json!(format!("sums/{long}"))),
        label(json!({ (long.clone()): 1 })),
        label(json!({ "kind": long })),
        ("/compat/sandbox-fusion/submit", submitted),
        (&format!("/{long}"), json!({})),
    ] {
        let (status, problem) = ask(&app, path, &body).await;
        let length = problem.to_string().len();
        assert!(status.is_client_error() && length < 2_000, "{problem}");
    }
}

/// The context of a request to a service.
async fn context_of(service: &Arc<Service>) -> RequestContext {
    let (mut parts, ()) = Request::new(()).into_parts();
    let Ok(context) = RequestContext::from_request_parts(&mut parts, service).await;
    context
}

#[tokio::test]
async fn the_values_of_a_body_count_until_its_response() {
    let service = service(settings());
    let zeros = format!("[0{}]", ",0".repeat(999));
    let context = context_of(&service).await;
    let mut backoff = Backoff::at_most(Duration::ZERO);
    let read = body::read(&context, Body::from(zeros), &mut backoff, |_, _| Ok(()));
    read.await.unwrap();
    // Of 40,000 bytes, 2,000 are the text's and 50,000 the values'.
    assert!(service.body_memory.acquire(0).is_err());
    drop(context);
    assert!(service.body_memory.acquire(30_000).is_ok());
}

#[tokio::test]
async fn a_body_that_does_not_arrive_times_out() {
    let service = service(settings());
    let pieces = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let context = context_of(&service).await;
    let mut backoff = Backoff::at_most(Duration::ZERO);
    let lag = Duration::from_millis(10);
    let body = Body::from_stream(pieces);
    let Err(problem) = body::receive(&context, body, &mut backoff, lag).await else {
        panic!("it arrived");
    };
    let status = problem.into_response().status();
    assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
}
