//! The requests of `answers.txt`, and the answers that they get.

use axum::http::HeaderMap;
use sandboxes::lean::{Compiled, LeanError, Messages, Severity};
use sandboxes::{End, Run, SandboxError};

use super::*;
use crate::fake_lean::{FakeLean, message};
use crate::fake_sandbox::exited;

/// A Lean that derives its messages about a file from the words in it.
fn lean() -> Arc<FakeLean> {
    FakeLean::new(|_, body, seconds| {
        let info = |data: &str| vec![message(Severity::Information, 1, data)];
        let error = vec![message(Severity::Error, 1, "unknown identifier")];
        let sorry = "declaration uses 'sorry'";
        let (messages, compiles) = match body {
            "wait" => return Err(LeanError::Timeout(seconds)),
            "loop" => return Err(LeanError::ProcessorTime(seconds)),
            "fill" => return Err(LeanError::Memory(8)),
            "crash" => return Err(LeanError::Crashed("signal 11".to_owned())),
            "lost" => return Err(LeanError::Missing("no such file".to_owned())),
            "exit" => (Vec::new(), false),
            "#check Nat" => (info("Nat : Type"), true),
            "wrong" => (error, false),
            "sorry" => (vec![message(Severity::Warning, 1, sorry)], true),
            "talk" => (info(&"a".repeat(2 << 20)), true),
            _ => (Vec::new(), true),
        };
        Ok(Compiled {
            messages: Messages {
                header: Vec::new(),
                body: messages,
            },
            files: compiles.then(Vec::new).into_iter().collect(),
        })
    })
}

/// The run of a program that says in words how it ends; otherwise the run of [`doubled`].
fn by_words(source: &str, calls: &[String], limits: &Limits) -> Result<Run, SandboxError> {
    let is_short = limits.fuel <= 6_000_000_000;
    let end = match source.trim() {
        "shout" => return Ok(exited(0, &calls[0].to_uppercase())),
        "limits" if is_short => {
            let stdout = format!("{} bytes, at most 3 s", limits.memory);
            return Ok(exited(0, &stdout));
        }
        "fail" => return Ok(exited(1, "")),
        "broken" => return Err(sandboxes::Deferred::Failed("no engine".to_owned()).into()),
        "poison" => panic!("on purpose"),
        "out of fuel" => End::OutOfFuel,
        "out of time" => End::OutOfTime,
        "out of memory" => End::OutOfMemory,
        "too much output" => End::TooMuchOutput,
        "dies" => End::Died("abort".to_owned()),
        "unloadable" => End::Unloadable {
            kind: "SyntaxError".to_owned(),
            message: "line 1".to_owned(),
        },
        _ if calls.first().is_some_and(|stdin| stdin == "21\n") => return Ok(exited(0, "42\n")),
        _ => return Ok(doubled(source, calls)),
    };
    Ok(ended(Vec::new(), end))
}

fn set_lean(service: &Service, lean: Arc<FakeLean>, is_jailed: bool) {
    let grader = grader_of(lean);
    let grader = if is_jailed { grader.in_jail() } else { grader };
    service.judge.graders.set_lean(grader);
}

/// The service that the table means.
fn named(name: &str) -> Router {
    let mut settings = settings();
    settings.compat_hold = Duration::from_millis(200);
    settings.allowed_hosts = vec!["verifier.example".to_owned()];
    settings.token = name.contains("token").then(|| Token::new("secret"));
    let service = service(settings);
    if name.contains("Lean") {
        set_lean(&service, lean(), name.contains("in a jail"));
    } else {
        let sandbox = Arc::new(FakeSandbox::new(by_words));
        service.judge.prepare(opens(&sandbox));
    }
    app(service)
}

/// The lines of the table without comments. Continuations are joined, and names are replaced by the texts that the table defines.
fn lines() -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let text = include_str!("answers.txt").lines();
    for line in text.filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match lines.last_mut() {
            Some(last) if line.starts_with("  ") => *last = format!("{last} {}", line.trim()),
            _ => lines.push(line.to_owned()),
        }
    }
    let mut names: Vec<(String, String)> = Vec::new();
    let mut replaced = Vec::new();
    for mut line in lines {
        for (name, value) in &names {
            line = line.replace(name, value);
        }
        match line.strip_prefix('@').and(line.split_once(" = ")) {
            Some((name, value)) => names.push((name.to_owned(), value.to_owned())),
            None => replaced.push(line),
        }
    }
    replaced
}

/// Whether an answer matches the expected one: an object has these fields; a text contains what follows `…`.
fn has(found: &Json, expected: &Json) -> bool {
    match (expected, found) {
        (Json::Object(expected), _) => {
            let mut fields = expected.iter();
            fields.all(|(name, value)| has(&found[name], value))
        }
        (Json::Array(expected), Json::Array(found)) => {
            let mut pairs = expected.iter().zip(found);
            expected.len() == found.len() && pairs.all(|(one, other)| has(other, one))
        }
        (Json::String(expected), Json::String(found)) => match expected.strip_prefix('…') {
            Some(part) => found.contains(part),
            None => found == expected,
        },
        _ => found == expected,
    }
}

/// `METHOD PATH (HEADER: VALUE) BODY` as a request, with its path and its body.
fn request(text: &str) -> (Request<Body>, &str, &str) {
    let (method, rest) = text.split_once(' ').unwrap();
    let (path, mut body) = rest.split_once(' ').unwrap_or((rest, ""));
    let mut request = Request::builder().method(method).uri(path);
    while let Some((header, rest)) = body.strip_prefix('(').and_then(|body| body.split_once(')')) {
        let (name, value) = header.split_once(": ").unwrap();
        request = request.header(name, value);
        body = rest.trim_start();
    }
    if !text.contains("(content-type:") {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let request = request.body(Body::from(body.to_owned())).unwrap();
    (request, path, body)
}

/// Checks an answer. `expected` is `STATUS ANSWER`.
fn check(line: &str, expected: &str, (status, text, headers): (StatusCode, String, HeaderMap)) {
    let (code, answer) = expected.split_once(' ').unwrap_or((expected, ""));
    assert_eq!(status.as_str(), code, "{line}\n{text}");
    if status.as_u16() >= 400 {
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
    }
    if status == StatusCode::UNSUPPORTED_MEDIA_TYPE && !line.contains("(content-encoding:") {
        assert_eq!(headers[header::ACCEPT], "application/json", "{line}");
    }
    let is_there = match answer.strip_prefix('…') {
        Some(part) => text.contains(part),
        None if answer.is_empty() => true,
        None => {
            let expected = serde_json::from_str(answer).expect(line);
            has(&serde_json::from_str(&text).unwrap(), &expected)
        }
    };
    assert!(is_there, "{line}\n{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_of_the_table_has_its_answer() {
    let mut app = named("");
    let (mut path, mut body) = (String::new(), String::new());
    for line in lines() {
        if line.starts_with('[') {
            app = named(&line);
        } else if let Some((sent, expected)) = line.split_once(" => ") {
            let (request, to, with) = request(sent);
            (path, body) = (to.to_owned(), with.to_owned());
            check(&line, expected, answer_to(&app, request).await);
        } else {
            let [change, field, part] = line.split(" | ").collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let body = changed(&serde_json::from_str(&body).expect(&line), change);
            let expected = json!({ "field": field, "detail": format!("…{part}") });
            let request = post(&path).body(Body::from(body.to_string())).unwrap();
            let answer = answer_to(&app, request).await;
            check(&line, &format!("422 {expected}"), answer);
        }
    }
}

#[tokio::test]
async fn a_snippet_is_run_once_and_never_without_a_jail() {
    for (is_jailed, runs) in [(true, 2), (false, 0)] {
        let (service, lean) = (service(settings()), lean());
        set_lean(&service, Arc::clone(&lean), is_jailed);
        let app = app(service);
        for ids in [["a", "b"], ["b", "a"]] {
            let snippets = ids.map(|id| json!({ "id": id, "code": id }));
            let body = json!({ "snippets": snippets });
            ask(&app, "/compat/kimina/api/check", &body).await;
        }
        assert_eq!(lean.runs(), runs);
    }
}
