//! Writes a run's TensorBoard file: every number of its logs as a curve, and texts.
//!
//! | tags | from |
//! | --- | --- |
//! | `train/…` | `metrics.jsonl`, under the same names |
//! | `time/…` | `timings.jsonl`, and tokens a second |
//! | `eval/…` | `eval.jsonl`: Pass@k with the ends of its interval, length, truncation |
//! | `samples/train`, `samples/eval` | a few completions of each phase and evaluation |
//! | `alarms` | `alarms.jsonl` |

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::record::{AlarmRecord, EvalRecord, SampleRecord, StepRecord, StepTimings};
use crate::run::TrainError;
use crate::tensorboard::{Entry, EventFile, Value};
use crate::transcript;

/// Writes entries to an event file.
#[derive(Debug)]
pub(in crate::run) struct TensorboardWriter {
    /// Not written yet.
    entries: Vec<Entry>,
    /// `None` until [`TensorboardWriter::begin`].
    file: Option<EventFile>,
    /// When each update ended, in seconds since 1970.
    ended: BTreeMap<usize, f64>,
    /// When the writer was created, in seconds since 1970.
    opened: f64,
}

impl TensorboardWriter {
    /// A writer without a file; `now` is in seconds since 1970.
    pub(in crate::run) fn new(now: f64) -> Self {
        Self {
            entries: Vec::new(),
            file: None,
            ended: BTreeMap::new(),
            opened: now,
        }
    }

    /// Writes the entries so far to a new event file, which replaces the folder's older ones.
    pub(in crate::run) fn begin(&mut self, folder: &Path) -> Result<(), TrainError> {
        let entries = std::mem::take(&mut self.entries);
        let file = EventFile::replace(folder, self.opened, &entries)
            .map_err(|(path, source)| TrainError::io(&path, source))?;
        self.file = Some(file);
        Ok(())
    }

    /// Writes the entries that are not written yet.
    pub(in crate::run) fn flush(&mut self) -> Result<(), TrainError> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        for entry in self.entries.drain(..) {
            file.add(&entry)
                .map_err(|(path, source)| TrainError::io(&path, source))?;
        }
        Ok(())
    }

    /// Stores when an update ended. Events between two updates are shown at the time of the earlier one.
    pub(in crate::run) fn set_time(&mut self, timings: &StepTimings) {
        if timings.ended_at > 0.0 {
            self.ended.insert(timings.step, timings.ended_at);
        }
    }

    /// Adds the record of an update; `timings` is `None` if its line was lost.
    pub(in crate::run) fn update(&mut self, record: &StepRecord, timings: Option<&StepTimings>) {
        let mut values = scalars("train", record);
        values.extend(timings.map(times).unwrap_or_default());
        self.put(record.step, values);
    }

    pub(in crate::run) fn evaluation(&mut self, record: &EvalRecord, samples: &[SampleRecord]) {
        let mut values = vec![
            (
                "eval/length_mean".to_owned(),
                Value::Scalar(record.length_mean),
            ),
            ("eval/truncated".to_owned(), Value::Scalar(record.truncated)),
            (
                "eval/masked".to_owned(),
                Value::Scalar(record.masked as f64),
            ),
        ];
        for (k, estimate) in &record.pass_at {
            let tag = format!("eval/pass_at_{k}");
            let ends = estimate.interval.map(|interval| {
                [("_low", interval.low), ("_high", interval.high)]
                    .map(|(name, value)| (format!("{tag}{name}"), Value::Scalar(value)))
            });
            values.push((tag, Value::Scalar(estimate.mean)));
            values.extend(ends.into_iter().flatten());
        }
        values.push((
            "samples/eval".to_owned(),
            Value::Text(transcript::page("First samples of the evaluation", samples)),
        ));
        self.put(record.step, values);
    }

    /// Adds samples of a phase that were sampled after `step` updates.
    pub(in crate::run) fn phase(&mut self, step: usize, samples: &[SampleRecord]) {
        let text = transcript::page("First samples of the phase", samples);
        self.put(step, vec![("samples/train".to_owned(), Value::Text(text))]);
    }

    pub(in crate::run) fn alarm(&mut self, alarm: &AlarmRecord) {
        let text = crate::escape::plain(&alarm.to_string());
        self.put(alarm.step, vec![("alarms".to_owned(), Value::Text(text))]);
    }

    fn put(&mut self, step: usize, values: Vec<(String, Value)>) {
        let time = self
            .ended
            .range(..=step)
            .next_back()
            .or_else(|| self.ended.first_key_value())
            .map_or(self.opened, |(_, time)| *time);
        self.entries.push(Entry { time, step, values });
    }
}

/// The values of an update's timings, and its tokens a second.
fn times(timings: &StepTimings) -> Vec<(String, Value)> {
    let mut values = scalars("time", timings);
    let training = timings.forward + timings.backward + timings.optimiser + timings.exchange;
    let rates = [
        ("sampled", timings.sampled_tokens, timings.inference),
        ("trained", timings.trained_tokens, training),
    ];
    for (name, tokens, seconds) in rates {
        if tokens > 0 && seconds > 0.0 {
            let rate = tokens as f64 / seconds;
            values.push((
                format!("time/{name}_tokens_per_second"),
                Value::Scalar(rate),
            ));
        }
    }
    values
}

/// A record's numbers, tagged `section/name`; those of a map are tagged `section/name_key`.
fn scalars(section: &str, record: &impl Serialize) -> Vec<(String, Value)> {
    let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(record) else {
        return Vec::new();
    };
    let mut values = Vec::new();
    for (name, value) in fields {
        let tag = format!("{section}/{name}");
        match value {
            serde_json::Value::Object(inner) => {
                values.extend(inner.iter().filter_map(|(key, value)| {
                    Some((format!("{tag}_{key}"), Value::Scalar(value.as_f64()?)))
                }));
            }
            value => values.extend(value.as_f64().map(|value| (tag, Value::Scalar(value)))),
        }
    }
    values.retain(|(tag, _)| !tag.ends_with("/step") && !tag.ends_with("/ended_at"));
    values
}
