//! A pool of threads that stay awake between operations. Work is divided among them by size alone.
//!
//! A decoding step is hundreds of operations of some microseconds each. A thread that slept after each of them would take longer to wake than to work. The
//! calling thread works too, and does not wait for threads that have not started on a job.

#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::error::EngineError;

/// Number of elements that a thread processes at a time in loops over rows.
pub(super) const CHUNK: usize = 1 << 14;
/// Number of times that a thread looks for work before it sleeps: about a tenth of a millisecond.
const SPINS: usize = 4000;

/// The threads that run operations: the calling one, and others with the lifetime of this value.
pub(super) struct Threads {
    shared: Arc<Shared>,
    others: Vec<JoinHandle<()>>,
    pub(super) count: usize,
}

/// A call of [`Threads::each`]. The function is borrowed while threads are in the job.
#[derive(Clone, Copy)]
struct Job {
    f: *const (dyn Fn(usize) + Sync),
    count: usize,
}

// SAFETY: `Threads::each` keeps the function alive while any thread is in the job, and the function can be shared among threads.
unsafe impl Send for Job {}

#[derive(Default)]
struct Shared {
    job: Mutex<Option<Job>>,
    /// The job's next index that no thread has taken.
    next: AtomicUsize,
    /// The number of times that a job was opened or closed, times [`ONE_JOB`], plus the number of other threads in the job. The first number is odd while a job
    /// is open.
    state: AtomicU64,
    panicked: AtomicBool,
    ended: AtomicBool,
    sleeping: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

/// Leaves room for the number of threads below, and for the number of jobs in a lifetime above.
const ONE_JOB: u64 = 1 << 16;

fn number(state: u64) -> u64 {
    state / ONE_JOB
}

fn open(state: u64) -> bool {
    number(state) % 2 == 1
}

impl Shared {
    /// Runs the remaining indices of a job.
    fn work(&self, job: Job) {
        // SAFETY: `Threads::each` waits for the threads in its job before it returns.
        let f = unsafe { &*job.f };
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= job.count {
                return;
            }
            f(number);
        }
    }

    /// Loop of another thread, which works on one job after the other.
    fn serve(&self) {
        let mut seen = 0;
        while let Some(state) = self.wait(seen) {
            seen = number(state);
            let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            // A thread that is counted may use the job. If the state has changed meanwhile, it is examined again.
            if self
                .state
                .compare_exchange(state, state + 1, success, failure)
                .is_err()
            {
                seen = number(state) - 1;
                continue;
            }
            let job = *self.job.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(job) = job {
                let work = AssertUnwindSafe(|| self.work(job));
                if catch_unwind(work).is_err() {
                    self.panicked.store(true, Ordering::Relaxed);
                }
            }
            self.state.fetch_sub(1, Ordering::Release);
        }
    }

    /// Waits for an open job with a number above `seen`; `None` if the pool has ended.
    fn wait(&self, seen: u64) -> Option<u64> {
        let open_job = || {
            let state = self.state.load(Ordering::SeqCst);
            (open(state) && number(state) > seen).then_some(state)
        };
        for _ in 0..SPINS {
            if let Some(state) = open_job() {
                return Some(state);
            }
            std::hint::spin_loop();
        }
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        let result = loop {
            if self.ended.load(Ordering::SeqCst) {
                break None;
            }
            if let Some(state) = open_job() {
                break Some(state);
            }
            let woken = self.wake.wait(guard);
            guard = woken.unwrap_or_else(PoisonError::into_inner);
        };
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
        result
    }

    fn wake_all(&self) {
        let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.wake.notify_all();
    }
}

/// Closes a job and waits for the threads in it, also if the calling thread panics.
struct Open<'a>(&'a Shared);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let Self(shared) = self;
        shared.state.fetch_add(ONE_JOB, Ordering::AcqRel);
        wait_until(|| shared.state.load(Ordering::Acquire) % ONE_JOB == 0);
    }
}

/// Spins until another thread has done something that it is about to do.
pub(super) fn wait_until(done: impl Fn() -> bool) {
    let mut spins = 0;
    while !done() {
        spins += 1;
        if spins % SPINS == 0 {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

impl Threads {
    /// Starts `threads` threads, including the calling one; `None` uses one for each processor that this process may use.
    pub(super) fn start(threads: Option<usize>) -> Result<Self, EngineError> {
        let count = match threads {
            Some(0) => {
                return Err(EngineError::Request(
                    "0 threads were requested; give at least 1, or omit the option".into(),
                ));
            }
            Some(n) => n,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let mut all = Self {
            shared: Arc::default(),
            others: Vec::new(),
            count,
        };
        for i in 1..count {
            let shared = Arc::clone(&all.shared);
            let other = std::thread::Builder::new()
                .name(format!("engine-{i}"))
                .spawn(move || shared.serve())
                .map_err(|e| {
                    EngineError::Device(format!("cannot start {count} threads: {e}; request fewer"))
                })?;
            all.others.push(other);
        }
        Ok(all)
    }

    /// Runs `f` for 0 to `count`. The indices are started in order, so a call may wait for calls with lower indices.
    pub(super) fn each(&self, count: usize, f: &(dyn Fn(usize) + Sync)) {
        if count < 2 || self.count == 1 {
            (0..count).for_each(f);
            return;
        }
        let shared = &*self.shared;
        // Checked before the state of a job in progress can be overwritten.
        assert!(
            !open(shared.state.load(Ordering::Acquire)),
            "one job at a time"
        );
        // SAFETY: only the lifetime changes; `Open` outlives every use of the job.
        let f: *const (dyn Fn(usize) + Sync) =
            unsafe { std::mem::transmute::<_, &'static (dyn Fn(usize) + Sync)>(f) };
        let job = Job { f, count };
        *shared.job.lock().unwrap_or_else(PoisonError::into_inner) = Some(job);
        shared.next.store(0, Ordering::Relaxed);
        // If a job's calling thread panicked itself, it has not read and cleared the flag.
        shared.panicked.store(false, Ordering::Relaxed);
        let before = shared.state.fetch_add(ONE_JOB, Ordering::SeqCst);
        let guard = Open(shared);
        assert!(!open(before), "one job at a time");
        if shared.sleeping.load(Ordering::SeqCst) > 0 {
            shared.wake_all();
        }
        shared.work(job);
        drop(guard);
        if shared.panicked.load(Ordering::Relaxed) {
            resume_unwind(Box::new("a thread of the engine panicked"));
        }
    }

    /// Runs `f` for 0 to `count`, on the calling thread alone unless `parallel`.
    pub(super) fn each_if(&self, parallel: bool, count: usize, f: &(dyn Fn(usize) + Sync)) {
        if parallel {
            self.each(count, f);
        } else {
            (0..count).for_each(f);
        }
    }

    /// Runs `f` on each item.
    pub(super) fn all<T: Send>(&self, items: impl Iterator<Item = T>, f: impl Fn(T) + Sync) {
        if self.count == 1 || items.size_hint().1.is_some_and(|max| max < 2) {
            items.for_each(f);
            return;
        }
        let items: Vec<Mutex<Option<T>>> = items.map(|item| Mutex::new(Some(item))).collect();
        self.each(items.len(), &|number| {
            let item = items[number]
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(item) = item {
                f(item);
            }
        });
    }

    /// Divides `y` into chunks of whole rows, and runs `f` with the index of each chunk's first row.
    pub(super) fn rows(
        &self,
        y: &mut [f32],
        width: usize,
        f: impl Fn(usize, &mut [f32]) + Sync + Send,
    ) {
        let rows = (CHUNK / width.max(1)).max(1);
        let chunks = y.chunks_mut((rows * width).max(1)).enumerate();
        self.all(chunks, |(i, y)| f(i * rows, y));
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.shared.wake_all();
        for other in self.others.drain(..) {
            // A thread's panics were reported to the caller.
            let _ = other.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_threads_are_woken() {
        let threads = Threads::start(Some(3)).unwrap();
        for _ in 0..3 {
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while threads.shared.sleeping.load(Ordering::SeqCst) < 2 {
                assert!(std::time::Instant::now() < deadline, "nobody fell asleep");
                std::thread::yield_now();
            }
            // Three calls that wait for each other, so all three threads must run.
            let barrier = std::sync::Barrier::new(3);
            threads.each(3, &|_| {
                barrier.wait();
            });
        }
    }

    #[test]
    fn many_short_jobs_are_not_mixed_up() {
        let threads = Threads::start(Some(4)).unwrap();
        for job in 0..20_000 {
            let sum = AtomicUsize::new(0);
            let count = job % 40;
            threads.each(count, &|i| {
                sum.fetch_add(job + i, Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), (job..job + count).sum::<usize>());
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_keeps_working() {
        let threads = Threads::start(Some(2)).unwrap();
        for culprit in 0..8 {
            let result = catch_unwind(AssertUnwindSafe(|| {
                threads.each(8, &|i| assert!(i != culprit, "as wanted"));
            }));
            assert!(result.is_err());
        }
        // Both threads in one job.
        let both = std::sync::Barrier::new(2);
        let result = catch_unwind(AssertUnwindSafe(|| {
            threads.each(2, &|_| {
                both.wait();
                panic!("as wanted");
            });
        }));
        assert!(result.is_err());
        let sum = AtomicUsize::new(0);
        threads.each(8, &|i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 28);
    }

    #[test]
    fn every_item_is_processed_once() {
        let threads = Threads::start(Some(3)).unwrap();
        for count in 0..5 {
            let mut items = vec![0; count];
            threads.all(items.iter_mut().enumerate(), |(i, item)| *item += i + 1);
            assert!(items.iter().copied().eq(1..=count));
        }
    }
}
