//! A verifier over HTTP/1.1, with one request per connection and answers from a closure.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use verifier_api::Item;

/// The answer to one request to `/v1/verify`.
pub(crate) enum Answer {
    /// 200 with these judgements.
    Results(Vec<Value>),
    /// A status with these extra header lines, and a problem document.
    Status(u16, &'static str),
    /// A status with this problem document.
    Problem(u16, Value),
    /// The connection is closed without an answer.
    Broken,
}

impl Answer {
    /// Completions that begin with `b` are correct, others are not.
    pub(crate) fn accepting_b(items: &[Item]) -> Self {
        let judged = items
            .iter()
            .map(|item| judgement(&item.id, item.completion.starts_with('b')));
        Self::Results(judged.collect())
    }
}

/// Maximum number of items in one request.
pub(crate) const MAX_ITEMS: usize = 64;

type Handler = dyn Fn(usize, Vec<Item>) -> Answer + Send + Sync;

/// A running fake verifier. Dropping it closes its port.
pub(crate) struct FakeVerifier {
    pub(crate) url: String,
    service: Arc<Service>,
    server: JoinHandle<()>,
}

struct Service {
    /// The state of the math grader.
    state: &'static str,
    /// The graders in `/v1/info`.
    graders: Value,
    handler: Box<Handler>,
    requests: AtomicUsize,
    connections: AtomicUsize,
    max_at_once: AtomicUsize,
}

impl Drop for FakeVerifier {
    fn drop(&mut self) {
        self.server.abort();
    }
}

pub(crate) fn judgement(id: &str, correct: bool) -> Value {
    let (reward, verdict) = if correct {
        (1.0, "correct")
    } else {
        (0.0, "incorrect")
    };
    json!({"id": id, "reward": reward, "verdict": verdict, "detail": {}, "key": "0".repeat(64), "cached": false, "deterministic": true, "elapsed_ms": 0.1})
}

impl FakeVerifier {
    /// Serves on a free port. `handler` gets the number of the request, counted from 0, and its items. The verifier states that it has the data set `toy` with one
    /// training task and one held-out task, and that it accepts [`MAX_ITEMS`] items in a request.
    pub(crate) async fn serve(
        handler: impl Fn(usize, Vec<Item>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::listen("ready", json!([]), handler).await
    }

    /// As [`FakeVerifier::accepting_b`], with this state of the math grader, and with these graders in `/v1/info`.
    pub(crate) async fn with_graders(state: &'static str, graders: Value) -> Self {
        let handler = |_, items: Vec<Item>| Answer::accepting_b(&items);
        Self::listen(state, graders, handler).await
    }

    async fn listen(
        state: &'static str,
        graders: Value,
        handler: impl Fn(usize, Vec<Item>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = Arc::new(Service {
            state,
            graders,
            handler: Box::new(handler),
            requests: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            max_at_once: AtomicUsize::new(0),
        });
        let shared = service.clone();
        let server = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = shared.clone();
                tokio::spawn(async move {
                    let at_once = service.connections.fetch_add(1, Ordering::SeqCst) + 1;
                    service.max_at_once.fetch_max(at_once, Ordering::SeqCst);
                    let _ = service.answer(stream).await;
                    service.connections.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self {
            url,
            service,
            server,
        }
    }

    pub(crate) async fn accepting_b() -> Self {
        Self::serve(|_, items| Answer::accepting_b(&items)).await
    }

    /// Requests to `/v1/verify` so far.
    pub(crate) fn requests(&self) -> usize {
        self.service.requests.load(Ordering::SeqCst)
    }

    /// The largest number of connections at once so far.
    pub(crate) fn max_at_once(&self) -> usize {
        self.service.max_at_once.load(Ordering::SeqCst)
    }
}

impl Service {
    async fn answer(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
        stream.read_line(&mut first).await?;
        loop {
            line.clear();
            stream.read_line(&mut line).await?;
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let path = first.split(' ').nth(1).unwrap_or_default();
        let (mut status, mut headers) = (200, "");
        let body = match path {
            "/readyz" => {
                json!({"ready": true, "graders": [{"name": "math", "version": "1", "state": self.state, "reason": "a reason"}]})
            }
            "/v1/datasets" => {
                json!({"datasets": [{"name": "toy", "graders": ["math"], "train": 1, "eval": 1, "digest": super::dataset(1, 1).digest().to_string()}]})
            }
            "/v1/info" => {
                json!({"service": "scripted", "version": "1", "api": "v1", "graders": self.graders, "datasets": [], "limits": {"body_bytes": 1 << 20, "items": MAX_ITEMS, "queue": 2 * MAX_ITEMS}})
            }
            _ => {
                let mut request: Value = serde_json::from_slice(&body).unwrap();
                let items: Vec<Item> = serde_json::from_value(request["items"].take()).unwrap();
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                match (self.handler)(self.requests.fetch_add(1, Ordering::SeqCst), items) {
                    Answer::Results(results) => json!({ "results": results }),
                    Answer::Status(other, lines) => {
                        (status, headers) = (other, lines);
                        json!({"title": "scripted", "status": status, "detail": "scripted"})
                    }
                    Answer::Problem(other, problem) => {
                        status = other;
                        problem
                    }
                    Answer::Broken => return Ok(()),
                }
            }
        };
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        stream.shutdown().await
    }
}
