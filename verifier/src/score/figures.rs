//! The figures of a file's judgements.

use std::collections::BTreeMap;

use datasets::passk::{self, Counts, Estimate, percent};
use serde::Serialize;
use verifier_api::{Id, Judgement};

/// The score of a file of samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Score {
    /// The data set.
    pub dataset: String,
    /// Number of samples in the file.
    pub samples: usize,
    /// Number of tasks with at least one sample.
    pub tasks: usize,
    /// Number of samples with each verdict.
    pub verdicts: BTreeMap<&'static str, usize>,
    /// Number of samples without a verdict. No other figure counts them.
    pub masked: usize,
    /// Pass@k by k; `null` if no task has k judged samples.
    pub pass_at: BTreeMap<usize, Option<Estimate>>,
}

impl Score {
    /// Computes the score. Judgements are grouped by their task's id.
    pub fn new(dataset: &str, judgements: &[Judgement], ks: &[usize]) -> Score {
        let mut tasks: BTreeMap<&Id, Counts> = BTreeMap::new();
        let mut verdicts = BTreeMap::new();
        for judgement in judgements {
            *verdicts.entry(judgement.verdict.name()).or_default() += 1;
            let counts = tasks.entry(&judgement.id).or_default();
            counts.judged += usize::from(judgement.reward.is_some());
            counts.correct += usize::from(judgement.reward == Some(1.0));
        }
        let counts: Vec<Counts> = tasks.into_values().collect();
        Score {
            dataset: dataset.to_owned(),
            samples: judgements.len(),
            tasks: counts.len(),
            masked: judgements.len() - counts.iter().map(|task| task.judged).sum::<usize>(),
            pass_at: ks
                .iter()
                .map(|k| (*k, passk::pass_at(&counts, *k)))
                .collect(),
            verdicts,
        }
    }

    /// The table for people.
    pub fn table(&self) -> String {
        let mut out = format!(
            "{}: {} of {}\n\n",
            self.dataset,
            count(self.samples, "sample"),
            count(self.tasks, "task")
        );
        for (k, estimate) in &self.pass_at {
            let Some(Estimate {
                mean,
                interval,
                tasks,
            }) = estimate
            else {
                out += &format!("Pass@{k:<4}      –   no task has {k} judged samples\n");
                continue;
            };
            let interval = match interval {
                None => passk::no_interval(*tasks),
                Some(interval) => format!(
                    "95% interval {} to {}   over {}",
                    percent(interval.low),
                    percent(interval.high),
                    count(*tasks, "task")
                ),
            };
            out += &format!("Pass@{k:<4} {:>6}   {interval}\n", percent(*mean));
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
