//! Work for the sandbox, in the order of the queue: in a first pass, and by the threads for long programs if the first pass gives it up.

use std::sync::{Arc, Weak};

use sandboxes::{Abandoned, SandboxError};
use tokio::sync::oneshot;

use super::batch::CancelGuard;
use super::judge::Judge;
use crate::pool::{ClientId, Job, Lane};

/// Does `work` for `client` on a worker thread, and waits for it. The arguments of `work` say whether this is the first pass, and whether the client has left.
pub(crate) async fn queued<T, W>(judge: &Arc<Judge>, client: ClientId, work: W) -> Result<T, String>
where
    T: Send + 'static,
    W: Fn(bool, &Abandoned) -> Result<T, SandboxError> + Send + 'static,
{
    let mut place = judge
        .reserve(Lane::new(client), 1)
        .map_err(|_| "the queue is full".to_owned())?;
    let (reply, answer) = oneshot::channel();
    let waits = Arc::new(());
    let job = SandboxJob {
        judge: Arc::clone(judge),
        work,
        lane: place.lane(),
        waits: Arc::downgrade(&waits),
        reply,
        deferred: false,
    };
    place.submit(Box::new(job));
    let guard = CancelGuard(judge);
    let outcome = answer.await;
    guard.answered();
    drop(waits);
    match outcome {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err("the work in the sandbox was lost".to_owned()),
    }
}

/// The work of one request, whose result goes to the request that waits for it. Nothing is cached.
struct SandboxJob<T, W> {
    judge: Arc<Judge>,
    work: W,
    lane: Lane,
    /// Alive while the request waits.
    waits: Weak<()>,
    reply: oneshot::Sender<Result<T, SandboxError>>,
    /// Whether a first pass gave it up.
    deferred: bool,
}

impl<T, W> Job for SandboxJob<T, W>
where
    T: Send + 'static,
    W: Fn(bool, &Abandoned) -> Result<T, SandboxError> + Send + 'static,
{
    fn wanted(&mut self) -> bool {
        !self.reply.is_closed()
    }

    fn run(mut self: Box<Self>) {
        let waits = Weak::clone(&self.waits);
        let abandoned = Abandoned::new(move || waits.strong_count() == 0);
        let outcome = (self.work)(!self.deferred, &abandoned);
        if matches!(outcome, Err(SandboxError::Deferred(_))) && !self.deferred {
            self.deferred = true;
            let judge = Arc::clone(&self.judge);
            judge.long.readmit(self.lane, self);
            return;
        }
        // Sending fails if the client has gone, which does not matter.
        let _ = self.reply.send(outcome);
    }
}
