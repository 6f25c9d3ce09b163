//! The graders with their cache and their worker threads, and what these threads do: judge samples, and run the canonical solutions that samples wait for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datasets::TaskSpec;
use sandboxes::Abandoned;
use verifier_api::Readiness;

use super::in_flight::{InFlight, ItemResult, Waiters};
use super::parked::Parked;
use crate::cache::{ExpectedValueStore, Key, VerdictCache, VerdictDb};
use crate::grade::Grading;
use crate::grade::code::{NoCanonicalResult, NoVerdictYet};
use crate::graders::{GraderSettings, Graders, OpenSandbox};
use crate::item::JudgeItem;
use crate::metrics::{Gauges, Metrics};
use crate::pool::{Full, Job, Lane, MAX_WORKERS, Pool, Reservation};
use crate::registry::{RegisteredTask, Registry};

/// Poll interval while another process runs a canonical solution.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

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
    pub(crate) queue: usize,
    /// The tasks that an item can name by id.
    pub registry: Registry,
    /// The graders.
    pub graders: Graders,
    pub(crate) cache: VerdictCache,
    pub(crate) metrics: Metrics,
    /// For mathematics, and for first passes, which give up what is long.
    pub(crate) short: Pool,
    /// For long programs and canonical solutions, so that one that runs for a minute delays others only by its share of the processors. It has one thread more, so that the one
    /// solution of MBPP+ that runs for minutes leaves as many as there would be without it.
    pub(crate) long: Pool,
    /// For proofs, so that those that wait for a Lean process (`lean.processes`) or for their statement delay no program.
    pub(crate) proofs: Pool,
    /// For each of the operator's own graders, as many threads as it has processes.
    own: BTreeMap<String, Pool>,
    parked: Parked<SampleJob>,
    pub(super) in_flight: InFlight,
}

impl Judge {
    /// Creates a judge with room for `queue` waiting items and for `cache_bytes` of verdicts in memory. Graders that need preparing are not ready until [`Judge::prepare`] has
    /// run.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn new(
        graders: GraderSettings,
        (queue, cache_bytes): (usize, usize),
        mut registry: Registry,
        stores: DiskStores,
    ) -> std::io::Result<Arc<Judge>> {
        let workers = graders.workers;
        registry.own_graders = graders.own.keys().cloned().collect();
        let own = graders.own.iter().map(|(name, settings)| {
            let threads = match settings.workers {
                0 => workers,
                given => given,
            };
            Ok((name.clone(), Pool::new(name, threads, 0, queue)?))
        });
        Ok(Arc::new(Judge {
            own: own.collect::<std::io::Result<_>>()?,
            short: Pool::new("short", workers, 1, queue)?,
            long: Pool::new("long", (workers + 1).min(MAX_WORKERS), 0, queue)?,
            proofs: Pool::new("proof", workers, 0, queue)?,
            parked: Parked::default(),
            graders: Graders::new(graders, stores.expected_values),
            cache: VerdictCache::new(cache_bytes, stores.verdicts),
            in_flight: InFlight::default(),
            metrics: Metrics::default(),
            queue,
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
    #[must_use]
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
            None => {
                Ok(self
                    .graders
                    .key(&item.task, &item.prompt, &item.completion, item.test_mode))
            }
        }
    }

    fn pools(&self) -> impl Iterator<Item = &Pool> {
        let shared = [&self.short, &self.long, &self.proofs];
        shared.into_iter().chain(self.own.values())
    }

    /// Drops the queued jobs whose results nobody waits for.
    pub(super) fn sweep(&self) {
        self.pools().for_each(Pool::sweep);
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
        self.parked.count()
    }

    /// Reserves places for `jobs` jobs of the request with `lane`. Every job begins among the short ones, and counts there as waiting wherever it waits.
    ///
    /// # Errors
    /// [`Full`].
    pub(super) fn reserve(&self, lane: Lane, jobs: usize) -> Result<Reservation, Full> {
        let client = lane.client;
        let elsewhere = self.pools().skip(1).map(|pool| pool.waiting(client));
        let elsewhere = elsewhere.fold(self.parked.places(client), |sum, places| {
            (sum.0 + places.0, sum.1 + places.1)
        });
        self.short.reserve(lane, jobs, elsewhere)
    }

    /// Parks a sample until the canonical solution's result under `key` is known. If that is not being computed, it is queued: with its whole fuel if it runs at once then,
    /// and otherwise for a first pass, so that a short solution never waits for long ones.
    fn park(self: &Arc<Self>, sample: SampleJob, key: Key) {
        let (lane, task) = (sample.lane, Arc::clone(&sample.item.task));
        if self.parked.add(key, lane, sample) {
            let first_pass = !self.long.is_idle();
            let solution = SolutionJob {
                judge: Arc::clone(self),
                task,
                key,
                lane,
                first_pass,
                released: false,
            };
            Box::new(solution).queue();
        }
    }
}

/// A sample on its way to a verdict: cache, first pass, canonical solution of its task, full run, as far as it needs these.
pub(super) struct SampleJob {
    pub(super) judge: Arc<Judge>,
    pub(super) item: JudgeItem,
    pub(super) key: Key,
    /// The lane of its request.
    pub(super) lane: Lane,
    /// Whether it has not been given up by a first pass.
    pub(super) first_pass: bool,
    /// Time that workers have spent on it.
    pub(super) worker_time: Duration,
    pub(super) waiters: Arc<Waiters>,
}

impl SampleJob {
    /// Queues it again.
    fn queue(self: Box<Self>) {
        let judge = Arc::clone(&self.judge);
        let pool = match self.item.task.spec {
            _ if self.first_pass => &judge.short,
            TaskSpec::Lean(_) => &judge.proofs,
            TaskSpec::Own(ref task) => judge.own.get(&task.grader).unwrap_or(&judge.long),
            _ => &judge.long,
        };
        pool.readmit(self.lane, self);
    }

    fn grade(&mut self) -> Result<Grading, NoVerdictYet> {
        let waiters = Arc::clone(&self.waiters);
        let abandoned = Abandoned::new(move || waiters.is_closed());
        let graders = &self.judge.graders;
        let mut graded = graders.grade(&mut self.item, self.first_pass, &abandoned);
        // Files that decide may have changed since the key was made.
        if matches!(self.item.task.spec, TaskSpec::Own(_))
            && graded.is_ok()
            && self.judge.key(&self.item).ok() != Some(self.key)
        {
            graded = Ok(Grading::unavailable("the grader's files changed", true));
        }
        if let Ok(grading) = &graded {
            self.judge.cache.put(self.key, grading);
        }
        graded
    }
}

impl Job for SampleJob {
    fn wanted(&mut self) -> bool {
        self.judge.in_flight.wanted(&self.key, &self.waiters)
    }

    fn is_instant(&self) -> bool {
        matches!(self.item.task.spec, TaskSpec::Math(_))
    }

    fn run(mut self: Box<Self>) {
        let (judge, started) = (Arc::clone(&self.judge), Instant::now());
        let from_cache = judge.cache.get(&self.key);
        let cached = from_cache.is_some();
        let graded = from_cache.map_or_else(|| self.grade(), Ok);
        self.worker_time += started.elapsed();
        match graded {
            Err(NoVerdictYet::CanonicalResult(key)) => judge.park(*self, key),
            Err(NoVerdictYet::NotInFirstPass) => {
                self.first_pass = false;
                self.queue();
            }
            Ok(grading) => {
                let result = ItemResult {
                    grading,
                    cached,
                    seconds: Some(self.worker_time.as_secs_f64()),
                };
                judge.in_flight.finish(&self.key, &self.waiters, result);
            }
        }
    }
}

/// A canonical solution, which is run once for all samples that wait for it. If another process that shares the cache folder runs it, its result is polled for.
struct SolutionJob {
    judge: Arc<Judge>,
    task: Arc<RegisteredTask>,
    key: Key,
    lane: Lane,
    first_pass: bool,
    /// Whether no sample waits for it any more.
    released: bool,
}

impl SolutionJob {
    fn queue(self: Box<Self>) {
        let judge = Arc::clone(&self.judge);
        let pool = match self.first_pass {
            true => &judge.short,
            false => &judge.long,
        };
        pool.readmit(self.lane, self);
    }
}

impl Job for SolutionJob {
    fn wanted(&mut self) -> bool {
        let wanted = self.judge.parked.wanted(&self.key);
        self.released = !wanted;
        wanted
    }

    fn run(mut self: Box<Self>) {
        let abandoned = {
            let (judge, key) = (Arc::clone(&self.judge), self.key);
            Abandoned::new(move || !judge.parked.wanted(&key))
        };
        let graders = &self.judge.graders;
        match graders.try_canonical_result(&self.task, self.first_pass, Some(&abandoned)) {
            Err(NoCanonicalResult::Elsewhere) => {
                // It stays where it is, so that the result of a short solution is not behind long programs.
                std::thread::sleep(POLL_INTERVAL);
                self.queue();
            }
            Err(NoCanonicalResult::NotInFirstPass) => {
                self.first_pass = false;
                self.queue();
            }
            Ok(result) => {
                self.released = true;
                for (_, mut sample) in self.judge.parked.take(&self.key) {
                    sample.item.known.canonical_result = Some(result.clone());
                    Box::new(sample).queue();
                }
            }
            // Dropping this job drops its samples, which are answered as not judged.
            Err(NoCanonicalResult::Unavailable) => {}
        }
    }
}

impl Drop for SolutionJob {
    fn drop(&mut self) {
        if !self.released {
            // It panicked, or the service stops. The samples are dropped, which closes their channels.
            drop(self.judge.parked.take(&self.key));
        }
    }
}
