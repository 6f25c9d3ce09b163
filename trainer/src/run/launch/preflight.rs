//! Checks before a run starts, and its warnings.

use engine::config::ModelConfig;

use crate::config::Config;
use crate::data::{DataError, PromptSchedule, Prompts};
use crate::plan::{MemoryBudget, MemoryEstimate, warnings};
use crate::policy::Policy;
use crate::rollout;
use crate::run::TrainError;
use crate::run::observers::Progress;

/// Refuses a run that cannot work on `ranks` ranks with this memory and disk space (see [`MemoryEstimate::check`]), and warns if it may not work. Returns its
/// estimate.
///
/// # Errors
/// [`TrainError::Misfit`], [`TrainError::Engine`], [`TrainError::Data`].
pub(super) fn check(
    config: &Config,
    model: &ModelConfig,
    policy: &dyn Policy,
    prompts: &Prompts,
    ranks: usize,
    (memory, disk): (Option<MemoryBudget>, Option<u64>),
    progress: &Progress,
) -> Result<MemoryEstimate, TrainError> {
    if config.algorithm.sum_padding {
        rollout::end_token(policy)?;
    }
    check_epoch(config, prompts)?;
    // A run that does not fit into memory is refused now, not after the first phase.
    let estimate = MemoryEstimate::new(config, model, prompts, ranks)?;
    for misfit in estimate.check(config, memory, disk)? {
        progress.say(&format!("warning: {misfit}"));
    }
    for warning in warnings(config, &prompts.counts) {
        progress.say(&format!("warning: {warning}"));
    }
    Ok(estimate)
}

/// Refuses prompts that do not make an epoch.
///
/// # Errors
/// [`DataError::Nothing`] if an epoch has no whole phase and `algorithm.drop_last_phase` is set, or if a set of a mixture has no place in it.
pub fn check_epoch(config: &Config, prompts: &Prompts) -> Result<(), DataError> {
    whole_phases(config, prompts.train.len())?;
    let schedule = PromptSchedule::new(config, prompts.train.len()).with_mixture(&prompts.weights);
    let Some(set) = schedule.set_without_a_place() else {
        return Ok(());
    };
    Err(DataError::Nothing(format!(
        "`{}.weight`: its share of an epoch's {} prompts is less than one prompt, so it is never trained on; raise it",
        config.data_sets()[set].section,
        prompts.train.len()
    )))
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
        for (tasks, drop, is_refused) in [(8, true, false), (7, false, false), (7, true, true)] {
            let sizes = ["n_step=8", "group_size=4", "h=4"].map(|set| format!("algorithm.{set}"));
            let drop = format!("algorithm.drop_last_phase={drop}");
            let config = config::load("quickstart", &[&sizes[..], &[drop]].concat()).unwrap();
            assert_eq!(whole_phases(&config, tasks).is_err(), is_refused);
        }
    }
}
