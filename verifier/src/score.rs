//! Judges a file of samples in this process: the same graders, cache and pool as the service, no socket.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datasets::Dataset;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde::Serialize;
use serde_json::Value as Json;
use verifier_api::{Judgement, Verdict};

use crate::grade::code::Extent;
use crate::metrics::name;
use crate::passk::{self, Counts, Estimate};
use crate::service::{Batch, Question, Service, judge};

/// One completion of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The task's id in its data set: `mbppplus/2`.
    pub task: String,
    /// The prompt, where the file has it.
    pub prompt: String,
    /// What the model answered.
    pub completion: String,
}

/// Why a file of samples cannot be scored.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// The file cannot be read.
    #[error("the samples {path} cannot be read; check the path given to --samples")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file has no line with anything in it.
    #[error(
        "{path} holds no samples; give one JSON object a line, with `task_id` and `completion`"
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A line is not a sample.
    #[error(
        "{path}, line {line}: {reason}. A sample is a JSON object a line with `task_id` (or `task`, or `id`) and `completion`, both strings or the id a number"
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

/// What other projects call data sets in their samples' ids.
const ELSEWHERE: [(&str, &str); 2] = [("Mbpp", "mbppplus"), ("HumanEval", "humaneval")];

/// Reads `path`: one JSON object a line, with `task_id`, `task` or `id`, and `completion`; `prompt` where it is known. Other fields are ignored. An id may be
/// the data set's own (`mbppplus/2`), its last part (`2`, `"2"`), or another project's name for it (`Mbpp/2`), which a file of one's own may have too.
///
/// # Errors
/// [`ScoreError`] with the line at fault, a task that `dataset` does not have included.
pub fn read_samples(path: &Path, dataset: &Dataset) -> Result<Vec<Sample>, ScoreError> {
    let text = std::fs::read_to_string(path).map_err(|source| ScoreError::Io {
        path: path.to_owned(),
        source,
    })?;
    let ids: HashSet<&str> = dataset
        .train
        .iter()
        .chain(&dataset.eval)
        .map(|task| task.id.as_str())
        .collect();
    let mut samples = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let fault = |reason: String| ScoreError::Line {
            path: path.to_owned(),
            line: index + 1,
            reason,
        };
        let record: Json = serde_json::from_str(line).map_err(|error| fault(error.to_string()))?;
        let id = ["task_id", "task", "id"]
            .iter()
            .find_map(|field| match &record[*field] {
                Json::String(id) => Some(id.clone()),
                Json::Number(id) => Some(id.to_string()),
                _ => None,
            });
        let id = id.ok_or_else(|| fault("it names no task".to_owned()))?;
        let completion = record["completion"]
            .as_str()
            .ok_or_else(|| fault("it has no `completion`".to_owned()))?;
        let task =
            own_name(&id, &dataset.name, &ids).ok_or_else(|| fault(no_task(&id, dataset)))?;
        let prompt = record["prompt"].as_str().unwrap_or_default().to_owned();
        samples.push(Sample {
            task,
            prompt,
            completion: completion.to_owned(),
        });
    }
    if samples.is_empty() {
        return Err(ScoreError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(samples)
}

/// The data set's own name for the task that a sample calls `id`. Another data set's task is none of its tasks, whatever its number.
fn own_name(id: &str, dataset: &str, ids: &HashSet<&str>) -> Option<String> {
    let known = |id: String| ids.contains(id.as_str()).then_some(id);
    let elsewhere = || {
        let (prefix, rest) = id.split_once('/')?;
        let (_, meant) = ELSEWHERE.iter().find(|(name, _)| *name == prefix)?;
        let possible = *meant == dataset || !datasets::NAMES.contains(&dataset);
        possible.then(|| format!("{dataset}/{rest}"))
    };
    known(id.to_owned())
        .or_else(|| known(format!("{dataset}/{id}")))
        .or_else(|| known(elsewhere()?))
}

fn no_task(id: &str, dataset: &Dataset) -> String {
    let name = &dataset.name;
    let other = id
        .split_once('/')
        .map(|(set, _)| set)
        .filter(|set| set != name && datasets::NAMES.contains(set));
    match other {
        Some(other) => {
            format!(
                "`{id}` is a task of the data set `{other}`, and the samples are scored as those of `{name}`"
            )
        }
        None => format!("the data set `{name}` has no task `{id}`"),
    }
}

/// Judges every sample; `done` is called after each. The judgements come in the samples' order.
///
/// The service's queue must have room for all of them.
pub async fn judge_samples(
    service: &Arc<Service>,
    samples: &[Sample],
    extent: Extent,
    done: impl Fn(),
) -> Vec<Judgement> {
    let mut running: FuturesUnordered<_> = samples
        .iter()
        .enumerate()
        .map(|(index, sample)| async move {
            let Some(task) = service.registry().get(&sample.task) else {
                return (index, None);
            };
            let question = Question {
                id: sample.task.clone(),
                task,
                prompt: sample.prompt.clone(),
                completion: sample.completion.clone(),
                extent,
            };
            (
                index,
                judge(service, Batch::new(service, vec![question]))
                    .await
                    .ok()
                    .and_then(|mut judgements| judgements.pop()),
            )
        })
        .collect();
    let mut judgements: Vec<Option<Judgement>> = vec![None; samples.len()];
    while let Some((index, judgement)) = running.next().await {
        judgements[index] = judgement;
        done();
    }
    let missing = |sample: &Sample| Judgement {
        id: sample.task.clone(),
        reward: None,
        verdict: Verdict::Unavailable,
        detail: serde_json::json!({ "reason": "the queue had no room" }),
        passed: None,
        total: None,
        retryable: true,
        key: String::new(),
        cached: false,
        deterministic: true,
        elapsed_ms: 0.0,
    };
    judgements
        .into_iter()
        .zip(samples)
        .map(|(judgement, sample)| judgement.unwrap_or_else(|| missing(sample)))
        .collect()
}

/// What a file of samples comes to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Score {
    /// The data set.
    pub dataset: String,
    /// Samples in the file.
    pub samples: usize,
    /// Tasks with at least one sample.
    pub tasks: usize,
    /// Samples by verdict.
    pub verdicts: BTreeMap<&'static str, usize>,
    /// Samples that could not be judged, and count nowhere.
    pub masked: usize,
    /// Pass@k by k; `null` where no task has k judged samples.
    pub pass_at: BTreeMap<usize, Option<Estimate>>,
}

impl Score {
    /// Sums judgements up. They are grouped by their ids, which are the tasks'.
    #[must_use]
    pub fn new(dataset: &str, judgements: &[Judgement], ks: &[usize]) -> Score {
        let mut tasks: BTreeMap<&str, Counts> = BTreeMap::new();
        let mut verdicts = BTreeMap::new();
        for judgement in judgements {
            *verdicts.entry(name(judgement.verdict)).or_default() += 1;
            let counts = tasks.entry(&judgement.id).or_default();
            counts.judged += usize::from(judgement.reward.is_some());
            counts.correct += usize::from(judgement.reward == Some(1.0));
        }
        let counts: Vec<Counts> = tasks.into_values().collect();
        Score {
            dataset: dataset.to_owned(),
            samples: judgements.len(),
            tasks: counts.len(),
            masked: judgements
                .iter()
                .filter(|judgement| judgement.reward.is_none())
                .count(),
            pass_at: ks
                .iter()
                .map(|k| (*k, passk::estimate(&counts, *k)))
                .collect(),
            verdicts,
        }
    }

    /// The table for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = format!(
            "{}: {} of {}\n\n",
            self.dataset,
            count(self.samples, "sample"),
            count(self.tasks, "task")
        );
        for (k, estimate) in &self.pass_at {
            match estimate {
                Some(Estimate {
                    mean,
                    low,
                    high,
                    tasks,
                }) => {
                    out += &format!(
                        "Pass@{k:<4} {:6.2}%   95% interval {:.2}% to {:.2}%   over {}\n",
                        mean * 100.0,
                        low * 100.0,
                        high * 100.0,
                        count(*tasks, "task")
                    );
                }
                None => out += &format!("Pass@{k:<4}      –    no task has {k} judged samples\n"),
            }
        }
        out.push('\n');
        for (verdict, count) in &self.verdicts {
            out += &format!("{verdict:<12} {count:>6}\n");
        }
        if self.masked > 0 {
            out += &format!(
                "\n{} without a verdict, which no figure counts: run `rapid-verifier doctor`\n",
                count(self.masked, "sample")
            );
        }
        out
    }
}

fn count(number: usize, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {what}{s}")
}

#[cfg(test)]
mod tests {
    use datasets::{MathTask, Task, TaskSpec};

    use super::*;

    fn dataset() -> Dataset {
        let task = |id: &str| Task {
            id: id.to_owned(),
            question: "?".to_owned(),
            spec: TaskSpec::Math(MathTask {
                answer: "1".to_owned(),
            }),
        };
        Dataset {
            name: "mbppplus".to_owned(),
            train: vec![task("mbppplus/2")],
            eval: vec![task("mbppplus/3")],
        }
    }

    fn read(text: &str) -> Result<Vec<Sample>, ScoreError> {
        read_for(text, &dataset())
    }

    fn read_for(text: &str, dataset: &Dataset) -> Result<Vec<Sample>, ScoreError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.jsonl");
        std::fs::write(&path, text).unwrap();
        read_samples(&path, dataset)
    }

    #[test]
    fn another_data_sets_task_is_refused_with_its_line() {
        let mut own = dataset();
        own.name = "mine".to_owned();
        own.train[0].id = "mine/2".to_owned();
        let sample = |id: &str| {
            format!(
                "{{\"id\": \"2\", \"completion\": \"\"}}\n{{\"id\": \"{id}\", \"completion\": \"\"}}\n"
            )
        };
        for (id, dataset, reason) in [
            ("gsm8k/2", &own, "is a task of the data set `gsm8k`"),
            ("mbppplus/2", &own, "is a task of the data set `mbppplus`"),
            ("yours/2", &own, "has no task `yours/2`"),
            ("HumanEval/2", &dataset(), "has no task `HumanEval/2`"),
            ("train/2", &dataset(), "has no task `train/2`"),
        ] {
            let error = read_for(&sample(id), dataset).unwrap_err().to_string();
            assert!(
                error.contains("line 2") && error.contains(reason),
                "{reason} in {error}"
            );
        }
        for id in ["mine/2", "Mbpp/2", "HumanEval/2"] {
            assert_eq!(read_for(&sample(id), &own).unwrap()[1].task, "mine/2");
        }
    }

    #[test]
    fn a_task_may_be_named_in_any_of_the_usual_ways() {
        let samples = read(
            "{\"task_id\": 2, \"completion\": \"a\"}\n\n{\"task_id\": \"Mbpp/3\", \"completion\": \"b\"}\n{\"task\": \"mbppplus/2\", \"completion\": \"c\", \"x\": 1}\n{\"id\": \"3\", \"completion\": \"d\"}\n",
        )
        .unwrap();
        let tasks: Vec<&str> = samples.iter().map(|sample| sample.task.as_str()).collect();
        assert_eq!(
            tasks,
            ["mbppplus/2", "mbppplus/3", "mbppplus/2", "mbppplus/3"]
        );
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, reason) in [
            ("{\"task_id\": 2, \"completion\": \"a\"}\n{", "line 2"),
            ("{\"completion\": \"a\"}", "it names no task"),
            ("{\"task_id\": 2}", "it has no `completion`"),
            (
                "{\"task_id\": 99, \"completion\": \"\"}",
                "has no task `99`",
            ),
            ("\n \n", "samples.jsonl holds no samples"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{reason} in {error}");
        }
    }
    #[test]
    fn one_is_one_and_several_are_several() {
        let judgement = |id: &str, reward: Option<f64>| -> Judgement {
            serde_json::from_value(serde_json::json!({
                "id": id, "reward": reward, "verdict": "correct", "detail": {}, "retryable": false, "key": "", "cached": false, "deterministic": true, "elapsed_ms": 0.0,
            }))
            .unwrap()
        };
        let table = |judgements: &[Judgement]| Score::new("mine", judgements, &[1]).table();
        let one = table(&[judgement("a", Some(1.0))]);
        assert!(
            one.starts_with("mine: 1 sample of 1 task\n") && one.contains("over 1 task\n"),
            "{one}"
        );
        let two = table(&[judgement("a", Some(1.0)), judgement("b", None)]);
        assert!(
            two.starts_with("mine: 2 samples of 2 tasks\n")
                && two.contains("\n1 sample without a verdict"),
            "{two}"
        );
    }
}
