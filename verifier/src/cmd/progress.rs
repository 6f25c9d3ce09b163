//! How far long work has come: a bar where stderr is a terminal, a line from time to time where it is not.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::{progress_bar, say};

/// Lines for a whole work of equal parts.
const LINES: usize = 10;
/// Parts of a work between two lines, at least: what takes a moment needs none.
const FEW: usize = 25;
/// With slow parts, a line comes after this time.
const LONG: Duration = Duration::from_secs(30);

/// The progress of judging samples.
pub(crate) struct Progress {
    bar: ProgressBar,
    lines: Lines,
    started: Instant,
}

impl Progress {
    /// Of `all` samples, of which `done` are judged already.
    pub(crate) fn new(done: usize, all: usize) -> Progress {
        let bar = progress_bar(all).with_position(done as u64);
        bar.reset_eta();
        Progress {
            bar,
            lines: Lines {
                done,
                all,
                said: done,
                at: Duration::ZERO,
            },
            started: Instant::now(),
        }
    }

    /// One more.
    pub(crate) fn step(&mut self) {
        self.bar.inc(1);
        if let Some(line) = self.lines.step(self.started.elapsed())
            && self.bar.is_hidden()
        {
            say(&line);
        }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

struct Lines {
    done: usize,
    all: usize,
    /// What the last line said, and when.
    said: usize,
    at: Duration,
}

impl Lines {
    fn step(&mut self, now: Duration) -> Option<String> {
        self.done += 1;
        let far = self.done - self.said >= (self.all / LINES).max(FEW);
        if !far && now.saturating_sub(self.at) < LONG {
            return None;
        }
        (self.said, self.at) = (self.done, now);
        Some(format!("judged {} of {}", self.done, self.all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(done: usize, all: usize, each: Duration) -> Vec<String> {
        let mut lines = Lines {
            done,
            all,
            said: done,
            at: Duration::ZERO,
        };
        let steps = u32::try_from(all - done).unwrap();
        (1..=steps)
            .filter_map(|step| lines.step(each * step))
            .collect()
    }

    #[test]
    fn quick_work_says_little_and_slow_work_speaks_up_in_between() {
        let quick = Duration::from_millis(1);
        assert_eq!(said(0, 24, quick), [""; 0]);
        assert_eq!(said(0, 60, quick), ["judged 25 of 60", "judged 50 of 60"]);
        assert_eq!(said(0, 1000, quick).len(), LINES);
        assert_eq!(said(900, 1000, quick), ["judged 1000 of 1000"]);
        let slow = Duration::from_secs(20);
        assert_eq!(said(0, 5, slow), ["judged 2 of 5", "judged 4 of 5"]);
    }
}
