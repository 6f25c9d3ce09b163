//! Checks before a run starts, and warnings about settings that would waste hours.

use datasets::passk::MIN_TASKS;
use engine::config::ModelConfig;

use crate::config::{Config, Factor};
use crate::data::{DataError, Prompts};
use crate::plan::{MemoryBudget, MemoryEstimate};
use crate::policy::Policy;
use crate::rollout;
use crate::run::TrainError;
use crate::run::observers::Progress;

/// Refuses a run that cannot work on `ranks` ranks, and prints warnings about one that may not work.
///
/// # Errors
/// [`TrainError::TooLarge`], [`TrainError::Engine`], [`TrainError::Data`].
pub(super) fn check(
    config: &Config,
    model: &ModelConfig,
    policy: &dyn Policy,
    prompts: &Prompts,
    ranks: usize,
    progress: &Progress,
) -> Result<(), TrainError> {
    if config.algorithm.sum_padding {
        rollout::end_token(policy)?;
    }
    whole_phases(config, prompts.train.len())?;
    // A run that does not fit into memory is refused now, not after the first phase.
    let estimate = MemoryEstimate::new(config, model, prompts, ranks)?;
    if let Some(large) = estimate.fits(MemoryBudget::of(config.engine_options()?.device))? {
        progress.say(&format!("warning: {large}"));
    }
    for warning in warnings(config, prompts) {
        progress.say(&format!("warning: {warning}"));
    }
    Ok(())
}

/// Refuses `algorithm.drop_last_phase` with fewer training prompts than a phase has. `tasks` is their number.
fn whole_phases(config: &Config, tasks: usize) -> Result<(), DataError> {
    let phase = config.prompts_per_phase();
    if config.algorithm.drop_last_phase && tasks < phase {
        return Err(DataError::NoPhase { phase, tasks });
    }
    Ok(())
}

/// The warning if there are too few held-out tasks to conclude anything from an evaluation. `tasks` is their number.
#[must_use]
pub fn few_held_out(config: &Config, tasks: usize) -> Option<String> {
    if config.eval.samples == 0 || !(1..MIN_TASKS).contains(&tasks) {
        return None;
    }
    let remedy = match config.eval.limit {
        Some(limit) if limit < MIN_TASKS => format!("`eval.limit` is {limit}; raise it"),
        _ => "give the data set more tasks with the split `eval`".to_owned(),
    };
    let s = if tasks == 1 { "" } else { "s" };
    Some(format!(
        "{tasks} held-out task{s}: below {MIN_TASKS}, evaluations have no interval, the report draws no conclusion, and no alarm detects reward hacking; {remedy}"
    ))
}

/// Warnings about a recipe and its data.
fn warnings(config: &Config, prompts: &Prompts) -> Vec<String> {
    let mut warnings = config.unused();
    if config.algorithm.factor == Factor::One && config.algorithm.h > 1 {
        warnings.push(format!(
            "`algorithm.h` is {}, but the factor `one` does not correct for stale samples, so all updates of a phase except its first are biased; set `algorithm.h = 1`, or use another preset, such as rapid-paper",
            config.algorithm.h
        ));
    }
    if prompts.left_out > 0 {
        warnings.push(format!("{} training tasks are left out, because their prompts are too long (`data.max_prompt_tokens` is {})", prompts.left_out, config.data.max_prompt_tokens));
    }
    if prompts.eval_left_out > 0 {
        warnings.push(format!("{} evaluation tasks are left out, because their prompts leave no room for an answer in the model's context", prompts.eval_left_out));
    }
    if config.eval.samples > 0 && prompts.eval.is_empty() {
        warnings.push("there are no held-out tasks, so the run is never evaluated, no checkpoint is its best, and no alarm detects reward hacking; give the data set tasks with the split `eval`, or set `eval.samples = 0`".to_owned());
    }
    warnings.extend(few_held_out(config, prompts.eval.len()));
    if let Some((train, eval)) = prompts.overlap.first() {
        warnings.push(format!(
            "{} training questions are also in the evaluation set (for example, {train} is {eval}), so the evaluation overestimates the model; remove them from one of the two",
            prompts.overlap.len()
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::fakes::{FakePolicy, dataset};

    #[test]
    fn a_run_without_held_out_tasks_gets_a_warning_unless_it_does_not_evaluate() {
        let warnings_of = |held_out: usize, samples: &str| {
            let recipe = "[model]\nname = \"toy\"\n[data]\ndataset = \"toy\"\ntemplate = \"plain\"\n[sampling]\nmax_tokens = 4\n";
            let config = config::parse("test", recipe, &[samples.to_owned()]).unwrap();
            let prompts =
                Prompts::new(&config, dataset(4, held_out), &FakePolicy::default()).unwrap();
            warnings(&config, &prompts)
        };
        let without_tasks = warnings_of(0, "eval.samples=8");
        assert!(
            without_tasks.len() == 1 && without_tasks[0].contains("no held-out tasks"),
            "{without_tasks:?}"
        );
        assert_eq!(warnings_of(20, "eval.samples=8"), Vec::<String>::new());
        assert_eq!(warnings_of(0, "eval.samples=0"), Vec::<String>::new());
    }

    #[test]
    fn a_run_with_few_held_out_tasks_gets_a_warning() {
        let warning = |tasks: usize, sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
            few_held_out(&config::load("quickstart", &sets).unwrap(), tasks)
        };
        let one = warning(1, &[]).unwrap();
        assert!(
            one.starts_with("1 held-out task: below 20,") && one.contains("split `eval`"),
            "{one}"
        );
        assert!(
            warning(19, &["eval.limit=19"])
                .unwrap()
                .ends_with("`eval.limit` is 19; raise it")
        );
        assert_eq!(warning(20, &[]), None);
        assert_eq!(warning(1, &["eval.samples=0"]), None);
    }

    #[test]
    fn a_data_set_without_a_whole_phase_is_refused_if_such_phases_are_dropped() {
        let checked = |tasks: usize, drop: bool| {
            let sets = [
                "algorithm.n_step=8".to_owned(),
                "algorithm.group_size=4".to_owned(),
                "algorithm.h=4".to_owned(),
                format!("algorithm.drop_last_phase={drop}"),
            ];
            whole_phases(&config::load("quickstart", &sets).unwrap(), tasks)
        };
        assert!(checked(8, true).is_ok() && checked(7, false).is_ok());
        assert!(matches!(
            checked(7, true),
            Err(DataError::NoPhase { phase: 8, tasks: 7 })
        ));
    }
}
