//! A checkpoint's settings for prompts and sampling, overridden by the command line.

use std::path::Path;

use datasets::Task;
use engine::text::{Date, today};
use trainer::checkpoint_settings::{
    CheckpointSettings, CheckpointSettingsError, NAME, is_checkpoint,
};
use trainer::config::{Data, Eval, Verifier};
use trainer::data::PromptRenderer;
use trainer::stderr::say;

use super::args::PromptArgs;
use super::prompts;

/// A checkpoint's settings, as far as they suit the tasks at hand.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    checkpoint: Option<CheckpointSettings>,
    /// What a folder without settings is told about them.
    missing: Option<String>,
}

impl Settings {
    /// The settings in a model's folder; empty ones if it has none.
    pub(crate) fn of(model: &Path) -> Result<Self, CheckpointSettingsError> {
        let checkpoint = CheckpointSettings::of(model)?;
        let missing = (checkpoint.is_none() && model.is_dir()).then(|| {
            let warning = if is_checkpoint(model) { "warning: " } else { "" };
            format!("{warning}{} has no {NAME}, with which a checkpoint has its run's template, limits and temperature, so those of this command are used", model.display())
        });
        Ok(Self {
            checkpoint,
            missing,
        })
    }

    /// The file of the settings.
    pub(crate) fn source(&self) -> Option<&Path> {
        let checkpoint = self.checkpoint.as_ref()?;
        Some(&checkpoint.source)
    }

    /// The renderer of the tasks' prompts. A checkpoint's template that does not suit the tasks is ignored, together with all its other settings.
    pub(crate) fn renderer(
        &mut self,
        prompt: &PromptArgs,
        dataset: &str,
        tasks: &[Task],
    ) -> anyhow::Result<PromptRenderer> {
        if let Some(checkpoint) = &self.checkpoint
            && let Err(error) = checkpoint.renderer().check_kind(tasks)
        {
            let reason = error.to_string();
            let reason = reason.trim_start_matches("`data.template`: ");
            say(&format!(
                "{} is ignored, since it is for other tasks: {reason}",
                checkpoint.source.display()
            ));
            self.checkpoint = None;
        }
        match &self.checkpoint {
            // An empty split is refused below.
            Some(checkpoint) if !prompt.has_template() && !tasks.is_empty() => {
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
        let checkpoint = self.checkpoint.as_ref();
        checkpoint.map_or_else(Eval::default, |checkpoint| checkpoint.eval.clone())
    }

    /// The maximum number of tokens of a completion.
    pub(crate) fn max_tokens(&self, given: Option<usize>, default: usize) -> usize {
        given.or(self.eval().max_tokens).unwrap_or(default)
    }

    /// The date that chat templates write: the checkpoint's, else today.
    pub(crate) fn day(&self) -> Date {
        let checkpoint = self.checkpoint.as_ref();
        let day = checkpoint.and_then(|checkpoint| checkpoint.data.chat_day());
        day.unwrap_or_else(today)
    }

    /// The verifier's settings, with the checkpoint's policies for extracting and comparing answers.
    pub(crate) fn verifier(&self, given: Verifier) -> Verifier {
        match &self.checkpoint {
            Some(checkpoint) => checkpoint.verifier(given),
            None => given,
        }
    }

    /// Prints that a checkpoint's settings are used, or that a folder has none; nothing for a file.
    pub(crate) fn report(&self) {
        if let Some(text) = self.description() {
            say(&text);
        }
    }

    fn description(&self) -> Option<String> {
        let Some(source) = self.source() else {
            return self.missing.clone();
        };
        Some(format!(
            "the settings are those of the run, in {}, except for those that the command line gives",
            source.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainer::checkpoint_settings::settings_file;
    use trainer::config;

    /// A checkpoint of the recipe `quickstart` that has up to 33 tokens.
    fn checkpoint() -> tempfile::TempDir {
        let config = config::load("quickstart", &["eval.max_tokens=33".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let renderer = PromptRenderer::new(&config.data).unwrap();
        let file = settings_file(&config, &renderer, 10);
        std::fs::write(folder.path().join(NAME), file).unwrap();
        folder
    }

    #[test]
    fn the_command_line_overrides_a_checkpoint_and_another_kind_of_task_all_of_it() {
        let folder = checkpoint();
        let newline = &["\n"][..];
        for (dataset, template, stop, given, expected) in [
            (
                "starter-math",
                None,
                None,
                None,
                ("few-shot-boxed", newline, 33),
            ),
            (
                "starter-math",
                Some("boxed"),
                None,
                Some(9),
                ("boxed", &[], 9),
            ),
            (
                "starter-math",
                None,
                Some("END"),
                None,
                ("few-shot-boxed", &["END"], 33),
            ),
            ("starter-code", None, None, None, ("auto", &[], 512)),
        ] {
            let tasks = datasets::open(dataset, None).unwrap().eval;
            let stop = stop.map(str::to_owned).into_iter().collect();
            let prompt = PromptArgs::new(template.map(str::to_owned), false, stop);
            let mut settings = Settings::of(folder.path()).unwrap();
            let renderer = settings.renderer(&prompt, dataset, &tasks).unwrap();
            let max_tokens = settings.max_tokens(given, 512);
            let found = (renderer.name(), renderer.stop_strings(), max_tokens);
            let (name, stop, max_tokens) = expected;
            let stop: Vec<String> = stop.iter().map(ToString::to_string).collect();
            assert_eq!(found, (name, &stop[..], max_tokens));
            let is_used = settings
                .description()
                .is_some_and(|text| text.contains(NAME));
            assert_eq!(is_used, dataset == "starter-math");
        }
    }

    #[test]
    fn a_model_without_settings_gets_the_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let tasks = datasets::open("starter-math", None).unwrap().eval;
        let prompt = PromptArgs::new(None, false, Vec::new());
        let mut settings = Settings::of(folder.path()).unwrap();
        let renderer = settings.renderer(&prompt, "starter-math", &tasks).unwrap();
        let found = (renderer.name(), settings.max_tokens(None, 512));
        assert_eq!(found, ("auto", 512));
        let missing = settings.description().unwrap();
        assert!(missing.contains(" has no rapid.toml, "), "{missing}");
        // A checkpoint that was copied without it.
        std::fs::write(folder.path().join("run.json"), "").unwrap();
        let copied = Settings::of(folder.path()).unwrap().description();
        assert_eq!(copied.unwrap(), format!("warning: {missing}"));
        let file = Settings::of(&folder.path().join("m.gguf")).unwrap();
        assert_eq!(file.description(), None);
        let error = settings.renderer(&prompt, "starter-math", &[]);
        assert!(error.unwrap_err().to_string().contains("has no tasks"));
    }
}
