//! Work for the sandbox, in the order of the queue: in a first pass, then on the threads for long programs if the first pass gives it up.

use std::sync::Arc;

use sandboxes::{Abandoned, SandboxError};

use super::judge::Judge;
use crate::pool::{ClientId, Lane};

/// Does `work` for `client` on a worker thread, and waits for it. The arguments of `work` say whether this is the first pass, and whether the client has left. Nothing is cached.
pub(crate) async fn queued<T, W>(judge: &Arc<Judge>, client: ClientId, work: W) -> Result<T, String>
where
    T: Send + 'static,
    W: Fn(bool, &Abandoned) -> Result<T, SandboxError> + Send + Sync + 'static,
{
    let mut permit = judge
        .reserve(client, 1)
        .map_err(|_| "the queue is full".to_owned())?;
    let (lane, work) = (Lane::new(client), Arc::new(work));
    // Dropped when the client leaves.
    let waits = Arc::new(());
    let mut first_pass = true;
    loop {
        let pool = match first_pass {
            true => &judge.short,
            false => &judge.long,
        };
        let (work, waits) = (Arc::clone(&work), Arc::downgrade(&waits));
        let run = pool.run(lane, false, move || {
            drop(permit);
            work(
                first_pass,
                &Abandoned::new(move || waits.strong_count() == 0),
            )
        });
        match run.await {
            Some(Err(SandboxError::Deferred(_))) if first_pass => first_pass = false,
            Some(done) => return done.map_err(|error| error.to_string()),
            None => return Err("the work in the sandbox was lost".to_owned()),
        }
        permit = judge.queue.readmit(client);
    }
}
