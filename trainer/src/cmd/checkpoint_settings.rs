//! What a checkpoint says of how it is asked, under what the command line says.

use std::path::Path;

use datasets::Task;
use engine::text::{Date, today};
use trainer::checkpoint_settings::{CheckpointSettings, CheckpointSettingsError};
use trainer::config::{Data, Eval, Verifier};
use trainer::data::PromptRenderer;
use trainer::stderr::say;

use super::args::PromptArgs;
use super::prompts;

/// A checkpoint's settings, where they are for the tasks at hand.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    checkpoint: Option<CheckpointSettings>,
    /// What is taken from them, and what the command line says instead, in words.
    taken: Vec<String>,
    given: Vec<String>,
}

impl Settings {
    /// Those that a model carries, if any.
    pub(crate) fn of(model: &Path) -> Result<Self, CheckpointSettingsError> {
        Ok(Self {
            checkpoint: CheckpointSettings::of(model)?,
            ..Self::default()
        })
    }

    /// The file that the model carries them in.
    pub(crate) fn source(&self) -> Option<&Path> {
        self.checkpoint
            .as_ref()
            .map(|checkpoint| checkpoint.source.as_path())
    }

    /// How tasks are asked. A template that does not suit them is left aside, and with it everything else that the model carries.
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
                self.given.push("--template".into());
            }
            return prompts::renderer(&prompt.of(dataset), tasks);
        };
        let data = Data {
            chat: checkpoint.data.chat || prompt.chat,
            stop: prompt.stops().or_else(|| checkpoint.data.stop.clone()),
            ..checkpoint.data.clone()
        };
        let asked = PromptRenderer::with_template(checkpoint.template.clone(), &data);
        // An empty split is refused as anywhere.
        let asked = if tasks.is_empty() {
            prompts::renderer(&prompt.of(dataset), tasks)?
        } else {
            asked
        };
        self.taken.push(format!("template {}", data.template));
        if checkpoint.data.chat {
            self.taken.push(match &data.chat_date {
                Some(day) => format!("chat template, of {day}"),
                None => "chat template".into(),
            });
        } else if prompt.chat {
            self.given.push("--chat".into());
        }
        match prompt.stops() {
            Some(_) => self.given.push("--stop".into()),
            None if asked.stop_strings().is_empty() => {}
            None => self.taken.push(format!("stop {:?}", asked.stop_strings())),
        }
        Ok(asked)
    }

    /// A value: the command line's, else the checkpoint's, else what stands in for both. `told` has its option and, of the checkpoint's, words for it.
    pub(crate) fn value<T: Copy>(
        &mut self,
        given: Option<T>,
        of: impl FnOnce(&Eval) -> Option<T>,
        default: T,
        told: (&str, impl FnOnce(T) -> Option<String>),
    ) -> T {
        let (option, words) = told;
        let checkpoint = self
            .checkpoint
            .as_ref()
            .and_then(|checkpoint| of(&checkpoint.eval));
        match (given, checkpoint) {
            (Some(given), checkpoint) => {
                if checkpoint.is_some() {
                    self.given.push(option.to_owned());
                }
                given
            }
            (None, Some(checkpoint)) => {
                self.taken.extend(words(checkpoint));
                checkpoint
            }
            (None, None) => default,
        }
    }

    /// The most tokens of a completion.
    pub(crate) fn max_tokens(&mut self, given: Option<usize>, default: usize) -> usize {
        let words = |tokens| Some(format!("at most {tokens} tokens"));
        self.value(
            given,
            |eval| eval.max_tokens,
            default,
            ("--max-tokens", words),
        )
    }

    /// The day that chat templates write, where messages are put through one.
    pub(crate) fn day(&mut self) -> Date {
        let Some(day) = self.checkpoint.as_ref().and_then(|it| it.data.chat_day()) else {
            return today();
        };
        self.taken.push(format!("the day of chat templates, {day}"));
        day
    }

    /// A verifier's settings, with how answers are read and compared.
    pub(crate) fn verifier(&self, given: Verifier) -> Result<Verifier, CheckpointSettingsError> {
        match &self.checkpoint {
            Some(checkpoint) => checkpoint.verifier(&given),
            None => Ok(given),
        }
    }

    /// Says which values came from where; nothing of a model that carries none.
    pub(crate) fn report(&self) {
        if let Some(text) = self.told() {
            say(&text);
        }
    }

    fn told(&self) -> Option<String> {
        let checkpoint = self.checkpoint.as_ref()?;
        if self.taken.is_empty() && self.given.is_empty() {
            return None;
        }
        let mut text = format!("from {}: ", checkpoint.source.display());
        if self.taken.is_empty() {
            text.push_str("nothing");
        } else {
            text.push_str(&self.taken.join(", "));
        }
        if !self.given.is_empty() {
            text.push_str("; from the command line: ");
            text.push_str(&self.given.join(", "));
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainer::checkpoint_settings::{NAME, SettingsFile};
    use trainer::config;

    /// A checkpoint of the recipe `quickstart`, with settings on top.
    fn checkpoint(sets: &[&str]) -> tempfile::TempDir {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        let config = config::load("quickstart", &sets).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let card = SettingsFile::of(&config, &PromptRenderer::new(&config.data).unwrap());
        std::fs::write(folder.path().join(NAME), card.text(10)).unwrap();
        folder
    }

    fn prompt(template: Option<&str>, stop: &[&str]) -> PromptArgs {
        let stop = stop.iter().map(ToString::to_string).collect();
        PromptArgs::new(template.map(str::to_owned), false, stop)
    }

    #[test]
    fn the_command_line_is_over_the_checkpoint_and_both_are_told() {
        let folder = checkpoint(&["eval.max_tokens=33"]);
        let tasks = datasets::open("starter-math", None).unwrap().eval;
        let shown = folder.path().join(NAME).display().to_string();

        let mut settings = Settings::of(folder.path()).unwrap();
        let renderer = settings
            .renderer(&prompt(None, &[]), "starter-math", &tasks)
            .unwrap();
        assert_eq!(
            (renderer.name(), renderer.stop_strings()),
            ("few-shot-boxed", &["\n".to_owned()][..])
        );
        assert_eq!(settings.max_tokens(None, 512), 33);
        assert_eq!(
            settings.told().unwrap(),
            format!("from {shown}: template few-shot-boxed, stop [\"\\n\"], at most 33 tokens")
        );

        let mut settings = Settings::of(folder.path()).unwrap();
        let renderer = settings
            .renderer(&prompt(Some("boxed"), &[]), "starter-math", &tasks)
            .unwrap();
        assert_eq!(
            (renderer.name(), renderer.stop_strings().len()),
            ("boxed", 0)
        );
        assert_eq!(settings.max_tokens(Some(9), 512), 9);
        assert_eq!(
            settings.told().unwrap(),
            format!("from {shown}: nothing; from the command line: --template, --max-tokens")
        );

        let mut settings = Settings::of(folder.path()).unwrap();
        let renderer = settings
            .renderer(&prompt(None, &["END"]), "starter-math", &tasks)
            .unwrap();
        assert_eq!(renderer.stop_strings(), ["END"]);
        assert!(
            settings
                .told()
                .unwrap()
                .ends_with("; from the command line: --stop")
        );
    }

    #[test]
    fn a_template_for_other_tasks_is_left_aside_with_all_that_goes_with_it() {
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
        assert_eq!(settings.told(), None);
    }

    #[test]
    fn a_model_that_carries_nothing_is_asked_as_any_other() {
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
        assert_eq!(settings.told(), None);
        let none = settings.renderer(&prompt(None, &[]), "starter-math", &[]);
        assert!(none.unwrap_err().to_string().contains("has no tasks"));
    }
}
