//! A checkpoint's settings for prompts and sampling, overridden by the command line.

use std::path::Path;

use datasets::Task;
use engine::text::{Date, today};
use trainer::checkpoint_settings::{CheckpointSettings, CheckpointSettingsError, NAME};
use trainer::config::{Data, Eval, Verifier};
use trainer::data::PromptRenderer;
use trainer::stderr::say;

use super::args::PromptArgs;
use super::prompts;

/// A checkpoint's settings, as far as they suit the tasks at hand; `None` for a model without settings.
#[derive(Debug)]
pub(crate) struct CheckpointDefaults(Option<CheckpointSettings>);

impl CheckpointDefaults {
    /// The settings in a model's folder. Warns of a checkpoint that was copied without them.
    pub(crate) fn of(model: &Path) -> Result<Self, CheckpointSettingsError> {
        let settings = CheckpointSettings::of(model)?;
        if settings.is_none() && model.join("run.json").is_file() {
            say(&format!(
                "warning: {} has no {NAME}, with which a checkpoint has its run's template, limits and temperature, so those of this command are used",
                model.display()
            ));
        }
        Ok(Self(settings))
    }

    /// The file of the settings.
    pub(crate) fn source(&self) -> Option<&Path> {
        Some(&self.0.as_ref()?.source)
    }

    /// The renderer of the tasks' prompts. A checkpoint's template that does not suit the tasks is ignored, together with all its other settings.
    pub(crate) fn renderer(
        &mut self,
        prompt: &PromptArgs,
        dataset: &str,
        tasks: &[Task],
    ) -> anyhow::Result<PromptRenderer> {
        if let Some(checkpoint) = &mut self.0 {
            checkpoint.choose(dataset);
        }
        if let Some(checkpoint) = &self.0
            && let Err(error) = checkpoint.renderer().check_kind(tasks)
        {
            let reason = error.to_string();
            let reason = reason.trim_start_matches("`data.template`: ");
            let source = checkpoint.source.display();
            say(&format!(
                "{source} is ignored, since it is for other tasks: {reason}"
            ));
            self.0 = None;
        }
        match &self.0 {
            // An empty split is refused below.
            Some(checkpoint) if prompt.template.is_none() && !tasks.is_empty() => {
                let own = &checkpoint.data;
                let data = Data {
                    chat: own.chat || prompt.chat,
                    stop: prompt.stop_strings().or_else(|| own.stop.clone()),
                    ..own.clone()
                };
                let template = checkpoint.template.clone();
                Ok(PromptRenderer::with_template(template, &data))
            }
            _ => prompts::renderer(&prompt.data(dataset), tasks),
        }
    }

    /// How completions are sampled unless the command line says otherwise.
    pub(crate) fn eval(&self) -> Eval {
        let checkpoint = self.0.as_ref();
        checkpoint.map_or_else(Eval::default, |checkpoint| checkpoint.eval.clone())
    }

    /// The maximum number of tokens of a completion.
    pub(crate) fn max_tokens(&self, given: Option<usize>, default: usize) -> usize {
        given.or(self.eval().max_tokens).unwrap_or(default)
    }

    /// The date that chat templates write: the checkpoint's, else today.
    pub(crate) fn day(&self) -> Date {
        let checkpoint = self.0.as_ref();
        let day = checkpoint.and_then(|checkpoint| checkpoint.data.chat_day());
        day.unwrap_or_else(today)
    }

    /// The verifier's settings, with the checkpoint's policies for extracting and comparing answers.
    pub(crate) fn verifier(&self, given: Verifier) -> Verifier {
        match &self.0 {
            Some(checkpoint) => checkpoint.verifier(given),
            None => given,
        }
    }

    /// Prints that a checkpoint's settings are used, if they are.
    pub(crate) fn report(&self) {
        if let Some(source) = self.source() {
            say(&format!(
                "the settings are those of the run, in {}, except for those that the command line gives",
                source.display()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainer::checkpoint_settings::settings_file;
    use trainer::config;

    #[test]
    fn options_override_a_checkpoint_and_another_kind_of_task_all_of_it() {
        // A checkpoint of the recipe `quickstart` that has up to 33 tokens.
        let config = config::load("quickstart", &["eval.max_tokens=33".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = settings_file(&config, &[PromptRenderer::new(&config.data).unwrap()], 10);
        std::fs::write(folder.path().join(NAME), file).unwrap();
        let none = tempfile::tempdir().unwrap();
        let (own, math) = (&folder, "starter-math");
        for (model, dataset, [template, stop], given, expected) in [
            (own, math, ["", ""], None, ("few-shot-boxed", "\n", 33)),
            (own, math, ["boxed", ""], Some(9), ("boxed", "", 9)),
            (own, math, ["", "END"], None, ("few-shot-boxed", "END", 33)),
            (own, "starter-code", ["", ""], None, ("auto", "", 512)),
            (&none, math, ["", ""], None, ("auto", "\n", 512)),
        ] {
            let tasks = datasets::open(dataset, None).unwrap().eval;
            let [template, stop] = [template, stop].map(str::to_owned);
            let prompt = PromptArgs {
                template: Some(template).filter(|it| !it.is_empty()),
                chat: false,
                stop: Some(stop).filter(|it| !it.is_empty()).into_iter().collect(),
            };
            let mut settings = CheckpointDefaults::of(model.path()).unwrap();
            let renderer = settings.renderer(&prompt, dataset, &tasks).unwrap();
            let max_tokens = settings.max_tokens(given, 512);
            let stop = renderer.stop_strings().first();
            let stop = stop.map_or("", String::as_str);
            assert_eq!((&*renderer.name, stop, max_tokens), expected);
            let is_used = model.path() == folder.path() && dataset == math;
            assert_eq!(settings.source().is_some(), is_used);
            let error = settings.renderer(&prompt, dataset, &[]).unwrap_err();
            assert!(error.to_string().contains("has no tasks"), "{error}");
        }
    }
}
