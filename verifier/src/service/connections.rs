//! Connections: their maximum number, the time limits for clients, and the shutdown.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use hyper::Request;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy, sink};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::body_memory::BodyPermit;
use super::request_context::{HeldPermit, Peer};
use super::sockets::{OpenSocket, Paced, Phase, Sockets};
use super::{ProblemResponse, Service, app};
use crate::pool::Full;

/// Time limits for clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionTimeouts {
    /// For the head of a request. hyper counts the idle time before it too.
    pub(super) head: Duration,
    /// For the rest of a body after its request was refused.
    pub(super) linger: Duration,
    /// How far a client may lag while it reads its answer.
    pub(super) unread: Duration,
    /// At shutdown, for incomplete requests and unread responses, once every complete request has its response.
    pub(super) shutdown_grace: Duration,
}

const TIMEOUTS: ConnectionTimeouts = ConnectionTimeouts {
    // Clients keep an idle connection for a shorter time (reqwest: 90 s). So no request arrives on a connection that is just being closed.
    head: Duration::from_secs(120),
    linger: Duration::from_secs(30),
    unread: Duration::from_secs(30),
    // Docker kills a process that has not ended after 10 s.
    shutdown_grace: Duration::from_secs(5),
};

/// The paths that are answered without a permit for the request.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Maximum bytes of a body that are discarded, several times the default of `limits.body_bytes`.
const MAX_DISCARDED: u64 = 256 << 20;

/// Interval at which connections are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(25);

/// Poll interval for open requests at shutdown.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Serves requests until `asked_to_stop` ends. Requests that are complete by then still get their responses, however long judging takes. Incomplete ones get a few
/// seconds.
pub async fn serve(
    listener: TcpListener,
    service: &Arc<Service>,
    asked_to_stop: impl Future<Output = ()>,
) {
    serve_with(listener, service, asked_to_stop, TIMEOUTS).await;
}

pub(super) async fn serve_with(
    listener: TcpListener,
    service: &Arc<Service>,
    asked_to_stop: impl Future<Output = ()>,
    timeouts: ConnectionTimeouts,
) {
    let app = app(Arc::clone(service));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(timeouts.head);
    let (stop, stopping) = watch::channel(());
    let sockets = Sockets::new(service.settings.connections);
    let mut check = tokio::time::interval(CHECK_INTERVAL);
    let mut asked_to_stop = pin!(asked_to_stop);
    for number in 0.. {
        let open = async {
            loop {
                if let Some(open) = sockets.open(number) {
                    break open;
                }
                tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok((stream, address)) => sockets.enqueue(Peer::new(address.ip()), stream),
                        Err(error) => not_accepted(&error).await,
                    },
                    _ = check.tick() => sockets.evict_unread(timeouts.unread),
                }
            }
        };
        let (open, stream) = tokio::select! {
            open = open => open,
            () = &mut asked_to_stop => break,
        };
        let stream = Paced {
            stream,
            socket: Arc::clone(&open.socket),
        };
        let connection = Connection {
            app: app.clone(),
            open,
        };
        let (http, stopping) = (http.clone(), stopping.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = connection.serve(&http, stream, stopping, timeouts) => {}
                () = connection.open.socket.evicted() => {}
            }
        });
    }
    // From here on, new connections are refused at once.
    drop((listener, stopping));
    let _ = stop.send(());
    service.stopping.store(true, Ordering::SeqCst);
    tokio::select! {
        () = stop.closed() => {
            tracing::info!("stopped: every request that was begun has its answer");
        }
        () = none_answered(&sockets, timeouts.shutdown_grace) => {
            tracing::info!("stopped: every complete request has its answer; clients did not complete the others");
        }
    }
}

/// What the requests of a connection need.
struct Connection {
    app: Router,
    open: OpenSocket,
}

impl Connection {
    /// Serves the requests. Closing a socket with unread bytes resets the connection, and a client that is still sending then sees the reset instead of its answer. So
    /// an answer before the end of the body says `Connection: close`, and the rest of the body is discarded after it.
    async fn serve(
        &self,
        http: &http1::Builder,
        stream: Paced,
        mut stopping: watch::Receiver<()>,
        timeouts: ConnectionTimeouts,
    ) {
        let unread = &Arc::new(AtomicBool::new(false));
        let answers = service_fn(move |request: Request<Incoming>| {
            Box::pin(async move {
                let mut answer = self.answer(request, unread).await;
                if unread.load(Ordering::SeqCst) {
                    let close = HeaderValue::from_static("close");
                    answer.headers_mut().insert(CONNECTION, close);
                }
                self.open.socket.enter(Phase::Sending);
                Ok::<_, Infallible>(answer)
            })
        });
        let mut connection = http.serve_connection(TokioIo::new(stream), answers);
        loop {
            tokio::select! {
                done = poll_fn(|context| connection.poll_without_shutdown(context)) => match done {
                    Ok(()) => break,
                    // Errors of a connection are the client's.
                    Err(_) => return,
                },
                Ok(()) = stopping.changed() => std::pin::Pin::new(&mut connection).graceful_shutdown(),
            }
        }
        let mut stream = connection.into_parts().io.into_inner();
        if stream.shutdown().await.is_ok() && unread.load(Ordering::SeqCst) {
            self.open.socket.enter(Phase::Receiving);
            let mut rest = stream.take(MAX_DISCARDED);
            let _ = tokio::time::timeout(timeouts.linger, copy(&mut rest, &mut sink())).await;
        }
    }

    /// The answer to a request. It holds its memory until it is sent.
    async fn answer(&self, mut request: Request<Incoming>, unread: &Arc<AtomicBool>) -> Response {
        let is_complete = request.body().is_end_stream();
        unread.store(!is_complete, Ordering::SeqCst);
        let is_probe = is_complete && PROBES.contains(&request.uri().path());
        let OpenSocket {
            sockets, socket, ..
        } = &self.open;
        let mut permit = None;
        if !is_probe {
            permit = sockets.request_permit(socket).await;
            if permit.is_none() {
                return ProblemResponse::from(Full::NOW).into_response();
            }
        }
        if is_complete {
            socket.enter(Phase::Answering);
        }
        let body_permit = HeldPermit::default();
        request.extensions_mut().insert(socket.peer);
        request.extensions_mut().insert(body_permit.clone());
        let app = TowerToHyperService::new(self.app.clone());
        let Ok(answer) = app.call(self.watched(request, unread)).await;
        drop(permit);
        match body_permit.take() {
            Some(permit) => holding(answer, permit).await,
            None => answer,
        }
    }

    /// The request, with a body that sets `unread` to false at its end.
    fn watched(&self, request: Request<Incoming>, unread: &Arc<AtomicBool>) -> Request<Body> {
        let (unread, socket) = (Arc::clone(unread), Arc::clone(&self.open.socket));
        let end = futures::stream::once(async move {
            unread.store(false, Ordering::SeqCst);
            socket.enter(Phase::Answering);
            Ok(Bytes::new())
        });
        request.map(|body| Body::from_stream(Body::new(body).into_data_stream().chain(end)))
    }
}

/// The answer with a body that holds `permit` until it is sent. The permit covers the memory of the answer itself.
async fn holding(answer: Response, mut permit: BodyPermit) -> Response {
    struct Answer(
        Bytes,
        #[expect(dead_code, reason = "it is held")] BodyPermit,
    );
    impl AsRef<[u8]> for Answer {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let (head, body) = answer.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return ProblemResponse::internal().into_response();
    };
    permit.fit_answer(bytes.len());
    Response::from_parts(head, Body::from(Bytes::from_owner(Answer(bytes, permit))))
}

/// Handles an error of `accept`. A client that has disconnected is ignored. After any other error, such as too many open files, it waits a second.
async fn not_accepted(error: &std::io::Error) {
    if !matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
    ) {
        tracing::warn!("a connection cannot be accepted: {error}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Returns once no complete request has waited for its answer for `grace`.
async fn none_answered(sockets: &Sockets, grace: Duration) {
    let mut since = Instant::now();
    while since.elapsed() < grace {
        tokio::time::sleep(POLL_INTERVAL).await;
        if sockets.any_answering() {
            since = Instant::now();
        }
    }
}
