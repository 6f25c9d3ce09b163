//! A pool of threads that waits awake between operations, and work cut among them by size alone.
//!
//! A decoding step is hundreds of operations of some microseconds each, so a thread that went to sleep after each of them would be woken for longer than it
//! works. The calling thread works too, and waits for none that has not begun.

#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::error::EngineError;

/// Elements that a thread takes at a time in loops over rows.
pub(super) const CHUNK: usize = 1 << 14;
/// Turns that a thread looks for work before it sleeps: about a tenth of a millisecond.
const TURNS: usize = 4000;

/// The threads that operations run on: the calling one and others that live as long as this.
pub(super) struct Threads {
    shared: Arc<Shared>,
    others: Vec<JoinHandle<()>>,
    pub(super) count: usize,
}

/// A call of [`Threads::each`], borrowed for as long as threads are in it.
#[derive(Clone, Copy)]
struct Job {
    f: *const (dyn Fn(usize) + Sync),
    count: usize,
}

// SAFETY: the function can be shared among threads, and `Threads::each` keeps it alive while any of them is in the job.
unsafe impl Send for Job {}

struct Shared {
    job: Mutex<Option<Job>>,
    /// The next number of the job that nobody has.
    next: AtomicUsize,
    /// Times [`ONE_JOB`]: jobs that were opened or closed, an odd number while one is open. Plus the number of other threads that are in it.
    state: AtomicU64,
    panicked: AtomicBool,
    ended: AtomicBool,
    sleeping: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

/// Room for the number of threads below it, and for jobs of a lifetime above.
const ONE_JOB: u64 = 1 << 16;

fn number(state: u64) -> u64 {
    state / ONE_JOB
}

fn open(state: u64) -> bool {
    number(state) % 2 == 1
}

impl Shared {
    /// Runs what is left of a job.
    fn work(&self, job: Job) {
        // SAFETY: `Threads::each` waits for those that are in its job before it returns.
        let f = unsafe { &*job.f };
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= job.count {
                return;
            }
            f(number);
        }
    }

    /// Another thread's life: a job after the other.
    fn serve(&self) {
        let mut seen = 0;
        while let Some(state) = self.wait(seen) {
            seen = number(state);
            let (order, anew) = (Ordering::AcqRel, Ordering::Relaxed);
            // Whoever is counted may use the job; one that has changed meanwhile is looked at anew.
            if self
                .state
                .compare_exchange(state, state + 1, order, anew)
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

    /// Waits for an open job beyond the one of this number; `None` where there will be none.
    fn wait(&self, seen: u64) -> Option<u64> {
        let found = || {
            let state = self.state.load(Ordering::SeqCst);
            (open(state) && number(state) > seen).then_some(state)
        };
        for _ in 0..TURNS {
            if let Some(state) = found() {
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
            if let Some(state) = found() {
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

/// Closes a job, and waits for those that are in it: also where the calling thread panics.
struct Open<'a>(&'a Shared);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let Self(shared) = self;
        shared.state.fetch_add(ONE_JOB, Ordering::AcqRel);
        wait_until(|| shared.state.load(Ordering::Acquire) % ONE_JOB == 0);
    }
}

/// Waits awake for what another thread is about to do.
pub(super) fn wait_until(done: impl Fn() -> bool) {
    let mut turns = 0;
    while !done() {
        turns += 1;
        if turns % TURNS == 0 {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

impl Threads {
    /// `threads` threads with the calling one; `None` takes one a processor that this process may use.
    pub(super) fn start(threads: Option<usize>) -> Result<Self, EngineError> {
        let count = match threads {
            Some(0) => {
                return Err(EngineError::Request(
                    "0 threads were asked for; give at least 1, or leave the option out".into(),
                ));
            }
            Some(n) => n,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let shared = Arc::new(Shared {
            job: Mutex::new(None),
            next: AtomicUsize::new(0),
            state: AtomicU64::new(0),
            panicked: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            sleeping: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        });
        let mut all = Self {
            shared,
            others: Vec::new(),
            count,
        };
        for i in 1..count {
            let shared = Arc::clone(&all.shared);
            let other = std::thread::Builder::new()
                .name(format!("engine-{i}"))
                .spawn(move || shared.serve())
                .map_err(|e| {
                    EngineError::Device(format!("cannot start {count} threads: {e}; ask for fewer"))
                })?;
            all.others.push(other);
        }
        Ok(all)
    }

    /// Runs `f` for 0 to `count`. The numbers are begun in their order, so one may wait for lower ones.
    pub(super) fn each(&self, count: usize, f: &(dyn Fn(usize) + Sync)) {
        if count < 2 || self.count == 1 {
            (0..count).for_each(f);
            return;
        }
        let shared = &*self.shared;
        // Before anything of the job under way is overwritten.
        assert!(
            !open(shared.state.load(Ordering::Acquire)),
            "one job at a time"
        );
        // SAFETY: the lifetime alone changes; `Open` outlasts every use of the job.
        let f: *const (dyn Fn(usize) + Sync) =
            unsafe { std::mem::transmute::<_, &'static (dyn Fn(usize) + Sync)>(f) };
        let job = Job { f, count };
        *shared.job.lock().unwrap_or_else(PoisonError::into_inner) = Some(job);
        shared.next.store(0, Ordering::Relaxed);
        // A job that the calling thread left by a panic of its own has not looked at the others'.
        shared.panicked.store(false, Ordering::Relaxed);
        let before = shared.state.fetch_add(ONE_JOB, Ordering::SeqCst);
        let opened = Open(shared);
        assert!(!open(before), "one job at a time");
        if shared.sleeping.load(Ordering::SeqCst) > 0 {
            shared.wake_all();
        }
        shared.work(job);
        drop(opened);
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

    /// Runs `f` on each of some things.
    pub(super) fn all<T: Send>(&self, things: impl Iterator<Item = T>, f: impl Fn(T) + Sync) {
        if self.count == 1 || things.size_hint().1.is_some_and(|most| most < 2) {
            things.for_each(f);
            return;
        }
        let things: Vec<Mutex<Option<T>>> = things.map(|thing| Mutex::new(Some(thing))).collect();
        self.each(things.len(), &|number| {
            let thing = things[number]
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(thing) = thing {
                f(thing);
            }
        });
    }

    /// Cuts rows of `y` into chunks of whole rows and runs `f` with the number of each chunk's first row.
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
            // Its panics were told to the caller.
            let _ = other.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_run_once_whatever_the_threads() {
        for threads in 1..5 {
            let threads = Threads::start(Some(threads)).unwrap();
            for count in (0..40).chain([1000]) {
                let times: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                threads.each(count, &|i| {
                    times[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(times.iter().all(|n| n.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn sleepers_are_woken() {
        let threads = Threads::start(Some(3)).unwrap();
        for _ in 0..3 {
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while threads.shared.sleeping.load(Ordering::SeqCst) < 2 {
                assert!(std::time::Instant::now() < deadline, "nobody fell asleep");
                std::thread::yield_now();
            }
            // Three that wait for each other: none may be missing.
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
            let count = 2 + job % 5;
            threads.each(count, &|i| {
                sum.fetch_add(job + i, Ordering::Relaxed);
            });
            let expected = count * job + count * (count - 1) / 2;
            assert_eq!(sum.into_inner(), expected);
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_threads_go_on() {
        let threads = Threads::start(Some(2)).unwrap();
        for culprit in 0..8 {
            let result = catch_unwind(AssertUnwindSafe(|| {
                threads.each(8, &|i| assert!(i != culprit, "as wanted"));
            }));
            assert!(result.is_err());
        }
        let sum = AtomicUsize::new(0);
        threads.each(8, &|i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 28);
    }

    #[test]
    fn a_job_in_which_every_thread_panics_leaves_nothing_to_the_next() {
        let threads = Threads::start(Some(2)).unwrap();
        let both = std::sync::Barrier::new(2);
        let result = catch_unwind(AssertUnwindSafe(|| {
            threads.each(2, &|_| {
                both.wait();
                panic!("as wanted");
            });
        }));
        assert!(result.is_err());
        threads.each(2, &|_| {});
    }

    #[test]
    fn things_are_each_taken_once_however_few() {
        let threads = Threads::start(Some(3)).unwrap();
        for count in 0..5 {
            let mut things = vec![0; count];
            threads.all(things.iter_mut().enumerate(), |(i, thing)| *thing += i + 1);
            assert!(things.iter().copied().eq(1..=count));
        }
    }
}
