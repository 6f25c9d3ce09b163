//! Means over the first updates of a run and over its latest ones, which the rules compare.

use std::collections::VecDeque;

use crate::record::StepRecord;

/// Number of updates at the start, and of latest updates, that are averaged: more than a phase of the paper's H = 4, so that they include fresh and stale samples.
pub(super) const UPDATES: usize = 5;

/// The numbers of an update that the rules use.
#[derive(Debug, Clone, Copy)]
struct UpdateStats {
    reward: f64,
    judged: f64,
    all: f64,
    entropy: f64,
    length: f64,
    length_max: f64,
    truncated: f64,
    commonest: f64,
    prompts: usize,
    ess: f64,
}

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
    start: Vec<UpdateStats>,
    recent: VecDeque<UpdateStats>,
    /// Number of updates so far.
    updates: usize,
    /// Groups all correct and groups all wrong since the last update with a mixed group.
    pub(super) no_signal: (usize, usize),
    /// Updates since the last update with a mixed group.
    pub(super) no_signal_updates: usize,
}

impl Window {
    pub(super) fn add(&mut self, record: &StepRecord) {
        let algo = &record.algo;
        let update = UpdateStats {
            reward: algo.reward,
            judged: algo.judged as f64,
            all: (algo.judged + algo.masked) as f64,
            entropy: record.entropy,
            length: record.length_mean,
            length_max: record.length_max as f64,
            truncated: record.truncated,
            commonest: record.repeats.commonest,
            prompts: record.prompts,
            ess: algo.ess,
        };
        self.updates += 1;
        if self.start.len() < UPDATES {
            self.start.push(update);
        }
        if self.recent.len() == UPDATES {
            self.recent.pop_front();
        }
        self.recent.push_back(update);
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

fn means<'a>(updates: &(impl Iterator<Item = &'a UpdateStats> + Clone)) -> Means {
    let sum = |value: fn(&UpdateStats) -> f64| updates.clone().map(value).sum::<f64>();
    let all = sum(|update| update.all).max(1.0);
    let judged = sum(|update| update.judged).max(1.0);
    let stopped = sum(|update| (1.0 - update.truncated) * update.all);
    // Truncated completions have the limit's length, and none is longer.
    let stopped_tokens =
        sum(|update| (update.length - update.truncated * update.length_max) * update.all);
    Means {
        reward: sum(|update| update.reward * update.judged) / judged,
        entropy: sum(|update| update.entropy * update.judged) / judged,
        length: sum(|update| update.length * update.all) / all,
        own_length: (stopped >= 0.1 * all).then(|| stopped_tokens / stopped),
        truncated: sum(|update| update.truncated * update.all) / all,
        commonest: sum(|update| update.commonest * update.all) / all,
        prompts: updates
            .clone()
            .map(|update| update.prompts)
            .min()
            .unwrap_or(0),
        ess: sum(|update| update.ess) / judged,
        masked: 1.0 - sum(|update| update.judged) / all,
    }
}
