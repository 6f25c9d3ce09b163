//! The provenance of a run, `data.json` in its folder: the folder of its data sets, the digests of its tasks and its model, the device, and the verifier's graders.
//!
//! The digest is of the tasks as they were read and of the prompt template's file. It is not of the prompts as the model gets them, because some chat templates
//! write the date into prompts.

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
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Provenance {
    version: u32,
    /// The folder of data sets that the run was given.
    pub data_dir: Option<PathBuf>,
    /// Number of training tasks.
    train: usize,
    /// Number of held-out tasks.
    eval: usize,
    /// The digest of all tasks (ids, questions, and the content that decides verdicts) and of the template's file.
    digest: String,
    /// Number of held-out tasks that are trained on too, by their questions. Without splits in the data set's file, that is every task.
    pub trained_on: usize,
    /// The digest of the held-out tasks, which is equal for two runs that are evaluated on the same tasks.
    pub eval_digest: String,
    /// The digest of the model's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The device that the run used last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    /// The graders that judged last, as the verifier described them; empty if it did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    graders: Vec<Grader>,
}

/// The properties of a grader that verdicts depend on, in addition to the task and the completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Grader {
    name: String,
    version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backend: Option<String>,
    /// The digest of the interpreter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

impl Grader {
    /// The grader in words, for people to compare: version, policy, sandbox, and the start of the interpreter's digest.
    fn summary(&self) -> String {
        let digest = self.digest.as_deref().and_then(|digest| digest.get(..8));
        let parts = [
            Some(self.version.as_str()),
            self.policy.as_deref(),
            self.backend.as_deref(),
            digest,
        ];
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        parts.join(", ")
    }
}

/// The name of a device, without what the engine adds in parentheses: the number of threads, on which no result depends, and the number type.
pub fn device_name(device: &str) -> &str {
    device.rsplit_once(" (").map_or(device, |(name, _)| name)
}

/// The folder of data sets that a run was given; `None` if it was given none.
///
/// # Errors
/// As [`Provenance::of_run`].
pub fn data_dir_of(run: &Path) -> Result<Option<PathBuf>, TrainError> {
    Ok(Provenance::of_run(run)?.and_then(|provenance| provenance.data_dir))
}

/// Whether a file is the provenance of a run.
pub(in crate::run) fn is_provenance(path: &Path) -> bool {
    path.ends_with(NAME) && matches!(read(path), Ok(Some(_)))
}

impl Provenance {
    /// The provenance in a run's folder; `None` if it has none.
    ///
    /// # Errors
    /// [`TrainError::Refused`] if it cannot be understood, [`TrainError::Io`].
    pub fn of_run(run: &Path) -> Result<Option<Self>, TrainError> {
        read(&run.join(NAME))
    }

    /// The provenance of a run with this configuration on these tasks.
    pub(in crate::run) fn of(
        config: &Config,
        sets: &[&Dataset],
        data_dir: Option<&Path>,
    ) -> Result<Self, TrainError> {
        let mut writer = DigestWriter::new();
        let train: Vec<&Task> = sets.iter().flat_map(|set| &set.train).collect();
        let eval: Vec<&Task> = sets.iter().flat_map(|set| &set.eval).collect();
        for tasks in [&train, &eval] {
            writer = writer.fields(tasks.iter().map(|task| task.digest().0));
        }
        for set in config.data_sets() {
            let template = Path::new(&set.data.template);
            if template.is_file() {
                writer = writer.field(content(template)?);
            }
        }
        Ok(Self {
            version: VERSION,
            data_dir: data_dir
                .filter(|folder| folder.to_str().is_some())
                .map(Path::to_owned),
            train: train.len(),
            eval: eval.len(),
            digest: writer.finish().to_string(),
            trained_on: datasets::overlap(sets).len(),
            eval_digest: digest_of(&eval),
            ..Self::default()
        })
    }

    /// Adds the digest of the model's files, the device, as the engine names it, and the graders, as the verifier describes them.
    pub(in crate::run) fn with(self, model: String, device: &str, graders: &[GraderInfo]) -> Self {
        let graders = graders.iter().map(|info| Grader {
            name: info.name.clone(),
            version: info.version.clone(),
            policy: info.policy.clone(),
            backend: info.backend.clone(),
            digest: info.digest.clone(),
        });
        Self {
            model: Some(model),
            device: Some(device_name(device).to_owned()),
            graders: graders.collect(),
            ..self
        }
    }

    /// The graders that judged last, in words; empty if the verifier did not describe them.
    pub fn graders(&self) -> Vec<String> {
        let words = |grader: &Grader| format!("{} {}", grader.name, grader.summary());
        self.graders.iter().map(words).collect()
    }

    /// Makes sure that a resumed run has the tasks that it began with. `dataset` is their name, for the error.
    pub(in crate::run) fn check(&self, previous: &Self, dataset: &str) -> Result<(), TrainError> {
        if previous.digest == self.digest {
            return Ok(());
        }
        let change = if (previous.train, previous.eval) == (self.train, self.eval) {
            "their number is the same, but not all have the same ids, prompts and answers".into()
        } else {
            format!(
                "there were {} to train on and {} held out, and now there are {} and {}",
                previous.train, previous.eval, self.train, self.eval
            )
        };
        Err(TrainError::Refused(format!(
            "the tasks of the data set {dataset} are not those that the run began with: {change}. Restore the data set (and the file of its prompt template, if it \
             has one) as it was, or start a new run"
        )))
    }

    /// Makes sure that a resumed run has the model that it began with. `path` is the model's, for the error.
    pub(in crate::run) fn check_model(
        &self,
        previous: &Self,
        path: &Path,
    ) -> Result<(), TrainError> {
        if previous.model.is_none() || previous.model == self.model {
            return Ok(());
        }
        Err(TrainError::Refused(format!(
            "the files of the model {} are not those that the run began with. Restore the model as it was, or start a new run",
            path.display()
        )))
    }

    /// Warnings for a resumed run that has another device or other graders than before.
    pub(in crate::run) fn warnings(&self, previous: &Self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let (Some(before), Some(now)) = (&previous.device, &self.device)
            && before != now
        {
            warnings.push(format!(
                "the run was computed on {before} so far, and continues on {now}, which rounds differently, so it will not equal a run that was never stopped; \
                 --device names another"
            ));
        }
        for before in &previous.graders {
            let now = self.graders.iter().find(|now| now.name == before.name);
            if let Some(now) = now.filter(|now| *now != before) {
                warnings.push(format!(
                    "the verifier's {} grader was {} so far, and is {} now, so the same completion may get another verdict than before; --verifier names another \
                     verifier",
                    before.name,
                    before.summary(),
                    now.summary()
                ));
            }
        }
        warnings
    }

    pub(in crate::run) fn save(&self, folder: &RunFolder) -> Result<(), TrainError> {
        let path = folder.root().join(NAME);
        let text = serde_json::to_vec(self).map_err(|error| TrainError::io(&path, error.into()))?;
        write_whole(&path, &text)
    }
}

/// Reads a provenance; `None` if the file does not exist.
fn read(path: &Path) -> Result<Option<Provenance>, TrainError> {
    if !path.exists() {
        return Ok(None);
    }
    let refused = |reason: String| {
        TrainError::Refused(format!(
            "{} {reason}; delete that file to continue with tasks and model as they are now, and give --data-dir if the run began with it",
            path.display()
        ))
    };
    let provenance: Provenance = serde_json::from_slice(&content(path)?)
        .map_err(|error| refused(format!("is damaged ({error})")))?;
    if provenance.version != VERSION {
        return Err(refused(format!(
            "is of version {}, and this `rapid` writes version {VERSION}",
            provenance.version
        )));
    }
    Ok(Some(provenance))
}

fn digest_of(tasks: &[&Task]) -> String {
    let mut digests: Vec<Digest> = tasks.iter().map(|task| task.digest()).collect();
    // The order of held-out tasks changes no figure.
    digests.sort_unstable();
    DigestWriter::new()
        .fields(digests.iter().map(|digest| digest.0))
        .finish()
        .to_string()
}

/// The digest of tasks, in their order: of their ids, their questions and the content that decides verdicts.
pub fn tasks_digest<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> String {
    let digests = tasks.into_iter().map(|task| task.digest().0);
    let writer = digests.fold(DigestWriter::new(), DigestWriter::field);
    writer.finish().to_string()
}
