//! Extending a run that has finished: `--resume RUN --set run.updates=N`.
//!
//! Prompts and seeds do not depend on a run's length. So with a constant learning rate, an extended run equals, to the bit, a run that had the new length from the
//! start. The exception is a last inference phase that the old end cut short, because it sampled fewer completions: a new phase begins at the old end then.
//! `extended.jsonl` records which of the two happened.

use std::cmp::Ordering;

use super::folder::Log;
use super::learning_rate::learning_rate;
use super::{Job, TrainError, auto_h};
use crate::config::Config;
use crate::data::PromptSchedule;
use crate::record::{ExtensionRecord, StepRecord};

/// The extensions of a run with the one that begins, before anything is written; `None` if its length does not change. `previous` is its configuration so far, and
/// `updates` are those until its newest checkpoint. `tasks` is the number of tasks, or demonstrations, that it trains on. `is_due` tells whether an evaluation is
/// missing after these updates.
///
/// # Errors
/// [`TrainError::Usage`] if the run would be shorter, or has not finished; [`TrainError::Refused`] if a log is damaged, [`TrainError::Io`].
pub(super) fn extensions(
    job: &Job,
    previous: &Config,
    tasks: usize,
    updates: &[StepRecord],
    is_due: impl Fn(&PromptSchedule) -> bool,
) -> Result<Option<Vec<ExtensionRecord>>, TrainError> {
    let [before, after] =
        [previous, &job.config].map(|config| auto_h::schedule(config, tasks, updates));
    match after.prompts().cmp(&before.prompts()) {
        Ordering::Equal => return Ok(None),
        Ordering::Less => {
            return Err(TrainError::Usage(format!(
                "the run has {} updates, and a run that is continued can only be made longer, not {}; give more, or leave the setting out",
                before.updates(),
                after.updates()
            )));
        }
        Ordering::Greater => {}
    }
    let made = updates.len();
    if made < before.updates() || is_due(&before) {
        return Err(TrainError::Usage(format!(
            "the run has not finished (it has made {made} of its {} updates), and only a run that has finished can be made longer: continue it first, with \
             `--set run.keep_state=true` and without a new length",
            before.updates()
        )));
    }
    let mut records: Vec<ExtensionRecord> = job.folder.read(Log::Extensions)?;
    // One that was recorded before the process was killed, and never began.
    records.retain(|earlier| earlier.updates <= made);
    // Rounded to f32, as in the optimiser.
    let rate = |number: usize, schedule: &PromptSchedule| {
        (learning_rate(&job.config.optimiser, number, schedule.updates()) as f32).to_bits()
    };
    let same_rate = (1..=made).all(|number| rate(number, &before) == rate(number, &after));
    records.push(ExtensionRecord {
        updates_before: made,
        updates: after.updates(),
        equal: same_rate && !is_cut(previous, updates) && records.iter().all(|one| one.equal),
    });
    Ok(Some(records))
}

/// Whether the end of a run cut its last phase short, or the last update in it.
fn is_cut(config: &Config, updates: &[StepRecord]) -> bool {
    let size = updates.iter().rev().find_map(|update| update.auto_h);
    let h = size.map_or(config.algorithm.h, |size| size.h);
    updates.last().is_some_and(|last| {
        last.phase_updates < h || last.algo.judged + last.algo.masked < config.algorithm.n_step
    })
}

/// What the user reads about an extension.
pub(super) fn message(extension: &ExtensionRecord) -> String {
    let (before, updates) = (extension.updates_before, extension.updates);
    let longer = format!("the run is made longer: {updates} updates instead of {before}");
    if extension.equal {
        return longer;
    }
    format!(
        "warning: {longer}; it will not equal one of this length from the start, because `optimiser.schedule` is stretched over the new length, or because the \
         last inference phase was cut short at an old end, where the next one begins"
    )
}
