//! `rapid bench`: how fast this machine samples and trains, beside what its matrix products and its memory allow.

mod limits;
mod rollout;
mod train;

use clap::Subcommand;
use engine::{Engine, ModelInfo};
use serde::Serialize;

use super::args::{DeviceArgs, open_model, positive};

/// Measure how fast this machine samples or trains
///
/// The figures stand beside the rates of matrix products and of copies measured on the same device in the same run, which bound them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rapid bench rollout
  rapid bench train --model m.gguf --threads 2 --json")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Sampling: tokens a second, prompts computed once for all their samples
    #[command(
        after_help = "Examples:\n  rapid bench rollout --prompts 16 --samples 8 --prompt-tokens 128 --tokens 64"
    )]
    Rollout(Options),
    /// Training: tokens a second through forward, backward and optimiser
    #[command(
        after_help = "Examples:\n  rapid bench train --prompts 4 --samples 8 --prompt-tokens 128 --tokens 64"
    )]
    Train(Options),
}

#[derive(Debug, clap::Args)]
struct Options {
    /// A GGUF file, a folder with a Hugging Face checkpoint, or the name of a fetched model
    #[arg(long, value_name = "MODEL", default_value = "smollm2-135m-instruct")]
    model: String,
    /// Prompts
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = positive)]
    prompts: usize,
    /// Completions a prompt
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = positive)]
    samples: usize,
    /// Length of a prompt
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = positive)]
    prompt_tokens: usize,
    /// Length of a completion
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = positive)]
    tokens: usize,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

/// What was measured.
#[derive(Debug, Serialize)]
struct Figures {
    what: &'static str,
    device: String,
    model: String,
    prompts: usize,
    samples: usize,
    prompt_tokens: usize,
    tokens: usize,
    seconds: f64,
    /// Completion tokens a second.
    completion_tokens_per_s: f64,
    /// Prompt and completion tokens a second, each prompt once.
    all_tokens_per_s: f64,
    /// Arithmetic that the model's matrices ask for, without attention.
    gflop_per_s: f64,
    /// Bytes that weights, and in training gradients and moments, ask for once a step, in GB/s; without activations and keys.
    gbyte_per_s: f64,
    /// Large matrix products on this device; `None` where it cannot be measured.
    gemm_gflop_per_s: Option<f64>,
    /// `gflop_per_s` of it.
    gemm_percent: Option<f64>,
    /// Copies on this device, bytes read and written; `None` where it cannot be measured.
    copy_gbyte_per_s: Option<f64>,
    /// `gbyte_per_s` of it.
    copy_percent: Option<f64>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (options, measure): (_, fn(&Engine, &Options) -> anyhow::Result<Figures>) = match &args.what
    {
        What::Rollout(options) => (options, rollout::measure),
        What::Train(options) => (options, train::measure),
    };
    // Before the model takes its memory and its threads.
    let limits = limits::measure(&options.device)?;
    let engine = open_model(&options.model, &options.device)?;
    let mut figures = measure(&engine, options)?;
    if let Some(limits) = limits {
        figures.gemm_gflop_per_s = Some(limits.gflop_per_s);
        figures.gemm_percent = Some(100.0 * figures.gflop_per_s / limits.gflop_per_s);
        figures.copy_gbyte_per_s = Some(limits.gbyte_per_s);
        figures.copy_percent = Some(100.0 * figures.gbyte_per_s / limits.gbyte_per_s);
    }
    if options.json {
        return super::print(&(serde_json::to_string_pretty(&figures)? + "\n"));
    }
    super::print(&figures.told())
}

impl Figures {
    /// `flop_per_weight`: operations that one token asks of each weight; `bytes_per_weight`: bytes that all the work asks of each.
    fn of(
        what: &'static str,
        engine: &Engine,
        options: &Options,
        seconds: f64,
        flop_per_weight: f64,
        bytes_per_weight: f64,
    ) -> Self {
        let info: &ModelInfo = engine.info();
        let prompts = (options.prompts * options.prompt_tokens) as f64;
        let completions = (options.prompts * options.samples * options.tokens) as f64;
        Self {
            what,
            device: info.device.clone(),
            model: options.model.clone(),
            prompts: options.prompts,
            samples: options.samples,
            prompt_tokens: options.prompt_tokens,
            tokens: options.tokens,
            seconds,
            completion_tokens_per_s: completions / seconds,
            all_tokens_per_s: (prompts + completions) / seconds,
            gflop_per_s: flop_per_weight * info.parameters as f64 * (prompts + completions)
                / seconds
                / 1e9,
            gbyte_per_s: bytes_per_weight * info.parameters as f64 / seconds / 1e9,
            gemm_gflop_per_s: None,
            gemm_percent: None,
            copy_gbyte_per_s: None,
            copy_percent: None,
        }
    }

    fn told(&self) -> String {
        let share = |percent: Option<f64>, limit: Option<f64>, what: &str| match (percent, limit) {
            (Some(percent), Some(limit)) => format!("{percent:.0}% of the {limit:.0} {what} here"),
            _ => format!("that of {what} is not measured on this device"),
        };
        let arithmetic = share(
            self.gemm_percent,
            self.gemm_gflop_per_s,
            "GFLOP/s of large matrix products",
        );
        let memory = share(self.copy_percent, self.copy_gbyte_per_s, "GB/s of copies");
        format!(
            "{} of {} on {}\n\
             {} prompts of {} tokens × {} completions of {} tokens in {:.1} s\n\n\
             \x20 completion tokens  {:>9.1} /s\n\
             \x20 all tokens         {:>9.1} /s   each prompt once\n\
             \x20 arithmetic         {:>9.1} GFLOP/s, {arithmetic}\n\
             \x20 weights moved      {:>9.1} GB/s, {memory}\n",
            self.what,
            self.model,
            self.device,
            self.prompts,
            self.prompt_tokens,
            self.samples,
            self.tokens,
            self.seconds,
            self.completion_tokens_per_s,
            self.all_tokens_per_s,
            self.gflop_per_s,
            self.gbyte_per_s
        )
    }
}
