//! Samples that wait for what their task's own solution returns.
//!
//! They are put aside, and no worker waits with them. The solution is run once for all of them, by a thread of `any`, with all the fuel that it may have. Where these are all taken, as by
//! solutions that run for minutes, it gets a first pass in `first_pass`, where it is given up unless it is over soon: so one that is soon over never waits for one that is not. Where
//! another process that shares the cache folder runs it, its result is looked for now and then.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Service;
use super::judge::JudgeJob;
use crate::cache::Key;
use crate::grade::code::NoCanonicalResult;
use crate::pool::{Job, Lane, Pool};
use crate::registry::RegisteredTask;

/// How often it is looked whether another process has made a reference.
const LOOK: Duration = Duration::from_millis(10);

/// The solutions that are run, and the samples that wait for each.
pub(super) struct Solutions {
    waiting: Mutex<HashMap<Key, Vec<JudgeJob>>>,
    /// Samples that wait, in all.
    count: AtomicUsize,
    /// Threads that run a solution to its end.
    any: Pool,
    /// One that gives it up where it takes long.
    first_pass: Pool,
}

impl Solutions {
    /// For `samples` at most that are in the queue at a time.
    pub(super) fn new(workers: usize, samples: usize) -> std::io::Result<Solutions> {
        Ok(Solutions {
            waiting: Mutex::default(),
            count: AtomicUsize::new(0),
            any: Pool::new("solution", workers, samples)?,
            first_pass: Pool::new("solution-first", 1, samples)?,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<JudgeJob>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pools(&self) -> [&Pool; 2] {
        [&self.first_pass, &self.any]
    }

    /// Samples that wait.
    pub(super) fn waiting(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Drops what nobody waits for any more.
    pub(super) fn sweep(&self) {
        self.any.sweep();
        self.first_pass.sweep();
    }

    /// Puts a sample aside; true where it is the first of its task.
    fn add(&self, key: Key, job: JudgeJob) -> bool {
        let mut waiting = self.lock();
        let jobs = waiting.entry(key).or_default();
        jobs.push(job);
        self.count.fetch_add(1, Ordering::Relaxed);
        jobs.len() == 1
    }

    fn take(&self, key: &Key) -> Vec<JudgeJob> {
        let jobs = self.lock().remove(key).unwrap_or_default();
        self.count.fetch_sub(jobs.len(), Ordering::Relaxed);
        jobs
    }

    /// Whether any sample under `key` is still wanted; where none is, there is none any more.
    fn wanted(&self, key: &Key) -> bool {
        let mut waiting = self.lock();
        let Some(jobs) = waiting.get_mut(key) else {
            return false;
        };
        let before = jobs.len();
        jobs.retain_mut(Job::wanted);
        self.count.fetch_sub(before - jobs.len(), Ordering::Relaxed);
        if jobs.is_empty() {
            waiting.remove(key);
            return false;
        }
        true
    }
}

/// Puts `job` aside until the reference under `key` is there.
pub(super) fn wait(job: JudgeJob, key: Key) {
    let (service, lane, task) = (
        Arc::clone(&job.service),
        job.lane,
        Arc::clone(&job.question.task),
    );
    if service.solutions.add(key, job) {
        let first_pass = !service.solutions.any.is_idle();
        let job = SolutionJob {
            service,
            task,
            key,
            lane,
            first_pass,
            over: false,
        };
        Box::new(job).queue();
    }
}

/// A task's own solution, to be run for the samples that wait for it.
struct SolutionJob {
    service: Arc<Service>,
    task: Arc<RegisteredTask>,
    key: Key,
    lane: Lane,
    first_pass: bool,
    /// Whether nothing waits for it any more.
    over: bool,
}

impl SolutionJob {
    fn queue(self: Box<Self>) {
        let service = Arc::clone(&self.service);
        let pool = if self.first_pass {
            &service.solutions.first_pass
        } else {
            &service.solutions.any
        };
        pool.readmit(self.lane, self);
    }
}

impl Job for SolutionJob {
    fn wanted(&mut self) -> bool {
        let wanted = self.service.solutions.wanted(&self.key);
        self.over = !wanted;
        wanted
    }

    fn run(mut self: Box<Self>) {
        match self
            .service
            .graders
            .try_canonical_result(&self.task, self.first_pass)
        {
            Err(NoCanonicalResult::Elsewhere) => {
                std::thread::sleep(LOOK);
                self.queue();
            }
            Err(NoCanonicalResult::Long) => {
                self.first_pass = false;
                self.queue();
            }
            Ok(reference) => {
                self.over = true;
                for mut job in self.service.solutions.take(&self.key) {
                    job.reference = Some(reference.clone());
                    self.service.heavy.readmit(job.lane, Box::new(job));
                }
            }
            // Its samples are answered as those that were not judged.
            Err(NoCanonicalResult::Unavailable) => {}
        }
    }
}

impl Drop for SolutionJob {
    fn drop(&mut self) {
        if !self.over {
            // It panicked, or the service stops. Whoever waits sees the channel close.
            drop(self.service.solutions.take(&self.key));
        }
    }
}
