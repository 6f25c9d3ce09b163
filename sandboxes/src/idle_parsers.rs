//! Interpreters that only parse texts, and wait for further ones. No part of a text runs in one. An interpreter that ran a program is dropped after its run.
//!
//! A parser's answer must not depend on earlier texts. So an answer that broke off, or came near to a limit, does not count, and a fresh parser reads again.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Limits;

/// The parsers that wait for texts, each with its limits.
pub(crate) struct IdleParsers<T> {
    idle: Mutex<Vec<(Limits, T)>>,
    /// Parsers that may wait at a time.
    max: usize,
}

impl<T> IdleParsers<T> {
    pub(crate) fn new(max: usize) -> IdleParsers<T> {
        IdleParsers {
            idle: Mutex::default(),
            max,
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Limits, T)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a parser with these limits.
    pub(crate) fn take(&self, limits: &Limits) -> Option<T> {
        let mut idle = self.idle();
        let at = idle.iter().rposition(|(own, _)| own == limits)?;
        Some(idle.remove(at).1)
    }

    /// Has a parser wait for further texts.
    pub(crate) fn put_back(&self, limits: Limits, parser: T) {
        let mut idle = self.idle();
        idle.push((limits, parser));
        if idle.len() > self.max {
            // The limits of the oldest may no longer be requested.
            idle.remove(0);
        }
    }

    /// Drops all parsers that wait.
    pub(crate) fn clear(&self) {
        self.idle().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parser_waits_for_texts_under_its_limits_and_the_oldest_makes_room() {
        let parsers = IdleParsers::new(2);
        let limits = |fuel| Limits {
            fuel,
            ..Limits::default()
        };
        for (fuel, name) in [(1, "oldest"), (1, "older"), (2, "newest")] {
            parsers.put_back(limits(fuel), name);
        }
        assert_eq!(parsers.take(&limits(3)), None);
        assert_eq!(parsers.take(&limits(1)), Some("older"));
        assert_eq!(parsers.take(&limits(1)), None);
        assert_eq!(parsers.take(&limits(2)), Some("newest"));
    }
}
