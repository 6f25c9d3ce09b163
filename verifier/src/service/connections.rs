//! Connections: their maximum number, the time limits for clients, and the shutdown.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use futures::StreamExt as _;
use hyper::Request;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};

use super::{Service, app};

/// Time limits for clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionTimeouts {
    /// For the head of a connection's first request.
    pub(super) first: Duration,
    /// For the head of a later request, including the idle time before it, which hyper does not distinguish.
    pub(super) head: Duration,
    /// For the rest of a body whose request is answered already, because it is refused.
    pub(super) linger: Duration,
    /// At shutdown, once every complete request has its response: for incomplete requests and unread responses.
    pub(super) shutdown_grace: Duration,
}

const TIMEOUTS: ConnectionTimeouts = ConnectionTimeouts {
    first: Duration::from_secs(10),
    // Longer than clients keep an idle connection (reqwest: 90 s), so that no request arrives on a connection that is just being closed.
    head: Duration::from_secs(120),
    linger: Duration::from_secs(30),
    // Docker kills a process that has not ended after 10 s.
    shutdown_grace: Duration::from_secs(5),
};

/// Maximum number of bytes of a body that are discarded, several times the default of `limits.body_bytes`.
const MAX_DISCARDED: u64 = 256 << 20;

/// Poll interval for open requests at shutdown.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The complete requests without a response.
#[derive(Debug, Default)]
pub(super) struct OpenRequests {
    count: AtomicUsize,
    last: AtomicBool,
}

/// Counts one open request until it is dropped, after its response or when the client disconnects.
pub(super) struct OpenRequest<'a>(&'a OpenRequests);

impl OpenRequests {
    pub(super) fn begin(&self) -> OpenRequest<'_> {
        self.count.fetch_add(1, Ordering::SeqCst);
        OpenRequest(self)
    }

    /// Whether they are the last, because the service is stopping.
    pub(super) fn are_last(&self) -> bool {
        self.last.load(Ordering::SeqCst)
    }

    fn any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Serves requests until `asked_to_stop` ends. Requests that are complete by then still get their responses, however long judging takes. Incomplete ones get a few seconds.
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
    let room = Arc::new(Semaphore::new(
        service.connections.min(Semaphore::MAX_PERMITS),
    ));
    let mut warned = false;
    let mut asked_to_stop = pin!(asked_to_stop);
    loop {
        if room.available_permits() == 0 && !warned {
            warned = true;
            tracing::warn!(
                "there are {} connections, as many as limits.connections allows; others wait until one ends. This is logged once",
                service.connections
            );
        }
        let next = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            next = next => next,
            () = &mut asked_to_stop => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let (http, app, stopping) = (http.clone(), app.clone(), stopping.clone());
                tokio::spawn(async move {
                    let _place = place;
                    serve_connection(&http, stream, app, stopping, timeouts).await;
                });
            }
            Err(error) => not_accepted(&error).await,
        }
    }
    // From now on, new connections are refused at once.
    drop((listener, stopping));
    let _ = stop.send(());
    service.open_requests.last.store(true, Ordering::SeqCst);
    tokio::select! {
        () = stop.closed() => {
            tracing::info!("stopped: every request that was begun has its answer");
        }
        () = none_open(&service.open_requests, timeouts.shutdown_grace) => {
            tracing::info!("stopped: every complete request has its answer; clients did not complete the others");
        }
    }
}

/// Serves the requests of a connection. Closing a socket that has unread bytes resets the connection, and a client that is still sending then sees that instead of its answer.
/// So an answer to a request whose body is unread says `Connection: close`, and after it the rest of the body is discarded.
async fn serve_connection(
    http: &http1::Builder,
    stream: TcpStream,
    app: Router,
    mut stopping: watch::Receiver<()>,
    timeouts: ConnectionTimeouts,
) {
    let (head, unread) = (&Notify::new(), &Arc::new(AtomicBool::new(false)));
    let app = TowerToHyperService::new(app);
    let answers = service_fn(move |request: Request<Incoming>| {
        head.notify_one();
        let answer = app.call(watched(request, unread));
        Box::pin(async move {
            let mut answer = answer.await?;
            if unread.load(Ordering::SeqCst) {
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(CONNECTION, close);
            }
            Ok::<_, Infallible>(answer)
        })
    });
    let mut connection = http.serve_connection(TokioIo::new(stream), answers);
    let mut late = pin!(first_head_timeout(head, timeouts.first));
    loop {
        tokio::select! {
            done = poll_fn(|context| connection.poll_without_shutdown(context)) => match done {
                Ok(()) => break,
                // Errors of a connection are the client's.
                Err(_) => return,
            },
            Ok(()) = stopping.changed() => std::pin::Pin::new(&mut connection).graceful_shutdown(),
            () = &mut late => return,
        }
    }
    let mut stream = connection.into_parts().io.into_inner();
    if stream.shutdown().await.is_ok() && unread.load(Ordering::SeqCst) {
        let mut rest = stream.take(MAX_DISCARDED);
        let _ = tokio::time::timeout(timeouts.linger, copy(&mut rest, &mut sink())).await;
    }
}

/// The request, with a body that sets `unread` to false at its end.
fn watched(request: Request<Incoming>, unread: &Arc<AtomicBool>) -> Request<Body> {
    unread.store(!request.body().is_end_stream(), Ordering::SeqCst);
    let unread = Arc::clone(unread);
    let end = futures::stream::once(async move {
        unread.store(false, Ordering::SeqCst);
        Ok(Bytes::new())
    });
    request.map(|body| Body::from_stream(Body::new(body).into_data_stream().chain(end)))
}

/// Returns after `timeout`; never if a head arrives before.
async fn first_head_timeout(head: &Notify, timeout: Duration) {
    if tokio::time::timeout(timeout, head.notified()).await.is_ok() {
        std::future::pending::<()>().await;
    }
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

/// Returns once no request has been open for `grace`.
async fn none_open(open: &OpenRequests, grace: Duration) {
    let mut since = Instant::now();
    while since.elapsed() < grace {
        tokio::time::sleep(POLL_INTERVAL).await;
        if open.any() {
            since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_short_timeout_is_only_for_the_first_head() {
        let (head, short) = (Notify::new(), Duration::from_millis(10));
        first_head_timeout(&head, short).await;
        head.notify_one();
        let waited = tokio::time::timeout(5 * short, first_head_timeout(&head, short)).await;
        assert!(waited.is_err());
    }
}
