//! Worker threads with a queue that is fair between requests.
//!
//! Each request has a lane. Workers take jobs round-robin: one from each client, and of a client, one from each of its lanes. So a single item does not wait for all items of
//! another request with a thousand, nor for all requests of another client with as many. Work that continues in another pool stays in its request's lane.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::mutex::lock;

/// Maximum number of threads of a pool.
pub const MAX_WORKERS: usize = 1_024;

/// Workers serve clients round-robin. The default is this process itself, which may fill its own queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ClientId(pub u64);

/// A request's lane. It is unique across all pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    pub(crate) client: ClientId,
    request: u64,
}

impl Lane {
    /// The lane of a new request.
    pub fn new(client: ClientId) -> Lane {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Lane {
            client,
            request: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// The error of a queue that has no room for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// When there may be room.
    pub retry_after: Duration,
}

impl Full {
    /// For a limit that may allow the request at any moment.
    pub(crate) const NOW: Full = Full {
        retry_after: Duration::from_secs(1),
    };
}

/// Worker threads with a shared queue.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    more: Condvar,
    /// Number of jobs that run at a time, without the instant ones.
    workers: usize,
}

/// A unit of work for a pool.
struct Job {
    /// Greater for later jobs.
    number: u64,
    work: Box<dyn FnOnce() + Send>,
}

/// Waiting jobs, served round-robin by client, then by request.
#[derive(Default)]
struct RoundRobin(VecDeque<(ClientId, Lanes)>);

type Lanes = VecDeque<(Lane, VecDeque<Job>)>;

#[derive(Default)]
struct State {
    lanes: RoundRobin,
    /// Those that are instant.
    instant: RoundRobin,
    /// Number of jobs so far.
    numbers: u64,
    /// Number of jobs that wait.
    queued: usize,
    running: usize,
    /// Number of running jobs that are not instant.
    running_lanes: usize,
    /// Exponential moving average of a job's duration, in seconds.
    mean_seconds: f64,
    stopped: bool,
}

impl RoundRobin {
    fn push(&mut self, lane: Lane, job: Job) {
        let lanes = queue_of(&mut self.0, lane.client);
        queue_of(lanes, lane).push_back(job);
    }

    fn pop(&mut self) -> Option<Job> {
        let (client, mut lanes) = self.0.pop_front()?;
        let (lane, mut jobs) = lanes.pop_front()?;
        let job = jobs.pop_front();
        if !jobs.is_empty() {
            lanes.push_back((lane, jobs));
        }
        if !lanes.is_empty() {
            self.0.push_back((client, lanes));
        }
        job
    }

    /// The queue of a lane, and the position of the job with this number in it.
    fn find(&mut self, lane: Lane, number: u64) -> Option<(&mut VecDeque<Job>, usize)> {
        let (_, lanes) = self.0.iter_mut().find(|(it, _)| *it == lane.client)?;
        let (_, jobs) = lanes.iter_mut().find(|(it, _)| *it == lane)?;
        let at = jobs.binary_search_by_key(&number, |job| job.number).ok()?;
        Some((jobs, at))
    }

    /// Takes a job out.
    fn remove(&mut self, lane: Lane, number: u64) -> Option<Job> {
        let (jobs, at) = self.find(lane, number)?;
        let job = jobs.remove(at);
        for (_, lanes) in &mut self.0 {
            lanes.retain(|(_, jobs)| !jobs.is_empty());
        }
        self.0.retain(|(_, lanes)| !lanes.is_empty());
        job
    }
}

/// The queue under `key`. A new one is the last.
fn queue_of<K: PartialEq, T>(queues: &mut VecDeque<(K, VecDeque<T>)>, key: K) -> &mut VecDeque<T> {
    let index = queues.iter().position(|(other, _)| *other == key);
    let index = index.unwrap_or_else(|| {
        queues.push_back((key, VecDeque::new()));
        queues.len() - 1
    });
    &mut queues[index].1
}

impl State {
    fn jobs(&mut self, is_instant: bool) -> &mut RoundRobin {
        match is_instant {
            true => &mut self.instant,
            false => &mut self.lanes,
        }
    }

    /// The next job, and whether it is instant. At most `workers` jobs that are not instant run at a time; the other threads are for instant jobs.
    fn pop(&mut self, workers: usize) -> Option<(Job, bool)> {
        let may_be_long = self.running_lanes < workers;
        let long = may_be_long.then(|| self.lanes.pop()).flatten();
        self.running_lanes += usize::from(long.is_some());
        let is_instant = long.is_none();
        let job = long.or_else(|| self.instant.pop())?;
        self.queued -= 1;
        self.running += 1;
        Some((job, is_instant))
    }
}

impl Pool {
    /// Starts `workers` threads, and `instant` more for instant jobs alone.
    ///
    /// # Errors
    /// If a thread cannot be started, or if `workers` exceeds [`MAX_WORKERS`].
    pub fn new(name: &str, workers: usize, instant: usize) -> std::io::Result<Pool> {
        let workers = workers.max(1);
        if workers > MAX_WORKERS {
            return Err(std::io::Error::other(format!(
                "{workers} worker threads are more than the maximum of {MAX_WORKERS}"
            )));
        }
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            more: Condvar::new(),
            workers,
        });
        let mut pool = Pool {
            shared,
            workers: Vec::with_capacity(workers + instant),
        };
        for number in 0..workers + instant {
            let shared = Arc::clone(&pool.shared);
            pool.workers.push(
                std::thread::Builder::new()
                    .name(format!("{name}-{number}"))
                    .spawn(move || run_jobs(&shared))?,
            );
        }
        Ok(pool)
    }

    /// Queues `work`. Instant work takes microseconds, and does not wait for longer work.
    pub fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        is_instant: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Queued<T> {
        let (reply, result) = oneshot::channel();
        let work = Box::new(move || {
            // Sending fails if nobody waits any more.
            let _ = reply.send(work());
        });
        let mut state = lock(&self.shared.state);
        let number = state.numbers;
        state.numbers += 1;
        state.queued += 1;
        state.jobs(is_instant).push(lane, Job { number, work });
        drop(state);
        self.shared.more.notify_one();
        Queued {
            shared: Arc::clone(&self.shared),
            lane,
            number,
            is_instant,
            result,
        }
    }

    /// Whether a job that is queued now would run at once.
    pub fn is_idle(&self) -> bool {
        let (queued, running) = self.load();
        queued + running < self.shared.workers
    }

    /// The number of waiting jobs and the number of running jobs.
    pub fn load(&self) -> (usize, usize) {
        let state = lock(&self.shared.state);
        (state.queued, state.running)
    }

    /// Jobs per second, by the duration of the last ones. Infinity before the first.
    pub fn jobs_per_second(&self) -> f64 {
        self.shared.workers as f64 / lock(&self.shared.state).mean_seconds
    }

    /// Number of worker threads.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let queued = {
            let mut state = lock(&self.shared.state);
            state.stopped = true;
            state.queued = 0;
            let lanes = std::mem::take(&mut state.lanes);
            (lanes, std::mem::take(&mut state.instant))
        };
        self.shared.more.notify_all();
        drop(queued);
        for worker in self.workers.drain(..) {
            // The last owner of the pool may be a job, so this may be a worker thread.
            if worker.thread().id() != std::thread::current().id() {
                let _ = worker.join();
            }
        }
    }
}

/// Queued work. Its result is `None` if it panicked, or if the pool has stopped. If it is dropped before it begins, it does not run, and releases its permit at once.
pub struct Queued<T> {
    shared: Arc<Shared>,
    lane: Lane,
    number: u64,
    is_instant: bool,
    result: oneshot::Receiver<T>,
}

impl<T> Queued<T> {
    /// Whether a worker has begun it.
    pub fn has_begun(&self) -> bool {
        let mut state = lock(&self.shared.state);
        let jobs = state.jobs(self.is_instant);
        jobs.find(self.lane, self.number).is_none()
    }
}

impl<T> Future for Queued<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.result).poll(context).map(Result::ok)
    }
}

impl<T> Drop for Queued<T> {
    fn drop(&mut self) {
        if self.result.is_terminated() {
            return;
        }
        let mut state = lock(&self.shared.state);
        let jobs = state.jobs(self.is_instant);
        let removed = jobs.remove(self.lane, self.number);
        state.queued -= usize::from(removed.is_some());
        drop(state);
        // Dropping a job may take other locks.
        drop(removed);
    }
}

fn run_jobs(shared: &Shared) {
    let mut state = lock(&shared.state);
    while !state.stopped {
        let Some((job, is_instant)) = state.pop(shared.workers) else {
            state = shared
                .more
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(state);
        let started = Instant::now();
        // A panic in a job must not end the worker. The job's reply is dropped, so whoever waits for it notices.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job.work)).is_err() {
            tracing::error!("a job panicked; its items are answered as unavailable");
        }
        state = lock(&shared.state);
        state.running -= 1;
        state.running_lanes -= usize::from(!is_instant);
        state.mean_seconds += 0.05 * (started.elapsed().as_secs_f64() - state.mean_seconds);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// A pool with one worker, busy until it is released, and the notes of the jobs that ran.
    struct Bench {
        /// Comes before the pool, which waits for its worker when it is dropped.
        release: Sender<()>,
        pool: Pool,
        notes: Arc<Mutex<Vec<&'static str>>>,
        queued: Vec<Queued<()>>,
    }

    impl Bench {
        fn busy() -> Bench {
            let (release, hold) = channel();
            let notes = Arc::<Mutex<Vec<_>>>::default();
            let pool = Pool::new("test", 1, 1).unwrap();
            let first = {
                let notes = Arc::clone(&notes);
                pool.run(lane_of(0), false, move || {
                    let _ = hold.recv();
                    notes.lock().unwrap().push("first");
                })
            };
            while pool.load() != (0, 1) {
                std::thread::yield_now();
            }
            Bench {
                release,
                pool,
                notes,
                queued: vec![first],
            }
        }

        fn submit(&mut self, lane: Lane, texts: &[&'static str]) {
            for &text in texts {
                let notes = Arc::clone(&self.notes);
                let queued = self.pool.run(lane, text == "instant", move || {
                    assert_ne!(text, "panic", "on purpose");
                    notes.lock().unwrap().push(text);
                });
                self.queued.push(queued);
            }
        }

        fn finish(self) -> Vec<&'static str> {
            drop(self.release);
            while self.pool.load() != (0, 0) {
                std::thread::yield_now();
            }
            self.notes.lock().unwrap().clone()
        }
    }

    /// The lane of a new request.
    fn lane_of(client: u64) -> Lane {
        Lane::new(ClientId(client))
    }

    #[test]
    fn clients_and_their_requests_are_served_round_robin() {
        let mut bench = Bench::busy();
        let lane = lane_of(0);
        bench.submit(lane, &["a1", "a2", "a3", "a4"]);
        bench.submit(lane_of(0), &["b1"]);
        assert_eq!(bench.finish(), ["first", "a1", "b1", "a2", "a3", "a4"]);
        let mut bench = Bench::busy();
        for text in ["a1", "a2", "a3", "a4"] {
            bench.submit(lane_of(1), &[text]);
        }
        bench.submit(lane_of(2), &["b1", "b2"]);
        let order = ["first", "a1", "b1", "a2", "b2", "a3", "a4"];
        assert_eq!(bench.finish(), order);
    }

    #[test]
    fn an_instant_job_waits_for_no_other() {
        let mut bench = Bench::busy();
        bench.submit(lane_of(1), &["a1", "instant"]);
        while bench.pool.load() != (1, 1) {
            std::thread::yield_now();
        }
        assert_eq!(bench.finish(), ["instant", "first", "a1"]);
    }

    #[test]
    fn more_threads_than_the_maximum_are_refused() {
        let error = Pool::new("test", usize::MAX, 0).err().unwrap();
        assert!(error.to_string().contains("1024"), "{error}");
    }

    #[test]
    fn a_job_that_nobody_waits_for_is_not_run_unless_it_has_begun() {
        let mut bench = Bench::busy();
        bench.submit(lane_of(0), &["a1", "a2", "a3"]);
        let begun: Vec<bool> = bench.queued.iter().map(Queued::has_begun).collect();
        assert_eq!(begun, [true, false, false, false]);
        bench.queued.drain(..3);
        assert_eq!(bench.pool.load(), (1, 1));
        assert_eq!(bench.finish(), ["first", "a3"]);
    }

    #[test]
    fn a_worker_survives_a_job_that_panics() {
        let mut bench = Bench::busy();
        bench.submit(lane_of(0), &["panic", "after"]);
        assert_eq!(bench.finish(), ["first", "after"]);
    }
}
