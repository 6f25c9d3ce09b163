//! The passes over work for the sandbox: on the threads for short work first, then on those for long work if the first pass defers it.

use std::sync::Arc;
use std::time::Duration;

use sandboxes::{Abandoned, SandboxError};

use super::in_flight::Waiters;
use super::judge::Judge;
use super::queue::QueuePermit;
use crate::grade::code::{CanonicalResult, NoCanonicalResult as NoResult};
use crate::mutex::lock;
use crate::pool::{ClientId, Lane, Queued};
use crate::registry::RegisteredTask;

/// Poll interval while another thread or process does the work.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Repeats `work` on worker threads until it has a result. Its arguments are whether this is a first pass, and whether nobody waits for the result any more. Each pass
/// holds a permit until it begins, if there is one. With `may_skip_first`, there is no first pass if a thread for long work is idle. `None` if nobody waits any more, the
/// work panicked, or its result is [`NoResult::Unavailable`].
async fn in_passes<T, U, W>(
    judge: &Arc<Judge>,
    lane: Lane,
    mut permit: Option<QueuePermit>,
    may_skip_first: bool,
    waiters: &Arc<Waiters<U>>,
    work: W,
) -> Option<T>
where
    T: Send + 'static,
    U: Send + Sync + 'static,
    W: Fn(bool, &Abandoned) -> Result<T, NoResult> + Send + Sync + 'static,
{
    let work = Arc::new(work);
    let mut first_pass = None;
    loop {
        let had_permit = permit.is_some();
        let run = {
            // No two canonical solutions take the same idle thread.
            let _choice = lock(&judge.idle_thread);
            let is_first =
                *first_pass.get_or_insert_with(|| !(may_skip_first && judge.long.is_idle()));
            let pool = match is_first {
                true => &judge.short,
                false => &judge.long,
            };
            let (work, abandoned, permit) = (Arc::clone(&work), waiters.abandoned(), permit.take());
            pool.run(lane, false, move || {
                drop(permit);
                work(is_first, &abandoned)
            })
        };
        match waiters.step(run, Queued::has_begun).await? {
            Ok(result) => return Some(result),
            Err(NoResult::Deferred) => first_pass = Some(false),
            Err(NoResult::InProgress) => tokio::time::sleep(POLL_INTERVAL).await,
            Err(NoResult::Unavailable) => return None,
        }
        permit = had_permit.then(|| judge.queue.readmit(lane.client));
    }
}

/// Does `work` of a request of `client`, in the order of the queue. Nothing is cached.
///
/// # Errors
/// If the queue is full, or why the sandbox gave no result.
pub(crate) async fn run_queued<T, W>(
    judge: &Arc<Judge>,
    client: ClientId,
    work: W,
) -> Result<T, String>
where
    T: Send + 'static,
    W: Fn(bool, &Abandoned) -> Result<T, SandboxError> + Send + Sync + 'static,
{
    let permit = judge
        .reserve(client, 1)
        .map_err(|_| "the queue is full".to_owned())?;
    let work = move |first_pass: bool, abandoned: &Abandoned| match work(first_pass, abandoned) {
        Err(SandboxError::Deferred(_)) if first_pass => Err(NoResult::Deferred),
        done => Ok(done.map_err(|error| error.to_string())),
    };
    // Work goes on while the waiter lives. It is dropped when the client disconnects.
    let (_waiter, waiters) = Waiters::<()>::unshared();
    let lane = Lane::new(client);
    let done = in_passes(judge, lane, Some(permit), false, &waiters, work);
    let lost = || Err("the work in the sandbox was lost".to_owned());
    done.await.unwrap_or_else(lost)
}

/// Runs a task's canonical solution for all samples that wait for it. It gets its whole fuel if it can begin at once. Otherwise it runs in a first pass, so that a
/// short solution never waits for long ones.
pub(super) async fn canonical_result(
    judge: Arc<Judge>,
    task: Arc<RegisteredTask>,
    lane: Lane,
    waiters: Arc<Waiters<CanonicalResult>>,
) -> Option<CanonicalResult> {
    let on = Arc::clone(&judge);
    let work = move |first_pass: bool, abandoned: &Abandoned| {
        on.graders
            .try_canonical_result(&task, first_pass, Some(abandoned))
    };
    in_passes(&judge, lane, None, true, &waiters, work).await
}

/// [`canonical_result`] without a sample that waits for it. `None` if the work was lost, or no sandbox is available.
pub(crate) async fn run_canonical_solution(
    judge: &Arc<Judge>,
    task: &Arc<RegisteredTask>,
) -> Option<CanonicalResult> {
    // Work goes on while the waiter lives.
    let (_waiter, waiters) = Waiters::unshared();
    let lane = Lane::new(ClientId::default());
    canonical_result(Arc::clone(judge), Arc::clone(task), lane, waiters).await
}
