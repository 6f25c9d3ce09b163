//! The schedule: which prompts each inference phase and each update gets. It is a pure function of the seed and of the sizes. `algorithm.auto_h` chooses the phases'
//! sizes during the run.

use std::ops::Range;

use crate::config::{Config, DEFAULT_EPOCHS, DEFAULT_EVAL_EVERY};
use crate::seed;

/// The prompts of a whole run, as one long list. Each epoch has all prompts in its own order. Phases and updates divide this list, so only the last phase, and its last
/// update, may be shorter. With `algorithm.drop_last_phase` an epoch has only as many prompts, the first ones of its order, as fill whole phases.
///
/// In a mixture with weights, each set has its share of an epoch's places, shuffled over the epoch. The set's own epochs fill these places one after the other: each
/// has all prompts of the set in its own order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSchedule {
    seed: u64,
    /// Number of training prompts.
    tasks: usize,
    /// Prompts that an epoch uses: all, or as many as fill whole phases.
    per_epoch: usize,
    /// Length of the list: the prompts of all updates.
    prompts: usize,
    /// Prompts per update.
    per_update: usize,
    /// Updates before each phase, for the first phases; each later one begins `updates_per_phase` updates after the one before. The first is 0.
    phase_starts: Vec<usize>,
    /// H: updates of the last of these phases, and of each later one.
    updates_per_phase: usize,
    /// Whether the sizes of later phases are chosen during the run.
    adapts: bool,
    /// Prompts from one evaluation to the next; 0 if there are only the first evaluation and the last. An evaluation follows the update with the last of these
    /// prompts.
    per_evaluation: usize,
    /// The sets of a mixture with weights, in the order of the training prompts; else empty.
    sets: Vec<MixtureSet>,
}

/// A set of a mixture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MixtureSet {
    /// Index of its first training prompt.
    first: usize,
    /// Number of its training prompts.
    tasks: usize,
    /// Its places in an epoch.
    places: usize,
}

/// One use of a training prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PromptUse {
    /// The epoch, counted from 0; in a mixture with weights, that of the prompt's set.
    pub epoch: usize,
    /// Index of the training prompt.
    pub prompt: usize,
}

/// An inference phase: the prompts of its updates, one mini-batch after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// Its number, counted from 0.
    pub index: usize,
    /// Updates done before it.
    pub first_update: usize,
    /// The prompts of each of its updates.
    pub updates: Vec<Vec<PromptUse>>,
}

impl PromptSchedule {
    /// The schedule of a recipe over `tasks` training prompts (at least one). With `algorithm.drop_last_phase` and fewer prompts than a phase has, it has no updates.
    pub fn new(config: &Config, tasks: usize) -> Self {
        let per_update = config.prompts_per_update();
        let per_epoch = if config.algorithm.drop_last_phase {
            tasks - tasks % config.prompts_per_phase()
        } else {
            tasks
        };
        let prompts = match config.run.updates {
            _ if per_epoch == 0 => 0,
            Some(updates) => updates.saturating_mul(per_update),
            None => {
                let epochs = config.run.epochs.unwrap_or(DEFAULT_EPOCHS);
                epochs.saturating_mul(per_epoch)
            }
        };
        let per_evaluation = match (config.eval.every_epochs, config.eval.every) {
            (Some(epochs), _) => epochs.saturating_mul(per_epoch),
            (None, every) => every
                .unwrap_or(DEFAULT_EVAL_EVERY)
                .saturating_mul(per_update),
        };
        Self {
            seed: config.run.seed,
            tasks,
            per_epoch,
            prompts,
            per_update,
            phase_starts: vec![0],
            updates_per_phase: config.algorithm.h,
            adapts: config.algorithm.auto_h > 0.0,
            per_evaluation,
            sets: Vec::new(),
        }
    }

    /// This schedule for a mixture, unchanged without one. Each set has a number of training prompts and a weight; its prompts follow each other in the list of all.
    #[must_use]
    pub fn with_mixture(mut self, sets: &[(usize, f64)]) -> Self {
        let weights: Vec<f64> = sets.iter().map(|(_, weight)| *weight).collect();
        let mut first = 0;
        for ((tasks, _), places) in sets.iter().zip(apportion(self.per_epoch, &weights)) {
            let tasks = *tasks;
            self.sets.push(MixtureSet {
                first,
                tasks,
                places,
            });
            first += tasks;
        }
        self
    }

    /// The first set of a mixture with so small a weight that it has no place in an epoch.
    pub fn set_without_a_place(&self) -> Option<usize> {
        self.sets.iter().position(|set| set.places == 0)
    }

    /// The epoch of the last prompt of the first `done` updates; `done` is at least 1.
    pub fn epoch_after(&self, done: usize) -> usize {
        (done * self.per_update).min(self.prompts).saturating_sub(1) / self.per_epoch.max(1)
    }

    /// Begins a phase of `h` updates after `done` updates, which end the phase before. Phases that began there, or later, are forgotten.
    pub fn begin_phase(&mut self, done: usize, h: usize) {
        self.phase_starts.retain(|start| *start < done);
        self.phase_starts.push(done);
        self.updates_per_phase = h;
    }

    /// Number of optimiser updates.
    pub fn updates(&self) -> usize {
        self.prompts.div_ceil(self.per_update)
    }

    /// Number of inference phases; `None` if their sizes are chosen during the run.
    pub fn phases(&self) -> Option<usize> {
        (!self.adapts).then(|| self.phases_begun(self.updates()))
    }

    /// Number of prompts in all updates.
    pub fn prompts(&self) -> usize {
        self.prompts
    }

    /// Whether an evaluation is due after `done` updates: before the first update, after the last, and where `eval.every` or `eval.every_epochs` has one.
    pub fn evaluates_after(&self, done: usize) -> bool {
        done == 0
            || done == self.updates()
            || self.later_evaluations(done) > self.later_evaluations(done - 1)
    }

    /// Number of evaluations of the whole run.
    pub fn evaluations(&self) -> usize {
        2 + self.later_evaluations(self.updates().saturating_sub(1))
    }

    /// Number of evaluations after the first one and up to `done` updates, in a run that goes on. An update is followed by one at most, even if several epochs end in it.
    fn later_evaluations(&self, done: usize) -> usize {
        let used = done.saturating_mul(self.per_update);
        used.checked_div(self.per_evaluation).unwrap_or(0).min(done)
    }

    /// Number of the phase of the update that follows `done` updates.
    pub fn phase_of(&self, done: usize) -> usize {
        let known = self.phase_starts.partition_point(|start| *start <= done) - 1;
        if known + 1 < self.phase_starts.len() {
            return known;
        }
        known + (done - self.phase_starts[known]) / self.updates_per_phase
    }

    /// Number of phases that have at least one of the first `done` updates.
    pub fn phases_begun(&self, done: usize) -> usize {
        done.checked_sub(1)
            .map_or(0, |before| self.phase_of(before) + 1)
    }

    /// Updates before a phase.
    fn phase_start(&self, index: usize) -> usize {
        let last = self.phase_starts.len() - 1;
        let later = index.saturating_sub(last) * self.updates_per_phase;
        self.phase_starts[index.min(last)] + later
    }

    /// Up to `count` prompts that replace discarded groups of a phase. `round` is the number of the replacement, counted from 0. Each round has its own order of the
    /// prompts, and uses each at most once. The sets of a mixture have the same shares of it as of an epoch.
    pub fn replacements(&self, phase: usize, round: usize, count: usize) -> Vec<PromptUse> {
        let epoch = seed::replacement_epoch(self.seed, phase, round);
        let mut order = self.order(epoch, |set| (epoch, 0..self.sets[set].tasks));
        order.truncate(count);
        order
    }

    /// The prompts of an epoch, in order. `own` gives the uses that a set has there: the first of the set's own epochs, and their range, counted from that epoch's
    /// beginning.
    fn order(&self, epoch: usize, own: impl Fn(usize) -> (usize, Range<usize>)) -> Vec<PromptUse> {
        if self.sets.is_empty() {
            let order = seed::permutation(self.seed, epoch, self.tasks).into_iter();
            return order.map(|prompt| PromptUse { epoch, prompt }).collect();
        }
        let mut set_of_place = Vec::with_capacity(self.per_epoch);
        let mut uses = Vec::with_capacity(self.sets.len());
        for (number, set) in self.sets.iter().enumerate() {
            set_of_place.extend(std::iter::repeat_n(number, set.places));
            let (epoch, places) = own(number);
            let epochs = (epoch..).take(places.end.div_ceil(set.tasks));
            let all = epochs.flat_map(move |epoch| {
                let order = seed::permutation_of_set(self.seed, number, epoch, set.tasks);
                let prompts = order.into_iter().map(move |prompt| set.first + prompt);
                prompts.map(move |prompt| PromptUse { epoch, prompt })
            });
            uses.push(all.take(places.end).skip(places.start));
        }
        let places = seed::permutation(self.seed, epoch, set_of_place.len());
        let uses = places
            .into_iter()
            .map(|place| uses[set_of_place[place]].next());
        uses.flatten().collect()
    }

    /// The phase with this number. Those after the end of the run have no updates.
    pub fn phase(&self, index: usize) -> Phase {
        let first_update = self.phase_start(index);
        let last_update = self.phase_start(index + 1).min(self.updates());
        let [from, to] =
            [first_update, last_update].map(|update| (update * self.per_update).min(self.prompts));
        let per_epoch = self.per_epoch.max(1);
        let uses_of = |epoch: usize| {
            let order = self.order(epoch, |set| {
                let MixtureSet { tasks, places, .. } = self.sets[set];
                let before = epoch * places;
                let start = before % tasks;
                (before / tasks, start..start + places)
            });
            let start = epoch * per_epoch;
            let positions = from.max(start)..to.min(start + per_epoch);
            positions.map(move |position| order[position - start])
        };
        let epochs = from / per_epoch..to.div_ceil(per_epoch);
        let uses: Vec<PromptUse> = epochs.flat_map(uses_of).collect();
        Phase {
            index,
            first_update,
            updates: uses.chunks(self.per_update).map(<[_]>::to_vec).collect(),
        }
    }
}

/// Divides places by weights: each gets the whole part of its quota, and those with the largest remainders one more.
fn apportion(places: usize, weights: &[f64]) -> Vec<usize> {
    let sum: f64 = weights.iter().sum();
    let quotas = weights.iter().map(|weight| places as f64 * weight / sum);
    let quotas: Vec<f64> = quotas.collect();
    let mut shares: Vec<usize> = quotas.iter().map(|quota| *quota as usize).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|a, b| quotas[*b].fract().total_cmp(&quotas[*a].fract()));
    let left = places.saturating_sub(shares.iter().sum());
    for set in order.into_iter().take(left) {
        shares[set] += 1;
    }
    shares
}

impl Phase {
    /// Updates done after it.
    pub fn end(&self) -> usize {
        self.first_update + self.updates.len()
    }

    /// All its prompts, in order.
    pub fn prompt_uses(&self) -> impl Iterator<Item = PromptUse> + '_ {
        self.updates.iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    fn schedule(prompts: usize, tasks: usize, per_update: usize, h: usize) -> PromptSchedule {
        PromptSchedule {
            seed: 3,
            tasks,
            per_epoch: tasks,
            prompts,
            per_update,
            phase_starts: vec![0],
            updates_per_phase: h,
            adapts: false,
            per_evaluation: 0,
            sets: Vec::new(),
        }
    }

    fn phases(schedule: &PromptSchedule) -> Vec<Phase> {
        (0..schedule.phases_begun(schedule.updates()))
            .map(|index| schedule.phase(index))
            .collect()
    }

    proptest! {
        #[test]
        fn each_epoch_has_each_prompt_once_and_only_the_last_phase_is_shorter(
            tasks in 1usize..40, dropped in 0usize..9, epochs in 1usize..4, per_update in 1usize..9, h in 1usize..5,
        ) {
            // With `algorithm.drop_last_phase`, an epoch has fewer prompts.
            let per_epoch = tasks.saturating_sub(dropped).max(1);
            let planned = PromptSchedule { per_epoch, ..schedule(per_epoch * epochs, tasks, per_update, h) };
            let phases = phases(&planned);
            prop_assert_eq!(Some(phases.len()), planned.phases());
            let mut counts: HashMap<PromptUse, usize> = HashMap::new();
            for (number, prompt_use) in phases.iter().flat_map(Phase::prompt_uses).enumerate() {
                prop_assert_eq!(prompt_use.epoch, number / per_epoch);
                *counts.entry(prompt_use).or_default() += 1;
            }
            prop_assert_eq!(counts.len(), per_epoch * epochs);
            prop_assert!(counts.values().all(|count| *count == 1));
            prop_assert!(planned.phase(phases.len()).updates.is_empty());
            for phase in &phases[..phases.len() - 1] {
                prop_assert_eq!(phase.updates.len(), h);
                prop_assert!(phase.updates.iter().all(|update| update.len() == per_update));
            }
            let last = &phases[phases.len() - 1];
            prop_assert!(!last.updates.is_empty() && last.updates.iter().all(|update| !update.is_empty()));
            prop_assert_eq!(last.first_update + last.updates.len(), planned.updates());
        }

        /// Each phase begins where the one before it ends, and the last ends with the run.
        #[test]
        fn phases_of_chosen_sizes_have_the_prompts_of_phases_of_one_size(
            prompts in 1usize..200, tasks in 1usize..40, per_update in 1usize..9, sizes in prop::collection::vec(1usize..9, 1..12), again in 0usize..12,
        ) {
            let mut chosen = PromptSchedule { adapts: true, ..schedule(prompts, tasks, per_update, 16) };
            let mut done = 0;
            let mut begun = Vec::new();
            for (index, h) in sizes.iter().enumerate() {
                if done == chosen.updates() {
                    break;
                }
                chosen.begin_phase(done, *h);
                let phase = chosen.phase(index);
                prop_assert_eq!((chosen.phase_of(done), phase.first_update), (index, done));
                prop_assert_eq!(phase.updates.len(), (*h).min(chosen.updates() - done));
                begun.push(phase.clone());
                done += phase.updates.len();
                prop_assert_eq!(chosen.phases_begun(done), index + 1);
            }
            for phase in &begun {
                prop_assert_eq!(&chosen.phase(phase.index), phase);
                for number in 0..phase.updates.len() {
                    prop_assert_eq!(chosen.phase_of(phase.first_update + number), phase.index);
                }
            }
            let uses: Vec<PromptUse> = phases(&chosen).iter().flat_map(Phase::prompt_uses).collect();
            let of_one_size: Vec<PromptUse> = phases(&schedule(prompts, tasks, per_update, 3)).iter().flat_map(Phase::prompt_uses).collect();
            prop_assert_eq!(uses, of_one_size);
            // A resumed run chooses the size of the phase again.
            let index = again.min(begun.len() - 1);
            chosen.begin_phase(begun[index].first_update, 2);
            prop_assert_eq!(chosen.phase_of(begun[index].first_update), index);
            prop_assert!(chosen.phase(index).updates.len() <= 2);
        }

        #[test]
        fn a_mixture_has_exact_shares_and_repeats_a_prompt_after_its_whole_set(
            sets in prop::collection::vec((1usize..30, 0.05f64..9.0), 1..5), epochs in 1usize..5, per_update in 1usize..9, h in 1usize..5, dropped in 0usize..9,
        ) {
            let tasks = sets.iter().map(|(tasks, _)| tasks).sum::<usize>();
            let per_epoch = tasks.saturating_sub(dropped).max(1);
            let whole = PromptSchedule { per_epoch, ..schedule(per_epoch * epochs, tasks, per_update, h) };
            let planned = whole.with_mixture(&sets);
            let uses: Vec<PromptUse> = phases(&planned).iter().flat_map(Phase::prompt_uses).collect();
            prop_assert_eq!(uses.len(), per_epoch * epochs);
            prop_assert_eq!(uses.iter().collect::<HashSet<_>>().len(), uses.len());
            let weights = sets.iter().map(|(_, weight)| weight).sum::<f64>();
            for (share, (own, weight)) in planned.sets.iter().zip(&sets) {
                let is_own = |it: &&PromptUse| (share.first..share.first + own).contains(&it.prompt);
                for epoch in uses.chunks(per_epoch) {
                    let count = epoch.iter().filter(is_own).count();
                    prop_assert!((count as f64 - per_epoch as f64 * weight / weights).abs() < 1.0);
                }
                let all: Vec<&PromptUse> = uses.iter().filter(is_own).collect();
                for (number, epoch) in all.chunks(*own).enumerate() {
                    prop_assert!(epoch.iter().all(|it| it.epoch == number));
                }
            }
            // A phase does not depend on those before it, and a longer run begins like this one.
            let longer = PromptSchedule { prompts: 9 * planned.prompts, ..planned.clone() };
            let whole = planned.prompts / (per_update * h);
            prop_assert!((0..whole).rev().all(|index| longer.phase(index) == planned.phase(index)));
            let replaced = planned.replacements(3, 1, tasks);
            prop_assert_eq!(replaced.iter().collect::<HashSet<_>>().len(), replaced.len());
            prop_assert!(replaced.len() <= per_epoch && uses.iter().all(|it| it.epoch != replaced[0].epoch));
        }
    }

    #[test]
    fn no_two_samplings_of_a_prompt_in_a_run_have_the_same_seeds() {
        let planned = schedule(4000, 4, 1, 1000);
        let mut epochs: HashSet<usize> = (0..1000).collect();
        let numbers = [0, 1, 2, 255, 256, 257, 511, 512, 999];
        for phase in [0, 1, 2, 3, 4, 256] {
            for round in numbers {
                let uses = planned.replacements(phase, round, 9);
                assert_eq!(uses.len(), 4, "each prompt once");
                let epoch = uses[0].epoch;
                assert!(uses.iter().all(|it| it.epoch == epoch));
                assert!(epochs.insert(epoch), "{phase} {round}");
            }
        }
    }

    /// Three epochs over `tasks` prompts, G = 4 and 32 completions per update, with phases of `h` updates, and evaluations as in `evaluated`.
    fn schedule_of_the_authors(
        tasks: usize,
        h: usize,
        drop: bool,
        evaluated: &str,
    ) -> PromptSchedule {
        let sets = [
            "model.name=m".to_owned(),
            "data.dataset=d".to_owned(),
            format!("algorithm.h={h}"),
            format!("algorithm.drop_last_phase={drop}"),
            format!("eval.{evaluated}"),
        ];
        let config = crate::config::parse("test", "", &sets).unwrap();
        PromptSchedule::new(&config, tasks)
    }

    #[test]
    fn evaluations_are_after_epochs_or_updates_and_at_the_end() {
        // MBPP+ has 264 training tasks, MiniF2F 244.
        for (tasks, h, drop, every, expected) in [
            (264, 1, true, "every_epochs=1", &[0, 33, 66, 99][..]),
            (264, 1, false, "every_epochs=1", &[0, 33, 66, 99]),
            (264, 8, true, "every_epochs=1", &[0, 32, 64, 96]),
            (264, 16, true, "every_epochs=1", &[0, 32, 64, 96]),
            (244, 1, true, "every_epochs=1", &[0, 30, 60, 90]),
            (244, 4, true, "every_epochs=1", &[0, 28, 56, 84]),
            (244, 8, true, "every_epochs=1", &[0, 24, 48, 72]),
            (244, 16, true, "every_epochs=1", &[0, 16, 32, 48]),
            // The first epoch ends in the middle of update 31.
            (244, 4, false, "every_epochs=1", &[0, 31, 61, 92]),
            (264, 4, true, "every_epochs=2", &[0, 64, 96]),
            (264, 4, true, "every_epochs=9", &[0, 96]),
            // Several epochs of 3 prompts end in an update of 8.
            (3, 1, false, "every_epochs=1", &[0, 1, 2]),
            (264, 1, false, "every=0", &[0, 99]),
            (264, 1, false, "every=40", &[0, 40, 80, 99]),
            (264, 1, false, "every=33", &[0, 33, 66, 99]),
            (264, 1, false, "every=99", &[0, 99]),
            (264, 1, false, "every=1000000000", &[0, 99]),
        ] {
            let planned = schedule_of_the_authors(tasks, h, drop, every);
            let due = |done: &usize| planned.evaluates_after(*done);
            let evaluated: Vec<usize> = (0..=planned.updates()).filter(due).collect();
            assert_eq!(evaluated, expected, "{tasks} {h} {drop} {every}");
            assert_eq!(planned.evaluations(), expected.len());
        }
        let no_whole_phase = schedule_of_the_authors(63, 8, true, "every=0");
        assert_eq!(no_whole_phase.updates(), 0);
    }
}
