//! The progress of long work: a bar if stderr is a terminal, otherwise a line from time to time.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::{progress_bar, say};

/// Number of lines for the whole work, if its parts take equal time.
const LINES: usize = 10;
/// Minimum number of parts between two lines, so that short work prints none.
const MIN_PARTS: usize = 25;
/// Maximum time between two lines, if parts are finished.
const MAX_INTERVAL: Duration = Duration::from_secs(30);

/// The progress of judging samples.
pub(crate) struct Progress {
    bar: ProgressBar,
    lines: Lines,
    started: Instant,
}

impl Progress {
    /// The progress of `all` samples, of which `done` are judged already.
    pub(crate) fn new(done: usize, all: usize) -> Progress {
        let bar = progress_bar("judging", all).with_position(done as u64);
        bar.reset_eta();
        Progress {
            bar,
            lines: Lines {
                done,
                all,
                last_done: done,
                last_time: Duration::ZERO,
            },
            started: Instant::now(),
        }
    }

    /// Counts one more judged sample.
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
    /// The number in the last line, and its time.
    last_done: usize,
    last_time: Duration,
}

impl Lines {
    fn step(&mut self, now: Duration) -> Option<String> {
        self.done += 1;
        let many = self.done - self.last_done >= (self.all / LINES).max(MIN_PARTS);
        if !many && now.saturating_sub(self.last_time) < MAX_INTERVAL {
            return None;
        }
        (self.last_done, self.last_time) = (self.done, now);
        Some(format!("judged {} of {}", self.done, self.all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_printed(done: usize, all: usize, each: Duration) -> Vec<String> {
        let mut lines = Lines {
            done,
            all,
            last_done: done,
            last_time: Duration::ZERO,
        };
        let steps = u32::try_from(all - done).unwrap();
        (1..=steps)
            .filter_map(|step| lines.step(each * step))
            .collect()
    }

    #[test]
    fn fast_work_prints_few_lines_and_slow_work_prints_regularly() {
        let quick = Duration::from_millis(1);
        assert_eq!(lines_printed(0, 24, quick), [""; 0]);
        assert_eq!(
            lines_printed(0, 60, quick),
            ["judged 25 of 60", "judged 50 of 60"]
        );
        assert_eq!(lines_printed(0, 1000, quick).len(), LINES);
        assert_eq!(lines_printed(900, 1000, quick), ["judged 1000 of 1000"]);
        let slow = Duration::from_secs(20);
        assert_eq!(
            lines_printed(0, 5, slow),
            ["judged 2 of 5", "judged 4 of 5"]
        );
    }
}
