//! Checks before a run starts, and its warnings.

use std::path::Path;

use engine::config::ModelConfig;

use crate::config::Config;
use crate::data::{DataError, Prompts};
use crate::plan::{MemoryEstimate, TaskCounts, warnings};
use crate::policy::Policy;
use crate::rollout;
use crate::run::TrainError;
use crate::run::observers::Progress;

/// Refuses a run that cannot work on `ranks` ranks, and prints warnings about one that may not work.
///
/// # Errors
/// [`TrainError::Misfit`], [`TrainError::Engine`], [`TrainError::Data`].
pub(super) fn check(
    config: &Config,
    model: &ModelConfig,
    policy: &dyn Policy,
    prompts: &Prompts,
    (ranks, new): (usize, Option<&Path>),
    progress: &Progress,
) -> Result<(), TrainError> {
    if config.algorithm.sum_padding {
        rollout::end_token(policy)?;
    }
    let (phase, tasks) = (config.prompts_per_phase(), prompts.train.len());
    if config.algorithm.drop_last_phase && tasks < phase {
        return Err(DataError::Nothing(format!(
            "no update is left: a phase has {phase} prompts (`algorithm.n_step` / `algorithm.group_size` × `algorithm.h`), an epoch has {tasks}, and \
             `algorithm.drop_last_phase` drops phases that are not whole. Set it to false, or lower `algorithm.h`"
        ))
        .into());
    }
    // A run that does not fit into memory is refused now, not after the first phase.
    let estimate = MemoryEstimate::new(config, model, prompts, ranks)?;
    let device = config.engine_options()?.device;
    // Of a run that is resumed, some checkpoints are there already.
    for misfit in estimate.check(config, device, new)? {
        progress.say(&format!("warning: {misfit}"));
    }
    for warning in warnings(config, &TaskCounts::of_prompts(prompts)) {
        progress.say(&format!("warning: {warning}"));
    }
    Ok(())
}
