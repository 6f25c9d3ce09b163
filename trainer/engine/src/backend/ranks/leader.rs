//! Rank 0's side of ranks that compute together: it sends commands, and one command runs at a time. Between commands it sends heartbeats.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::time::Duration;

use super::ProcessGroup;
use crate::error::EngineError;

/// A command without effect. No command of the worker has these bytes.
const HEARTBEAT: &[u8] = b" ";
/// The time between heartbeats, unless the ranks' deadline is shorter.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// Rank 0 of ranks that compute together. Clones share its state. Commands are bytes that only the worker interprets; an empty command ends the other ranks.
#[derive(Clone)]
pub struct Leader {
    pub(crate) ranks: Arc<dyn ProcessGroup>,
    /// Locked while a command runs, since the ranks then exchange what it needs.
    state: Arc<Mutex<LeaderState>>,
}

/// What rank 0 knows of the others.
#[derive(Default)]
pub(crate) struct LeaderState {
    /// Number of models opened so far.
    pub(crate) opened: usize,
    ended: bool,
}

impl std::fmt::Debug for Leader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the first of {} ranks", self.ranks.size())
    }
}

impl PartialEq for Leader {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }
}

impl Leader {
    /// The leader, in the process that is rank 0. The other ranks [`follow`](crate::follow). Until they are ended, a thread sends them heartbeats between
    /// commands. So they wait for the next command as long as this process lives.
    ///
    /// # Errors
    /// [`EngineError::Ranks`] if the thread cannot be started.
    pub fn new(ranks: Arc<dyn ProcessGroup>) -> Result<Self, EngineError> {
        let state = Arc::default();
        let leader = Self { ranks, state };
        let (ranks, state) = (Arc::clone(&leader.ranks), Arc::downgrade(&leader.state));
        std::thread::Builder::new()
            .name("leader".into())
            .spawn(move || send_heartbeats(&ranks, &state))
            .map_err(|error| {
                EngineError::Ranks(format!("the leader's thread cannot be started: {error}"))
            })?;
        Ok(leader)
    }

    /// Number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.ranks.size()
    }

    /// Begins a command. Until the result is dropped, no other command begins. After a panic in a command none begins, since the other ranks are still in it.
    pub(crate) fn begin(&self, command: &[u8]) -> Result<MutexGuard<'_, LeaderState>, EngineError> {
        let turn = self.state.lock().map_err(|_| panicked())?;
        self.send(&turn, command)?;
        Ok(turn)
    }

    /// Sends a heartbeat, unless a command is running.
    fn send_heartbeat(&self) -> Result<(), EngineError> {
        match self.state.try_lock() {
            Ok(turn) => self.send(&turn, HEARTBEAT),
            Err(TryLockError::Poisoned(_)) => Err(panicked()),
            Err(TryLockError::WouldBlock) => Ok(()),
        }
    }

    fn send(&self, state: &LeaderState, command: &[u8]) -> Result<(), EngineError> {
        if state.ended {
            return Err(EngineError::Stopped);
        }
        // Not one copy for each rank: the size of an exchange is limited.
        self.ranks.all_gather(command).map(drop)
    }

    /// Ends the other ranks' [`follow`](crate::follow), and leaves the group. Later commands are errors.
    ///
    /// # Errors
    /// [`EngineError::Ranks`].
    pub fn end(&self) -> Result<(), EngineError> {
        let mut turn = self.begin(&[])?;
        turn.ended = true;
        self.ranks.finish();
        Ok(())
    }

    /// Ends the processes of all ranks after an error.
    pub fn abort(&self, code: i32) {
        self.ranks.abort(code);
    }
}

fn panicked() -> EngineError {
    EngineError::Ranks(
        "rank 0 panicked in a command that the other ranks are still in, so they cannot go on; its message is printed above".into(),
    )
}

/// Sends heartbeats until the leader is dropped, or has ended or lost the other ranks. The next command reports an error.
fn send_heartbeats(ranks: &Arc<dyn ProcessGroup>, state: &Weak<Mutex<LeaderState>>) {
    let every = HEARTBEAT_INTERVAL.min(ranks.deadline() / 4);
    loop {
        std::thread::sleep(every);
        let Some(state) = state.upgrade() else { return };
        let ranks = Arc::clone(ranks);
        if (Leader { ranks, state }).send_heartbeat().is_err() {
            return;
        }
    }
}

/// The next command of rank 0; it is empty when rank 0 ends.
pub(crate) fn next_command(ranks: &dyn ProcessGroup) -> Result<Vec<u8>, EngineError> {
    loop {
        let command = ranks.all_gather(&[])?.swap_remove(0);
        if command != HEARTBEAT {
            return Ok(command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::ranks::local;

    /// The leader of two ranks that are threads, and the other rank.
    fn two(deadline: Duration) -> (Leader, Arc<dyn ProcessGroup>) {
        let mut ranks = local(2, deadline).into_iter();
        let mut next = || ranks.next().expect("two ranks");
        (Leader::new(next()).expect("a thread"), next())
    }

    #[test]
    fn ranks_wait_for_a_command_longer_than_for_an_exchange() {
        let deadline = Duration::from_secs(3);
        let (leader, other) = two(deadline);
        let other = std::thread::spawn(move || next_command(other.as_ref()));
        std::thread::sleep(deadline + Duration::from_secs(1));
        drop(leader.begin(b"command").expect("the other rank waits"));
        let command = other.join().expect("no panic").expect("a command");
        assert_eq!(command, b"command");
    }

    #[test]
    fn no_command_begins_after_a_panic_in_one() {
        let (leader, other) = two(Duration::from_secs(60));
        let other = std::thread::spawn(move || next_command(other.as_ref()));
        let clone = leader.clone();
        let command = std::thread::spawn(move || {
            let _turn = clone.begin(b"command");
            panic!("a bug");
        });
        command.join().expect_err("a panic");
        other.join().expect("no panic").expect("a command");
        let error = leader.end().expect_err("the other rank is in a command");
        assert!(matches!(error, EngineError::Ranks(_)), "{error}");
        assert!(leader.send_heartbeat().is_err());
    }

    /// Rank 0 of many, with exchanges that may only send all ranks the same bytes.
    struct Limited;

    impl ProcessGroup for Limited {
        fn rank(&self) -> usize {
            0
        }

        fn size(&self) -> usize {
            64
        }

        fn deadline(&self) -> Duration {
            Duration::from_secs(60)
        }

        fn all_to_all(&self, _: &[&[u8]]) -> Result<Vec<Vec<u8>>, EngineError> {
            Err(EngineError::Ranks("too much".into()))
        }

        fn all_gather(&self, _: &[u8]) -> Result<Vec<Vec<u8>>, EngineError> {
            Ok(vec![Vec::new(); self.size()])
        }
    }

    #[test]
    fn a_command_is_not_copied_for_each_rank() {
        let leader = Leader::new(Arc::new(Limited)).expect("a thread");
        drop(leader.begin(&[7; 1000]).expect("one copy"));
    }
}
