//! The prompts of tasks in `rapid eval`, `rapid generate` and `rapid study`.

use std::sync::Arc;

use anyhow::bail;
use datasets::{Task, Template, template};
use trainer::config;
use trainer::data::{DataError, Prompt, PromptRenderer};
use trainer::policy::Policy;
use trainer::stderr::say;

use super::Usage;

/// The renderer of the template. A template that does not suit the tasks is an error.
pub(crate) fn renderer(data: &config::Data, tasks: &[Task]) -> anyhow::Result<PromptRenderer> {
    if tasks.is_empty() {
        bail!(Usage(format!(
            "the data set {} has no tasks in this split; give the other one with --split",
            data.dataset
        )));
    }
    let renderer = PromptRenderer::new(data)
        .and_then(|renderer| renderer.check_kind(tasks).map(|()| renderer));
    renderer.map_err(|error| match error {
        DataError::Template(reason) => Usage(format!("--template: {reason}")).into(),
        other => anyhow::Error::new(other),
    })
}

/// How prompts are made and completions end, in words: a figure depends on it as much as on the model. `has_chat` says whether the model has a chat template.
pub(crate) fn description(renderer: &PromptRenderer, has_chat: bool, max_tokens: usize) -> String {
    let built_in = |name: &&str| Template::named(name).as_ref() == Ok(&renderer.template);
    let known = template::names().into_iter().find(built_in);
    let template = match (&*renderer.name, known) {
        ("auto", Some(name)) => format!("{name} (auto)"),
        (text, _) if text.contains('{') => format!("{text:?}"),
        (name, _) => name.to_owned(),
    };
    let stop = match renderer.stop_strings() {
        [] => "no stop strings".to_owned(),
        some => format!("stop {some:?}"),
    };
    let chat = match (renderer.chat, has_chat) {
        (true, _) if renderer.system.is_some() => {
            "in the model's chat template, after a system prompt"
        }
        (true, _) => "in the model's chat template",
        (false, true) => "without the model's chat template (--chat uses it)",
        (false, false) => "the model has no chat template",
    };
    format!(
        "prompts: template {template}, {chat}; completions: at most {max_tokens} tokens, {stop}"
    )
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::args::PromptArgs;

    #[test]
    fn template_stop_strings_limit_and_unused_chat_template_are_named() {
        let described = |template: &str, has_chat| {
            let arguments = PromptArgs {
                template: Some(template.to_owned()),
                ..PromptArgs::default()
            };
            let renderer = PromptRenderer::new(&arguments.data("mine.jsonl")).unwrap();
            description(&renderer, has_chat, 24)
        };
        assert_eq!(
            described("few-shot-boxed", true),
            "prompts: template few-shot-boxed, without the model's chat template (--chat uses it); completions: at most 24 tokens, stop [\"\\n\"]"
        );
        assert_eq!(
            described("auto", false),
            "prompts: template plain (auto), the model has no chat template; completions: at most 24 tokens, no stop strings"
        );
        let given = "prompts: template \"Q: {question}\", the model";
        assert!(described("Q: {question}", false).starts_with(given));
    }
}
