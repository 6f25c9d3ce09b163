//! Worker threads with a queue that is bounded, and fair between requests.
//!
//! Each request has a lane. Workers take one job from each client in turn, and of a client one from each of its lanes in turn. So a single item waits neither for all items of
//! another request with a thousand, nor for all requests of another client with as many. Places are
//! reserved for a whole request before its first job is queued. A job that continues in another pool stays in its request's lane.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum number of threads of a pool.
pub const MAX_WORKERS: usize = 1_024;

/// A client with several requests may have this many times the places that it leaves to others.
const SHARE: usize = 8;

/// Whose requests share a turn. The default is this process itself, which may fill its own queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientId(pub u64);

/// A request's lane. It is unique across all pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    pub(crate) client: ClientId,
    request: u64,
}

impl Lane {
    /// The lane of a new request.
    #[must_use]
    pub fn new(client: ClientId) -> Lane {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Lane {
            client,
            request: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// A unit of work for a pool.
pub trait Job: Send {
    /// Whether anyone still waits for its result. Called before it is run, and when a client has disconnected.
    fn wanted(&mut self) -> bool;
    /// Whether it takes microseconds. Such a job waits for none that may take longer.
    fn is_instant(&self) -> bool {
        false
    }
    /// Does the work.
    fn run(self: Box<Self>);
}

/// Worker threads with a shared queue.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    more: Condvar,
    capacity: usize,
    /// Number of jobs that run at a time, without the instant ones.
    workers: usize,
}

/// Jobs in the order in which they are run: in turn by client, then by request.
#[derive(Default)]
struct Turns(VecDeque<(ClientId, Lanes)>);

type Lanes = VecDeque<(Lane, VecDeque<Box<dyn Job>>)>;

#[derive(Default)]
struct State {
    lanes: Turns,
    /// Those that are instant.
    instant: Turns,
    /// Number of jobs in both.
    queued: usize,
    /// Number of places that are reserved for jobs not yet in the lanes.
    reserved: usize,
    running: usize,
    /// Number of running jobs that are not instant.
    running_lanes: usize,
    /// Exponential moving average of a job's duration, in seconds.
    mean_seconds: f64,
    stopped: bool,
}

/// The error of a queue that has no room for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// When there may be room.
    pub retry_after: Duration,
}

impl Full {
    /// What has no room now, and may have room at any moment.
    pub(crate) const NOW: Full = Full {
        retry_after: Duration::from_secs(1),
    };
}

/// Places in the queue for a request's jobs. Dropping it releases the unused places.
pub struct Reservation {
    shared: Arc<Shared>,
    left: usize,
    lane: Lane,
}

impl Turns {
    fn push(&mut self, lane: Lane, job: Box<dyn Job>) {
        let lanes = queue_of(&mut self.0, lane.client);
        queue_of(lanes, lane).push_back(job);
    }

    /// Number of jobs of a client.
    fn count(&self, client: ClientId) -> usize {
        let of_client = self.0.iter().filter(|(other, _)| *other == client);
        let lanes = of_client.flat_map(|(_, lanes)| lanes);
        lanes.map(|(_, jobs)| jobs.len()).sum()
    }

    fn pop(&mut self) -> Option<Box<dyn Job>> {
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

    /// Takes out the jobs that nobody waits for.
    fn take_unwanted(&mut self) -> Vec<Box<dyn Job>> {
        let mut unwanted = Vec::new();
        for (_, lanes) in &mut self.0 {
            for (_, jobs) in &mut *lanes {
                for mut job in std::mem::take(jobs) {
                    if job.wanted() {
                        jobs.push_back(job);
                    } else {
                        unwanted.push(job);
                    }
                }
            }
            lanes.retain(|(_, jobs)| !jobs.is_empty());
        }
        self.0.retain(|(_, lanes)| !lanes.is_empty());
        unwanted
    }
}

/// The queue under `key`, which is the last if it is new.
fn queue_of<K: PartialEq, T>(queues: &mut VecDeque<(K, VecDeque<T>)>, key: K) -> &mut VecDeque<T> {
    let place = queues.iter().position(|(other, _)| *other == key);
    let place = place.unwrap_or_else(|| {
        queues.push_back((key, VecDeque::new()));
        queues.len() - 1
    });
    &mut queues[place].1
}

impl State {
    fn push(&mut self, lane: Lane, job: Box<dyn Job>) {
        let turns = match job.is_instant() {
            true => &mut self.instant,
            false => &mut self.lanes,
        };
        turns.push(lane, job);
        self.queued += 1;
    }

    /// The next job. At most `workers` at a time are not instant, so that the other threads are left for those that are.
    fn pop(&mut self, workers: usize) -> Option<Box<dyn Job>> {
        let may_be_long = self.running_lanes < workers;
        let long = may_be_long.then(|| self.lanes.pop()).flatten();
        self.running_lanes += usize::from(long.is_some());
        let job = long.or_else(|| self.instant.pop())?;
        self.queued -= 1;
        self.running += 1;
        Some(job)
    }

    /// Number of waiting jobs of a client.
    fn count(&self, client: ClientId) -> usize {
        self.lanes.count(client) + self.instant.count(client)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Starts `workers` threads, and `instant` more for instant jobs alone, with a queue of at most `capacity` jobs.
    ///
    /// # Errors
    /// If a thread cannot be started, or if `workers` exceeds [`MAX_WORKERS`].
    pub fn new(
        name: &str,
        workers: usize,
        instant: usize,
        capacity: usize,
    ) -> std::io::Result<Pool> {
        let workers = workers.max(1);
        if workers > MAX_WORKERS {
            return Err(std::io::Error::other(format!(
                "{workers} worker threads are more than the maximum of {MAX_WORKERS}"
            )));
        }
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            more: Condvar::new(),
            capacity,
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
                    .spawn(move || work(&shared))?,
            );
        }
        Ok(pool)
    }

    /// Reserves places for `jobs` jobs of the request with `lane`. `elsewhere` counts jobs that take places here too: all of them, and the client's.
    ///
    /// # Errors
    /// [`Full`] if the queue has fewer free places, or its client would have more than [`SHARE`] times as many as are left.
    pub fn reserve(
        &self,
        lane: Lane,
        jobs: usize,
        elsewhere: (usize, usize),
    ) -> Result<Reservation, Full> {
        let mut state = self.shared.lock();
        let taken = state.queued + state.reserved + elsewhere.0;
        let free = self.shared.capacity.checked_sub(taken + jobs);
        let own = state.count(lane.client) + elsewhere.1;
        let may_fill = own == 0 || lane.client == ClientId::default();
        let has_room = free.is_some_and(|free| may_fill || own + jobs <= free * SHARE);
        // A queue with readmitted jobs may be over its capacity, which is no reason to refuse a request that needs no place.
        if jobs > 0 && !has_room {
            let seconds = state.queued as f64 * state.mean_seconds / self.shared.workers as f64;
            return Err(Full {
                retry_after: Duration::from_secs(seconds.clamp(1.0, 60.0) as u64),
            });
        }
        state.reserved += jobs;
        Ok(Reservation {
            shared: Arc::clone(&self.shared),
            left: jobs,
            lane,
        })
    }

    /// Queues a job that was admitted before, by this pool or another. It is admitted even if the queue is full.
    pub fn readmit(&self, lane: Lane, job: Box<dyn Job>) {
        self.shared.lock().reserved += 1;
        Reservation {
            shared: Arc::clone(&self.shared),
            left: 1,
            lane,
        }
        .submit(job);
    }

    /// Whether a job that is queued now would run at once.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let (queued, running) = self.load();
        queued + running < self.shared.workers
    }

    /// Drops the queued jobs whose results nobody waits for.
    pub fn sweep(&self) {
        let mut state = self.shared.lock();
        let mut unwanted = state.lanes.take_unwanted();
        unwanted.extend(state.instant.take_unwanted());
        state.queued -= unwanted.len();
        drop(state);
        // Dropping a job may take other locks.
        drop(unwanted);
    }

    /// The number of waiting jobs and the number of running jobs.
    #[must_use]
    pub fn load(&self) -> (usize, usize) {
        let state = self.shared.lock();
        (state.queued, state.running)
    }

    /// The number of waiting jobs, and that of `client`'s.
    #[must_use]
    pub fn waiting(&self, client: ClientId) -> (usize, usize) {
        let state = self.shared.lock();
        (state.queued, state.count(client))
    }

    /// Number of worker threads.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers.len()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let queued = {
            let mut state = self.shared.lock();
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

impl Reservation {
    /// The lane of its jobs.
    #[must_use]
    pub fn lane(&self) -> Lane {
        self.lane
    }

    /// Queues a job in one of the reserved places. If none is left, the job is dropped.
    pub fn submit(&mut self, job: Box<dyn Job>) {
        let mut state = self.shared.lock();
        if self.left == 0 || state.stopped {
            return; // Dropping the job closes the channel of the caller that waits for it.
        }
        self.left -= 1;
        state.reserved -= 1;
        state.push(self.lane, job);
        drop(state);
        self.shared.more.notify_one();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shared.lock().reserved -= self.left;
    }
}

fn work(shared: &Shared) {
    let mut state = shared.lock();
    loop {
        if state.stopped {
            return;
        }
        let Some(mut job) = state.pop(shared.workers) else {
            state = shared
                .more
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(state);
        let started = Instant::now();
        let (wanted, instant) = (job.wanted(), job.is_instant());
        if wanted {
            // A panic in a job must not end the worker. The job is dropped, which its waiters notice.
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.run())).is_err() {
                tracing::error!("a job panicked; its items are answered as unavailable");
            }
        } else {
            drop(job);
        }
        state = shared.lock();
        state.running -= 1;
        state.running_lanes -= usize::from(!instant);
        if wanted {
            state.mean_seconds += 0.05 * (started.elapsed().as_secs_f64() - state.mean_seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Notes that it is run; the first one waits until it is released.
    struct Note {
        text: &'static str,
        notes: Arc<Mutex<Vec<&'static str>>>,
        wanted: Arc<AtomicBool>,
        hold: Option<Receiver<()>>,
    }

    impl Job for Note {
        fn wanted(&mut self) -> bool {
            self.wanted.load(Ordering::SeqCst)
        }

        fn is_instant(&self) -> bool {
            self.text == "instant"
        }

        fn run(self: Box<Self>) {
            if let Some(hold) = &self.hold {
                let _ = hold.recv();
            }
            assert_ne!(self.text, "panic", "on purpose");
            self.notes.lock().unwrap().push(self.text);
        }
    }

    struct Bench {
        /// Dropped before the pool, which waits for its worker.
        release: Sender<()>,
        pool: Pool,
        notes: Arc<Mutex<Vec<&'static str>>>,
        wanted: Arc<AtomicBool>,
    }

    impl Bench {
        /// One worker, busy until it is released.
        fn busy(capacity: usize) -> Bench {
            let (release, hold) = channel();
            let bench = Bench {
                release,
                pool: Pool::new("test", 1, 1, capacity).unwrap(),
                notes: Arc::default(),
                wanted: Arc::new(AtomicBool::new(true)),
            };
            let first = Note {
                hold: Some(hold),
                ..bench.note("first")
            };
            bench.pool.readmit(lane_of(0), Box::new(first));
            while bench.pool.load() != (0, 1) {
                std::thread::yield_now();
            }
            bench
        }

        fn note(&self, text: &'static str) -> Note {
            Note {
                text,
                notes: Arc::clone(&self.notes),
                wanted: Arc::clone(&self.wanted),
                hold: None,
            }
        }

        fn submit(&self, lane: Lane, texts: &[&'static str]) {
            let mut places = self.pool.reserve(lane, texts.len(), (0, 0)).unwrap();
            for text in texts {
                places.submit(Box::new(self.note(text)));
            }
        }

        fn has_room(&self, jobs: usize) -> bool {
            self.pool.reserve(lane_of(0), jobs, (0, 0)).is_ok()
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
    fn a_single_job_waits_for_no_request_with_many_whether_they_arrive_at_once_or_one_by_one() {
        let texts = ["a1", "a2", "a3", "a4"];
        for at_a_time in [4, 1] {
            let (bench, lane) = (Bench::busy(100), lane_of(0));
            for jobs in texts.chunks(at_a_time) {
                bench.submit(lane, jobs);
            }
            bench.submit(lane_of(0), &["b1"]);
            assert_eq!(bench.finish(), ["first", "a1", "b1", "a2", "a3", "a4"]);
        }
    }

    #[test]
    fn a_client_with_many_requests_has_one_turn_as_others_have() {
        let bench = Bench::busy(100);
        for text in ["a1", "a2", "a3", "a4"] {
            bench.submit(lane_of(1), &[text]);
        }
        bench.submit(lane_of(2), &["b1", "b2"]);
        let order = ["first", "a1", "b1", "a2", "b2", "a3", "a4"];
        assert_eq!(bench.finish(), order);
    }

    #[test]
    fn an_instant_job_waits_for_no_other() {
        let bench = Bench::busy(100);
        bench.submit(lane_of(1), &["a1", "instant"]);
        while bench.pool.load() != (1, 1) {
            std::thread::yield_now();
        }
        assert_eq!(bench.finish(), ["instant", "first", "a1"]);
    }

    #[test]
    fn more_threads_than_the_maximum_are_refused() {
        let error = Pool::new("test", usize::MAX, 0, 1).err().unwrap();
        assert!(error.to_string().contains("1024"), "{error}");
    }

    #[test]
    fn a_request_is_admitted_as_a_whole_or_not_at_all() {
        let bench = Bench::busy(3);
        let room = bench.pool.reserve(lane_of(0), 2, (0, 0)).unwrap();
        let full = bench.pool.reserve(lane_of(0), 2, (0, 0)).err().unwrap();
        assert!(full.retry_after >= Duration::from_secs(1));
        drop(room);
        assert!(bench.has_room(3));
    }

    #[test]
    fn a_full_queue_admits_a_readmitted_job_and_a_request_without_jobs() {
        let (bench, lane) = (Bench::busy(1), lane_of(0));
        bench.submit(lane, &["a1"]);
        bench.pool.readmit(lane, Box::new(bench.note("a2")));
        assert!(bench.has_room(0) && !bench.has_room(1));
        assert_eq!(bench.finish(), ["first", "a1", "a2"]);
    }

    #[test]
    fn jobs_that_nobody_waits_for_are_not_run_and_free_their_places() {
        let bench = Bench::busy(3);
        bench.submit(lane_of(0), &["a1", "a2", "a3"]);
        bench.wanted.store(false, Ordering::SeqCst);
        assert!(!bench.has_room(1));
        bench.pool.sweep();
        assert!(bench.has_room(3));
        assert_eq!(bench.finish(), ["first"]);
    }

    #[test]
    fn a_worker_survives_a_job_that_panics() {
        let bench = Bench::busy(10);
        bench.submit(lane_of(0), &["panic", "after"]);
        assert_eq!(bench.finish(), ["first", "after"]);
    }
}
