//! Checks before a run starts, and warnings about what would cost hours.

use datasets::passk::MIN_TASKS;
use engine::config::ModelConfig;

use crate::config::{Config, Factor};
use crate::data::Prompts;
use crate::plan::{MemoryBudget, MemoryEstimate};
use crate::policy::Policy;
use crate::rollout;
use crate::run::TrainError;
use crate::run::observers::Progress;

/// Refuses a run that cannot work, and warns of one that may not.
///
/// # Errors
/// [`TrainError::TooLarge`], [`TrainError::Engine`].
pub(super) fn check(
    config: &Config,
    model: &ModelConfig,
    policy: &dyn Policy,
    prompts: &Prompts,
    progress: &Progress,
) -> Result<(), TrainError> {
    if config.algorithm.sum_padding {
        rollout::end_token(policy)?;
    }
    // Memory that is too small is better known now than after the first phase.
    let estimate = MemoryEstimate::new(config, model, prompts)?;
    if let Some(large) = estimate.fits(MemoryBudget::of(config.engine_options()?.device))? {
        progress.say(&format!("warning: {large}"));
    }
    for warning in warnings(config, prompts) {
        progress.say(&format!("warning: {warning}"));
    }
    Ok(())
}

/// The warning about too few held-out tasks to conclude anything from an evaluation.
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
        "{tasks} held-out task{s}: below {MIN_TASKS}, evaluations have no interval, the report concludes nothing, and no alarm hears of reward hacking; {remedy}"
    ))
}

/// Warnings about a recipe and its data.
fn warnings(config: &Config, prompts: &Prompts) -> Vec<String> {
    let mut warnings = config.unused();
    if config.algorithm.factor == Factor::One && config.algorithm.h > 1 {
        warnings.push(format!(
            "`algorithm.h` is {}, but the factor `one` does nothing against stale samples, so all updates of a phase but its first are biased; set `algorithm.h = 1`, or take another preset, such as rapid-paper",
            config.algorithm.h
        ));
    }
    if prompts.left_out > 0 {
        warnings.push(format!("{} training tasks are left out, since their prompts are too long (`data.max_prompt_tokens` is {})", prompts.left_out, config.data.max_prompt_tokens));
    }
    if prompts.eval_left_out > 0 {
        warnings.push(format!("{} evaluation tasks are left out, since their prompts leave no room for an answer in the model's context", prompts.eval_left_out));
    }
    if config.eval.samples > 0 && prompts.eval.is_empty() {
        warnings.push("there are no held-out tasks, so the run is never evaluated, no checkpoint is its best, and no alarm hears of reward hacking; give the data set tasks with the split `eval`, or set `eval.samples = 0`".to_owned());
    }
    warnings.extend(few_held_out(config, prompts.eval.len()));
    if let Some((train, eval)) = prompts.overlap.first() {
        warnings.push(format!(
            "{} training questions also stand in the evaluation set ({train} is {eval}, for one), so the evaluation flatters; leave them out of one of the two",
            prompts.overlap.len()
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::scripted::{Toy, dataset};

    #[test]
    fn a_run_without_held_out_tasks_is_warned_of_unless_it_wants_none() {
        let told = |held_out: usize, samples: &str| {
            let recipe = "[model]\nname = \"toy\"\n[data]\ndataset = \"toy\"\ntemplate = \"plain\"\n[sampling]\nmax_tokens = 4\n";
            let config = config::parse("test", recipe, &[samples.to_owned()]).unwrap();
            let prompts = Prompts::new(&config, dataset(4, held_out), &Toy::default()).unwrap();
            warnings(&config, &prompts)
        };
        let told_of_none = told(0, "eval.samples=8");
        assert!(
            told_of_none.len() == 1 && told_of_none[0].contains("no held-out tasks"),
            "{told_of_none:?}"
        );
        assert_eq!(told(20, "eval.samples=8"), Vec::<String>::new());
        assert_eq!(told(0, "eval.samples=0"), Vec::<String>::new());
    }

    #[test]
    fn a_run_with_few_held_out_tasks_is_warned_of() {
        let told = |tasks: usize, sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
            few_held_out(&config::load("quickstart", &sets).unwrap(), tasks)
        };
        let one = told(1, &[]).unwrap();
        assert!(
            one.starts_with("1 held-out task: below 20,") && one.contains("split `eval`"),
            "{one}"
        );
        assert!(
            told(19, &["eval.limit=19"])
                .unwrap()
                .ends_with("`eval.limit` is 19; raise it")
        );
        assert_eq!(told(20, &[]), None);
        assert_eq!(told(1, &["eval.samples=0"]), None);
    }
}
