//! `--profile`: what each kernel takes on a GPU, measured one at a time, beside what the model of its rates predicts.

use std::fmt::Write as _;

use engine::backend::cuda::ledger::{DeviceModel, H100, H200};
use engine::{Engine, EngineOptions};
use serde::Serialize;

use super::{Options, What, plan};

/// Kernels that the text lists.
const HEAVIEST: usize = 8;

/// A kernel, a product, or copies or fills.
#[derive(Debug, Clone, Serialize)]
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

/// The measured figures.
#[derive(Debug, Serialize)]
struct Profiled {
    device: String,
    /// The device of the prediction.
    predicted_for: DeviceModel,
    model: String,
    dtype: String,
    seconds: f64,
    predicted_seconds: f64,
    /// The heaviest first.
    rows: Vec<Row>,
}

/// Measures the work of a command, and prints its kernels.
pub(super) fn run(what: &What, options: &Options) -> anyhow::Result<()> {
    let engine_options = options.engine_options()?;
    let counted_options = EngineOptions {
        dtype: engine_options.dtype,
        ..plan::engine_options(options)?
    };
    let (engine, profile) = Engine::profiled(options.config()?, engine_options)?;
    let device = engine.info().device.clone();
    // The first time memory is allocated, and the library chooses algorithms.
    plan::work(what, &engine, options)?;
    profile.take();
    plan::work(what, &engine, options)?;
    let measured = profile.take();
    drop(engine);
    let model = if device.contains("H100") { H100 } else { H200 };
    let predicted = plan::counted(what, options, model, counted_options)?.0.all;
    let seconds: f64 = measured.values().map(|of| of.seconds).sum();
    let mut rows: Vec<Row> = measured
        .into_iter()
        .map(|((operation, kernel), of)| {
            let counted = predicted.lines.get(&(operation, kernel.clone()));
            Row {
                operation,
                kernel,
                launches: of.launches,
                seconds: of.seconds,
                percent: 100.0 * of.seconds / seconds,
                predicted_seconds: counted.map(|counted| counted.seconds),
            }
        })
        .collect();
    rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let profiled = Profiled {
        device,
        predicted_for: model,
        model: options.model_name(),
        dtype: options.device.dtype.clone(),
        seconds,
        predicted_seconds: rows.iter().filter_map(|row| row.predicted_seconds).sum(),
        rows,
    };
    if options.json {
        return crate::cmd::print(&(serde_json::to_string_pretty(&profiled)? + "\n"));
    }
    crate::cmd::print(&profiled.text())
}

impl Profiled {
    fn text(&self) -> String {
        let mut text = format!(
            "{} in {} on {}: {:.3} ms in kernels; {:.3} ms are predicted for one {}\n\n{:<24}{:<40}{:>10}{:>11}{:>7}{:>14}\n",
            self.model,
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
