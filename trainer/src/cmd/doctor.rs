//! `rapid doctor`: what works on this machine, what does not, and what to do about it.

mod gpu;
mod machine;
mod model;
mod services;

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::bail;
use clap::ValueEnum as _;
use engine::parity::export::export;
use serde::Serialize;
use serde_json::Value;

use super::args::{DeviceArgs, configuration};
use trainer::escape;

/// Check this machine, and print how to fix each failed check
///
/// Checks the processor, GPU, memory, cache folder, artifacts, verifier and model. Prints one line per check, with a remedy where one is needed; exits with 1 if a check fails.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rapid doctor
  rapid doctor --verifier http://127.0.0.1:8700
  rapid doctor --model smollm2-135m-instruct
  rapid doctor --device cuda:0
  rapid doctor --device cuda:0 --dtype bf16 --gpu-checks parity,graphs --json")]
pub(crate) struct Args {
    /// Load this model, generate with it, and check that sampling and training compute the same probabilities
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Ask this verifier what it can judge
    #[arg(
        long,
        value_name = "URL",
        env = "RAPID_VERIFIER",
        hide_env_values = true
    )]
    verifier: Option<String>,
    /// Run only these checks of the GPU, and none of the machine
    #[arg(long, value_name = "CHECK", value_enum, value_delimiter = ',')]
    gpu_checks: Vec<GpuCheck>,
    /// Check the GPU at small sizes only: for tools that slow it down a hundredfold
    #[arg(long)]
    quick: bool,
    /// Instead of any check, write a model of random weights with its logits and gradients on this device into this folder, for scripts/gpu/torch_parity.py
    #[arg(long, value_name = "FOLDER", requires = "random_weights", hide = true)]
    export: Option<PathBuf>,
    /// The model for --export: a config.json, or the name of a published model's configuration
    #[arg(long, value_name = "CONFIG", hide = true)]
    random_weights: Option<String>,
    /// Print the checks as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

/// A check of a GPU. Each is made in f32 and in bf16, or in the number type of --dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum GpuCheck {
    /// Every kernel, and small models of each family, equal the CPU's within rounding
    Parity,
    /// So do the operations at the sizes of real models
    Sizes,
    /// Recorded decoding passes sample the same bits as others, also after an update
    Graphs,
    /// The same update has the same bits twice
    Repeat,
    /// A thousand changes between sampling and training leave no memory behind
    Phases,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Works, but with restrictions.
    Warn,
    Fail,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Check {
    state: State,
    what: String,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    /// The numbers behind the finding, for JSON alone.
    #[serde(skip_serializing_if = "Value::is_null")]
    figures: Value,
}

impl Check {
    fn new(state: State, what: &str, found: String, remedy: Option<String>) -> Self {
        Self {
            state,
            what: what.to_owned(),
            found,
            remedy,
            figures: Value::Null,
        }
    }

    fn ok(what: &str, found: impl Into<String>) -> Self {
        Self::new(State::Ok, what, found.into(), None)
    }

    fn warn(what: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(State::Warn, what, found.into(), Some(remedy.into()))
    }

    fn fail(what: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(State::Fail, what, found.into(), Some(remedy.into()))
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let (Some(folder), Some(name)) = (&args.export, &args.random_weights) {
        let config = configuration(name)?;
        return Ok(export(config, &args.device.options(), folder)?);
    }
    let mut checks = Vec::new();
    let gpu_checks = |wanted| gpu::checks(&args.device, wanted, args.quick);
    if args.gpu_checks.is_empty() {
        checks.extend(machine::checks(&args.device));
        checks.extend(gpu_checks(GpuCheck::value_variants()));
        checks.extend(services::artifacts());
    } else {
        checks.push(machine::device(&args.device));
        checks.extend(gpu_checks(&args.gpu_checks));
    }
    if let Some(url) = &args.verifier {
        checks.extend(super::block_on(async {
            Ok(services::verifier(url).await)
        })?);
    }
    if let Some(name) = &args.model {
        checks.extend(model::checks(name, &args.device));
    }
    super::print(&match args.json {
        true => serde_json::to_string_pretty(&checks)? + "\n",
        false => text(&checks),
    })?;
    let failed = checks.iter().filter(|check| check.state == State::Fail);
    match failed.count() {
        0 => Ok(()),
        1 => bail!("a check failed; its line says what to do"),
        failed => bail!("{failed} checks failed; their lines say what to do"),
    }
}

fn text(checks: &[Check]) -> String {
    let widths = checks.iter().map(|check| check.what.chars().count());
    let width = widths.max().unwrap_or(0);
    let mut out = String::new();
    for check in checks {
        let state = match check.state {
            State::Ok => "ok  ",
            State::Warn => "warn",
            State::Fail => "FAIL",
        };
        let [what, found] = [&check.what, &check.found].map(|text| escape::line(text));
        let _ = writeln!(out, "{state}  {what:<width$}  {found}");
        if let Some(remedy) = check.remedy.as_deref().map(escape::line) {
            let _ = writeln!(out, "      {:<width$}  → {remedy}", "");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_states_the_result_and_the_remedy() {
        let checks = [
            Check::ok("memory", "15.2 GiB free of 16.0"),
            Check::warn(
                "sandbox:python-wasi",
                "not fetched",
                "rapid fetch sandbox:python-wasi",
            ),
            Check::fail(
                "verifier",
                "busy\r\nok    forged\u{1b}[2J",
                "start one with rapid-verifier serve",
            ),
        ];
        insta::assert_snapshot!(text(&checks));
    }
}
