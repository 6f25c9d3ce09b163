//! The first updates of a run and the latest ones, as sums: what the rules compare.

use std::collections::VecDeque;

use crate::record::StepRecord;

/// Updates that the start and the present each rest on: more than a phase of the paper's H = 4, so that they hold fresh and stale samples alike.
pub(super) const UPDATES: usize = 5;

/// What the rules need of an update.
#[derive(Debug, Clone, Copy)]
struct Look {
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

/// Means over a few updates, each completion counting alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Means {
    pub(super) reward: f64,
    pub(super) entropy: f64,
    pub(super) length: f64,
    /// Of completions that ended by themselves, where at least a tenth did: what is cut off says how long the limit is.
    pub(super) own_length: Option<f64>,
    pub(super) truncated: f64,
    pub(super) commonest: f64,
    /// The fewest prompts of an update.
    pub(super) prompts: usize,
    /// Effective sample size, of 1.
    pub(super) ess: f64,
    pub(super) masked: f64,
}

/// The run so far, as the rules see it.
#[derive(Debug, Default)]
pub(super) struct Window {
    start: Vec<Look>,
    recent: VecDeque<Look>,
    /// Updates in all.
    updates: usize,
    /// Groups all right and all wrong since the last that was neither.
    pub(super) silent: (usize, usize),
    /// Updates since then.
    pub(super) silent_updates: usize,
}

impl Window {
    pub(super) fn add(&mut self, record: &StepRecord) {
        let algo = &record.algo;
        let look = Look {
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
            self.start.push(look);
        }
        if self.recent.len() == UPDATES {
            self.recent.pop_front();
        }
        self.recent.push_back(look);
        if record.groups.mixed > 0 {
            (self.silent, self.silent_updates) = ((0, 0), 0);
        } else {
            self.silent.0 += record.groups.right;
            self.silent.1 += record.groups.wrong;
            self.silent_updates += 1;
        }
    }

    /// The run's first updates and its latest, once there are enough.
    pub(super) fn means(&self) -> Option<(Means, Means)> {
        (self.recent.len() == UPDATES)
            .then(|| (means(&self.start.iter()), means(&self.recent.iter())))
    }

    /// Whether the latest updates have none of the first among them.
    pub(super) fn apart(&self) -> bool {
        self.updates >= 2 * UPDATES
    }

    /// Reward of the latest updates; of fewer where there are not enough yet. `None` before the first.
    pub(super) fn reward(&self) -> Option<f64> {
        (!self.recent.is_empty()).then(|| means(&self.recent.iter()).reward)
    }

    /// The same of the first updates.
    pub(super) fn first_reward(&self) -> Option<f64> {
        (!self.start.is_empty()).then(|| means(&self.start.iter()).reward)
    }
}

fn means<'a>(looks: &(impl Iterator<Item = &'a Look> + Clone)) -> Means {
    let sum = |of: fn(&Look) -> f64| looks.clone().map(of).sum::<f64>();
    let all = sum(|look| look.all).max(1.0);
    let judged = sum(|look| look.judged).max(1.0);
    let stopped = sum(|look| (1.0 - look.truncated) * look.all);
    // What was cut off has the limit's length, and nothing is longer.
    let stopped_tokens = sum(|look| (look.length - look.truncated * look.length_max) * look.all);
    Means {
        reward: sum(|look| look.reward * look.judged) / judged,
        entropy: sum(|look| look.entropy * look.judged) / judged,
        length: sum(|look| look.length * look.all) / all,
        own_length: (stopped >= 0.1 * all).then(|| stopped_tokens / stopped),
        truncated: sum(|look| look.truncated * look.all) / all,
        commonest: sum(|look| look.commonest * look.all) / all,
        prompts: looks.clone().map(|look| look.prompts).min().unwrap_or(0),
        ess: sum(|look| look.ess) / judged,
        masked: 1.0 - sum(|look| look.judged) / all,
    }
}
