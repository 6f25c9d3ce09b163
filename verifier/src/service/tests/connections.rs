//! Slow clients, and what happens to them when the service stops.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::queue::{Gate, gated, slow};
use super::*;
use crate::service::connections::{ConnectionTimeouts, serve_with};

/// Longer than anything in these tests takes.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);
const TIMEOUTS: ConnectionTimeouts = ConnectionTimeouts {
    first: LONG,
    head: LONG,
    linger: LONG,
    shutdown_grace: SHORT,
};

/// A service on a socket.
struct Served {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    done: JoinHandle<()>,
}

impl Served {
    async fn new(service: &Arc<Service>, timeouts: ConnectionTimeouts) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let service = Arc::clone(service);
        let done = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            serve_with(listener, &service, stopped, timeouts).await;
        });
        Served {
            address,
            stop,
            done,
        }
    }

    /// A client that has sent `text`.
    async fn client(&self, text: &str) -> TcpStream {
        let mut client = TcpStream::connect(self.address).await.unwrap();
        client.write_all(text.as_bytes()).await.unwrap();
        client
    }
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG / 2, what).await.unwrap()
}

#[tokio::test]
async fn an_incomplete_request_does_not_keep_a_service_from_stopping() {
    for half in [
        "",
        "POST /v1/ver",
        "POST /v1/verify HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"items\":",
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nGET /hea",
    ] {
        let served = Served::new(&service(settings()), TIMEOUTS).await;
        let _client = served.client(half).await;
        tokio::time::sleep(SHORT).await;
        served.stop.send(()).unwrap();
        in_time(served.done).await.unwrap();
    }
}

#[tokio::test]
async fn a_client_that_does_not_complete_a_head_is_disconnected() {
    for (first, head) in [(SHORT, LONG), (LONG, SHORT)] {
        let timeouts = ConnectionTimeouts {
            first,
            head,
            ..TIMEOUTS
        };
        let served = Served::new(&service(settings()), timeouts).await;
        for half in ["", "POST /v1/ver"] {
            let mut client = served.client(half).await;
            // The connection may be closed or reset.
            let _ = in_time(client.read_to_end(&mut Vec::new())).await;
        }
    }
}

#[tokio::test]
async fn a_connection_over_the_limit_waits_until_another_ends() {
    let one = ServiceSettings {
        connections: 1,
        ..settings()
    };
    let served = Served::new(&service(one), TIMEOUTS).await;
    let first = served.client("").await;
    let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let mut second = served.client(request).await;
    let mut answer = String::new();
    let early = tokio::time::timeout(SHORT, second.read_to_string(&mut answer)).await;
    assert!(early.is_err(), "{answer}");
    drop(first);
    in_time(second.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_is_being_judged_when_a_service_stops_gets_its_response() {
    let gate = Gate::shut();
    let (service, _) = gated(&gate);
    let served = Served::new(&service, TIMEOUTS).await;
    let _half = served.client("POST /v1/ver").await;
    let body = json!({ "items": slow(0, 1) }).to_string();
    let head = format!(
        "POST /v1/verify HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut whole = served.client(&(head + &body)).await;
    while service.first_pass_pool.load().1 == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    served.stop.send(()).unwrap();
    tokio::time::sleep(5 * SHORT).await;
    let waited = !served.done.is_finished();
    gate.open();
    let mut answer = String::new();
    in_time(whole.read_to_string(&mut answer)).await.unwrap();
    assert!(waited, "it stopped before its last answer");
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("\"correct\""),
        "{answer}"
    );
    in_time(served.done).await.unwrap();
}

/// Python's `urllib` reads no answer before it has sent the whole body.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_seen_by_a_client_that_sends_its_body_first() {
    let open = Served::new(&service(settings()), TIMEOUTS).await;
    let guarded = ServiceSettings {
        token: Some(Token::new("secret")),
        ..settings()
    };
    let guarded = Served::new(&service(guarded), TIMEOUTS).await;
    for case in [
        "401 /v1/verify",
        "403 /v1/verify origin: http://a.example",
        "404 /verify/",
        "405 /v1/info",
        "413 /v1/verify",
        "413 /compat/sandbox-fusion/run_code",
        "415 /v1/verify content-encoding: br",
        "415 /v1/verify content-type: text/plain",
        "421 /v1/verify host: a.example",
    ] {
        let (status, rest) = case.split_once(' ').unwrap();
        let (path, header) = rest.split_once(' ').unwrap_or((rest, "accept: */*"));
        let name = header.split(':').next().unwrap();
        let default = ["host: localhost", "content-type: application/json"];
        let default = default.iter().filter(|header| !header.starts_with(name));
        let headers = default.fold(header.to_owned(), |all, header| all + "\r\n" + header);
        let served = if status == "401" { &guarded } else { &open };
        let body = "x".repeat(4 << 20);
        for body in [
            format!("content-length: {}\r\n\r\n{body}", body.len()),
            format!("transfer-encoding: chunked\r\n\r\n400000\r\n{body}\r\n0\r\n\r\n"),
        ] {
            let head = format!("POST {path} HTTP/1.1\r\n{headers}\r\n{}", &body[..100]);
            let mut client = served.client(&head).await;
            // By now the answer is on its way.
            tokio::time::sleep(SHORT).await;
            in_time(client.write_all(&body.as_bytes()[100..]))
                .await
                .unwrap();
            let mut answer = String::new();
            in_time(client.read_to_string(&mut answer)).await.unwrap();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{answer}"
            );
            assert!(
                answer.contains("connection: close") && answer.ends_with('}'),
                "{answer}"
            );
        }
    }
}

#[tokio::test]
async fn an_endless_body_ends_its_connection_and_one_that_was_read_does_not() {
    let hasty = ConnectionTimeouts {
        linger: SHORT,
        ..TIMEOUTS
    };
    let one = ServiceSettings {
        connections: 1,
        ..settings()
    };
    let served = Served::new(&service(one), hasty).await;
    let head = "POST /v1/verify HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length:";
    for pause in [Duration::ZERO, SHORT / 10] {
        let mut client = served.client(&format!("{head} 999999999999\r\n\r\n")).await;
        let mut status = [0; 12];
        in_time(client.read_exact(&mut status)).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 413");
        in_time(async {
            while client.write_all(&[b'x'; 1000]).await.is_ok() {
                tokio::time::sleep(pause).await;
            }
        })
        .await;
    }
    // The place of its connection is free again.
    let mut client = served
        .client(&format!("{head} 2\r\n\r\n{{}}").repeat(2))
        .await;
    let mut answers = String::new();
    while answers.matches("HTTP/1.1 422").count() < 2 {
        let mut piece = [0; 1000];
        let length = in_time(client.read(&mut piece)).await.unwrap();
        assert!(
            length > 0 && !answers.contains("connection: close"),
            "{answers}"
        );
        answers += std::str::from_utf8(&piece[..length]).unwrap();
    }
}
