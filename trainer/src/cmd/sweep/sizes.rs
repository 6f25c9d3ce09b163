//! The sizes of a sweep's runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context as _;
use trainer::config::Config;
use trainer::plan::RunPlan;
use trainer::sweep::{Plan, PlannedRun};

use crate::cmd::train::PlanInputs;

/// The size of each run. The seed and the round change none of its numbers, so there is one for each arm and point of the grid.
pub(super) struct Sizes(BTreeMap<String, Size>);

pub(super) struct Size {
    pub(super) plan: RunPlan,
    /// The graders that the run's tasks need.
    pub(super) graders: BTreeSet<String>,
}

impl Size {
    /// The number of a run's completions, those of evaluations included.
    pub(super) fn completions(&self) -> usize {
        self.plan.completions + self.plan.evaluations * self.plan.eval_completions
    }
}

fn key(run: &PlannedRun) -> String {
    format!("{} {:?}", run.arm, run.grid)
}

impl Sizes {
    /// Reads the data sets and the models' sizes, once for all runs that differ only in sections that change no prompt.
    pub(super) fn of(plan: &Plan, data_dir: Option<&Path>) -> anyhow::Result<Self> {
        let mut inputs: Vec<(&Config, PlanInputs)> = Vec::new();
        let mut sizes = BTreeMap::new();
        for run in plan.runs() {
            if sizes.contains_key(&key(run)) {
                continue;
            }
            let config = &run.config;
            let has_same_prompts = |(other, _): &(&Config, PlanInputs)| {
                let alike = Config {
                    algorithm: other.algorithm,
                    optimiser: other.optimiser.clone(),
                    lora: other.lora.clone(),
                    run: other.run.clone(),
                    ..config.clone()
                };
                alike == **other
            };
            let in_run = || format!("the run {}", run.name);
            let known = inputs.iter().position(has_same_prompts);
            if known.is_none() {
                let read = PlanInputs::read(config, data_dir).with_context(in_run)?;
                inputs.push((config, read));
            }
            let (_, inputs) = &inputs[known.unwrap_or(inputs.len() - 1)];
            let size = Size {
                plan: inputs.plan(config, 1).with_context(in_run)?,
                graders: inputs.graders.clone(),
            };
            sizes.insert(key(run), size);
        }
        Ok(Self(sizes))
    }

    pub(super) fn of_run(&self, run: &PlannedRun) -> &Size {
        &self.0[&key(run)]
    }
}
