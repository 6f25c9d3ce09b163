//! Samples that wait for the result of their task's canonical solution.
//!
//! The samples are parked, and no worker waits for them. The solution is run once for all of them, by a thread of `full_runs`, with its whole fuel. If those threads are all
//! busy, for example with solutions that run for minutes, the solution first gets a first pass in `first_pass`, which gives it up unless it finishes soon. So short solutions
//! never wait for long ones. If another process that shares the cache folder runs the solution, its result is polled for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandboxes::Abandoned;

use super::Service;
use super::judge::JudgeJob;
use crate::cache::Key;
use crate::grade::code::NoCanonicalResult;
use crate::pool::{ClientId, Job, Lane, Pool};
use crate::registry::RegisteredTask;

/// Poll interval while another process runs a canonical solution.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The canonical solutions to be run, and the samples that wait for each.
pub(super) struct CanonicalQueue {
    waiting: Mutex<HashMap<Key, Vec<JudgeJob>>>,
    /// Threads that run a solution to its end.
    full_runs: Pool,
    /// A thread that gives up long solutions.
    first_pass: Pool,
}

impl CanonicalQueue {
    /// A queue for at most `samples` samples at a time.
    pub(super) fn new(workers: usize, samples: usize) -> std::io::Result<CanonicalQueue> {
        Ok(CanonicalQueue {
            waiting: Mutex::default(),
            full_runs: Pool::new("solution", workers, samples)?,
            first_pass: Pool::new("solution-first", 1, samples)?,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<JudgeJob>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pools(&self) -> [&Pool; 2] {
        [&self.first_pass, &self.full_runs]
    }

    /// Number of waiting samples.
    pub(super) fn waiting(&self) -> usize {
        self.lock().values().map(Vec::len).sum()
    }

    /// Number of waiting samples of a client.
    pub(super) fn waiting_of(&self, client: ClientId) -> usize {
        let waiting = self.lock();
        let jobs = waiting.values().flatten();
        jobs.filter(|job| job.lane.client == client).count()
    }

    /// Parks a sample. True if it is the first for its key.
    fn add(&self, key: Key, job: JudgeJob) -> bool {
        let mut waiting = self.lock();
        let jobs = waiting.entry(key).or_default();
        jobs.push(job);
        jobs.len() == 1
    }

    fn take(&self, key: &Key) -> Vec<JudgeJob> {
        self.lock().remove(key).unwrap_or_default()
    }

    /// Whether any sample under `key` is still wanted. Drops those that are not.
    fn wanted(&self, key: &Key) -> bool {
        let mut waiting = self.lock();
        let Some(jobs) = waiting.get_mut(key) else {
            return false;
        };
        jobs.retain_mut(Job::wanted);
        if jobs.is_empty() {
            waiting.remove(key);
            return false;
        }
        true
    }
}

/// Parks `job` until the canonical solution's result under `key` is known.
pub(super) fn park(job: JudgeJob, key: Key) {
    let (service, lane, task) = (
        Arc::clone(&job.service),
        job.lane,
        Arc::clone(&job.item.task),
    );
    if service.canonical_queue.add(key, job) {
        let first_pass = !service.canonical_queue.full_runs.is_idle();
        let job = CanonicalJob {
            service,
            task,
            key,
            lane,
            first_pass,
            released: false,
        };
        Box::new(job).queue();
    }
}

/// A canonical solution, to be run for the samples that wait for it.
struct CanonicalJob {
    service: Arc<Service>,
    task: Arc<RegisteredTask>,
    key: Key,
    lane: Lane,
    first_pass: bool,
    /// Whether no sample waits for it any more.
    released: bool,
}

impl CanonicalJob {
    fn queue(self: Box<Self>) {
        let service = Arc::clone(&self.service);
        let pool = if self.first_pass {
            &service.canonical_queue.first_pass
        } else {
            &service.canonical_queue.full_runs
        };
        pool.readmit(self.lane, self);
    }
}

impl Job for CanonicalJob {
    fn wanted(&mut self) -> bool {
        let wanted = self.service.canonical_queue.wanted(&self.key);
        self.released = !wanted;
        wanted
    }

    fn run(mut self: Box<Self>) {
        let abandoned = {
            let (service, key) = (Arc::clone(&self.service), self.key);
            Abandoned::new(move || !service.canonical_queue.wanted(&key))
        };
        match self.service.graders.try_canonical_result(
            &self.task,
            self.first_pass,
            Some(&abandoned),
        ) {
            Err(NoCanonicalResult::Elsewhere) => {
                std::thread::sleep(POLL_INTERVAL);
                self.queue();
            }
            Err(NoCanonicalResult::NotInFirstPass) => {
                self.first_pass = false;
                self.queue();
            }
            Ok(result) => {
                self.released = true;
                for mut job in self.service.canonical_queue.take(&self.key) {
                    job.canonical_result = Some(result.clone());
                    self.service
                        .first_pass_pool
                        .readmit(job.lane, Box::new(job));
                }
            }
            // Dropping this job drops its samples, which are answered as not judged.
            Err(NoCanonicalResult::Unavailable) => {}
        }
    }
}

impl Drop for CanonicalJob {
    fn drop(&mut self) {
        if !self.released {
            // It panicked, or the service stops. The samples are dropped, which closes their channels.
            drop(self.service.canonical_queue.take(&self.key));
        }
    }
}
