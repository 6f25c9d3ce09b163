//! Connections: their maximum number, the time limits for clients, and the shutdown.

use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};

use super::{Service, app};

/// Time limits for clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionTimeouts {
    /// For the head of a connection's first request.
    pub(super) first: Duration,
    /// For the head of a later request, including the idle time before it, which hyper does not distinguish.
    pub(super) head: Duration,
    /// At shutdown, once every complete request has its response: for incomplete requests and unread responses.
    pub(super) shutdown_grace: Duration,
}

const TIMEOUTS: ConnectionTimeouts = ConnectionTimeouts {
    first: Duration::from_secs(10),
    // Longer than clients keep an idle connection (reqwest: 90 s), so that no request arrives on a connection that is just being closed.
    head: Duration::from_secs(120),
    // Docker kills a process that has not ended after 10 s.
    shutdown_grace: Duration::from_secs(5),
};

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
    let connections = GracefulShutdown::new();
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
                let head = Arc::new(Notify::new());
                let answers = {
                    let (head, app) = (Arc::clone(&head), TowerToHyperService::new(app.clone()));
                    service_fn(move |request: Request<Incoming>| {
                        head.notify_one();
                        app.call(request)
                    })
                };
                let connection = http.serve_connection(TokioIo::new(stream), answers);
                let connection = connections.watch(connection);
                tokio::spawn(async move {
                    let _place = place;
                    tokio::select! {
                        // Errors of a connection are the client's.
                        _ = connection => {}
                        () = first_head_timeout(&head, timeouts.first) => {}
                    }
                });
            }
            Err(error) => not_accepted(&error).await,
        }
    }
    // From now on, new connections are refused at once.
    drop(listener);
    service.open_requests.last.store(true, Ordering::SeqCst);
    tokio::select! {
        () = connections.shutdown() => {
            tracing::info!("stopped: every request that was begun has its answer");
        }
        () = none_open(&service.open_requests, timeouts.shutdown_grace) => {
            tracing::info!("stopped: every complete request has its answer; clients did not complete the others");
        }
    }
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
