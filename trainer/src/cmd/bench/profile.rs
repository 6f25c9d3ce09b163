//! `--profile`: what each kernel takes on a GPU, measured one at a time, beside what the model of its rates predicts.

use std::fmt::Write as _;

use engine::Engine;
use engine::backend::cuda::ledger::{DeviceModel, H100, H200, Line};
use serde::Serialize;

use super::prediction::Prediction;
use super::workload::run_once;
use super::{DeviceChoice, Options, What, Workload};

/// Kernels that the text lists.
const HEAVIEST: usize = 8;

/// A kernel, a product, or copies or fills.
#[derive(Debug, Serialize)]
struct Row {
    operation: &'static str,
    /// The kernel, or outputs and inputs of the product's weight; empty for copies and fills.
    kernel: String,
    launches: u64,
    seconds: f64,
    /// Percent of the time of all rows.
    percent: f64,
    /// What the model of the device's rates predicts for the same launches; `None` if it counts none.
    predicted_seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Profile {
    device: String,
    /// The device of the prediction.
    predicted_for: DeviceModel,
    #[serde(flatten)]
    workload: Workload,
    dtype: String,
    seconds: f64,
    predicted_seconds: f64,
    /// The heaviest first.
    rows: Vec<Row>,
}

impl Profile {
    /// Measures the work of a command.
    pub(super) fn measure(what: What, options: &Options) -> anyhow::Result<Self> {
        let engine_options = options.engine_options();
        let dtype = engine_options.dtype.name();
        let (engine, profile) = Engine::profiled(options.config()?, engine_options)?;
        let device = engine.info().device.clone();
        // The first time memory is allocated, and the library chooses algorithms.
        run_once(what, &engine, options)?;
        profile.take();
        run_once(what, &engine, options)?;
        let measured = profile.take();
        drop(engine);
        let model = if device.contains("H100") { H100 } else { H200 };
        let mut planned = options.clone();
        planned.device.device = DeviceChoice::Planned(model);
        // The number type that `auto` is on this device.
        planned.device.dtype = dtype.to_owned();
        let predicted = Prediction::new(model, what, &planned)?.work.rows;
        let predicted_seconds = |(operation, kernel): &Line| {
            let mut rows = predicted.iter();
            let same = rows.find(|row| row.operation == *operation && row.kernel == *kernel);
            same.map(|row| row.launches.seconds)
        };
        let all: f64 = measured.values().map(|(_, seconds)| seconds).sum();
        let rows = measured.into_iter().map(|(line, (launches, seconds))| Row {
            predicted_seconds: predicted_seconds(&line),
            operation: line.0,
            kernel: line.1,
            launches,
            seconds,
            percent: 100.0 * seconds / all,
        });
        let mut rows: Vec<Row> = rows.collect();
        rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        Ok(Self {
            device,
            predicted_for: model,
            workload: options.workload(what),
            dtype: options.device.dtype.clone(),
            seconds: all,
            predicted_seconds: rows.iter().filter_map(|row| row.predicted_seconds).sum(),
            rows,
        })
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{} in {} on {}: {:.3} ms in kernels; {:.3} ms are predicted for one {}\n\n{:<24}{:<40}{:>10}{:>11}{:>7}{:>14}\n",
            self.workload.model,
            self.dtype,
            self.device,
            1e3 * self.seconds,
            1e3 * self.predicted_seconds,
            self.predicted_for.name,
            "operation",
            "kernel or weight",
            "launches",
            "ms",
            "%",
            "predicted ms"
        );
        for row in self.rows.iter().take(HEAVIEST) {
            let predicted = row
                .predicted_seconds
                .map_or("-".to_owned(), |seconds| format!("{:.3}", 1e3 * seconds));
            let _ = writeln!(
                text,
                "{:<24}{:<40}{:>10}{:>11.3}{:>7.1}{predicted:>14}",
                row.operation,
                row.kernel,
                row.launches,
                1e3 * row.seconds,
                row.percent,
            );
        }
        text
    }
}
