//! What a person sees of a run: a bar where stderr is a terminal, lines where it is not.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::record::{EvalRecord, StepRecord};
use crate::rollout::Tally;

/// Lines on long work come at most this often.
const REMINDER: Duration = Duration::from_secs(30);

/// Where a run's course is told.
#[derive(Debug)]
pub struct Progress {
    shape: Shape,
    /// Updates in all, and done when this process began.
    updates: usize,
    begun_at: usize,
    begun: Instant,
    spoken: Instant,
}

#[derive(Debug)]
enum Shape {
    Bar(ProgressBar),
    Lines,
    Silent,
}

impl Progress {
    /// A bar on a terminal, lines elsewhere.
    #[must_use]
    pub fn on_stderr() -> Self {
        if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(0);
            // The template is a constant of this program; a bar of another look would do as well.
            if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:28}] {pos}/{len} {msg}")
            {
                bar.set_style(style.progress_chars("=> "));
            }
            return Self::new(Shape::Bar(bar));
        }
        Self::new(Shape::Lines)
    }

    /// Nothing at all.
    #[must_use]
    pub fn silent() -> Self {
        Self::new(Shape::Silent)
    }

    fn new(shape: Shape) -> Self {
        Self {
            shape,
            updates: 0,
            begun_at: 0,
            begun: Instant::now(),
            spoken: Instant::now(),
        }
    }

    /// A run of `updates` updates goes on from `step`.
    pub(super) fn begin(&mut self, updates: usize, step: usize) {
        (self.updates, self.begun_at, self.begun) = (updates, step, Instant::now());
    }

    /// A line of its own.
    pub fn say(&self, text: &str) {
        match &self.shape {
            Shape::Bar(bar) => bar.suspend(|| eprintln!("{text}")),
            Shape::Lines => eprintln!("{text}"),
            Shape::Silent => {}
        }
    }

    /// Completions of a phase or an evaluation come in.
    pub(super) fn sampling(&mut self, what: &str, tally: &Tally) {
        let seconds = tally.elapsed.as_secs_f64().max(1e-3);
        let judged = tally.judged - tally.masked;
        let reward = if judged == 0 {
            0.0
        } else {
            tally.reward / judged as f64
        };
        let state = format!(
            "{:.0} tokens/s, {} judged, reward {reward:.3}{}",
            tally.tokens as f64 / seconds,
            tally.judged,
            if tally.masked == 0 {
                String::new()
            } else {
                format!(", {} masked", tally.masked)
            },
        );
        match &self.shape {
            Shape::Bar(bar) => {
                bar.set_length(tally.wanted as u64);
                bar.set_position(tally.drawn as u64);
                bar.set_prefix(what.to_owned());
                bar.set_message(state);
            }
            Shape::Lines if self.spoken.elapsed() > REMINDER => {
                eprintln!(
                    "{what}: {}/{} completions, {state}",
                    tally.drawn, tally.wanted
                );
                self.spoken = Instant::now();
            }
            Shape::Lines | Shape::Silent => {}
        }
    }

    /// An update begins.
    pub(super) fn updating(&self, step: usize) {
        if let Shape::Bar(bar) = &self.shape {
            bar.set_prefix("update");
            bar.set_length(self.updates as u64);
            bar.set_position(step as u64);
            bar.set_message(String::new());
        }
    }

    /// An update is done.
    pub(super) fn updated(&mut self, record: &StepRecord) {
        self.spoken = Instant::now();
        let algo = &record.algo;
        self.say(&format!(
            "update {}/{}: reward {:.3} ({} right, {} mixed, {} wrong), grad norm {:.3}, entropy {:.3}, mean |log w| {:.4}, length {:.1}{}",
            record.step,
            self.updates,
            algo.reward,
            record.groups.right,
            record.groups.mixed,
            record.groups.wrong,
            record.grad_norm,
            record.entropy,
            algo.stale_mean_abs_log,
            record.length_mean,
            self.left(record.step).map(|left| format!(", {left} left")).unwrap_or_default(),
        ));
    }

    /// An evaluation is done.
    pub(super) fn evaluated(&mut self, record: &EvalRecord) {
        self.spoken = Instant::now();
        let figures: Vec<String> = record
            .pass_at
            .iter()
            .map(|(k, e)| {
                format!(
                    "Pass@{k} {:.1}% [{:.1}, {:.1}]",
                    100.0 * e.mean,
                    100.0 * e.low,
                    100.0 * e.high
                )
            })
            .collect();
        self.say(&format!(
            "evaluation after {} updates on {} tasks: {}",
            record.step,
            record.tasks.len(),
            figures.join(", ")
        ));
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        if let Shape::Bar(bar) = &self.shape {
            bar.finish_and_clear();
        }
    }

    /// Time left, from that of the updates so far.
    fn left(&self, step: usize) -> Option<String> {
        let done = step.checked_sub(self.begun_at).filter(|done| *done > 0)?;
        let open = self.updates.saturating_sub(step);
        let seconds = self.begun.elapsed().as_secs() * open as u64 / done as u64;
        (open > 0).then(|| match seconds {
            0..60 => format!("{seconds} s"),
            60..3600 => format!("{} min", seconds.div_ceil(60)),
            _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        })
    }
}
