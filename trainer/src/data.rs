//! The prompts of tasks, their order, and their division into phases.

mod phase_size;
mod prompt_schedule;
mod sets;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use datasets::template::{TemplateError, check_control};
use datasets::{Dataset, DatasetError, Task, Template};
use engine::EngineError;
use engine::text::{Date, today};

use crate::config;
use crate::policy::PromptEncoder;

pub use phase_size::{PhaseSize, SizeReason};
pub use prompt_schedule::{Phase, PromptSchedule, PromptUse};
pub use sets::{TaskSet, open};

/// A task with its prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// The task.
    pub task: Arc<Task>,
    /// The text before the completion; it is sent to the verifier too.
    pub text: Arc<str>,
    /// Its token ids.
    pub tokens: Arc<[u32]>,
    /// Texts that end a completion, in addition to the model's end-of-text tokens.
    pub stop: Arc<[String]>,
}

/// Why there are no prompts.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The data set cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The template cannot be used.
    #[error("`data.template`: {0}")]
    Template(String),
    /// The system prompt cannot be used.
    #[error(transparent)]
    System(TemplateError),
    /// The engine could not tokenise a prompt.
    #[error("the prompt of task {task} cannot be tokenised: {source}")]
    Tokens {
        /// The task's id.
        task: String,
        /// The engine's error.
        source: EngineError,
    },
    /// No training task or no update is left: what leaves them out, and the remedy.
    #[error("{0}")]
    Nothing(String),
}

/// Makes prompts of tasks.
#[derive(Debug, Clone)]
pub struct PromptRenderer {
    /// The template, as the recipe names it.
    pub name: String,
    /// The template.
    pub template: Template,
    /// Whether prompts are in the model's chat template.
    pub chat: bool,
    /// The system message before the prompt.
    pub system: Option<String>,
    /// The date for chat templates that write it into prompts.
    pub day: Date,
    stop: Arc<[String]>,
}

impl PromptRenderer {
    /// A renderer with the template that a recipe names: `auto`, a template's name, the path of a file with a template, or a template's text, which has a placeholder.
    ///
    /// # Errors
    /// [`DataError::Template`], [`DataError::System`].
    pub fn new(settings: &config::Data) -> Result<Self, DataError> {
        let name = settings.template.as_str();
        let path = Path::new(name);
        let extension = path.extension().map(OsStr::to_ascii_lowercase);
        let is_path = name.contains(['/', '\\']) || extension.is_some() || path.is_file();
        let template = if name == "auto" {
            Ok(Template::for_dataset(&settings.dataset))
        } else if name.contains('{') {
            Template::parse(name).map_err(|error| error.to_string())
        } else if is_path {
            let text = datasets::jsonl::read_text(path)
                .map_err(|error| DataError::Template(format!("{name} cannot be read: {error}; give a file with the template, or a built-in template's name")))?;
            // A file of another kind has only the text of the template.
            let template = match extension.is_some_and(|it| it == "toml") {
                true => Template::from_toml(&text),
                false => Template::parse(&text),
            };
            template.map_err(|error| format!("{name}: {error}"))
        } else {
            Template::named(name).map_err(|error| error.to_string())
        };
        let template = template.map_err(DataError::Template)?;
        if let Some(system) = &settings.system {
            check_control("the system prompt", system).map_err(DataError::System)?;
        }
        Ok(Self::with_template(template, settings))
    }

    /// A renderer with this template; the settings have only its name.
    pub fn with_template(template: Template, settings: &config::Data) -> Self {
        let stop = settings.stop.as_ref().unwrap_or(&template.stop).clone();
        Self {
            name: settings.template.clone(),
            template,
            chat: settings.chat,
            system: settings.system.clone(),
            day: settings.chat_day().unwrap_or_else(today),
            stop: stop.into(),
        }
    }

    /// Refuses tasks of another kind than the template is for.
    ///
    /// # Errors
    /// [`DataError::Template`], which names a suitable template.
    pub fn check_kind(&self, tasks: &[Task]) -> Result<(), DataError> {
        let Some(kind) = self.template.kind.as_deref() else {
            return Ok(());
        };
        let mut kinds = tasks.iter().map(|task| task.spec.kind());
        let Some(other) = kinds.clone().find(|other| *other != kind) else {
            return Ok(());
        };
        let ((requested, _), (needed, template)) = (answer_of(kind), answer_of(other));
        let remedy = if kinds.all(|kind| kind == other) {
            format!("use {template}")
        } else {
            "give each kind of task a file of its own".to_owned()
        };
        let of_kind = tasks.iter().filter(|task| task.spec.kind() == other);
        Err(DataError::Template(format!(
            "`{}` asks for {requested}, and {} of {} tasks for {needed}; {remedy}",
            self.name,
            of_kind.count(),
            tasks.len()
        )))
    }

    /// Texts that end a completion, in addition to the model's end-of-text tokens.
    pub fn stop_strings(&self) -> &[String] {
        &self.stop
    }

    /// The stop token that ends a turn in the model's chat template; `None` if prompts are not chat prompts.
    ///
    /// # Errors
    /// [`EngineError`] if the model has no chat template.
    pub fn turn_end(
        &self,
        encoder: &dyn PromptEncoder,
        stop_tokens: &[u32],
    ) -> Result<Option<u32>, EngineError> {
        if !self.chat {
            return Ok(None);
        }
        let turn = [("user".to_owned(), "a".to_owned())];
        let tokens = encoder.encode(&encoder.chat_prompt(&turn, self.day)?, true)?;
        Ok(tokens.into_iter().find(|token| stop_tokens.contains(token)))
    }

    /// Renders and tokenises tasks. Returns the prompts of at most `limit` tokens, and the number of the tasks that are left out.
    ///
    /// # Errors
    /// [`DataError::Tokens`].
    pub fn prompts(
        &self,
        encoder: &dyn PromptEncoder,
        tasks: Vec<Task>,
        limit: usize,
    ) -> Result<(Vec<Arc<Prompt>>, usize), DataError> {
        let all = tasks.len();
        let mut prompts = Vec::with_capacity(all);
        for task in tasks {
            let failed = |source| DataError::Tokens {
                task: task.id.clone(),
                source,
            };
            let mut text = self.template.render(&task);
            let tokens = if self.chat {
                let system = self.system.clone().map(|text| ("system".to_owned(), text));
                let user = ("user".to_owned(), text);
                let messages: Vec<_> = system.into_iter().chain([user]).collect();
                text = encoder.chat_prompt(&messages, self.day).map_err(failed)?;
                encoder.encode_chat(&text)
            } else {
                encoder.encode(&text, true)
            };
            let tokens = tokens.map_err(failed)?;
            if (1..=limit).contains(&tokens.len()) {
                prompts.push(Arc::new(Prompt {
                    task: Arc::new(task),
                    text: text.into(),
                    tokens: tokens.into(),
                    stop: Arc::clone(&self.stop),
                }));
            }
        }
        let left_out = all - prompts.len();
        Ok((prompts, left_out))
    }
}

/// The form of answer for a kind of task, and the templates that ask for it.
fn answer_of(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "math" => ("a boxed answer", "`boxed` or `few-shot-boxed`"),
        "code" => ("a function", "`mbppplus`"),
        _ => ("a proof", "`lean4`"),
    }
}

/// The prompts of a run's data sets.
#[derive(Debug, Clone, Default)]
pub struct Prompts {
    /// Training prompts, one data set after the other, each in its order.
    pub train: Vec<Arc<Prompt>>,
    /// Held-out prompts.
    pub eval: Vec<Arc<Prompt>>,
    /// In a mixture with weights: the number of training prompts and the weight of each data set.
    pub weights: Vec<(usize, f64)>,
    /// If several data sets are evaluated on: the name of each, and its places in `eval`.
    pub eval_sets: Vec<(String, Range<usize>)>,
    /// Counts of their tasks.
    pub counts: TaskCounts,
}

/// Counts of a run's tasks, for warnings.
#[derive(Debug, Clone, Default)]
pub struct TaskCounts {
    /// Number of training tasks that are left out, because their prompts are too long.
    pub left_out: usize,
    /// Number of evaluation tasks that are left out, because their prompts leave no room for an answer.
    pub eval_left_out: usize,
    /// The model's context, in tokens; 0 if it is not known.
    pub context: usize,
    /// Number of evaluation tasks, without those left out.
    pub eval: usize,
    /// Number of evaluation tasks that are trained on too. Without splits in the data set's file, that is every one.
    pub trained_on: usize,
    /// `(training id, evaluation id)` of a question that is in both splits.
    pub in_both: Option<(String, String)>,
}

impl TaskCounts {
    /// The tasks of data sets, before their prompts are known.
    pub fn of_datasets(sets: &[&Dataset]) -> Self {
        Self::of(
            &datasets::overlap(sets),
            sets.iter().flat_map(|set| &set.eval),
        )
    }

    /// Counts of these evaluation tasks. `overlap` has the pairs of ids in both splits.
    fn of<'a>(overlap: &[(String, String)], eval: impl IntoIterator<Item = &'a Task>) -> Self {
        let in_both: HashSet<&str> = overlap.iter().map(|(_, eval)| eval.as_str()).collect();
        let is_trained_on = eval.into_iter().map(|task| in_both.contains(&*task.id));
        let is_trained_on: Vec<bool> = is_trained_on.collect();
        Self {
            eval: is_trained_on.len(),
            trained_on: is_trained_on.into_iter().filter(|it| *it).count(),
            in_both: overlap.first().cloned(),
            ..Self::default()
        }
    }
}

impl Prompts {
    /// Makes the prompts of data sets. Prompts that are too long are left out and counted.
    ///
    /// # Errors
    /// [`DataError`]; [`DataError::Nothing`] if no training task of a data set is left.
    pub fn new(
        config: &config::Config,
        sets: Vec<TaskSet>,
        encoder: &dyn PromptEncoder,
    ) -> Result<Self, DataError> {
        let overlap = datasets::overlap(&sets.iter().map(|set| &set.tasks).collect::<Vec<_>>());
        let room = |max_tokens: usize| encoder.context().saturating_sub(max_tokens);
        let train_room = room(config.sampling.max_tokens);
        let limit = config.data.max_prompt_tokens.min(train_room);
        let eval_limit = room(config.eval.max_tokens.unwrap_or(config.sampling.max_tokens));
        let mut all = Self::default();
        for TaskSet { recipe, tasks } in sets {
            let renderer = PromptRenderer::new(&recipe.data)?;
            let (train, left_out) = renderer.prompts(encoder, tasks.train, limit)?;
            let (eval, too_long) = renderer.prompts(encoder, tasks.eval, eval_limit)?;
            all.counts.left_out += left_out;
            all.counts.eval_left_out += too_long;
            if train.is_empty() && recipe.is_trained_on {
                let (context, max_tokens) = (encoder.context(), config.sampling.max_tokens);
                return Err(DataError::Nothing(format!(
                    "no training task of {} is left: all {left_out} prompts are longer than {limit} tokens. `data.max_prompt_tokens` is {}, and `sampling.max_tokens`, which is \
                 {max_tokens}, leaves {train_room} of the {context} tokens of the model's context for the prompt; raise the first, lower the second, or train a model with a longer context",
                    tasks.name, config.data.max_prompt_tokens
                )));
            }
            all.weights
                .extend(recipe.weight.map(|weight| (train.len(), weight)));
            if !eval.is_empty() {
                let first = all.eval.len();
                all.eval_sets
                    .push((recipe.name().to_owned(), first..first + eval.len()));
            }
            all.train.extend(train);
            all.eval.extend(eval);
        }
        if all.eval_sets.len() < 2 {
            all.eval_sets.clear();
        }
        let tasks = all.eval.iter().map(|prompt| &*prompt.task);
        all.counts = TaskCounts {
            left_out: all.counts.left_out,
            eval_left_out: all.counts.eval_left_out,
            context: encoder.context(),
            ..TaskCounts::of(&overlap, tasks)
        };
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{self, FakePolicy, dataset};

    fn config(sets: &[&str]) -> config::Config {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        let recipe =
            "[model]\nname = \"toy\"\n[data]\ndataset = \"toy\"\n[sampling]\nmax_tokens = 4\n";
        config::parse("test", recipe, &sets).unwrap()
    }

    fn prompts(sets: &[&str], dataset: Dataset) -> Result<Prompts, String> {
        let config = config(sets);
        let sets = fakes::set(&config, dataset);
        Prompts::new(&config, sets, &FakePolicy::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_template_is_a_name_a_file_or_a_text() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let text = file("mine.txt", "From a file: {question}");
        let toml = file("mine.toml", "stop = [\"Q:\"]\ntext = 'Q: {question}'\n");
        let end = Some("data.stop=[\"END\"]");
        for (template, stop, start, expected) in [
            ("plain", None, "question", &[][..]),
            ("Directly: {question}!", None, "Directly: question", &[]),
            (&text, None, "From a file: question", &[]),
            (&toml, None, "Q: question", &["Q:"]),
            (&toml, Some("data.stop=[]"), "Q: question", &[]),
            ("few-shot-boxed", None, "Question: ", &["\n"]),
            ("few-shot-boxed", end, "Question: ", &["END"]),
        ] {
            let template = format!("data.template={template}");
            let sets: Vec<&str> = [&*template].into_iter().chain(stop).collect();
            let renderer = PromptRenderer::new(&config(&sets).data).unwrap();
            let prompts = renderer.prompts(&FakePolicy::default(), dataset(1, 0).train, 9999);
            let prompt = &prompts.unwrap().0[0];
            assert!(prompt.text.starts_with(start), "{sets:?}");
            assert_eq!(renderer.stop_strings(), expected, "{sets:?}");
        }
        for (template, error) in [
            ("plian", "plain"),
            ("./missing.toml", "./missing.toml cannot be read: No such"),
            ("missing.txt", "missing.txt cannot be read: No such"),
        ] {
            let set = format!("data.template={template}");
            let found = PromptRenderer::new(&config(&[&set]).data).unwrap_err();
            assert!(found.to_string().contains(error), "{found}");
        }
    }

    #[test]
    fn a_template_for_another_kind_is_refused_and_a_suitable_one_is_named() {
        const CODE: &str =
            "asks for a boxed answer, and 45 of 45 tasks for a function; use `mbppplus`";
        const MATH: &str = "asks for a function, and 300 of 300 tasks for a boxed answer; use `boxed` or `few-shot-boxed`";
        const LEAN: &str = "asks for a boxed answer, and 15 of 15 tasks for a proof; use `lean4`";
        const MIXED: &str = "asks for a boxed answer, and 1 of 2 tasks for a function; give each kind of task a file of its own";
        let opened = |dataset: &str, template: &str| {
            let sets = ["dataset", "template"].map(|key| format!("data.{key}="));
            let sets = [sets[0].clone() + dataset, sets[1].clone() + template];
            let opened = open(&config(&sets.each_ref().map(String::as_str)), None);
            opened.map(drop).map_err(|error| error.to_string())
        };
        let mixed = tempfile::Builder::new().suffix(".jsonl").tempfile();
        let mixed = mixed.unwrap();
        let lines = "{\"question\": \"1 + 1?\", \"answer\": \"2\"}\n{\"question\": \"Write f().\", \"entry_point\": \"f\", \"tests\": [{\"args\": [], \"expected\": 1}]}\n";
        std::fs::write(&mixed, lines).unwrap();
        for (dataset, template, says) in [
            ("starter-code", "few-shot-boxed", CODE),
            ("starter-math", "mbppplus", MATH),
            ("starter-lean", "boxed", LEAN),
            (mixed.path().to_str().unwrap(), "boxed", MIXED),
        ] {
            let error = opened(dataset, template).unwrap_err();
            assert_eq!(error, format!("`data.template`: `{template}` {says}"));
            for template in ["auto", "plain", "Q: {question}"] {
                assert_eq!(opened(dataset, template), Ok(()), "{template}");
            }
        }
        let mut config = config(&["data.dataset=starter-math", "data.chat=true"]);
        config.data.system = Some("Use \u{8}oxed{}.".to_owned());
        let error = open(&config, None).unwrap_err().to_string();
        let says = r"the system prompt has the control character \u{8}oxed{}.:";
        assert!(error.starts_with(says), "{error}");
    }

    #[test]
    fn too_long_prompts_are_counted_and_repeated_ones_reported() {
        let mut tasks = dataset(4, 2);
        tasks.train[1].question = "x".repeat(100);
        tasks.eval[0].question = "x".repeat(300);
        tasks.eval[1].question.clone_from(&tasks.train[2].question);
        let some = prompts(&["data.max_prompt_tokens=50"], tasks).unwrap();
        assert_eq!((some.train.len(), some.counts.left_out), (3, 1));
        assert_eq!((some.eval.len(), some.counts.eval_left_out), (1, 1));
        let repeated = ("toy/train/2".to_owned(), "toy/eval/1".to_owned());
        assert_eq!(some.counts.in_both, Some(repeated));

        let too_long = "all 3 prompts are longer than 5";
        for (set, says) in [
            ("data.max_prompt_tokens=5", too_long),
            ("sampling.max_tokens=9000", "leaves 0 of the 256 tokens"),
        ] {
            let error = prompts(&[set], dataset(3, 1)).unwrap_err();
            let start = "no training task of toy is left: ";
            assert!(error.starts_with(start) && error.contains(says), "{error}");
        }
    }
}
