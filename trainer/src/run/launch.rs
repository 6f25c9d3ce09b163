//! From a configuration to a run: everything that can be refused is refused before the first sample, the cheapest first.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datasets::fetch::{self, Kind};
use datasets::passk::MIN_TASKS;
use engine::Engine;

use super::data_note::{DataNote, data_dir_of};
use super::model_digest::digest;
use super::paths::{in_full, settle};
use super::plan::{Room, Taken};
use super::teacher::Given;
use super::{Job, Journal, Progress, RunFolder, Summary, TrainError, padding, train};
use crate::config::{self, Config, ConfigError, Factor};
use crate::data::{self, Prompts};
use crate::policy::Policy;
use crate::reward::RewardClient;
use crate::stop::Stop;

/// Where a run is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A new folder.
    New(PathBuf),
    /// The folder of a run to continue.
    Resume(PathBuf),
}

/// What `rapid train` starts.
pub struct Launch {
    /// The resolved configuration; see [`resume_config`] for a run to continue.
    pub config: Config,
    /// A folder of data sets, before the cache folder; that of the run to continue unless given.
    pub data_dir: Option<PathBuf>,
    /// Where the run is kept.
    pub target: Target,
    /// The end, where it is asked for.
    pub stop: Stop,
    /// Where its course is told.
    pub progress: Progress,
}

/// The configuration of a run to continue, with `--set` on top. Only what changes no number of the updates made so far may be set.
///
/// # Errors
/// [`TrainError::NoRun`], [`TrainError::Fixed`], [`TrainError::Shorter`], [`TrainError::Config`].
pub fn resume_config(run: &Path, sets: &[String]) -> Result<Config, TrainError> {
    let path = run.join("config.toml");
    if !path.is_file() {
        return Err(TrainError::NoRun(run.to_owned()));
    }
    for set in sets {
        let (section, key, _) = config::parse_set(set)?;
        let free = section == "verifier"
            || (section == "engine" && key != "dtype")
            || (section == "run"
                && matches!(
                    key.as_str(),
                    "checkpoint_every" | "keep" | "alarms" | "updates" | "epochs"
                ));
        if !free {
            return Err(TrainError::Fixed(format!("{section}.{key}")));
        }
    }
    let text = std::fs::read_to_string(&path).map_err(|source| TrainError::io(&path, source))?;
    let origin = path.display().to_string();
    let config = config::parse(&origin, &text, sets)?;
    let (begun, asked) = (config::parse(&origin, &text, &[])?.run, &config.run);
    // Updates and epochs are compared once the tasks are counted.
    for (unit, before, after) in [
        ("updates", begun.updates, asked.updates),
        ("epochs", begun.epochs, asked.epochs),
    ] {
        if let (Some(before), Some(after)) = (before, after)
            && after < before
        {
            let told = |count: usize| match count {
                1 => format!("1 {}", unit.trim_end_matches('s')),
                _ => format!("{count} {unit}"),
            };
            return Err(TrainError::Shorter {
                before: told(before),
                after: told(after),
            });
        }
    }
    Ok(config)
}

/// The model's file or folder on this machine.
///
/// # Errors
/// [`TrainError::NoModel`] where a named model is not in the cache folder, [`TrainError::Config`] where nothing is at the path.
pub fn locate_model(model: &config::Model) -> Result<PathBuf, TrainError> {
    match (&model.path, &model.name) {
        (Some(path), _) if path.exists() => Ok(path.clone()),
        (Some(path), _) => Err(ConfigError::Value {
            key: "model.path".into(),
            reason: format!(
                "there is no file or folder {}; give a GGUF file, or a folder with config.json, tokenizer.json and safetensors",
                path.display()
            ),
        }
        .into()),
        (None, Some(name)) => fetch::locate(Kind::Model, name)
            .map(|folder| weights(&folder))
            .ok_or_else(|| TrainError::NoModel(name.clone())),
        (None, None) => Err(ConfigError::Value {
            key: "model.name".into(),
            reason: "it is not set".into(),
        }
        .into()),
    }
}

/// A folder's GGUF file, where that is what it holds; the folder, where it is a Hugging Face one.
fn weights(folder: &Path) -> PathBuf {
    if folder.join("config.json").is_file() {
        return folder.to_owned();
    }
    std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "gguf")
        })
        .min()
        .unwrap_or_else(|| folder.to_owned())
}

/// Trains as a configuration says.
///
/// # Errors
/// [`TrainError`]; nothing is written where the start is refused.
pub async fn launch(launch: Launch) -> Result<Summary, TrainError> {
    let Launch {
        config,
        data_dir,
        target,
        stop,
        mut progress,
    } = launch;
    let config = settle(config);
    let data_dir = match &target {
        Target::New(root) => {
            RunFolder::check_free(root)?;
            data_dir
        }
        Target::Resume(root) => data_dir.map_or_else(|| data_dir_of(root), |dir| Ok(Some(dir)))?,
    };
    let begun = match &target {
        Target::New(_) => None,
        Target::Resume(root) => Some(root.as_path()),
    };
    let given = Given::read(&config, begun)?;
    let data_dir = data_dir.map(|dir| in_full(&dir));
    let dataset = data::open(&config, data_dir.as_deref())?;
    let note = DataNote::of(&config, &dataset, data_dir.as_deref())?;
    if let Target::Resume(root) = &target {
        note.check(root, &config.data.dataset)?;
    }
    let model = locate_model(&config.model)?;
    let rewards = if config.reward.share == 0.0 {
        RewardClient::new(&config.verifier)?
    } else {
        RewardClient::counting_tests(&config.verifier)?
    };
    let graders = rewards.start(&config.data.dataset, &dataset).await?;
    let note = note.judged_by(&graders);
    progress.say(config.to_toml().trim_end());
    let options = config.engine_options()?;
    let open = || tokio::task::block_in_place(|| Engine::open(&model, options.clone()));
    let engine = open()?;
    progress.say(&describe(&model, &engine));
    let read = tokio::task::block_in_place(|| digest(&model))?;
    let note = note.with(read, &engine.info().device);
    if let Target::Resume(root) = &target {
        note.check_model(root, &model)?;
        if let Some(moved) = note.moved(root)? {
            progress.say(&format!("warning: {moved}"));
        }
        for other in note.judged_otherwise(root)? {
            progress.say(&format!("warning: {other}"));
        }
    }
    let reference: Option<Arc<dyn Policy>> = match (config.algorithm.kl > 0.0, engine.base()) {
        (false, _) => None,
        (true, Some(base)) => {
            progress
                .say("the divergence from this model, its adapters set aside, is part of the loss");
            Some(Arc::new(base))
        }
        (true, None) => {
            progress.say("the divergence from this model is part of the loss, so a second copy of its weights stays as it is");
            Some(Arc::new(open()?))
        }
    };
    let policy: Arc<dyn Policy> = Arc::new(engine);
    if config.algorithm.sum_padding {
        padding::token(policy.as_ref())?;
    }
    let prompts = tokio::task::block_in_place(|| Prompts::new(&config, dataset, policy.as_ref()))?;
    // What does not fit is better known now than after the first phase.
    let taken = Taken::new(&config, &engine::load::config(&model)?, &prompts)?;
    if let Some(large) = taken.fits(Room::of(config.engine_options()?.device))? {
        progress.say(&format!("warning: {large}"));
    }
    for warning in warnings(&config, &prompts) {
        progress.say(&format!("warning: {warning}"));
    }
    let taught = match given {
        Some(given) => Some(
            given
                .lessons(
                    &config,
                    policy.as_ref(),
                    &rewards,
                    &prompts.train,
                    &mut progress,
                )
                .await?,
        ),
        None => None,
    };
    // Whatever can be refused was: this is the first thing that is made.
    let folder = match &target {
        Target::New(root) => RunFolder::claim(root)?,
        Target::Resume(root) => RunFolder::open(root)?,
    };
    progress.say(&format!("run folder: {}", folder.root().display()));
    note.keep(&folder)?;
    if let Target::New(_) = &target {
        // What has its configuration is a run, which can be continued.
        folder.save_config(&config.to_toml())?;
    }
    let lessons = taught.map(|taught| taught.keep(&folder)).transpose()?;
    train(Job {
        config,
        policy,
        reference,
        lessons,
        rewards,
        prompts,
        folder,
        stop,
        journal: Journal::new(progress),
    })
    .await
}

fn describe(model: &Path, engine: &Engine) -> String {
    let info = engine.info();
    let adapters = info.adapters.map_or_else(String::new, |weights| {
        format!(" and {:.1} M in adapters", weights as f64 / 1e6)
    });
    format!(
        "{}: {}, {:.0} M weights{adapters}, context {}, on {}",
        model.display(),
        info.architecture,
        info.parameters as f64 / 1e6,
        info.context,
        info.device
    )
}

/// What is to be said of evaluations on so few held-out tasks that nothing can be concluded from them.
#[must_use]
pub fn few_held_out(config: &Config, tasks: usize) -> Option<String> {
    if config.eval.samples == 0 || !(1..MIN_TASKS).contains(&tasks) {
        return None;
    }
    let remedy = match config.eval.limit {
        Some(limit) if limit < MIN_TASKS => format!("`eval.limit` is {limit}; raise it"),
        _ => "give the data set more tasks with the split `eval`".to_owned(),
    };
    let s = if tasks == 1 { "" } else { "s" };
    Some(format!(
        "{tasks} held-out task{s}: below {MIN_TASKS}, evaluations have no interval, the report concludes nothing, and no alarm hears of reward hacking; {remedy}"
    ))
}

/// What a person should know before it costs hours.
fn warnings(config: &Config, prompts: &Prompts) -> Vec<String> {
    let mut warnings = config.idle();
    if config.algorithm.factor == Factor::One && config.algorithm.h > 1 {
        warnings.push(format!(
            "`algorithm.h` is {}, but the factor `one` does nothing against stale samples, so all updates of a phase but its first are biased; set `algorithm.h = 1`, or take another preset, such as rapid-paper",
            config.algorithm.h
        ));
    }
    if prompts.left_out > 0 {
        warnings.push(format!("{} training tasks are left out, since their prompts are too long (`data.max_prompt_tokens` is {})", prompts.left_out, config.data.max_prompt_tokens));
    }
    if prompts.eval_left_out > 0 {
        warnings.push(format!("{} evaluation tasks are left out, since their prompts leave no room for an answer in the model's context", prompts.eval_left_out));
    }
    if config.eval.samples > 0 && prompts.eval.is_empty() {
        warnings.push("there are no held-out tasks, so the run is never evaluated, no checkpoint is its best, and no alarm hears of reward hacking; give the data set tasks with the split `eval`, or set `eval.samples = 0`".to_owned());
    }
    warnings.extend(few_held_out(config, prompts.eval.len()));
    if let Some((train, eval)) = prompts.overlap.first() {
        warnings.push(format!(
            "{} training questions also stand in the evaluation set ({train} is {eval}, for one), so the evaluation flatters; leave them out of one of the two",
            prompts.overlap.len()
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Toy, dataset};

    #[test]
    fn a_run_without_held_out_tasks_is_warned_of_unless_it_wants_none() {
        let told = |held_out: usize, samples: &str| {
            let recipe = "[model]\nname = \"toy\"\n[data]\ndataset = \"toy\"\ntemplate = \"plain\"\n[sampling]\nmax_tokens = 4\n";
            let config = config::parse("test", recipe, &[samples.to_owned()]).unwrap();
            let prompts = Prompts::new(&config, dataset(4, held_out), &Toy::default()).unwrap();
            warnings(&config, &prompts)
        };
        let told_of_none = told(0, "eval.samples=8");
        assert!(
            told_of_none.len() == 1 && told_of_none[0].contains("no held-out tasks"),
            "{told_of_none:?}"
        );
        assert_eq!(told(20, "eval.samples=8"), Vec::<String>::new());
        assert_eq!(told(0, "eval.samples=0"), Vec::<String>::new());
    }

    #[test]
    fn a_run_with_few_held_out_tasks_is_warned_of() {
        let told = |tasks: usize, sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
            few_held_out(&config::load("quickstart", &sets).unwrap(), tasks)
        };
        let one = told(1, &[]).unwrap();
        assert!(
            one.starts_with("1 held-out task: below 20,") && one.contains("split `eval`"),
            "{one}"
        );
        assert!(
            told(19, &["eval.limit=19"])
                .unwrap()
                .ends_with("`eval.limit` is 19; raise it")
        );
        assert_eq!(told(20, &[]), None);
        assert_eq!(told(1, &["eval.samples=0"]), None);
    }
}
