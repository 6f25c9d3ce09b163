//! A pool of threads, and work cut among them by size alone.

use rayon::prelude::*;

use crate::error::EngineError;

/// Elements that a thread takes at a time in loops over rows.
pub(super) const CHUNK: usize = 1 << 14;

/// The threads that operations run on.
pub(super) struct Threads {
    pub(super) pool: rayon::ThreadPool,
    pub(super) count: usize,
}

impl Threads {
    /// Starts `threads` threads; `None` takes one a processor that this process may use.
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
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(count)
            .thread_name(|i| format!("engine-{i}"))
            .build()
            .map_err(|e| {
                EngineError::Device(format!("cannot start {count} threads: {e}; ask for fewer"))
            })?;
        Ok(Self { pool, count })
    }

    /// Runs `f` for 0 to `count`.
    pub(super) fn each(&self, count: usize, f: &(dyn Fn(usize) + Sync)) {
        if count < 2 || self.count == 1 {
            (0..count).for_each(f);
        } else {
            self.pool
                .install(|| (0..count).into_par_iter().with_max_len(1).for_each(f));
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

    /// Cuts rows of `y` into chunks of whole rows and runs `f` with the number of each chunk's first row.
    pub(super) fn rows(
        &self,
        y: &mut [f32],
        width: usize,
        f: impl Fn(usize, &mut [f32]) + Sync + Send,
    ) {
        let rows = (CHUNK / width.max(1)).max(1);
        if y.len() <= rows * width || self.count == 1 {
            for (i, y) in y.chunks_mut(rows * width).enumerate() {
                f(i * rows, y);
            }
        } else {
            self.pool.install(|| {
                y.par_chunks_mut(rows * width)
                    .enumerate()
                    .for_each(|(i, y)| f(i * rows, y));
            });
        }
    }
}
