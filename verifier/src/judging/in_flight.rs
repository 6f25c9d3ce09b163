//! Work under a key that is done once, however many wait for it: on the verdicts of equal items, and on the canonical solution of a task.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use sandboxes::Abandoned;
use tokio::sync::watch;

use crate::cache::Key;
use crate::mutex::lock;

/// The keys that are being worked on.
pub(super) struct InFlight<T>(Mutex<HashMap<Key, Weak<Waiters<T>>>>);

/// Those who wait for a key's result. The task that works on it owns this, so they notice if the task ends without a result.
pub(super) struct Waiters<T> {
    result: watch::Sender<Option<T>>,
    key: Key,
    in_flight: Arc<InFlight<T>>,
}

/// One who waits for a result.
pub(super) struct Waiter<T>(watch::Receiver<Option<T>>);

impl<T> Default for InFlight<T> {
    fn default() -> InFlight<T> {
        InFlight(Mutex::default())
    }
}

impl<T> InFlight<T> {
    /// How many wait for a result.
    pub(super) fn waiting(&self) -> usize {
        let waiters: Vec<_> = lock(&self.0).values().filter_map(Weak::upgrade).collect();
        let counts = waiters.iter().map(|it| it.result.receiver_count());
        counts.sum()
    }
}

impl<T: Clone + Send + Sync + 'static> InFlight<T> {
    /// Waits for the result under `key`. Starts a task that does `work` if none works on it. Also returns whether one already did.
    pub(super) fn join<F>(
        self: &Arc<Self>,
        key: Key,
        work: impl FnOnce(Arc<Waiters<T>>) -> F,
    ) -> (Waiter<T>, bool)
    where
        F: Future<Output = Option<T>> + Send + 'static,
    {
        let mut keys = lock(&self.0);
        if let Some(waiters) = keys.get(&key).and_then(Weak::upgrade) {
            return (Waiter(waiters.result.subscribe()), true);
        }
        let (waiter, waiters) = Waiters::new(key, Arc::clone(self));
        keys.insert(key, Arc::downgrade(&waiters));
        drop(keys);
        let working = work(Arc::clone(&waiters));
        tokio::spawn(async move {
            let result = working.await;
            waiters.leave();
            waiters.result.send_replace(result);
        });
        (waiter, false)
    }
}

impl<T> Waiters<T> {
    fn new(key: Key, in_flight: Arc<InFlight<T>>) -> (Waiter<T>, Arc<Waiters<T>>) {
        let (result, waiter) = watch::channel(None);
        let waiters = Waiters {
            result,
            key,
            in_flight,
        };
        (Waiter(waiter), Arc::new(waiters))
    }

    /// The one waiter for work that nobody else can wait for.
    pub(super) fn unshared() -> (Waiter<T>, Arc<Waiters<T>>) {
        Waiters::new(Key([0; 32]), Arc::default())
    }

    /// Removes the key, if this is the work on it.
    fn leave(&self) {
        let mut keys = lock(&self.in_flight.0);
        let is_own = |waiters: &Weak<Self>| std::ptr::eq(waiters.as_ptr(), self);
        if keys.get(&self.key).is_some_and(is_own) {
            keys.remove(&self.key);
        }
    }

    /// Removes the key if nobody waits for its result. False if someone does again.
    fn leave_unwanted(&self) -> bool {
        let mut keys = lock(&self.in_flight.0);
        let is_unwanted = self.result.is_closed();
        if is_unwanted {
            keys.remove(&self.key);
        }
        is_unwanted
    }

    /// Whether nobody waits any more.
    pub(super) fn abandoned(self: &Arc<Self>) -> Abandoned
    where
        T: Send + Sync + 'static,
    {
        let waiters = Arc::downgrade(self);
        Abandoned::new(move || waiters.upgrade().is_none_or(|it| it.result.is_closed()))
    }

    /// Waits for a `step` of the work. `None` if the step has no result, or if nobody waits for the result any more. In the second case a step that has begun still
    /// finishes, so that a later request for the key can wait for it.
    pub(super) async fn step<R, S>(&self, mut step: S, has_begun: impl Fn(&S) -> bool) -> Option<R>
    where
        S: Future<Output = Option<R>> + Unpin,
    {
        loop {
            tokio::select! {
                biased;
                result = &mut step => return result,
                () = self.result.closed() => {}
            }
            if has_begun(&step) {
                return step.await;
            }
            if self.leave_unwanted() {
                return None;
            }
        }
    }
}

impl<T: Clone> Waiter<T> {
    /// The result; `None` if there is none.
    pub(super) async fn result(mut self) -> Option<T> {
        // The result is sent last.
        self.0.changed().await.ok()?;
        self.0.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    use super::*;

    /// Joins the work on a key. The work ends once its result is sent.
    fn join(
        keys: &Arc<InFlight<u32>>,
        has_begun: bool,
    ) -> (Waiter<u32>, bool, oneshot::Sender<u32>) {
        let (done, result) = oneshot::channel();
        let work = |waiters: Arc<Waiters<u32>>| async move {
            let step = Box::pin(async { result.await.ok() });
            waiters.step(step, move |_| has_begun).await
        };
        let (waiter, is_shared) = keys.join(Key([0; 32]), work);
        (waiter, is_shared, done)
    }

    #[tokio::test]
    async fn shared_work_is_done_once_and_ends_with_the_last_that_waits() {
        for has_begun in [false, true] {
            let keys = Arc::default();
            let (first, is_shared, done) = join(&keys, has_begun);
            let (second, is_also_shared, _) = join(&keys, has_begun);
            assert_eq!((is_shared, is_also_shared), (false, true));
            assert_eq!(keys.waiting(), 2);
            drop(first);
            done.send(7).unwrap();
            assert_eq!(second.result().await, Some(7));

            let (last, is_shared, done) = join(&keys, has_begun);
            assert!(!is_shared);
            yield_now().await;
            drop(last);
            yield_now().await;
            let (again, is_shared, fresh) = join(&keys, has_begun);
            assert_eq!(is_shared, has_begun);
            // The other of the two is gone.
            let _ = (done.send(1), fresh.send(2));
            let result = if has_begun { 1 } else { 2 };
            assert_eq!(again.result().await, Some(result));
        }
    }
}
