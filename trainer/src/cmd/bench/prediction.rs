//! `--device cuda:plan`: the same work on a device that counts it, and a prediction of its time from the device's rates.

use std::fmt::Write as _;

use clap::Arg;
use engine::backend::cuda::ledger::{CountedWork, DeviceModel, H100, H200, HostCalls, Launches};
use engine::{Engine, Footprint};
use serde::Serialize;

use super::workload::run_once;
use super::{Options, What, Workload};
use crate::cmd::args::{DeviceChoice, device_choice};

/// `--device` of `rapid bench`, with more values than for other commands.
pub(super) fn device(arg: Arg) -> Arg {
    arg.help("Where to compute: auto, cpu, cuda or cuda:N; or cuda:plan, which counts the work and predicts its time on an H200, cuda:plan:h100 on an H100")
        .value_parser(device_or_plan)
}

fn device_or_plan(text: &str) -> Result<DeviceChoice, String> {
    match text {
        "cuda:plan" | "cuda:plan:h200" => Ok(DeviceChoice::Planned(H200)),
        "cuda:plan:h100" => Ok(DeviceChoice::Planned(H100)),
        other => device_choice(other)
            .map_err(|_| "give auto, cpu, cuda, cuda:N, cuda:plan or cuda:plan:h100".to_owned()),
    }
}

/// The work of one kind of call.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) operation: &'static str,
    /// The kernel, or outputs and inputs of the product's weight; empty for copies and fills.
    pub(super) kernel: String,
    #[serde(flatten)]
    pub(super) launches: Launches,
}

/// Counted work by operation, the longest first.
#[derive(Debug, Serialize)]
pub(super) struct Table {
    /// Predicted seconds, copies between the host and the device included.
    seconds: f64,
    /// Predicted seconds of the longest decoding step.
    longest_step_seconds: f64,
    pub(super) rows: Vec<Row>,
    all: Launches,
    host: HostCalls,
}

#[derive(Debug, Serialize)]
pub(super) struct Prediction {
    #[serde(flatten)]
    workload: Workload,
    device: DeviceModel,
    dtype: String,
    completion_tokens_per_s: f64,
    /// Prompt and completion tokens per second, each prompt counted once.
    all_tokens_per_s: f64,
    /// The memory that `rapid train --dry-run` estimates.
    planned_bytes: u64,
    /// The part of it that the GPU's own software takes. It cannot be counted.
    reserved_bytes: u64,
    /// The most that the engine allocated at once.
    allocated_bytes: u64,
    pub(super) work: Table,
}

impl Prediction {
    /// Counts the work of a command.
    pub(super) fn new(device: DeviceModel, what: What, options: &Options) -> anyhow::Result<Self> {
        let config = options.config()?;
        let engine_options = options.engine_options();
        let demand = options.demand(what, &config);
        let planned = Footprint::on_gpu(device.memory, &config, &engine_options, &demand);
        let (engine, ledger) = Engine::planned(config, device, engine_options)?;
        // The first time memory is allocated and passes are recorded, which is not counted.
        run_once(what, &engine, options)?;
        ledger.take();
        run_once(what, &engine, options)?;
        let work = Table::of(&ledger.take());
        Ok(Self {
            workload: options.workload(what),
            device,
            dtype: options.device.dtype.clone(),
            completion_tokens_per_s: options.completion_tokens() as f64 / work.seconds,
            all_tokens_per_s: options.all_tokens() as f64 / work.seconds,
            planned_bytes: planned.peak(),
            reserved_bytes: planned.reserved,
            allocated_bytes: ledger.peak_bytes(),
            work,
        })
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{} of {} in {}, predicted for one {} and not measured\n\
             {}\n\n\
             \x20 completion tokens  {:>9.0} /s\n\
             \x20 all tokens         {:>9.0} /s   each prompt once\n\
             \x20 time               {:>9.3} ms   without the host's own work\n\
             \x20 memory             {:>9.2} GB allocated; {:.2} GB planned, {:.2} GB of it for the GPU's own software\n",
            self.workload.what,
            self.workload.model,
            self.dtype,
            self.device.name,
            self.workload.sizes(),
            self.completion_tokens_per_s,
            self.all_tokens_per_s,
            1e3 * self.work.seconds,
            self.allocated_bytes as f64 / 1e9,
            self.planned_bytes as f64 / 1e9,
            self.reserved_bytes as f64 / 1e9,
        );
        if self.work.longest_step_seconds > 0.0 {
            let _ = writeln!(
                text,
                "  longest step       {:>9.3} ms   of decoding",
                1e3 * self.work.longest_step_seconds
            );
        }
        let _ = writeln!(
            text,
            "\n{:<24}{:<40}{:>10}{:>11}{:>13}{:>11}",
            "operation", "kernel or weight", "launches", "GB moved", "GFLOP", "ms"
        );
        for row in &self.work.rows {
            let of = &row.launches;
            let _ = writeln!(
                text,
                "{:<24}{:<40}{:>10}{:>11.3}{:>13.1}{:>11.3}",
                row.operation,
                row.kernel,
                of.launches,
                (of.reads + of.writes) as f64 / 1e9,
                of.flops as f64 / 1e9,
                1e3 * of.seconds,
            );
        }
        text
    }
}

impl Table {
    fn of(work: &CountedWork) -> Self {
        let rows = work
            .lines
            .iter()
            .map(|((operation, kernel), launches)| Row {
                operation,
                kernel: kernel.clone(),
                launches: launches.clone(),
            });
        let mut rows: Vec<Row> = rows.collect();
        rows.sort_by(|a, b| b.launches.seconds.total_cmp(&a.launches.seconds));
        Self {
            seconds: work.seconds(),
            longest_step_seconds: work.longest_step,
            rows,
            all: work.total(),
            host: work.host,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    fn prediction(what: What, line: &str) -> Prediction {
        let line = format!("--device cuda:plan --dtype bf16 --random-weights {line}");
        let options = super::super::tests::options(&line).unwrap();
        Prediction::new(H200, what, &options).unwrap()
    }

    #[test]
    fn an_iteration_of_a_published_model_is_predicted() {
        let line = "qwen2.5-1.5b --prompts 8 --samples 32 --max-sequences 100";
        let plan = prediction(What::Step, line);
        let seconds: f64 = plan.work.rows.iter().map(|row| row.launches.seconds).sum();
        let share = seconds / plan.work.seconds;
        assert!((0.95..=1.0).contains(&share), "{share}");
        let launches: u64 = plan.work.rows.iter().map(|row| row.launches.launches).sum();
        assert_eq!(plan.work.all.launches, launches);
        let text = plan.text();
        for part in [
            "not measured",
            "attention_decode<bf16, 128>",
            "adamw",
            "151936 × 1536",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn the_default_packs_are_long_and_their_activations_are_saved() {
        let line = "qwen2.5-0.5b --prompts 16 --samples 1 --prompt-tokens 1 --tokens 1024";
        let more = [
            "",
            " --pack-tokens 16384 --activations-mib 60000",
            " --pack-tokens 2048 --activations-mib 6144",
        ];
        let plans = more.map(|more| prediction(What::Step, &format!("{line}{more}")));
        let [default, same, less] = plans.map(|plan| plan.work.seconds);
        assert!(default == same && default < less);
    }

    /// What is measured, and the options.
    const ALLOCATED: &str = "
train qwen2.5-0.5b --prompts 16 --samples 1 --prompt-tokens 1 --tokens 2048
train qwen2.5-0.5b --prompts 16 --samples 1 --prompt-tokens 1 --tokens 2048 --activations-mib 0
train qwen2.5-0.5b --prompts 16 --samples 1 --prompt-tokens 1 --tokens 2048 --lora 16
train gemma3-1b --prompts 16 --samples 1 --prompt-tokens 1 --tokens 2048
train qwen2.5-0.5b --prompts 1 --samples 1 --prompt-tokens 1 --tokens 64
rollout qwen2.5-0.5b --prompts 16 --samples 64 --prompt-tokens 960 --tokens 80 --max-sequences 1024
rollout qwen2.5-0.5b --prompts 1 --samples 1 --prompt-tokens 16 --tokens 8
step qwen2.5-1.5b --prompts 8 --samples 32 --max-sequences 100
";

    /// Scratch memory, the logits of a step, activations, and keys and values are all in the plan.
    #[test]
    fn the_planned_memory_is_within_a_tenth_of_what_is_allocated() {
        for line in ALLOCATED.trim().lines() {
            let (what, line) = line.split_once(' ').unwrap();
            let plan = prediction(What::from_str(what, false).unwrap(), line);
            let planned = (plan.planned_bytes - plan.reserved_bytes) as f64;
            let allocated = plan.allocated_bytes as f64;
            let figures = format!("{line}: {planned:.3e}, {allocated:.3e}");
            assert!((planned / allocated - 1.0).abs() < 0.1, "{figures}");
        }
    }
}
