//! The sizes of a sweep's runs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

use anyhow::Context as _;
use trainer::plan::RunPlan;
use trainer::sweep::{Plan, PlannedRun};

use crate::cmd::train::run_plan;

/// The plan of each run. The seed and the round change none of its numbers, so there is one for each arm and point of the grid.
pub(super) struct Sizes(BTreeMap<String, RunPlan>);

fn key(run: &PlannedRun) -> String {
    format!("{} {:?}", run.arm, run.grid)
}

impl Sizes {
    /// Reads the data sets and the models' sizes.
    pub(super) fn of(plan: &Plan, data_dir: Option<&Path>) -> anyhow::Result<Self> {
        let mut sizes = BTreeMap::new();
        for run in plan.runs() {
            if let Entry::Vacant(entry) = sizes.entry(key(run)) {
                let (size, _) = run_plan(&run.config, data_dir, 1)
                    .with_context(|| format!("the run {}", run.name))?;
                entry.insert(size);
            }
        }
        Ok(Self(sizes))
    }

    /// The plan of a run of the sweep.
    pub(super) fn of_run(&self, run: &PlannedRun) -> &RunPlan {
        &self.0[&key(run)]
    }

    /// The number of a run's completions, those of evaluations included.
    pub(super) fn completions(&self, run: &PlannedRun) -> usize {
        let size = self.of_run(run);
        size.completions + size.evaluations * size.eval_completions
    }
}
