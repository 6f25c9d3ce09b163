//! Judges samples of a file.

use std::collections::HashMap;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use verifier_api::{Id, Judgement};

use super::results::{Results, ResultsError};
use super::samples::Sample;
use crate::grade::code::{SampleState, TestMode};
use crate::item::JudgeItem;
use crate::judging::{Batch, Judge, judge, no_judgement};
use crate::pool::ClientId;
use crate::registry::RegisteredTask;

/// Judges samples.
pub struct SampleScorer<'a> {
    judge: &'a Arc<Judge>,
    samples: &'a [Sample],
    test_mode: TestMode,
    /// The tasks of samples that are whole programs, by id.
    program_tasks: HashMap<&'a str, Arc<RegisteredTask>>,
}

impl<'a> SampleScorer<'a> {
    /// The samples' tasks are looked up in the judge's registry.
    pub fn new(
        judge: &'a Arc<Judge>,
        samples: &'a [Sample],
        test_mode: TestMode,
    ) -> SampleScorer<'a> {
        let mut program_tasks = HashMap::new();
        for sample in samples.iter().filter(|sample| sample.is_whole_program) {
            if let Some(task) = judge.registry.get(&sample.task) {
                program_tasks
                    .entry(sample.task.as_str())
                    .or_insert_with(|| Arc::new(task.for_whole_programs()));
            }
        }
        SampleScorer {
            judge,
            samples,
            test_mode,
            program_tasks,
        }
    }

    fn judge_item(&self, index: usize) -> Option<JudgeItem> {
        let sample = &self.samples[index];
        let task = if sample.is_whole_program {
            self.program_tasks.get(sample.task.as_str()).cloned()
        } else {
            self.judge.registry.get(&sample.task)
        };
        Some(JudgeItem {
            id: Id::Text(sample.task.clone()),
            task: task?,
            prompt: sample.prompt.clone(),
            completion: sample.completion.clone(),
            test_mode: self.test_mode,
            state: SampleState::default(),
        })
    }

    /// Judges the samples with these indices, several at a time. Calls `done` after each. The judgements are in the order of the indices.
    pub fn judge(
        &self,
        indices: impl IntoIterator<Item = usize>,
        done: &impl Fn(),
    ) -> impl Stream<Item = (usize, Judgement)> {
        let judging = futures::stream::iter(indices).map(move |index| async move {
            let judgement = self.judge_one(index).await;
            done();
            (index, judgement)
        });
        // As many as the queue has room for, so that a slow sample delays only those far behind it.
        judging.buffered(self.judge.queue_capacity.max(1))
    }

    async fn judge_one(&self, index: usize) -> Judgement {
        let mut judgements = Vec::new();
        if let Some(item) = self.judge_item(index) {
            let batch = Batch::new(self.judge, vec![item]);
            let judged = judge(self.judge, ClientId::default(), batch).await;
            judgements = judged.unwrap_or_default();
        }
        judgements.pop().unwrap_or_else(|| {
            let id = Id::Text(self.samples[index].task.clone());
            let detail = serde_json::json!({ "reason": "the queue had no room" });
            no_judgement(id, detail, true)
        })
    }

    /// The indices of the samples that are still to be judged: those without a judgement, and those without a verdict. `stored` are the judgements that `results` has,
    /// of the first samples.
    ///
    /// # Errors
    /// If a stored judgement has another key, because of another grader, other settings or another task: it would not be comparable with new ones. Also if the task's grader
    /// cannot judge now.
    pub fn unjudged(
        &self,
        results: &Results,
        stored: &[Judgement],
    ) -> Result<Vec<usize>, ResultsError> {
        for (index, judgement) in stored.iter().enumerate() {
            let Some(item) = self.judge_item(index) else {
                continue;
            };
            if judgement.reward.is_none() {
                continue;
            }
            let key = self.judge.key(&item).map_err(|unavailable| {
                let reason = unavailable.detail["reason"].as_str().unwrap_or_default();
                ResultsError::Unavailable(reason.to_owned())
            })?;
            if key.to_string() != judgement.key {
                let task = &self.samples[index].task;
                return Err(results.judged_differently(index, task));
            }
        }
        let without_verdict = |index: &usize| {
            stored
                .get(*index)
                .is_none_or(|judgement| judgement.reward.is_none())
        };
        Ok((0..self.samples.len()).filter(without_verdict).collect())
    }
}

/// Judges every sample, and calls `done` after each. Returns the judgements in the samples' order.
pub async fn judge_samples(
    on: &Arc<Judge>,
    samples: &[Sample],
    test_mode: TestMode,
    done: impl Fn(),
) -> Vec<Judgement> {
    let scorer = SampleScorer::new(on, samples, test_mode);
    let judged = scorer.judge(0..samples.len(), &done);
    judged.map(|(_, judgement)| judgement).collect().await
}

#[cfg(test)]
mod tests {
    use datasets::{CodeTask, CodeTest, Dataset, Task, TaskSpec, Value};

    use super::*;
    use crate::fake_sandbox::FakeSandbox;
    use crate::judging::DiskStores;
    use crate::registry::Registry;
    use crate::service::tests::{opens, settings};

    /// A judge with one task, and its sandbox. The task is a function that doubles its argument. Its prompt is code.
    fn judging() -> (Arc<Judge>, Arc<FakeSandbox>) {
        let spec = TaskSpec::Code(CodeTask {
            entry_point: "f".to_owned(),
            prefix: Some("def f(n):\n".to_owned()),
            tests: vec![CodeTest {
                args: vec![Value::from(3)],
                expected: Some(Value::from(6)),
            }],
            ..CodeTask::default()
        });
        let task = Task::new("functions/1", "?", spec);
        let mut registry = Registry::default();
        registry.add(Dataset {
            name: "functions".to_owned(),
            train: vec![task],
            eval: Vec::new(),
        });
        let (sizes, stores) = ((1, 1 << 20), DiskStores::default());
        let judge = Judge::new(settings().graders, sizes, registry, stores).unwrap();
        let sandbox = Arc::new(FakeSandbox::doubling());
        judge.prepare(opens(&sandbox));
        (judge, sandbox)
    }

    #[tokio::test]
    async fn a_whole_program_is_run_unchanged_and_a_completion_is_not() {
        let (judge, sandbox) = judging();
        let program = "s = '''\n```\n    return 2 * n\n```\n'''\n";
        let samples = [false, true].map(|is_whole_program| Sample {
            task: "functions/1".to_owned(),
            prompt: String::new(),
            completion: program.to_owned(),
            is_whole_program,
        });
        let judgements = judge_samples(&judge, &samples, TestMode::All, || ()).await;
        let right = |judgement: &Judgement| judgement.reward == Some(1.0);
        assert!(judgements.iter().all(right), "{judgements:?}");
        // The same text has another key as a whole program.
        assert_ne!(judgements[0].key, judgements[1].key);
        let sources = sandbox.sources();
        let run = |source: &str| sources.iter().filter(|run| *run == source).count();
        assert_eq!(run(program), 1, "{sources:?}");
        let blank = Sample {
            completion: " \n".to_owned(),
            ..samples[1].clone()
        };
        let judgements = judge_samples(&judge, &[blank], TestMode::All, || ()).await;
        assert_eq!(judgements[0].verdict, verifier_api::Verdict::Malformed);
    }
}
