//! Warnings about a recipe and its data, before hours are spent on them.

use datasets::passk::MIN_TASKS;

use crate::config::{Config, Factor};
use crate::data::TaskCounts;

/// Warnings about a recipe and its tasks.
pub fn warnings(config: &Config, tasks: &TaskCounts) -> Vec<String> {
    let mut warnings = config.unused();
    if config.algorithm.factor == Factor::One && config.algorithm.h > 1 {
        warnings.push(format!(
            "`algorithm.h` is {}, but the factor `one` does not correct for stale samples, so all updates of a phase except its first are biased; set `algorithm.h = 1`, or use another preset, such as rapid-paper",
            config.algorithm.h
        ));
    }
    if tasks.left_out > 0 {
        let room = tasks.context.saturating_sub(config.sampling.max_tokens);
        let limit = match config.data.max_prompt_tokens {
            limit if limit < room => format!("`data.max_prompt_tokens` is {limit}, and "),
            _ => String::new(),
        };
        warnings.push(format!(
            "{} training tasks are left out, because their prompts are too long: {limit}`sampling.max_tokens` leaves {room} of the {} tokens of the model's context for them",
            tasks.left_out, tasks.context
        ));
    }
    if tasks.eval_left_out > 0 {
        warnings.push(format!(
            "{} evaluation tasks are left out, because their prompts leave no room for an answer in the model's context of {} tokens",
            tasks.eval_left_out, tasks.context
        ));
    }
    if config.eval.samples > 0 && tasks.eval == 0 {
        warnings.push("there are no held-out tasks, so the run is never evaluated, no checkpoint is its best, and no alarm detects reward hacking; give the data set tasks with the split `eval`, or set `eval.samples = 0`".to_owned());
    }
    warnings.extend(too_few(config, tasks));
    warnings.extend(not_held_out(config, tasks));
    warnings
}

/// The warning if there are too few evaluation tasks to conclude anything from an evaluation.
fn too_few(config: &Config, tasks: &TaskCounts) -> Option<String> {
    if config.eval.samples == 0 || !(1..MIN_TASKS).contains(&tasks.eval) {
        return None;
    }
    let remedy = match config.eval.limit {
        Some(limit) if limit < MIN_TASKS => format!("`eval.limit` is {limit}; raise it"),
        _ => "give the data set more tasks with the split `eval`".to_owned(),
    };
    let what = match tasks.trained_on {
        0 => "held-out task",
        _ => "evaluation task",
    };
    let s = if tasks.eval == 1 { "" } else { "s" };
    Some(format!(
        "{} {what}{s}: below {MIN_TASKS}, evaluations have no interval, the report draws no conclusion, and no alarm detects reward hacking; {remedy}",
        tasks.eval
    ))
}

/// The warning if evaluation tasks are trained on too.
fn not_held_out(config: &Config, tasks: &TaskCounts) -> Option<String> {
    if config.eval.samples == 0 || tasks.trained_on == 0 {
        return None;
    }
    let (train, eval) = tasks.in_both.as_ref()?;
    if tasks.trained_on == tasks.eval {
        return Some("every evaluation task is trained on too, so evaluations do not show how the model does on other tasks; give the data set other tasks with the split `eval`".to_owned());
    }
    Some(format!(
        "{} of {} evaluation tasks are trained on too (for example, {train} is {eval}), so the evaluation overestimates the model; remove them from one of the two splits",
        tasks.trained_on, tasks.eval
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::fakes::dataset;

    #[test]
    fn too_few_held_out_tasks_and_those_that_are_trained_on_get_a_warning() {
        let mut same = dataset(5, 0);
        same.eval = same.train.clone();
        let mut some = dataset(5, 20);
        some.eval.push(some.train[0].clone());
        let limit = "`eval.limit` is 19; raise it";
        let few = "5 evaluation tasks: below 20,";
        let every = "every evaluation task is trained on too";
        for (dataset, sets, expected) in [
            (&dataset(4, 0), &[][..], &["no held-out tasks"][..]),
            (&dataset(4, 0), &["eval.samples=0"], &[]),
            (&dataset(4, 20), &[], &[]),
            (&dataset(4, 1), &[], &["1 held-out task: below 20,"]),
            (&dataset(4, 1), &[], &["more tasks with the split `eval`"]),
            (&dataset(4, 19), &["eval.limit=19"], &[limit]),
            // Tasks that are trained on are not called held out.
            (&same, &[], &[few, every]),
            (&same, &["eval.samples=0"], &[]),
            (&some, &[], &["1 of 21 evaluation tasks are"]),
        ] {
            let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
            let config = config::load("quickstart", &sets).unwrap();
            let warnings = warnings(&config, &TaskCounts::of_datasets(&[dataset]));
            assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
            for (warning, part) in warnings.iter().zip(expected) {
                assert!(warning.contains(part), "{warning}");
            }
        }
    }
}
