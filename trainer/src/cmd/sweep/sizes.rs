//! The sizes of a sweep's runs.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context as _;
use trainer::config::Config;
use trainer::plan::RunPlan;
use trainer::sweep::{Plan, PlannedRun};

use crate::cmd::train::PlanInputs;

/// The plan of each run. The seed and the round change none of its numbers, so there is one for each arm and point of the grid.
pub(super) struct Sizes(BTreeMap<String, Size>);

struct Size {
    plan: RunPlan,
    /// The graders that the run's tasks need.
    graders: BTreeSet<&'static str>,
}

fn key(run: &PlannedRun) -> String {
    format!("{} {:?}", run.arm, run.grid)
}

/// The size of a run. Its files are read unless they are among the inputs, to which they are added.
fn size<'a>(
    inputs: &mut Vec<(&'a Config, PlanInputs)>,
    config: &'a Config,
    data_dir: Option<&Path>,
) -> anyhow::Result<Size> {
    let known = inputs
        .iter()
        .position(|(other, _)| have_same_prompts(other, config));
    let index = match known {
        Some(index) => index,
        None => {
            inputs.push((config, PlanInputs::read(config, data_dir)?));
            inputs.len() - 1
        }
    };
    let (_, inputs) = &inputs[index];
    Ok(Size {
        plan: inputs.plan(config, 1)?,
        graders: inputs.graders().clone(),
    })
}

/// Whether the settings of two runs differ at most in sections on which no prompt depends.
fn have_same_prompts(one: &Config, other: &Config) -> bool {
    let alike = Config {
        algorithm: one.algorithm.clone(),
        optimiser: one.optimiser.clone(),
        lora: one.lora.clone(),
        run: one.run.clone(),
        ..other.clone()
    };
    alike == *one
}

impl Sizes {
    /// Reads the data sets and the models' sizes.
    pub(super) fn of(plan: &Plan, data_dir: Option<&Path>) -> anyhow::Result<Self> {
        let mut inputs = Vec::new();
        let mut sizes = BTreeMap::new();
        for run in plan.runs() {
            if let Entry::Vacant(entry) = sizes.entry(key(run)) {
                let size = size(&mut inputs, &run.config, data_dir)
                    .with_context(|| format!("the run {}", run.name))?;
                entry.insert(size);
            }
        }
        Ok(Self(sizes))
    }

    /// The plan of a run of the sweep.
    pub(super) fn of_run(&self, run: &PlannedRun) -> &RunPlan {
        &self.0[&key(run)].plan
    }

    /// The graders that a run's tasks need.
    pub(super) fn graders(&self, run: &PlannedRun) -> &BTreeSet<&'static str> {
        &self.0[&key(run)].graders
    }

    /// The number of a run's completions, those of evaluations included.
    pub(super) fn completions(&self, run: &PlannedRun) -> usize {
        let size = self.of_run(run);
        size.completions + size.evaluations * size.eval_completions
    }
}

#[cfg(test)]
mod tests {
    use trainer::config;

    use super::*;

    #[test]
    fn files_are_read_again_only_for_settings_that_may_change_the_prompts() {
        let with = |set: &str| config::load_as_written("quickstart", &[set.to_owned()]).unwrap();
        let one = with("run.seed=0");
        let same = |set: &str| have_same_prompts(&one, &with(set));
        for set in [
            "algorithm.h=2",
            "optimiser.lr=1e-6",
            "lora.rank=4",
            "run.seed=1",
        ] {
            assert!(same(set), "{set}");
        }
        for set in [
            "data.train_limit=8",
            "data.template=plain",
            "eval.limit=8",
            "sampling.max_tokens=12",
            "model.name=gemma3-270m",
        ] {
            assert!(!same(set), "{set}");
        }
    }
}
