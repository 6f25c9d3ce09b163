//! Connections: how many there are, how long a client may take over a request, and how the last ones end.

use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// How long clients are waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// For the head of a connection's first request.
    pub(super) first: Duration,
    /// For another request's head, and between two requests of a connection, which hyper takes for the same.
    pub(super) head: Duration,
    /// At the end, for requests that are not whole and answers that are not taken, once no whole request is without its answer.
    pub(super) last_words: Duration,
}

const PATIENCE: Patience = Patience {
    first: Duration::from_secs(10),
    // Longer than clients keep an idle connection (reqwest: 90 s), so that no request comes by one that is just being closed.
    head: Duration::from_secs(120),
    // Docker kills what has not ended after 10 s.
    last_words: Duration::from_secs(5),
};

/// How often it is looked whether requests are open.
const GLANCE: Duration = Duration::from_millis(50);

/// Requests that have come whole and have no answer yet.
#[derive(Debug, Default)]
pub(super) struct Open(AtomicUsize);

/// One of them, until it is dropped: with its answer, or with a client that went away.
pub(super) struct One<'a>(&'a Open);

impl Open {
    pub(super) fn one(&self) -> One<'_> {
        self.0.fetch_add(1, Ordering::SeqCst);
        One(self)
    }

    fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

impl Drop for One<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Answers requests until `asked_to_stop` ends. Those that are whole by then still get their answers, however long judging takes; what a client has begun and does
/// not end is waited for a few seconds.
pub async fn serve(
    listener: TcpListener,
    service: &Arc<Service>,
    asked_to_stop: impl Future<Output = ()>,
) {
    serve_with(listener, service, asked_to_stop, PATIENCE).await;
}

pub(super) async fn serve_with(
    listener: TcpListener,
    service: &Arc<Service>,
    asked_to_stop: impl Future<Output = ()>,
    patience: Patience,
) {
    let app = app(Arc::clone(service));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(patience.head);
    let connections = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(
        service.connections.min(Semaphore::MAX_PERMITS),
    ));
    let mut told = false;
    let mut asked_to_stop = pin!(asked_to_stop);
    loop {
        if room.available_permits() == 0 && !told {
            told = true;
            tracing::warn!(
                "there are {} connections, as many as limits.connections allows; others wait until one ends. This is said once",
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
                        // How it ends is the client's affair.
                        _ = connection => {}
                        () = headless(&head, patience.first) => {}
                    }
                });
            }
            Err(error) => not_accepted(&error).await,
        }
    }
    // From now on, whoever asks learns at once that nobody listens.
    drop(listener);
    tokio::select! {
        () = connections.shutdown() => {
            tracing::info!("stopped: every request that was begun has its answer");
        }
        () = none_open(&service.open, patience.last_words) => {
            tracing::info!("stopped: every request has its answer but those that clients began and did not end");
        }
    }
}

/// Returns after `patience`; never where a head has come by then.
async fn headless(head: &Notify, patience: Duration) {
    if tokio::time::timeout(patience, head.notified())
        .await
        .is_ok()
    {
        std::future::pending::<()>().await;
    }
}

/// A client that has gone again is its own affair. Where the system has no room for another connection, it may have some in a while.
async fn not_accepted(error: &std::io::Error) {
    if !matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
    ) {
        tracing::warn!("a connection cannot be accepted: {error}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Returns once no request has been open for `patience`.
async fn none_open(open: &Open, patience: Duration) {
    let mut since = Instant::now();
    while since.elapsed() < patience {
        tokio::time::sleep(GLANCE).await;
        if open.any() {
            since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_first_head_is_waited_for_a_short_time() {
        let (head, short) = (Notify::new(), Duration::from_millis(10));
        headless(&head, short).await;
        head.notify_one();
        let waited = tokio::time::timeout(5 * short, headless(&head, short)).await;
        assert!(waited.is_err());
    }
}
