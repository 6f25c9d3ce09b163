//! Interpreters that read texts. No part of a text runs in one, so it stays for further texts. An interpreter that ran a program is dropped after its run.
//!
//! A reader's answer must not depend on earlier texts. So an answer that broke off, or came near to a limit, does not count, and a fresh reader reads again.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Limits;

/// The readers that wait for texts, each with its limits.
pub(crate) struct Readers<T> {
    idle: Mutex<Vec<(Limits, T)>>,
    /// Readers that may wait at a time.
    max: usize,
}

impl<T> Readers<T> {
    pub(crate) fn new(max: usize) -> Readers<T> {
        Readers {
            idle: Mutex::default(),
            max,
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Limits, T)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a reader with these limits.
    pub(crate) fn take(&self, limits: &Limits) -> Option<T> {
        let mut idle = self.idle();
        let at = idle.iter().rposition(|(own, _)| own == limits)?;
        Some(idle.remove(at).1)
    }

    /// Has a reader wait for further texts.
    pub(crate) fn put_back(&self, limits: Limits, reader: T) {
        let mut idle = self.idle();
        idle.push((limits, reader));
        if idle.len() > self.max {
            // The limits of the oldest may no longer be requested.
            idle.remove(0);
        }
    }

    /// Drops all readers that wait.
    pub(crate) fn clear(&self) {
        self.idle().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_waits_for_texts_under_its_limits_and_the_oldest_makes_room() {
        let readers = Readers::new(2);
        let limits = |fuel| Limits {
            fuel,
            ..Limits::default()
        };
        for (fuel, name) in [(1, "oldest"), (1, "older"), (2, "newest")] {
            readers.put_back(limits(fuel), name);
        }
        assert_eq!(readers.take(&limits(3)), None);
        assert_eq!(readers.take(&limits(1)), Some("older"));
        assert_eq!(readers.take(&limits(1)), None);
        assert_eq!(readers.take(&limits(2)), Some("newest"));
    }
}
