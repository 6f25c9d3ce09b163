//! Writes a run's TensorBoard file: every number of its logs as a curve.
//!
//! | tags | from |
//! | --- | --- |
//! | `train/…` | `metrics.jsonl`, under the same names |
//! | `time/…` | `timings.jsonl`, and tokens per second |
//! | `eval/…` | `eval.jsonl`: Pass@k with the ends of its interval, also `eval/NAME/…` of each of several data sets, length, truncation |

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::record::{EvalRecord, StepRecord, StepTimings, timestamp};
use crate::run::TrainError;
use crate::tensorboard::{Entry, EventFile};

/// Writes points to an event file.
#[derive(Debug)]
pub(in crate::run) struct TensorboardWriter {
    folder: PathBuf,
    file: EventFile,
    /// When the newest update ended, in seconds since 1970. An evaluation is shown at that time.
    time: f64,
}

impl TensorboardWriter {
    /// Writes the points of a run's logs to a new event file, which replaces the folder's older ones.
    pub(in crate::run) fn replace(
        folder: PathBuf,
        steps: &[StepRecord],
        timings: &[StepTimings],
        evals: &[EvalRecord],
    ) -> Result<Self, TrainError> {
        let now = timestamp();
        let timed = timings.iter().filter(|line| line.ended_at > 0.0);
        let ended: BTreeMap<usize, f64> = timed.map(|line| (line.step, line.ended_at)).collect();
        let time = |step: usize| {
            let until = ended.range(..=step).next_back();
            let nearest = until.or_else(|| ended.first_key_value());
            nearest.map_or(now, |(_, time)| *time)
        };
        let timings: BTreeMap<usize, &StepTimings> =
            timings.iter().map(|line| (line.step, line)).collect();
        let updates = steps.iter().map(|record| Entry {
            time: time(record.step),
            step: record.step,
            values: of_update(record, timings.get(&record.step).copied()),
        });
        let evaluations = evals.iter().map(|record| Entry {
            time: time(record.step),
            step: record.step,
            values: of_evaluation(record),
        });
        let entries: Vec<Entry> = updates.chain(evaluations).collect();
        let file = EventFile::replace(&folder, now, &entries);
        Ok(Self {
            time: time(usize::MAX),
            file: file.map_err(|source| TrainError::io(&folder, source))?,
            folder,
        })
    }

    pub(in crate::run) fn update(
        &mut self,
        record: &StepRecord,
        timings: &StepTimings,
    ) -> Result<(), TrainError> {
        self.time = timings.ended_at;
        self.add(record.step, of_update(record, Some(timings)))
    }

    pub(in crate::run) fn evaluation(&mut self, record: &EvalRecord) -> Result<(), TrainError> {
        self.add(record.step, of_evaluation(record))
    }

    fn add(&mut self, step: usize, values: Vec<(String, f64)>) -> Result<(), TrainError> {
        let time = self.time;
        self.file
            .add(&Entry { time, step, values })
            .map_err(|source| TrainError::io(&self.folder, source))
    }
}

/// The points of an update; `timings` is `None` if its line was lost.
fn of_update(record: &StepRecord, timings: Option<&StepTimings>) -> Vec<(String, f64)> {
    let mut values = scalars("train", record);
    values.extend(timings.map(times).unwrap_or_default());
    values
}

fn of_evaluation(record: &EvalRecord) -> Vec<(String, f64)> {
    let mut values = vec![
        ("eval/length_mean".to_owned(), record.length_mean),
        ("eval/truncated".to_owned(), record.truncated),
        ("eval/masked".to_owned(), record.masked as f64),
    ];
    let all = record.pass_at.iter();
    let all = all.map(|(k, pass)| (format!("eval/pass_at_{k}"), pass));
    let of_sets = record.sets.iter().flat_map(|(name, set)| {
        let passes = set.pass_at.iter();
        passes.map(move |(k, pass)| (format!("eval/{name}/pass_at_{k}"), pass))
    });
    for (tag, estimate) in all.chain(of_sets) {
        if let Some(interval) = estimate.interval {
            values.push((format!("{tag}_low"), interval.low));
            values.push((format!("{tag}_high"), interval.high));
        }
        values.push((tag, estimate.mean));
    }
    values
}

/// The values of an update's timings, and its tokens per second.
fn times(timings: &StepTimings) -> Vec<(String, f64)> {
    let mut values = scalars("time", timings);
    let training = timings.forward + timings.backward + timings.optimiser + timings.exchange;
    let rates = [
        ("sampled", timings.sampled_tokens, timings.inference),
        ("trained", timings.trained_tokens, training),
    ];
    for (name, tokens, seconds) in rates {
        if tokens > 0 && seconds > 0.0 {
            let tag = format!("time/{name}_tokens_per_second");
            values.push((tag, tokens as f64 / seconds));
        }
    }
    values
}

/// A record's numbers, tagged `section/name`; those of a map are tagged `section/name_key`.
fn scalars(section: &str, record: &impl Serialize) -> Vec<(String, f64)> {
    let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(record) else {
        return Vec::new();
    };
    let mut values = Vec::new();
    for (name, value) in fields {
        let tag = format!("{section}/{name}");
        match value {
            serde_json::Value::Object(inner) => values.extend(
                inner
                    .iter()
                    .filter_map(|(key, value)| Some((format!("{tag}_{key}"), value.as_f64()?))),
            ),
            value => values.extend(value.as_f64().map(|value| (tag, value))),
        }
    }
    values.retain(|(tag, _)| !tag.ends_with("/step") && !tag.ends_with("/ended_at"));
    values
}
