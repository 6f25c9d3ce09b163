//! Slow clients, and what happens to them when the service stops.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::queue::{Gate, gated, gated_with, slow};
use super::*;
use crate::service::connections::{ConnectionTimeouts, serve_with};

/// Longer than anything in these tests takes.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);
const TIMEOUTS: ConnectionTimeouts = ConnectionTimeouts {
    head: LONG,
    linger: LONG,
    unread: LONG,
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
        self.client_at("127.0.0.1:0", text).await
    }

    /// A client at another address.
    async fn client_at(&self, address: &str, text: &str) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(address.parse().unwrap()).unwrap();
        let mut client = socket.connect(self.address).await.unwrap();
        client.write_all(text.as_bytes()).await.unwrap();
        client
    }
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG / 2, what).await.unwrap()
}

/// All that a client still receives.
async fn rest_for(client: &mut TcpStream) -> String {
    let mut answer = String::new();
    in_time(client.read_to_string(&mut answer)).await.unwrap();
    answer
}

/// The beginning of a request to judge.
const HEAD: &str =
    "POST /v1/verify HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";

/// A request with `Connection: close`.
fn closing(request: &str, body: &str) -> String {
    format!(
        "{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Such a request to judge these items.
fn judging(items: &Json) -> String {
    let body = json!({ "items": items }).to_string();
    closing("POST /v1/verify", &body)
}

/// An item with a right answer.
fn right() -> Json {
    let task = json!({ "kind": "math", "answer": "1" });
    json!([item("a", &task, "\\boxed{1}")])
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
    let timeouts = ConnectionTimeouts {
        head: SHORT,
        ..TIMEOUTS
    };
    let served = Served::new(&service(settings()), timeouts).await;
    for half in ["", "POST /v1/ver"] {
        let mut client = served.client(half).await;
        // The connection may be closed or reset.
        let _ = in_time(client.read_to_end(&mut Vec::new())).await;
    }
}

/// Each attack has more connections than the service, and none of them ever times out. A body that is announced and does not come takes no memory. The last two attacks
/// do not lag, and keep out only their own address.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_lag_keep_nobody_out() {
    let six = ServiceSettings {
        connections: 6,
        ..settings()
    };
    let service = service(six);
    let attacks = [
        String::new(),
        "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(300),
        format!("{HEAD}content-length: 9999\r\n\r\n{{"),
        format!("{HEAD}transfer-encoding: chunked\r\n\r\n1\r\n{{\r\n"),
        "GET /healthz HTTP/1.1\r\nhost: loc".to_owned(),
        "GET /healthz HTTP/1.1\r\nx: ".to_owned(),
        format!("{HEAD}content-length: 999999\r\n\r\n"),
    ];
    for (number, attack) in attacks.into_iter().enumerate() {
        let keeps_pace = number >= 5;
        let served = Served::new(&service, TIMEOUTS).await;
        let mut clients = Vec::new();
        for _ in 0..100 {
            let mut client = served.client(&attack).await;
            clients.push(tokio::spawn(async move {
                while keeps_pace && client.write_all(&[b' '; 2_000]).await.is_ok() {
                    tokio::time::sleep(SHORT / 2).await;
                }
                client
            }));
        }
        let last = if keeps_pace { 2 } else { 1 };
        let address = format!("127.0.0.{last}:0");
        for (request, says) in [
            (closing("GET /healthz", ""), "HTTP/1.1 200"),
            (judging(&right()), "\"correct\""),
        ] {
            let answer = rest_for(&mut served.client_at(&address, &request).await).await;
            assert!(answer.contains(says), "{attack:.40}: {answer}");
        }
    }
}

#[tokio::test]
async fn the_memory_of_a_request_is_held_until_its_answer_is_read() {
    let mut large = settings();
    large.limits = verifier_api::RequestLimits {
        body_bytes: 4 << 20,
        items: 40_000,
        queue: 40_000,
    };
    let service = service(large);
    let hasty = ConnectionTimeouts {
        unread: 20 * SHORT,
        ..TIMEOUTS
    };
    let served = Served::new(&service, hasty).await;
    let all = || service.body_memory.acquire(16 << 20).is_ok();
    let items = vec![right()[0].clone(); 30_000];
    let _unread = served.client(&judging(&json!(items))).await;
    tokio::time::sleep(10 * SHORT).await;
    assert!(!all(), "the memory is free before the answer is read");
    in_time(async {
        while !all() {
            tokio::time::sleep(SHORT).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_inline_task_runs_ends_when_its_client_leaves() {
    let (service, _) = gated(&Gate::shut());
    let served = Served::new(&service, TIMEOUTS).await;
    let busy = || service.judge.gauges().running;
    let mut canonical = doubles();
    canonical["canonical"] = json!("endless");
    for (task, completion) in [(doubles(), "endless"), (canonical, "right")] {
        let items = json!([item("a", &task, completion)]);
        let client = served.client(&judging(&items)).await;
        in_time(until(|| busy() == 1)).await;
        tokio::time::sleep(SHORT).await;
        assert_eq!(busy(), 1);
        drop(client);
        in_time(until(|| busy() == 0)).await;
    }
}

/// It leaves others a permit and a part of the queue, and delays no probe. Eight requests have a permit for each connection; the others wait for one.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_many_requests_delays_no_other() {
    for (connections, own) in [(100, 17), (1, 7)] {
        let gate = Gate::shut();
        let mut roomy = ServiceSettings {
            connections,
            ..settings()
        };
        roomy.limits.body_bytes = 100_000;
        roomy.graders.workers = 1;
        let (service, sandbox) = gated_with(roomy, &gate);
        let served = Served::new(&service, TIMEOUTS).await;
        let verify = |n| judging(&slow(n, 1));
        let mut clients = Vec::new();
        for n in 0..40 {
            clients.push(served.client(&verify(n)).await);
        }
        let queued = || service.judge.short.load().0;
        in_time(until(|| queued() >= own)).await;
        tokio::time::sleep(2 * SHORT).await;
        let own = queued();
        assert!(own < 20, "{own}");
        let mut other = served.client_at("127.0.0.2:0", &verify(99)).await;
        in_time(until(|| queued() > own)).await;
        for probe in ["GET /healthz", "GET /readyz", "GET /metrics"] {
            let answer = rest_for(&mut served.client(&closing(probe, "")).await).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        gate.open();
        let answer = rest_for(&mut other).await;
        assert!(answer.contains("\"correct\""), "{answer}");
        let mut order = sandbox.sources();
        order.retain(|source| source.contains("slow"));
        let position = order.iter().position(|source| source.contains("slow 99"));
        assert!(position <= Some(2), "{order:?}");
        for client in clients.iter_mut().filter(|_| connections == 1) {
            let answer = rest_for(client).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_is_being_judged_when_a_service_stops_gets_its_response() {
    let gate = Gate::shut();
    let (service, _) = gated(&gate);
    let served = Served::new(&service, TIMEOUTS).await;
    let _half = served.client("POST /v1/ver").await;
    let mut whole = served.client(&judging(&slow(0, 1))).await;
    until(|| service.judge.short.load().1 != 0).await;
    served.stop.send(()).unwrap();
    tokio::time::sleep(5 * SHORT).await;
    let waited = !served.done.is_finished();
    gate.open();
    let answer = rest_for(&mut whole).await;
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
            let answer = rest_for(&mut client).await;
            let begins = answer.starts_with(&format!("HTTP/1.1 {status}"));
            let closes = answer.contains("connection: close");
            assert!(begins && closes && answer.ends_with('}'), "{answer}");
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
    for pause in [Duration::ZERO, SHORT / 10] {
        let mut client = served
            .client(&format!("{HEAD}content-length: 999999999999\r\n\r\n"))
            .await;
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
    // The permit of its request is free again.
    let mut client = served
        .client(&format!("{HEAD}content-length: 2\r\n\r\n{{}}").repeat(2))
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
