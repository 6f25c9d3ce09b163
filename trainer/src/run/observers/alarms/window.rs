//! Means over the first updates of a run and over its latest ones, which the rules compare.

use std::collections::VecDeque;

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
    /// Effective sample size, as a share of the judged samples.
    pub(super) ess: f64,
    pub(super) masked: f64,
}

/// The run so far, as the rules see it.
#[derive(Debug, Default)]
pub(super) struct Window {
    start: Vec<StepRecord>,
    recent: VecDeque<StepRecord>,
    /// Number of updates so far.
    updates: usize,
    /// Groups all correct and groups all wrong since the last update with a mixed group.
    pub(super) no_signal: (usize, usize),
    /// Updates since the last update with a mixed group.
    pub(super) no_signal_updates: usize,
}

impl Window {
    pub(super) fn add(&mut self, record: &StepRecord) {
        self.updates += 1;
        if self.start.len() < UPDATES {
            self.start.push(record.clone());
        }
        if self.recent.len() == UPDATES {
            self.recent.pop_front();
        }
        self.recent.push_back(record.clone());
        if record.groups.mixed > 0 {
            (self.no_signal, self.no_signal_updates) = ((0, 0), 0);
        } else {
            self.no_signal.0 += record.groups.right;
            self.no_signal.1 += record.groups.wrong;
            self.no_signal_updates += 1;
        }
    }

    /// The means over the run's first updates and over its latest; `None` if there are not enough updates yet.
    pub(super) fn means(&self) -> Option<(Means, Means)> {
        (self.recent.len() == UPDATES)
            .then(|| (means(&self.start.iter()), means(&self.recent.iter())))
    }

    /// Whether none of the first updates is among the latest.
    pub(super) fn disjoint(&self) -> bool {
        self.updates >= 2 * UPDATES
    }

    /// Mean reward of the latest updates, of which there may be fewer than [`UPDATES`]. `None` before the first.
    pub(super) fn reward(&self) -> Option<f64> {
        (!self.recent.is_empty()).then(|| means(&self.recent.iter()).reward)
    }

    /// Mean reward of the first updates, of which there may be fewer than [`UPDATES`]. `None` before the first.
    pub(super) fn first_reward(&self) -> Option<f64> {
        (!self.start.is_empty()).then(|| means(&self.start.iter()).reward)
    }
}

fn means<'a>(updates: &(impl Iterator<Item = &'a StepRecord> + Clone)) -> Means {
    let judged_of = |record: &StepRecord| record.algo.judged as f64;
    let all_of = |record: &StepRecord| (record.algo.judged + record.algo.masked) as f64;
    let sum = |value: &dyn Fn(&StepRecord) -> f64| updates.clone().map(value).sum::<f64>();
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
        prompts: updates.clone().map(|r| r.prompts).min().unwrap_or(0),
        ess: sum(&|r| r.algo.ess) / judged,
        masked: 1.0 - sum(&judged_of) / all,
    }
}
