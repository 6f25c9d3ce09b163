//! The prompts of tasks in `rapid eval`, `rapid generate` and `rapid study`.

use std::sync::Arc;

use anyhow::bail;
use datasets::Task;
use trainer::config;
use trainer::data::{DataError, Prompt, PromptRenderer};
use trainer::policy::Policy;
use trainer::stderr::say;

use super::Usage;

/// The renderer of the template. A template that does not suit the tasks is an error.
pub(crate) fn renderer(data: &config::Data, tasks: &[Task]) -> anyhow::Result<PromptRenderer> {
    if tasks.is_empty() {
        return Err(Usage(format!(
            "the data set {} has no tasks in this split; give the other one with --split",
            data.dataset
        ))
        .into());
    }
    let renderer = PromptRenderer::new(data)
        .and_then(|renderer| renderer.check_kind(tasks).map(|()| renderer));
    renderer.map_err(|error| match error {
        DataError::Template(reason) => Usage(format!("--template: {reason}")).into(),
        other => anyhow::Error::new(other),
    })
}

/// The prompts of tasks; those that fill the model's context are left out with a warning.
pub(crate) fn of_tasks(
    renderer: &PromptRenderer,
    policy: &dyn Policy,
    tasks: Vec<Task>,
) -> anyhow::Result<Vec<Arc<Prompt>>> {
    let total = tasks.len();
    let context = policy.context();
    let (prompts, left_out) = renderer.prompts(policy, tasks, context.saturating_sub(1))?;
    if prompts.is_empty() {
        bail!("no task is left: every prompt fills the model's context of {context} tokens");
    }
    if left_out > 0 {
        say(&format!(
            "warning: {left_out} of {total} tasks are left out, since their prompts fill the model's context of {context} tokens"
        ));
    }
    Ok(prompts)
}
