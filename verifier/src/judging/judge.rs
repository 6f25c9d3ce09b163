//! The graders with their cache, their worker threads and the queue.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use verifier_api::{Judgement, Readiness};

use super::in_flight::InFlight;
use super::queue::{Queue, QueuePermit};
use crate::cache::{ExpectedValueStore, Key, VerdictCache, VerdictDb};
use crate::grade::Grading;
use crate::grade::code::CanonicalResult;
use crate::graders::{GraderSettings, Graders, OpenSandbox};
use crate::item::JudgeItem;
use crate::metrics::{Gauges, Metrics};
use crate::pool::{ClientId, Full, MAX_WORKERS, Pool};
use crate::registry::Registry;

/// Maximum seconds after which a refused request is to be sent again.
const MAX_RETRY: u64 = 60;

/// The stores on disk. By default there are none.
#[derive(Default)]
pub struct DiskStores {
    /// The verdicts.
    pub verdicts: Option<Arc<VerdictDb>>,
    /// The expected values of tasks.
    pub expected_values: Option<Arc<ExpectedValueStore>>,
}

/// Judges items of the tasks that it knows, and whole tasks.
pub struct Judge {
    /// Maximum number of waiting items.
    pub(crate) queue_capacity: usize,
    /// The tasks that an item can name by id.
    pub registry: Registry,
    /// The graders.
    pub graders: Graders,
    pub(crate) cache: VerdictCache,
    pub(crate) metrics: Metrics,
    /// For mathematics, and for first passes, which end early.
    pub(crate) short: Pool,
    /// For long programs and canonical solutions. A program that runs for a minute delays others only by its share of the processors. The pool has one thread more: one
    /// solution of MBPP+ runs for minutes, and leaves as many threads as there would be without it.
    pub(crate) long: Pool,
    /// For proofs. They wait for a Lean process (`lean.processes`) or for their statement, and must not delay programs meanwhile.
    pub(crate) proofs: Pool,
    /// For each of the operator's own graders, with as many threads as it has processes.
    pub(super) custom: BTreeMap<String, Pool>,
    /// The permits of items that wait in any pool, or for a canonical solution.
    pub(super) queue: Arc<Queue>,
    /// The verdicts that are being found.
    pub(super) verdicts: Arc<InFlight<Judgement>>,
    /// The canonical solutions that samples wait for.
    pub(super) solutions: Arc<InFlight<CanonicalResult>>,
    /// Held while an idle thread of `long` is looked for.
    pub(super) idle_thread: Mutex<()>,
}

impl Judge {
    /// Creates a judge with room for `queue_capacity` waiting items and for `cache_bytes` of verdicts in memory. Graders that need preparing are not ready until [`Judge::prepare`] has
    /// run.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn new(
        graders: GraderSettings,
        (queue_capacity, cache_bytes): (usize, usize),
        mut registry: Registry,
        stores: DiskStores,
    ) -> std::io::Result<Arc<Judge>> {
        let workers = graders.workers;
        registry.custom_graders = graders.custom.keys().cloned().collect();
        let custom = graders.custom.iter().map(|(name, settings)| {
            let threads = match settings.workers {
                0 => workers,
                given => given,
            };
            Ok((name.clone(), Pool::new(name, threads, 0)?))
        });
        Ok(Arc::new(Judge {
            custom: custom.collect::<std::io::Result<_>>()?,
            short: Pool::new("short", workers, 1)?,
            long: Pool::new("long", (workers + 1).min(MAX_WORKERS), 0)?,
            proofs: Pool::new("proof", workers, 0)?,
            queue: Queue::new(queue_capacity),
            verdicts: Arc::default(),
            solutions: Arc::default(),
            idle_thread: Mutex::default(),
            graders: Graders::new(graders, stores.expected_values),
            cache: VerdictCache::new(cache_bytes, stores.verdicts),
            metrics: Metrics::default(),
            queue_capacity,
            registry,
        }))
    }

    /// Prepares the graders. Blocks, unlike [`Judge::prepare_in_background`].
    pub fn prepare(&self, open: OpenSandbox) {
        self.graders.prepare(open);
    }

    /// Prepares the graders in a separate thread, while the service already answers requests.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn prepare_in_background(self: &Arc<Self>, open: OpenSandbox) -> std::io::Result<()> {
        let judge = Arc::clone(self);
        std::thread::Builder::new()
            .name("prepare".to_owned())
            .spawn(move || judge.prepare(open))?;
        Ok(())
    }

    /// Waits until every verdict is on disk, if verdicts are stored there.
    pub fn flush(&self) {
        self.cache.flush();
    }

    /// Whether every grader that is needed can judge, and each grader's state.
    pub fn readiness(&self) -> Readiness {
        Readiness {
            ready: self.graders.ready(),
            graders: self.graders.info(),
        }
    }

    /// The key of the verdict on `item`.
    ///
    /// # Errors
    /// The `unavailable` grading, if the item's grader cannot judge now: the key depends on the grader's identity.
    pub(crate) fn key(&self, item: &JudgeItem) -> Result<Key, Box<Grading>> {
        match self.graders.unavailable_grading(&item.task.spec) {
            Some(unavailable) => Err(Box::new(unavailable)),
            None => Ok(self.graders.key(item)),
        }
    }

    /// The short one, the long one, that for proofs, and those of the operator's graders.
    fn pools(&self) -> impl Iterator<Item = &Pool> {
        let shared = [&self.short, &self.long, &self.proofs];
        shared.into_iter().chain(self.custom.values())
    }

    pub(crate) fn gauges(&self) -> Gauges {
        Gauges {
            queued: self.pools().map(|pool| pool.load().0).sum::<usize>() + self.parked(),
            running: self.pools().map(|pool| pool.load().1).sum(),
            workers: self.pools().map(Pool::workers).sum(),
            ready: self.graders.ready(),
        }
    }

    /// Number of samples that wait for a canonical solution.
    pub(crate) fn parked(&self) -> usize {
        self.solutions.waiting()
    }

    /// Reserves permits for `items` items of `client`.
    ///
    /// # Errors
    /// [`Full`].
    pub(super) fn reserve(&self, client: ClientId, items: usize) -> Result<QueuePermit, Full> {
        let reserved = self.queue.reserve(client, items);
        reserved.map_err(|missing| {
            let waiting = self
                .pools()
                .map(|pool| (pool.load().0, pool.jobs_per_second()));
            let mut waiting: Vec<(usize, f64)> = waiting.collect();
            // The samples that wait for a canonical solution go to the long pool, as far as is known.
            waiting[1].0 += self.parked();
            Full {
                retry_after: time_until_free(missing, &waiting),
            }
        })
    }
}

/// The time until `permits` may be free. `waiting` has, for each pool, the number of waiting jobs and the jobs that it did per second lately.
fn time_until_free(permits: usize, waiting: &[(usize, f64)]) -> Duration {
    let are_free_after = |seconds: &u64| {
        let done = |(jobs, a_second): &(usize, f64)| (*jobs as f64).min(a_second * *seconds as f64);
        waiting.iter().map(done).sum::<f64>() >= permits as f64
    };
    let seconds = (1..MAX_RETRY).find(are_free_after);
    Duration::from_secs(seconds.unwrap_or(MAX_RETRY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_has_permits_once_its_pools_have_done_enough() {
        let any = (0, f64::INFINITY);
        for (permits, waiting, seconds) in [
            (5, [(5, f64::INFINITY), any, any], 1),
            (45, [(100, 10.0), any, any], 5),
            // Short items do not wait for long ones, and long ones need their time.
            (45, [(100, 10.0), (100, 0.01), any], 5),
            (2, [any, any, (20, 0.1)], 20),
            (101, [(100, 10.0), any, (20, 0.1)], 10),
            (10, [any, (20, 0.1), any], MAX_RETRY),
            (6, [(5, f64::INFINITY), any, any], MAX_RETRY),
        ] {
            let found = time_until_free(permits, &waiting).as_secs();
            assert_eq!(found, seconds, "{permits} of {waiting:?}");
        }
    }
}
