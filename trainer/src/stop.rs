//! A request to end at the next safe point, as Ctrl-C makes it.

use std::sync::Arc;

use tokio::sync::watch;

use crate::stderr::say;

/// Cheap to clone; all clones see the same request.
#[derive(Debug, Clone)]
pub struct Stop {
    sender: Arc<watch::Sender<bool>>,
}

impl Default for Stop {
    fn default() -> Self {
        Self {
            sender: Arc::new(watch::Sender::new(false)),
        }
    }
}

impl Stop {
    /// Asks for the end.
    pub fn request(&self) {
        self.sender.send_replace(true);
    }

    /// Whether the end was asked for.
    #[must_use]
    pub fn requested(&self) -> bool {
        *self.sender.borrow()
    }

    /// Returns once the end is asked for.
    pub async fn wait(&self) {
        let mut receiver = self.sender.subscribe();
        // The sender lives as long as `self`, so waiting can end in one way only.
        let _ = receiver.wait_for(|asked| *asked).await;
    }

    /// The first Ctrl-C (or SIGTERM, as schedulers send it) asks for the end, the second ends the process at once. Must be called inside a tokio runtime.
    #[must_use]
    pub fn on_ctrl_c() -> Self {
        let stop = Self::default();
        let asked = stop.clone();
        tokio::spawn(async move {
            interrupted().await;
            asked.request();
            say("\nstopping at the next safe point; press Ctrl-C again to quit at once");
            interrupted().await;
            std::process::exit(130);
        });
        stop
    }
}

#[cfg(unix)]
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminated) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}

#[cfg(not(unix))]
async fn interrupted() {
    let _ = tokio::signal::ctrl_c().await;
}
