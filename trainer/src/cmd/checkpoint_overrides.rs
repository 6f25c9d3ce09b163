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
    /// Descriptions of the values that come from the checkpoint.
    from_checkpoint: Vec<String>,
    /// The options of the command line that override the checkpoint's values.
    overridden: Vec<String>,
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
            ..Self::default()
        })
    }

    /// The file of the settings.
    pub(crate) fn source(&self) -> Option<&Path> {
        self.checkpoint
            .as_ref()
            .map(|checkpoint| checkpoint.source.as_path())
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
            && !tasks.is_empty()
        {
            let reason = error.to_string();
            let reason = reason.trim_start_matches("`data.template`: ");
            say(&format!(
                "{} is ignored, since it is for other tasks: {reason}",
                checkpoint.source.display()
            ));
            self.checkpoint = None;
        }
        let Some(checkpoint) = self.checkpoint.as_ref().filter(|_| !prompt.has_template()) else {
            if self.checkpoint.is_some() {
                self.overridden.push("--template".into());
            }
            return prompts::renderer(&prompt.data(dataset), tasks);
        };
        let data = Data {
            chat: checkpoint.data.chat || prompt.chat,
            stop: prompt
                .stop_strings()
                .or_else(|| checkpoint.data.stop.clone()),
            ..checkpoint.data.clone()
        };
        let renderer = PromptRenderer::with_template(checkpoint.template.clone(), &data);
        // An empty split is refused here as elsewhere.
        let renderer = if tasks.is_empty() {
            prompts::renderer(&prompt.data(dataset), tasks)?
        } else {
            renderer
        };
        self.from_checkpoint
            .push(format!("template {}", data.template));
        if checkpoint.data.chat {
            self.from_checkpoint.push(match &data.chat_date {
                Some(day) => format!("chat template, of {day}"),
                None => "chat template".into(),
            });
        } else if prompt.chat {
            self.overridden.push("--chat".into());
        }
        match prompt.stop_strings() {
            Some(_) => self.overridden.push("--stop".into()),
            None if renderer.stop_strings().is_empty() => {}
            None => self
                .from_checkpoint
                .push(format!("stop {:?}", renderer.stop_strings())),
        }
        Ok(renderer)
    }

    /// How completions are sampled unless the command line says otherwise.
    pub(crate) fn eval(&self) -> Eval {
        self.checkpoint
            .as_ref()
            .map_or_else(Eval::default, |checkpoint| checkpoint.eval.clone())
    }

    /// Notes for the report that an option overrides the checkpoint's value, or else the value in words; `None` leaves it out of the report.
    pub(crate) fn note(&mut self, option: &str, is_given: bool, value: Option<String>) {
        if self.checkpoint.is_none() {
            return;
        }
        if is_given {
            self.overridden.push(option.to_owned());
        } else {
            self.from_checkpoint.extend(value);
        }
    }

    /// The maximum number of tokens of a completion.
    pub(crate) fn max_tokens(&mut self, given: Option<usize>, default: usize) -> usize {
        let own = self.eval().max_tokens;
        let value = own.map(|tokens| format!("at most {tokens} tokens"));
        self.note("--max-tokens", given.is_some(), value);
        given.or(own).unwrap_or(default)
    }

    /// The date that chat templates write: the checkpoint's, else today.
    pub(crate) fn day(&mut self) -> Date {
        let Some(day) = self
            .checkpoint
            .as_ref()
            .and_then(|checkpoint| checkpoint.data.chat_day())
        else {
            return today();
        };
        self.from_checkpoint
            .push(format!("the day of chat templates, {day}"));
        day
    }

    /// The verifier's settings, with the checkpoint's policies for extracting and comparing answers.
    pub(crate) fn verifier(&self, given: Verifier) -> Verifier {
        match &self.checkpoint {
            Some(checkpoint) => checkpoint.verifier(given),
            None => given,
        }
    }

    /// Prints which values come from the checkpoint and which from the command line, or that a folder has no settings; nothing for a file.
    pub(crate) fn report(&self) {
        if let Some(text) = self.description() {
            say(&text);
        }
    }

    fn description(&self) -> Option<String> {
        let Some(checkpoint) = &self.checkpoint else {
            return self.missing.clone();
        };
        if self.from_checkpoint.is_empty() && self.overridden.is_empty() {
            return None;
        }
        let mut text = format!("from {}: ", checkpoint.source.display());
        if self.from_checkpoint.is_empty() {
            text.push_str("nothing");
        } else {
            text.push_str(&self.from_checkpoint.join(", "));
        }
        if !self.overridden.is_empty() {
            text.push_str("; from the command line: ");
            text.push_str(&self.overridden.join(", "));
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainer::checkpoint_settings::SettingsFile;
    use trainer::config;

    /// A checkpoint of the recipe `quickstart`, with settings on top.
    fn checkpoint(sets: &[&str]) -> tempfile::TempDir {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        let config = config::load("quickstart", &sets).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = SettingsFile::of(&config, &PromptRenderer::new(&config.data).unwrap());
        std::fs::write(folder.path().join(NAME), file.text(10)).unwrap();
        folder
    }

    fn prompt(template: Option<&str>, stop: &[&str]) -> PromptArgs {
        let stop = stop.iter().map(ToString::to_string).collect();
        PromptArgs::new(template.map(str::to_owned), false, stop)
    }

    #[test]
    fn the_command_line_overrides_the_checkpoint_and_both_are_reported() {
        let folder = checkpoint(&["eval.max_tokens=33"]);
        let tasks = datasets::open("starter-math", None).unwrap().eval;
        let path = folder.path().join(NAME).display().to_string();
        for (prompt, given, expected, report) in [
            (
                prompt(None, &[]),
                None,
                ("few-shot-boxed", &["\n"][..], 33),
                "template few-shot-boxed, stop [\"\\n\"], at most 33 tokens",
            ),
            (
                prompt(Some("boxed"), &[]),
                Some(9),
                ("boxed", &[], 9),
                "nothing; from the command line: --template, --max-tokens",
            ),
            (
                prompt(None, &["END"]),
                None,
                ("few-shot-boxed", &["END"], 33),
                "template few-shot-boxed, at most 33 tokens; from the command line: --stop",
            ),
        ] {
            let mut settings = Settings::of(folder.path()).unwrap();
            let renderer = settings.renderer(&prompt, "starter-math", &tasks).unwrap();
            let (name, stop, max_tokens) = expected;
            assert_eq!(renderer.name(), name);
            assert_eq!(renderer.stop_strings(), stop);
            assert_eq!(settings.max_tokens(given, 512), max_tokens);
            let description = settings.description().unwrap();
            assert_eq!(description, format!("from {path}: {report}"));
        }
    }

    #[test]
    fn a_template_for_other_tasks_is_ignored_with_all_other_settings() {
        let folder = checkpoint(&[]);
        let tasks = datasets::open("starter-code", None).unwrap().eval;
        let mut settings = Settings::of(folder.path()).unwrap();
        let renderer = settings
            .renderer(&prompt(None, &[]), "starter-code", &tasks)
            .unwrap();
        assert_eq!(
            (renderer.name(), renderer.template().kind.as_deref()),
            ("auto", Some("code"))
        );
        assert_eq!(settings.max_tokens(None, 512), 512);
        assert_eq!(settings.description(), None);
    }

    #[test]
    fn a_model_without_settings_gets_the_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let tasks = datasets::open("starter-math", None).unwrap().eval;
        let mut settings = Settings::of(folder.path()).unwrap();
        let renderer = settings
            .renderer(&prompt(None, &[]), "starter-math", &tasks)
            .unwrap();
        assert_eq!(
            (renderer.name(), settings.max_tokens(None, 512)),
            ("auto", 512)
        );
        let missing = settings.description().unwrap();
        assert!(missing.contains(" has no rapid.toml, "), "{missing}");
        // A checkpoint that was copied without it.
        std::fs::write(folder.path().join("run.json"), "").unwrap();
        let copied = Settings::of(folder.path()).unwrap().description();
        assert_eq!(copied.unwrap(), format!("warning: {missing}"));
        let file = Settings::of(&folder.path().join("m.gguf")).unwrap();
        assert_eq!(file.description(), None);
        let error = settings.renderer(&prompt(None, &[]), "starter-math", &[]);
        assert!(error.unwrap_err().to_string().contains("has no tasks"));
    }
}
