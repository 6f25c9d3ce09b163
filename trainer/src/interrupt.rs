//! A request to stop at the next safe point, such as Ctrl-C.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::stderr::say;

/// A request to stop. Cheap to clone; all clones see the same request.
#[derive(Debug, Clone, Default)]
pub struct StopSignal {
    sender: Arc<watch::Sender<bool>>,
}

impl StopSignal {
    /// Requests a stop.
    pub fn request(&self) {
        self.sender.send_replace(true);
    }

    /// Whether a stop was requested.
    pub fn requested(&self) -> bool {
        *self.sender.borrow()
    }

    /// Returns once a stop is requested.
    pub async fn wait(&self) {
        let mut receiver = self.sender.subscribe();
        // The sender lives as long as `self`, so waiting ends only with a request.
        let _ = receiver.wait_for(|requested| *requested).await;
    }

    /// The end of stdin requests a stop, so that the process that holds its other end can request one, and does when it dies.
    pub fn when_stdin_ends(&self) {
        let request = self.clone();
        std::thread::spawn(move || {
            // An unreadable stdin has ended too.
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            request.request();
        });
    }

    /// Ignores Ctrl-C and SIGTERM from now on, for a process that another one tells when to end. Must be called inside a tokio runtime.
    pub fn ignored() {
        tokio::spawn(async {
            loop {
                interrupted().await;
            }
        });
    }

    /// The first Ctrl-C (or SIGTERM, which schedulers send) requests a stop, the second ends the process at once. Must be called inside a tokio runtime.
    pub fn on_ctrl_c() -> Self {
        let stop = Self::default();
        let request = stop.clone();
        tokio::spawn(async move {
            interrupted().await;
            request.request();
            say("\nstopping at the next safe point; press Ctrl-C again to quit at once");
            interrupted().await;
            std::process::exit(130);
        });
        stop
    }
}

async fn interrupted() {
    let Ok(mut terminated) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}
