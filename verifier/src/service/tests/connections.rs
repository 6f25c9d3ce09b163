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
        let timeouts = ConnectionTimeouts {
            first: LONG,
            head: LONG,
            shutdown_grace: SHORT,
        };
        let served = Served::new(&service(settings()), timeouts).await;
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
            shutdown_grace: SHORT,
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
    let timeouts = ConnectionTimeouts {
        first: LONG,
        head: LONG,
        shutdown_grace: SHORT,
    };
    let one = ServiceSettings {
        connections: 1,
        ..settings()
    };
    let served = Served::new(&service(one), timeouts).await;
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
    let timeouts = ConnectionTimeouts {
        first: LONG,
        head: LONG,
        shutdown_grace: SHORT,
    };
    let served = Served::new(&service, timeouts).await;
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
