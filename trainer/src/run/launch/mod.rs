//! Starts a run from a configuration. Everything that can be refused is refused before the first sample, cheap checks first.

mod open;
mod preflight;
mod resume_config;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::Leader;

use super::clock::Clock;
use super::folder::provenance::Provenance;
use super::folder::{RunFolder, model_digest, write_whole};
use super::freeze_config::{absolute, pin};
use super::observers::{Journal, Progress};
use super::sft::{self, TeacherFile};
use super::train_loop::train;
use super::{Job, Summary, TrainError};
use crate::config::{self, Config};
use crate::data::{self, Prompts};
use crate::interrupt::StopSignal;
use crate::plan::{MemoryBudget, RunPlan, free_space};
use crate::policy::Policy;
use crate::reward::RewardClient;

pub use open::locate_model;
pub use preflight::check_epoch;
pub use resume_config::resume_config;

/// The folder that a run is written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A new folder.
    New(PathBuf),
    /// The folder of a run to resume.
    Resume(PathBuf),
}

/// What `rapid train` starts.
pub struct Launch {
    /// The resolved configuration; see [`resume_config()`] for a run to resume.
    pub config: Config,
    /// A folder of data sets, which comes before the cache folder. By default, a resumed run uses the one that it began with.
    pub data_dir: Option<PathBuf>,
    /// Where the run is written.
    pub target: Target,
    /// The address of a verifier that ends with this process, if the configuration names none. It is not saved. Its log is `verifier.log` in the run's folder.
    pub verifier: Option<String>,
    /// A request to stop.
    pub stop: StopSignal,
    /// Where progress is reported.
    pub progress: Progress,
    /// The ranks that compute together with this process, if it is not alone.
    pub ranks: Option<Leader>,
}

impl Target {
    /// The folder of the run.
    pub fn folder(&self) -> &Path {
        match self {
            Self::New(folder) | Self::Resume(folder) => folder,
        }
    }

    /// The folder of a new run.
    pub fn new_folder(&self) -> Option<&Path> {
        match self {
            Self::New(root) => Some(root),
            Self::Resume(_) => None,
        }
    }
}

/// Starts or resumes a run, and trains to its last update.
///
/// # Errors
/// [`TrainError`]. Nothing is written if the start is refused.
pub async fn launch(mut launch: Launch) -> Result<Summary, TrainError> {
    let clock = Clock::start();
    let config = pin(launch.config.clone());
    if let Some(root) = launch.target.new_folder() {
        RunFolder::check_free(root)?;
    }
    let resumed = match &launch.target {
        Target::New(_) => None,
        Target::Resume(root) => Some(root.as_path()),
    };
    let previous = resumed.map(Provenance::of_run).transpose()?.flatten();
    let own = previous.as_ref().and_then(|run| run.data_dir.as_deref());
    let data_dir = launch.data_dir.as_deref().or(own).map(absolute);
    let teacher = TeacherFile::read(&config, resumed)?;
    let sets = data::open(&config, data_dir.as_deref())?;
    let tasks: Vec<_> = sets.iter().map(|set| &set.tasks).collect();
    let provenance = Provenance::of(&config, &tasks, data_dir.as_deref())?;
    if let Some(previous) = &previous {
        provenance.check(previous, &config.data.name())?;
    }
    let model = locate_model(&config.model)?;
    let own = launch.verifier.as_ref();
    let own = own.map_or("", |_| ", the run's own, which logs to verifier.log");
    let verifier = config::Verifier {
        url: launch.verifier.or_else(|| config.verifier.url.clone()),
        ..config.verifier.clone()
    };
    let rewards = RewardClient::with_reward(&verifier, &config.reward)?;
    let names = sets.iter().map(|set| set.recipe.data.dataset.as_str());
    let named: Vec<_> = names.zip(tasks).collect();
    let graders = rewards.start(&named).await?;
    let progress = &mut launch.progress;
    let ranks = launch.ranks.as_ref();
    let engine = open::open(&config, &model, ranks)?;
    let described = open::describe(&config, &model, &engine);
    let digest = tokio::task::block_in_place(|| model_digest::digest(&model))?;
    let provenance = provenance.with(digest, &engine.info().device, &graders);
    if let Some(previous) = &previous {
        provenance.check_model(previous, &model)?;
        for warning in provenance.warnings(previous) {
            progress.say(&format!("warning: {warning}"));
        }
    }
    let reference = open::open_reference(&config, &model, &engine, ranks, progress)?;
    let policy: Arc<dyn Policy> = Arc::new(engine);
    let prompts = tokio::task::block_in_place(|| Prompts::new(&config, sets, policy.as_ref()))?;
    let sizes = engine::load::config(&model)?;
    let ranks = ranks.map_or(1, Leader::size);
    let memory = MemoryBudget::of(config.engine_options().device);
    // A run that is resumed has written some checkpoints already.
    let disk = launch.target.new_folder().and_then(free_space);
    let room = (memory, disk);
    let estimate = preflight::check(&config, &sizes, &*policy, &prompts, ranks, room, progress)?;
    let (demonstrations, teacher_file) = match teacher {
        Some(teacher) => {
            let (policy, prompts) = (policy.as_ref(), &prompts.train);
            let judging = teacher.judge(&config, policy, &rewards, prompts, progress);
            let (demonstrations, file) = judging.await?;
            (Some(demonstrations), file)
        }
        None => (None, None),
    };
    // Nothing is written before everything is checked.
    let folder = open_folder(&launch.target, &config, &provenance)?;
    let tasks = prompts.train.len();
    let tasks = demonstrations.as_ref().map_or(tasks, Vec::len);
    let plan = RunPlan {
        trained_on: prompts.counts.trained_on,
        ..RunPlan::new(&config, tasks, prompts.eval.len(), Some(estimate))
    };
    progress.say(&format!(
        "model: {described}\n{}\ntime: shown after the first phase, with the progress\nverifier: {}{own}\nfolder: {}, with all settings in config.toml",
        plan.text(&config, memory, disk),
        verifier.url.unwrap_or_default(),
        folder.root().display()
    ));
    if let Some(file) = teacher_file {
        write_whole(&folder.root().join(sft::FILE), &file)?;
    }
    train(Job {
        config,
        policy,
        reference,
        demonstrations,
        rewards,
        prompts,
        folder,
        provenance: resumed.map(|_| provenance),
        stop: launch.stop,
        journal: Journal::new(launch.progress),
        clock,
    })
    .await
}

/// Opens the folder of the run. One to resume stays as it is: the checks of its logs and checkpoints come later, and may refuse it.
fn open_folder(
    target: &Target,
    config: &Config,
    provenance: &Provenance,
) -> Result<RunFolder, TrainError> {
    let root = match target {
        Target::New(root) => root,
        Target::Resume(root) => return RunFolder::open(root),
    };
    let folder = RunFolder::claim(root)?;
    provenance.save(&folder)?;
    // From here on the folder is a run, which can be resumed.
    folder.save_config(&config.to_toml())?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::dataset;

    #[test]
    fn opening_a_run_to_resume_leaves_its_provenance_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("run");
        let config = config::load("quickstart", &[]).unwrap();
        for (target, data_dir) in [
            (Target::New(root.clone()), "/first"),
            (Target::Resume(root.clone()), "/second"),
        ] {
            let data_dir = Some(Path::new(data_dir));
            let provenance = Provenance::of(&config, &[&dataset(2, 2)], data_dir).unwrap();
            drop(open_folder(&target, &config, &provenance).unwrap());
            let kept = Provenance::of_run(&root).unwrap().unwrap();
            assert_eq!(kept.data_dir, Some(PathBuf::from("/first")));
        }
    }
}
