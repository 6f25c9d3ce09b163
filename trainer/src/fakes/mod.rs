//! Stand-ins for tests: an exact softmax policy, and a verifier over real HTTP with scripted answers.

mod policy;
mod verifier;

use std::sync::Arc;

use datasets::passk::{self, Counts};
use datasets::{Dataset, Task, TaskSpec};
use engine::Finish;
use verifier_api::Verdict;

use crate::config;
use crate::data::{Prompt, TaskSet};
use crate::policy::Policy;
use crate::record::EvalRecord;
use crate::reward::Judged;
use crate::rollout::{Sample, SampledGroup};

pub(crate) use policy::FakePolicy;
pub(crate) use verifier::{Answer, FakeVerifier, MAX_ITEMS, judgement};

/// A temporary folder, in memory if the system has one there: a run waits until each file that it writes is on the disk.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    folder.expect("a temporary folder")
}

/// A data set of `train` + `eval` tasks with the ids `toy/train/N` and `toy/eval/N`.
pub(crate) fn dataset(train: usize, eval: usize) -> Dataset {
    let task = |id: String| {
        let question = format!("question {id}");
        Task::new(id, question, TaskSpec::math("b"))
    };
    Dataset {
        name: "toy".into(),
        train: (0..train).map(|n| task(format!("toy/train/{n}"))).collect(),
        eval: (0..eval).map(|n| task(format!("toy/eval/{n}"))).collect(),
    }
}

/// These tasks as a recipe's only data set.
pub(crate) fn set(config: &config::Config, tasks: Dataset) -> Vec<TaskSet> {
    let recipe = config.data_sets().remove(0);
    vec![TaskSet { recipe, tasks }]
}

/// The prompt of a task, as the policy encodes it.
pub(crate) fn prompt(policy: &dyn Policy, task: &Task) -> Arc<Prompt> {
    let tokens = policy.encode(&task.question, true).unwrap();
    Arc::new(Prompt {
        task: Arc::new(task.clone()),
        text: task.question.as_str().into(),
        tokens: tokens.into(),
        stop: Arc::default(),
    })
}

/// A completion of one token with the log-probability −1, and its reward.
pub(crate) fn sample(text: &str, reward: f64) -> Sample {
    Sample {
        tokens: vec![1],
        logp: vec![-1.0],
        reference: Vec::new(),
        padding: None,
        text: text.to_owned(),
        finish: Finish::Stop,
        judged: Judged {
            reward: Some(reward),
            verdict: match reward > 0.0 {
                true => Verdict::Correct,
                false => Verdict::Incorrect,
            },
            ..Judged::default()
        },
    }
}

/// The completions of the training task of this number.
pub(crate) fn group(number: usize, samples: Vec<Sample>) -> SampledGroup {
    let task = &dataset(number + 1, 0).train[number];
    SampledGroup {
        prompt: prompt(&FakePolicy::default(), task),
        samples,
    }
}

/// An evaluation with these counts for tasks 0, 1, …
pub(crate) fn evaluation(step: usize, counts: &[Counts]) -> EvalRecord {
    let tasks = counts.iter().enumerate();
    EvalRecord {
        step,
        samples: counts[0].judged,
        pass_at: [(1, passk::pass_at(counts, 1).unwrap())].into(),
        tasks: tasks.map(|(task, own)| (task.to_string(), *own)).collect(),
        length_mean: 20.0,
        ..EvalRecord::default()
    }
}

/// The `[verifier]` settings for a fake verifier, with this patience in seconds.
pub(crate) fn verifier_settings(url: &str, patience_s: u64) -> config::Verifier {
    config::Verifier {
        url: Some(url.to_owned()),
        patience_s,
        batch: 4,
        in_flight: 2,
        ..config::Verifier::default()
    }
}
