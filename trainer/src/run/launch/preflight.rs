//! Checks before a run starts, and its warnings.

use engine::config::ModelConfig;

use crate::config::Config;
use crate::data::{DataError, Prompts};
use crate::plan::{MemoryBudget, MemoryEstimate, TaskCounts, checkpoints, free_space, warnings};
use crate::policy::Policy;
use crate::rollout;
use crate::run::TrainError;
use crate::run::launch::Target;
use crate::run::observers::Progress;

/// Refuses a run that cannot work on `ranks` ranks, and prints warnings about one that may not work.
///
/// # Errors
/// [`TrainError::TooLarge`], [`TrainError::TooLittleDisk`], [`TrainError::Engine`], [`TrainError::Data`].
pub(super) fn check(
    config: &Config,
    model: &ModelConfig,
    policy: &dyn Policy,
    prompts: &Prompts,
    (ranks, target): (usize, &Target),
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
    // Of a run that is resumed, some checkpoints are there already.
    if let Target::New(folder) = target
        && let Some(little) = estimate.fits_on_disk(checkpoints(config), free_space(folder))?
    {
        progress.say(&format!("warning: {little}"));
    }
    for warning in warnings(config, &TaskCounts::of_prompts(prompts)) {
        progress.say(&format!("warning: {warning}"));
    }
    Ok(())
}

/// Refuses `algorithm.drop_last_phase` with fewer training prompts than a phase has. `tasks` is their number.
fn whole_phases(config: &Config, tasks: usize) -> Result<(), DataError> {
    let phase = config.prompts_per_phase();
    if config.algorithm.drop_last_phase && tasks < phase {
        return Err(DataError::Nothing(format!(
            "no update is left: a phase has {phase} prompts (`algorithm.n_step` / `algorithm.group_size` × `algorithm.h`), an epoch has {tasks}, and \
             `algorithm.drop_last_phase` drops phases that are not whole. Set it to false, or lower `algorithm.h`"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

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
        let error = checked(7, true).unwrap_err().to_string();
        assert!(error.contains("a phase has 8 prompts"), "{error}");
    }
}
