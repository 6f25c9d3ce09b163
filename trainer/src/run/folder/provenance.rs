//! The provenance of a run, `data.json` in its folder: where its data sets lie, the digests of its tasks and its model, the device, and the verifier's graders.
//!
//! What is compared is the tasks as they were read and a prompt template's file, not prompts as the model sees them: some chat templates write the date into those.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use datasets::digest::{Digest, DigestWriter};
use datasets::{Dataset, Task};
use serde::{Deserialize, Serialize};
use verifier_api::GraderInfo;

use super::{RunFolder, content, write_whole};
use crate::config::Config;
use crate::run::TrainError;

const NAME: &str = "data.json";
const VERSION: u32 = 2;

/// The file's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::run) struct Provenance {
    /// Of this file.
    version: u32,
    /// The folder of data sets that the run was given.
    data_dir: Option<String>,
    /// Tasks to train on.
    train: usize,
    /// Tasks held out.
    eval: usize,
    /// Of all tasks: ids, questions, and what decides; and of the template's file.
    digest: String,
    /// Tasks held out that are to be trained on all the same, by their ids or questions.
    trained_on: usize,
    /// Of the tasks held out alone.
    eval_digest: String,
    /// Of the model's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// What computed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    /// The verifier's graders that judged last, as it described them; none where it did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    graders: Vec<Grader>,
}

/// What verdicts depend on besides the task and the completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Grader {
    name: String,
    version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backend: Option<String>,
    /// Of the interpreter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

impl Grader {
    fn of(info: &GraderInfo) -> Self {
        Self {
            name: info.name.clone(),
            version: info.version.clone(),
            policy: info.policy.clone(),
            backend: info.backend.clone(),
            digest: info.digest.clone(),
        }
    }

    /// As people compare it: version and policy, and what it runs programs in.
    fn summary(&self) -> String {
        let parts = [
            Some(&self.version),
            self.policy.as_ref(),
            self.backend.as_ref(),
        ];
        let mut summary: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        let digest = self.digest.as_deref().and_then(|digest| digest.get(..8));
        summary.extend(digest);
        summary.join(", ")
    }
}

/// The folder of data sets that a run was given; `None` where it was given none.
///
/// # Errors
/// [`TrainError::Provenance`], [`TrainError::Io`].
pub fn data_dir_of(run: &Path) -> Result<Option<PathBuf>, TrainError> {
    let note = read(&run.join(NAME))?;
    Ok(note.and_then(|note| note.data_dir).map(PathBuf::from))
}

/// How many of the evaluation's tasks a run is trained on too; `None` where the folder has no provenance.
///
/// # Errors
/// As [`data_dir_of`].
pub fn trained_on(run: &Path) -> Result<Option<usize>, TrainError> {
    let note = read(&run.join(NAME))?;
    Ok(note.map(|note| note.trained_on))
}

/// The digest of the evaluation's tasks, by which two runs are known to have been evaluated on the same; `None` where the folder has no provenance.
///
/// # Errors
/// As [`data_dir_of`].
pub fn eval_digest(run: &Path) -> Result<Option<String>, TrainError> {
    let note = read(&run.join(NAME))?;
    Ok(note.map(|note| note.eval_digest))
}

/// The verifier's graders that judged a run last, in words; none where it did not describe them.
///
/// # Errors
/// As [`data_dir_of`].
pub fn graders(run: &Path) -> Result<Vec<String>, TrainError> {
    let graders = read(&run.join(NAME))?.map_or_else(Vec::new, |note| note.graders);
    let words = |grader: Grader| format!("{} {}", grader.name, grader.summary());
    Ok(graders.into_iter().map(words).collect())
}

/// Whether a file is such a note.
pub(in crate::run) fn is_note(path: &Path) -> bool {
    path.ends_with(NAME) && matches!(read(path), Ok(Some(_)))
}

impl Provenance {
    /// Of tasks that were read for a recipe.
    pub(in crate::run) fn of(
        config: &Config,
        dataset: &Dataset,
        data_dir: Option<&Path>,
    ) -> Result<Self, TrainError> {
        let mut writer = DigestWriter::new();
        for tasks in [&dataset.train, &dataset.eval] {
            writer = writer.fields(tasks.iter().map(|task| task.digest().0));
        }
        let template = Path::new(&config.data.template);
        if template.is_file() {
            writer = writer.field(content(template)?);
        }
        Ok(Self {
            version: VERSION,
            data_dir: data_dir.and_then(Path::to_str).map(str::to_owned),
            train: dataset.train.len(),
            eval: dataset.eval.len(),
            digest: writer.finish().to_string(),
            trained_on: in_both(dataset),
            eval_digest: digest_of(&dataset.eval),
            model: None,
            device: None,
            graders: Vec::new(),
        })
    }

    /// With the digest of the model's files, and the device, as the engine names it.
    pub(in crate::run) fn with(self, model: String, device: &str) -> Self {
        // Threads and number formats follow the name, and may change.
        let name = device.rsplit_once(" (").map_or(device, |(name, _)| name);
        Self {
            model: Some(model),
            device: Some(name.to_owned()),
            ..self
        }
    }

    /// With the graders that judge, as the verifier describes them.
    pub(in crate::run) fn judged_by(self, graders: &[GraderInfo]) -> Self {
        Self {
            graders: graders.iter().map(Grader::of).collect(),
            ..self
        }
    }

    /// What is to be said where a run goes on with graders that are not those that it had.
    pub(in crate::run) fn judged_otherwise(&self, run: &Path) -> Result<Vec<String>, TrainError> {
        let before = read(&run.join(NAME))?.map_or_else(Vec::new, |begun| begun.graders);
        let changed = before.iter().filter_map(|before| {
            let now = self.graders.iter().find(|now| now.name == before.name)?;
            (now != before).then(|| {
                format!(
                    "the verifier's {} grader was {} so far, and is {} now, so the same completion may get another verdict than before; --verifier names another verifier",
                    before.name,
                    before.summary(),
                    now.summary()
                )
            })
        });
        Ok(changed.collect())
    }

    /// Makes sure that a run goes on with the tasks that it began with.
    pub(in crate::run) fn check(&self, run: &Path, dataset: &str) -> Result<(), TrainError> {
        match read(&run.join(NAME))? {
            Some(begun) if begun.digest != self.digest => Err(TrainError::OtherTasks {
                dataset: dataset.to_owned(),
                change: self.change_from(&begun),
            }),
            _ => Ok(()),
        }
    }

    /// Makes sure that a run goes on with the model that it began with. `path` names it.
    pub(in crate::run) fn check_model(&self, run: &Path, path: &Path) -> Result<(), TrainError> {
        match read(&run.join(NAME))?.and_then(|begun| begun.model) {
            Some(begun) if self.model.as_ref() != Some(&begun) => {
                Err(TrainError::OtherModel(path.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// What is to be said where a run goes on on another device than the one that it was on.
    pub(in crate::run) fn moved(&self, run: &Path) -> Result<Option<String>, TrainError> {
        let before = read(&run.join(NAME))?.and_then(|begun| begun.device);
        let (Some(before), Some(now)) = (before, &self.device) else {
            return Ok(None);
        };
        Ok((before != *now).then(|| {
            format!(
                "the run was computed on {before} so far, and goes on on {now}, which rounds otherwise, so it will not end as one that was never stopped; --device names another"
            )
        }))
    }

    fn change_from(&self, begun: &Self) -> String {
        if (begun.train, begun.eval) == (self.train, self.eval) {
            return "there are as many, but not all have the same ids, prompts and answers".into();
        }
        format!(
            "there were {} to train on and {} held out, and there are {} and {}",
            begun.train, begun.eval, self.train, self.eval
        )
    }

    /// Writes it into the run's folder.
    pub(in crate::run) fn save(&self, folder: &RunFolder) -> Result<(), TrainError> {
        let path = folder.root().join(NAME);
        let text = serde_json::to_vec(self).map_err(|error| TrainError::io(&path, error.into()))?;
        write_whole(&path, &text)
    }
}

/// `None` where there is no such file.
fn read(path: &Path) -> Result<Option<Provenance>, TrainError> {
    if !path.exists() {
        return Ok(None);
    }
    let refused = |reason: String| TrainError::Provenance {
        path: path.to_owned(),
        reason,
    };
    let note: Provenance = serde_json::from_slice(&content(path)?)
        .map_err(|error| refused(format!("is damaged ({error})")))?;
    if note.version != VERSION {
        return Err(refused(format!(
            "is of version {}, and this `rapid` writes version {VERSION}",
            note.version
        )));
    }
    Ok(Some(note))
}

fn digest_of(tasks: &[Task]) -> String {
    let mut digests: Vec<Digest> = tasks.iter().map(Task::digest).collect();
    // Their order decides no figure.
    digests.sort_unstable();
    DigestWriter::new()
        .fields(digests.iter().map(|digest| digest.0))
        .finish()
        .to_string()
}

/// Tasks of the evaluation that are trained on too: every one, where a file divides its records into no splits.
fn in_both(dataset: &Dataset) -> usize {
    let ids: HashSet<&str> = dataset.train.iter().map(|task| task.id.as_str()).collect();
    let asked: HashSet<String> = datasets::overlap(dataset)
        .into_iter()
        .map(|(_, eval)| eval)
        .collect();
    let trained_on = |task: &&Task| ids.contains(task.id.as_str()) || asked.contains(&task.id);
    dataset.eval.iter().filter(trained_on).count()
}

/// The digest of what tasks ask and of what decides, in their order.
#[must_use]
pub fn tasks_digest<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> String {
    tasks
        .into_iter()
        .fold(DigestWriter::new(), |writer, task| {
            writer.field(task.digest().0)
        })
        .finish()
        .to_string()
}
