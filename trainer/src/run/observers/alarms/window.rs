//! Means over the first updates of a run and over its latest ones, which the rules compare.

use crate::record::StepRecord;

/// Number of updates at the start, and of latest updates, that are averaged: more than a phase of the paper's H = 4, so that they include fresh and stale samples.
pub(super) const UPDATES: usize = 5;

/// Means over a few updates, with equal weight for each completion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Means {
    pub(super) reward: f64,
    pub(super) entropy: f64,
    pub(super) length: f64,
    /// Mean length of the completions that ended by themselves, without truncation; `None` if less than a tenth did.
    pub(super) own_length: Option<f64>,
    pub(super) truncated: f64,
    pub(super) commonest: f64,
    /// The fewest prompts of an update.
    pub(super) prompts: usize,
    /// Effective sample size, as a share of the samples that it is of; not a number if there are none.
    pub(super) ess: f64,
    pub(super) masked: f64,
}

/// The run so far, as the rules see it.
#[derive(Debug, Default)]
pub(super) struct Window {
    updates: Vec<StepRecord>,
    /// Groups all correct and groups all wrong since the last update with a mixed group.
    pub(super) no_signal: (usize, usize),
    /// Updates since the last update with a mixed group.
    pub(super) no_signal_updates: usize,
}

impl Window {
    pub(super) fn add(&mut self, record: &StepRecord) {
        self.updates.push(record.clone());
        if record.groups.mixed > 0 {
            (self.no_signal, self.no_signal_updates) = ((0, 0), 0);
        } else {
            self.no_signal.0 += record.groups.right;
            self.no_signal.1 += record.groups.wrong;
            self.no_signal_updates += 1;
        }
    }

    /// The first updates, and the latest; there may be fewer than [`UPDATES`] of each.
    fn ends(&self) -> [&[StepRecord]; 2] {
        let (all, size) = (&self.updates, UPDATES.min(self.updates.len()));
        [&all[..size], &all[all.len() - size..]]
    }

    /// The means over the run's first updates and over its latest; `None` if there are not enough updates yet.
    pub(super) fn means(&self) -> Option<(Means, Means)> {
        let [start, recent] = self.ends();
        (start.len() == UPDATES).then(|| (means(start), means(recent)))
    }

    /// Whether none of the first updates is among the latest.
    pub(super) fn disjoint(&self) -> bool {
        self.updates.len() >= 2 * UPDATES
    }

    /// Mean reward of the first updates and of the latest. `None` before the first.
    pub(super) fn rewards(&self) -> Option<[f64; 2]> {
        let is_begun = !self.updates.is_empty();
        is_begun.then(|| self.ends().map(|updates| means(updates).reward))
    }
}

fn means(updates: &[StepRecord]) -> Means {
    let judged_of = |record: &StepRecord| record.algo.judged as f64;
    let all_of = |record: &StepRecord| (record.algo.judged + record.algo.masked) as f64;
    let sum = |value: &dyn Fn(&StepRecord) -> f64| updates.iter().map(value).sum::<f64>();
    let (all, judged) = (sum(&all_of).max(1.0), sum(&judged_of).max(1.0));
    let mean = |value: &dyn Fn(&StepRecord) -> f64| sum(&|r| value(r) * all_of(r)) / all;
    let judged_mean =
        |value: &dyn Fn(&StepRecord) -> f64| sum(&|r| value(r) * judged_of(r)) / judged;
    let stopped = mean(&|r| 1.0 - r.truncated);
    // Truncated completions have the limit's length, and none is longer.
    let stopped_tokens = mean(&|r| r.length_mean - r.truncated * r.length_max as f64);
    Means {
        reward: judged_mean(&|r| r.algo.reward),
        entropy: judged_mean(&|r| r.entropy),
        length: mean(&|r| r.length_mean),
        own_length: (stopped >= 0.1).then(|| stopped_tokens / stopped),
        truncated: mean(&|r| r.truncated),
        commonest: mean(&|r| r.repeats.commonest),
        prompts: updates.iter().map(|r| r.prompts).min().unwrap_or(0),
        ess: sum(&|r| r.algo.ess) / sum(&|r| r.algo.measured() as f64),
        masked: 1.0 - sum(&judged_of) / all,
    }
}
