//! The folder of a sweep:
//!
//! ```text
//! sweep.toml              the sweep file, with paths in full
//! recipes/NAME.toml       the resolved settings of each run, from which it is started
//! runs/NAME/              its run folder
//! runs/NAME.log           what its process printed; locked while it runs
//! runs/NAME.verifier.log  the log of the verifier that was started for it
//! manifest.jsonl          what ran
//! ```

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use engine::text::today;

use super::manifest::{self, Event, ManifestLine};
use super::plan::{Plan, PlannedRun};
use super::{SweepError, SweepFile};
use crate::atomic_file;
use crate::missing_file::default_if_missing;

/// A sweep's folder, and the plan that its file makes.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepFolder {
    /// The folder itself.
    pub root: PathBuf,
    /// The sweep file.
    pub file: SweepFile,
    /// The runs that its file plans.
    pub plan: Plan,
}

datasets::choice! {
    /// How far a run is.
    pub enum RunState {
        /// There is no run in its folder yet.
        #[default]
        Absent = "to do",
        /// It can be resumed.
        Begun = "begun",
        /// It ended with an error, and can be started or resumed again.
        Failed = "failed",
        /// It has made its last update.
        Finished = "finished",
        /// It ended because its weights no longer computed finite numbers: made again, it would end there again.
        Diverged = "diverged",
    }
}

impl RunState {
    /// Whether nothing is left to do.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Finished | Self::Diverged)
    }
}

/// Whether the folder is that of a sweep.
pub fn is_sweep(folder: &Path) -> bool {
    folder.join("sweep.toml").is_file()
}

impl SweepFolder {
    /// Opens the folder of a sweep, to read it.
    ///
    /// # Errors
    /// [`SweepError::Usage`] if it is no sweep's; those of its file and its plan.
    pub fn open(root: &Path) -> Result<Self, SweepError> {
        if !is_sweep(root) {
            let root = root.display();
            return Err(SweepError::Usage(format!(
                "{root} is not the folder of a sweep: it has no sweep.toml; `rapid sweep FILE --out {root}` makes one"
            )));
        }
        let file = SweepFile::read(&root.join("sweep.toml"))?;
        Self::planned(root, file)
    }

    /// The folder of this sweep, which need not exist. Nothing is made.
    ///
    /// # Errors
    /// As [`SweepFolder::create`].
    pub fn check(root: &Path, file: &SweepFile) -> Result<Self, SweepError> {
        let folder = Self::planned(root, file.clone())?;
        folder.check_same()?;
        Ok(folder)
    }

    /// The folder of this sweep, which is made unless it exists. Several processes may do this at once.
    ///
    /// # Errors
    /// [`SweepError::Usage`] if it has another sweep, or the same file resolves to other settings than it did before; [`SweepError::File`].
    pub fn create(root: &Path, file: SweepFile) -> Result<Self, SweepError> {
        let folder = Self::planned(root, file)?;
        folder.check_same()?;
        for inner in ["recipes", "runs"].map(|name| root.join(name)) {
            std::fs::create_dir_all(&inner).map_err(|error| SweepError::io(&inner, &error))?;
        }
        let path = root.join(".lock");
        let lock = File::create(&path).and_then(|lock| lock.lock().map(|()| lock));
        let _lock = lock.map_err(|error| SweepError::io(&path, &error))?;
        // Another process may have made it meanwhile.
        folder.check_same()?;
        let path = root.join("sweep.toml");
        for run in folder.plan.runs() {
            let recipe = folder.recipe(&run.name);
            // Without a sweep.toml, recipes are left from a creation that was interrupted, maybe of another sweep.
            if !recipe.exists() || !path.exists() {
                write(&recipe, &run.config.to_toml())?;
            }
        }
        // Such a change affects none of the existing runs.
        if !path.exists() || SweepFile::read(&path)? != folder.file {
            write(&path, &folder.file.to_toml())?;
        }
        Ok(folder)
    }

    /// The folder with its plan. All runs that render chats have the same date in their prompts: the existing recipes' date, else today.
    fn planned(root: &Path, file: SweepFile) -> Result<Self, SweepError> {
        let mut folder = Self {
            root: root.to_owned(),
            plan: Plan::new(&file)?,
            file,
        };
        let chats = folder.plan.runs().filter(|run| run.config.data.chat);
        let saved = chats
            .filter_map(|run| std::fs::read_to_string(folder.recipe(&run.name)).ok())
            .next();
        let date = match saved {
            Some(recipe) => recipe.parse::<toml::Table>().ok().and_then(|recipe| {
                Some(recipe.get("data")?.get("chat_date")?.as_str()?.to_owned())
            }),
            None => Some(today().to_string()),
        };
        folder.plan.set_chat_date(date.as_deref());
        Ok(folder)
    }

    fn check_same(&self) -> Result<(), SweepError> {
        let other = |difference: String| {
            let root = self.root.display();
            SweepError::Usage(format!(
                "{root} has the runs of another sweep: {difference}; give another folder with --out, or restore the sweep file"
            ))
        };
        let path = self.root.join("sweep.toml");
        if !path.is_file() {
            return match self.root.join("config.toml").exists() {
                true => Err(other("it is the folder of one run".to_owned())),
                false => Ok(()),
            };
        }
        if let Some(difference) = SweepFile::read(&path)?.difference(&self.file) {
            return Err(other(difference));
        }
        for run in self.plan.runs() {
            let path = self.recipe(&run.name);
            if std::fs::read_to_string(&path).is_ok_and(|saved| saved != run.config.to_toml()) {
                return Err(other(format!(
                    "{} resolves to other settings than {} has: the recipe or the program's defaults have changed since",
                    run.name,
                    path.display()
                )));
            }
        }
        Ok(())
    }

    /// `recipes/NAME.toml`: the settings that a run is started with.
    pub fn recipe(&self, run: &str) -> PathBuf {
        self.root.join("recipes").join(format!("{run}.toml"))
    }

    /// `runs/NAME`: the run's folder.
    pub fn run(&self, run: &str) -> PathBuf {
        self.root.join("runs").join(run)
    }

    /// `runs/NAME.log`: what the run's process printed.
    pub fn log(&self, run: &str) -> PathBuf {
        self.run(&format!("{run}.log"))
    }

    /// What ran, in order.
    ///
    /// # Errors
    /// [`SweepError::File`].
    pub fn manifest(&self) -> Result<Vec<ManifestLine>, SweepError> {
        manifest::read(&self.root.join("manifest.jsonl"))
    }

    /// Appends a line to the manifest.
    ///
    /// # Errors
    /// [`SweepError::File`].
    pub fn record(&self, line: &ManifestLine) -> Result<(), SweepError> {
        manifest::append(&self.root.join("manifest.jsonl"), line)
    }

    /// Removes what a finished run needs no more, if the sweep keeps no checkpoints: these, and the samples from which updates are made.
    ///
    /// # Errors
    /// [`SweepError::File`].
    pub fn tidy(&self, run: &str) -> Result<(), SweepError> {
        if self.file.keep_checkpoints {
            return Ok(());
        }
        for name in ["checkpoints", "rollouts"] {
            let path = self.run(run).join(name);
            default_if_missing(std::fs::remove_dir_all(&path))
                .map_err(|error| SweepError::io(&path, &error))?;
        }
        Ok(())
    }

    /// Tries to claim a run, unless another process makes it: returns its log, locked and open for appending, and how far the run is. A run's log is its lock: the process
    /// that makes the run holds it too, so it is free only when both have closed it.
    ///
    /// # Errors
    /// [`SweepError::File`].
    pub fn claim(&self, run: &PlannedRun) -> Result<Option<(File, RunState)>, SweepError> {
        let path = self.log(&run.name);
        let log = File::options().create(true).append(true).open(&path);
        let log = log.map_err(|error| SweepError::io(&path, &error))?;
        match log.try_lock() {
            // The manifest is read under the lock: whoever had the run before has written its end.
            Ok(()) => Ok(Some((log, self.state(run, &self.manifest()?)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(SweepError::io(&path, &error)),
        }
    }

    /// Whether there is a run in its folder, which can be resumed unless it has ended.
    pub fn is_made(&self, run: &str) -> bool {
        self.run(run).join("config.toml").is_file()
    }

    /// How far a run is, by its folder and the manifest's lines.
    pub fn state(&self, run: &PlannedRun, manifest: &[ManifestLine]) -> RunState {
        let mut lines = manifest.iter().filter(|line| line.run == run.name);
        let last = lines.clone().next_back().map(|line| line.event);
        let is_made = self.is_made(&run.name);
        if is_made && lines.clone().any(|line| line.event == Event::Finish) {
            RunState::Finished
        } else if is_made && lines.any(ManifestLine::is_divergence) {
            RunState::Diverged
        } else if last == Some(Event::Fail) {
            RunState::Failed
        } else if is_made {
            RunState::Begun
        } else {
            RunState::Absent
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), SweepError> {
    atomic_file::write(path, text.as_bytes()).map_err(|error| SweepError::io(path, &error))
}
