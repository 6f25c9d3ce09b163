//! Ranks that are threads of one process: several emulated devices, and tests.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::ProcessGroup;
use crate::error::EngineError;

/// The process groups of `size` ranks of this process. A rank that waits longer than `deadline` for the others gives up, and ends the whole group.
pub fn local(size: usize, deadline: Duration) -> Vec<Arc<dyn ProcessGroup>> {
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            round: 0,
            sent: vec![None; size],
            left: 0,
            broken: false,
        }),
        changed: Condvar::new(),
        deadline,
    });
    let ranks = (0..size).map(|rank| {
        let shared = Arc::clone(&shared);
        Arc::new(Local { rank, size, shared }) as Arc<dyn ProcessGroup>
    });
    ranks.collect()
}

/// The process group of a process that trains alone.
pub fn alone() -> Arc<dyn ProcessGroup> {
    local(1, Duration::MAX).remove(0)
}

/// Runs `work` on ranks that are threads, each with its group.
#[cfg(test)]
pub(crate) fn on_each<T: Send>(
    size: usize,
    deadline: Duration,
    work: impl Fn(Arc<dyn ProcessGroup>) -> T + Sync,
) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let ranks = local(size, deadline).into_iter();
        let threads: Vec<_> = ranks
            .map(|ranks| scope.spawn(move || work(ranks)))
            .collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        ended.collect()
    })
}

struct Local {
    rank: usize,
    size: usize,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    deadline: Duration,
}

/// What the ranks have sent in the current call.
struct State {
    /// Number of the current call.
    round: u64,
    /// Each rank's parts, once it has made the call.
    sent: Vec<Option<Vec<Vec<u8>>>>,
    /// Number of ranks that have taken their parts.
    left: usize,
    broken: bool,
}

impl Local {
    fn wait<'a>(
        &self,
        state: std::sync::MutexGuard<'a, State>,
        ready: impl Fn(&State) -> bool,
    ) -> Result<std::sync::MutexGuard<'a, State>, EngineError> {
        let waits = |state: &mut State| !state.broken && !ready(state);
        let (mut state, _) = self
            .shared
            .changed
            .wait_timeout_while(state, self.shared.deadline, waits)
            .unwrap_or_else(PoisonError::into_inner);
        if ready(&state) && !state.broken {
            return Ok(state);
        }
        state.broken = true;
        self.shared.changed.notify_all();
        Err(EngineError::Ranks(format!(
            "rank {} waited for other ranks, and one of them is gone or did not call within {} s",
            self.rank,
            self.shared.deadline.as_secs_f64()
        )))
    }
}

impl ProcessGroup for Local {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn deadline(&self) -> Duration {
        self.shared.deadline
    }

    fn all_to_all(&self, parts: &[&[u8]]) -> Result<Vec<Vec<u8>>, EngineError> {
        let shared = &self.shared;
        let lock = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        // The call before this one may not have been left by all ranks.
        let rank = self.rank;
        let mut state = self.wait(lock, |state| state.sent[rank].is_none())?;
        state.sent[rank] = Some(parts.iter().map(|part| part.to_vec()).collect());
        shared.changed.notify_all();
        let round = state.round;
        let all = |state: &State| state.round == round && state.sent.iter().all(Option::is_some);
        let mut state = self.wait(state, all)?;
        let mine = state.sent.iter_mut().flatten();
        let mine = mine.map(|parts| std::mem::take(&mut parts[rank])).collect();
        state.left += 1;
        if state.left == self.size {
            state.round += 1;
            state.left = 0;
            state.sent.fill(None);
            shared.changed.notify_all();
        }
        Ok(mine)
    }
}
