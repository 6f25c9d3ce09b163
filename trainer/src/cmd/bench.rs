//! `rapid bench`: how fast this machine samples and trains, beside the limits of its arithmetic and its memory.

mod machine_peaks;
mod prediction;
mod profile;
mod workload;

use std::iter;

use engine::config::ModelConfig;
use engine::{Demand, Engine, EngineOptions, Footprint, Lora};
use serde::Serialize;
use trainer::config::{MAX_MIB, MAX_RANK, MAX_TOKENS};
use trainer::resident_memory;

use self::prediction::Prediction;
use self::profile::Profile;
use self::workload::Measurement;
use super::Usage;
use super::args::{
    DeviceArgs, DeviceChoice, configuration, from_zero, model_path, parsed, positive, up_to,
};

const MAX_SEQUENCES: usize = 1_000_000;
/// Maximum tokens of prompts and completions together.
const MAX_TOKENS_IN_ALL: usize = 100_000_000;

/// Measure how fast this machine samples or trains
///
/// The figures are printed beside their limits, which are measured on the same device in the same run. The limit of arithmetic is the widest multiply-add instruction on registers alone on a CPU, and cuBLASLt's large products on a GPU. The limit of memory is copies that are larger than any cache.
///
/// With `--device cuda:plan` nothing is computed: the work is counted as an NVIDIA H200 would do it (with `cuda:plan:h100` an H100). A model of its rates predicts
/// the time by operation. This needs no GPU, and little memory whatever the model's size.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rapid bench rollout --prompts 16 --samples 8 --prompt-tokens 128 --tokens 64
  rapid bench train --model m.gguf --threads 2 --json
  rapid bench step --random-weights qwen2.5-0.5b --dtype bf16
  rapid bench train --random-weights qwen2.5-0.5b --dtype bf16 --device cuda:plan")]
pub(crate) struct Args {
    /// What to measure
    #[arg(value_enum)]
    what: What,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Sampling: tokens per second; each prompt is computed once for all its samples
    Rollout,
    /// Training: tokens per second through forward, backward and optimiser
    Train,
    /// A whole iteration: sampling, then an update on as many tokens
    Step,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Rollout => "sampling",
            Self::Train => "training",
            Self::Step => "an iteration",
        }
    }
}

#[derive(Debug, Clone, clap::Args)]
#[command(mut_arg("device", prediction::device))]
struct Options {
    /// A GGUF file, a folder with a Hugging Face checkpoint, or the name of a fetched model
    #[arg(long, value_name = "MODEL", default_value = "smollm2-135m-instruct")]
    model: String,
    /// A model of random weights instead: a config.json, or the name of a published model's configuration
    #[arg(long, value_name = "CONFIG", conflicts_with = "model")]
    random_weights: Option<String>,
    /// Prompts
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = positive)]
    prompts: usize,
    /// Completions per prompt
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = positive)]
    samples: usize,
    /// Length of a prompt
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = up_to(MAX_TOKENS))]
    prompt_tokens: usize,
    /// Tokens with which all prompts begin alike. Sampling computes them once for all prompts, in whole blocks of 16
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = from_zero::<usize>)]
    shared_tokens: usize,
    /// Length of a completion
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = up_to(MAX_TOKENS))]
    tokens: usize,
    /// Length of the shortest completion; lengths up to --tokens are spread evenly over the prompts [default: --tokens]
    #[arg(long, value_name = "N", value_parser = up_to(MAX_TOKENS))]
    min_tokens: Option<usize>,
    /// Maximum sequences generated at once [default: 256]
    #[arg(long, value_name = "N", value_parser = up_to(MAX_SEQUENCES))]
    max_sequences: Option<usize>,
    /// Maximum tokens of one training pack [default: 2048, and on a GPU up to 16384]
    #[arg(long, value_name = "N", value_parser = up_to(MAX_TOKENS_IN_ALL))]
    pack_tokens: Option<usize>,
    /// Train adapters of this rank instead of all weights
    #[arg(long, value_name = "N", value_parser = up_to(MAX_RANK))]
    lora: Option<usize>,
    /// Memory for activations that training keeps instead of recomputing them [default: a third of the remaining memory, up to 6 GiB; on a GPU half of it]
    #[arg(long, value_name = "MIB", value_parser = mebibytes)]
    activations_mib: Option<u64>,
    /// On a GPU, measure each kernel by itself instead, with random weights, and print the heaviest beside what is predicted for them
    #[arg(long)]
    profile: bool,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

#[derive(Debug, Serialize)]
struct Workload {
    what: &'static str,
    model: String,
    prompts: usize,
    samples: usize,
    prompt_tokens: usize,
    shared_tokens: usize,
    tokens: usize,
}

impl Workload {
    /// The numbers of prompts, completions and tokens, for people.
    fn sizes(&self) -> String {
        let shared = match self.shared_tokens {
            0 => String::new(),
            n => format!(" ({n} of them shared)"),
        };
        format!(
            "{} prompts of {} tokens{shared} × {} completions of {} tokens",
            self.prompts, self.prompt_tokens, self.samples, self.tokens
        )
    }
}

#[derive(Debug, Serialize)]
struct Figures {
    #[serde(flatten)]
    work: Workload,
    device: String,
    /// How matrix products are computed, and why so.
    products: String,
    seconds: f64,
    completion_tokens_per_s: f64,
    /// Prompt and completion tokens per second, each prompt counted once. In sampling, tokens that are computed once for all prompts count once.
    all_tokens_per_s: f64,
    /// Arithmetic of the model's matrices, without attention.
    gflop_per_s: f64,
    /// Bytes of the weights, and in training of gradients and moments, moved once per step, in GB/s; without activations and the KV cache.
    gbyte_per_s: f64,
    /// The upper bound of `gflop_per_s`.
    limit_gflop_per_s: f64,
    /// What was measured for that bound: an instruction of the processor, or a library's products.
    limit_by: String,
    /// `gflop_per_s` in percent of `limit_gflop_per_s`.
    limit_percent: f64,
    /// Rate of copies on this device, bytes read and written.
    copy_gbyte_per_s: f64,
    /// `gbyte_per_s` in percent of `copy_gbyte_per_s`.
    copy_percent: f64,
    /// Peak of the process's memory on the machine; `None` where the system does not report it.
    peak_bytes: Option<u64>,
    /// Peak of the engine's buffers in the GPU's memory, without what the driver takes; `None` on a CPU.
    device_peak_bytes: Option<u64>,
    /// The engine's part of the memory that `rapid train --dry-run` estimates.
    planned_bytes: u64,
}

impl Options {
    /// Refuses too many tokens, a shortest completion that is longer than the longest, and prompts that share more tokens than they have.
    fn check(&self) -> Result<(), Usage> {
        if let Some(min_tokens) = self.min_tokens
            && min_tokens > self.tokens
        {
            return Err(Usage(format!(
                "--min-tokens {min_tokens} is more than --tokens {}; lower it, or raise --tokens",
                self.tokens
            )));
        }
        if self.shared_tokens > self.prompt_tokens {
            return Err(Usage(format!(
                "--shared-tokens {} is more than --prompt-tokens {}; lower it, or raise --prompt-tokens",
                self.shared_tokens, self.prompt_tokens
            )));
        }
        let group = self.samples.saturating_mul(self.tokens);
        let group = group.saturating_add(self.prompt_tokens);
        if self.prompts.saturating_mul(group) <= MAX_TOKENS_IN_ALL {
            return Ok(());
        }
        Err(Usage(format!(
            "{} prompts of {} tokens with {} completions of {} tokens each are more than {MAX_TOKENS_IN_ALL} tokens in all; lower --prompts, --samples, --prompt-tokens or --tokens",
            self.prompts, self.prompt_tokens, self.samples, self.tokens
        )))
    }

    fn config(&self) -> anyhow::Result<ModelConfig> {
        match &self.random_weights {
            None => Ok(engine::load::config(&model_path(&self.model)?)?),
            Some(name) => configuration(name),
        }
    }

    fn workload(&self, what: What) -> Workload {
        Workload {
            what: what.name(),
            model: self.random_weights.as_ref().unwrap_or(&self.model).clone(),
            prompts: self.prompts,
            samples: self.samples,
            prompt_tokens: self.prompt_tokens,
            shared_tokens: self.shared_tokens,
            tokens: self.tokens,
        }
    }

    /// The sizes of this work.
    fn demand(&self, what: What, config: &ModelConfig) -> Demand {
        let prompts_if = |used: bool| if used { self.prompts } else { 0 };
        Demand {
            prompt_tokens: self.prompt_tokens,
            shared_prompt_tokens: self.shared_prompt_tokens(config.vocab_size),
            max_tokens: self.tokens,
            samples: self.samples,
            sampled_prompts: prompts_if(what != What::Train),
            update_prompts: prompts_if(what != What::Rollout),
            ranks: 1,
        }
    }

    /// Tokens that sampling computes once for all prompts.
    fn shared_prompt_tokens(&self, vocabulary: usize) -> usize {
        // Any two prompts have the same number of tokens in common.
        let prompts = [0, 1].map(|number| workload::prompt(vocabulary, self, number));
        match self.prompts {
            1 => 0,
            _ => engine::shared_prompt_tokens(prompts.iter().map(|prompt| &prompt[..])),
        }
    }

    fn completion_tokens(&self) -> usize {
        self.lengths().iter().sum()
    }

    /// Prompt and completion tokens, each prompt once.
    fn all_tokens(&self) -> usize {
        self.prompts * self.prompt_tokens + self.completion_tokens()
    }

    /// Prompt and completion tokens that training computes if it computes once what all prompts begin with. It does so for each pack.
    fn trained_tokens(&self) -> usize {
        self.all_tokens() - (self.prompts - 1) * self.shared_tokens
    }

    /// Prompt and completion tokens that sampling computes.
    fn sampled_tokens(&self, engine: &Engine) -> usize {
        let shared = self.shared_prompt_tokens(engine.info().vocabulary);
        self.all_tokens() - (self.prompts - 1) * shared
    }

    /// Tokens of each completion, in the order of prompts and samples. One request samples all completions of a prompt, and computes the prompt once, so these are
    /// equally long.
    fn lengths(&self) -> Vec<usize> {
        let min = self.min_tokens.unwrap_or(self.tokens);
        let spread = self.tokens - min + 1;
        // This stride has no factor in common with most counts, so it mixes long and short completions. Each is in the middle of its part of the spread.
        let length = |number: usize| {
            let part = number * 7919 % self.prompts;
            min + (part * spread + spread / 2) / self.prompts
        };
        (0..self.prompts)
            .flat_map(|number| iter::repeat_n(length(number), self.samples))
            .collect()
    }

    fn engine_options(&self) -> EngineOptions {
        EngineOptions {
            lora: self.lora.map(|rank| Lora {
                rank,
                alpha: 32.0,
                seed: 0,
            }),
            max_sequences: self.max_sequences,
            pack_tokens: self.pack_tokens,
            activation_bytes: self.activations_mib.map(|mib| mib.saturating_mul(1 << 20)),
            ..self.device.options()
        }
    }

    fn open(&self, options: EngineOptions) -> anyhow::Result<Engine> {
        Ok(match &self.random_weights {
            None => Engine::open(&model_path(&self.model)?, options)?,
            Some(name) => Engine::random(configuration(name)?, 0, options)?,
        })
    }

    /// Prints figures, as JSON if that was asked for.
    fn print<T: Serialize>(&self, figures: &T, text: fn(&T) -> String) -> anyhow::Result<()> {
        super::print(&match self.json {
            true => serde_json::to_string_pretty(figures)? + "\n",
            false => text(figures),
        })
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (what, options) = (args.what, &args.options);
    options.check()?;
    if let DeviceChoice::Planned(device) = options.device.device {
        return options.print(&Prediction::new(device, what, options)?, Prediction::text);
    }
    if options.profile {
        return options.print(&Profile::measure(what, options)?, Profile::text);
    }
    options.print(&Figures::measure(what, options)?, Figures::text)
}

impl Figures {
    fn measure(what: What, options: &Options) -> anyhow::Result<Self> {
        let engine_options = options.engine_options();
        let config = options.config()?;
        let demand = options.demand(what, &config);
        let planned_bytes = Footprint::new(&config, &engine_options, &demand).peak();
        let engine = options.open(engine_options)?;
        let measured = Measurement::of(what, &engine, options)?;
        let peak_bytes = resident_memory::peak();
        let device_peak_bytes = engine.device_memory().map(|meter| meter.take_peak());
        let device = engine.info().device.clone();
        let parameters = engine.info().parameters as f64;
        // The machine's peak rates are measured without the model's threads, and after its peak memory was read.
        drop(engine);
        let peaks = machine_peaks::measure(&options.device.options())?;
        let giga_per_s = |per_weight: f64| per_weight * parameters / measured.seconds / 1e9;
        let gflop_per_s = giga_per_s(measured.flop_per_weight);
        let gbyte_per_s = giga_per_s(measured.bytes_per_weight);
        Ok(Self {
            work: options.workload(what),
            device,
            products: options.device.settings().arithmetic(),
            seconds: measured.seconds,
            completion_tokens_per_s: options.completion_tokens() as f64 / measured.seconds,
            all_tokens_per_s: measured.tokens as f64 / measured.seconds,
            gflop_per_s,
            gbyte_per_s,
            limit_gflop_per_s: peaks.gflop_per_s,
            limit_by: peaks.by,
            limit_percent: 100.0 * gflop_per_s / peaks.gflop_per_s,
            copy_gbyte_per_s: peaks.gbyte_per_s,
            copy_percent: 100.0 * gbyte_per_s / peaks.gbyte_per_s,
            peak_bytes,
            device_peak_bytes,
            planned_bytes,
        })
    }

    fn text(&self) -> String {
        let memory = |what: &str, bytes: Option<u64>, more: &str| {
            let gigabytes = bytes.map(|bytes| bytes as f64 / 1e9);
            let line = |size| format!("  {what:<18} {size:>9.2} GB at most{more}\n");
            gigabytes.map_or_else(String::new, line)
        };
        format!(
            "{} of {} on {}\n\
             products in {}\n\
             {} in {:.1} s\n\n\
             \x20 completion tokens  {:>9.1} /s\n\
             \x20 all tokens         {:>9.1} /s   each prompt once\n\
             \x20 arithmetic         {:>9.1} GFLOP/s, {:.0}% of the {:.0} that {} reaches\n\
             \x20 weights moved      {:>9.1} GB/s, {:.0}% of the {:.0} GB/s of copies here\n{}{}",
            self.work.what,
            self.work.model,
            self.device,
            self.products,
            self.work.sizes(),
            self.seconds,
            self.completion_tokens_per_s,
            self.all_tokens_per_s,
            self.gflop_per_s,
            self.limit_percent,
            self.limit_gflop_per_s,
            self.limit_by,
            self.gbyte_per_s,
            self.copy_percent,
            self.copy_gbyte_per_s,
            memory("memory", self.peak_bytes, ""),
            memory(
                "memory of the GPU",
                self.device_peak_bytes,
                ", without what the driver takes"
            ),
        )
    }
}

fn mebibytes(text: &str) -> Result<u64, String> {
    let expected = format!("a whole number from 0 to {MAX_MIB}");
    parsed(text, |mib| *mib <= MAX_MIB, &expected)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::Options;
    use super::workload::prompt;

    #[derive(Debug, clap::Parser)]
    pub(super) struct Line {
        #[command(flatten)]
        pub(super) options: Options,
    }

    pub(super) fn options(line: &str) -> Result<Options, clap::Error> {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.options)
    }

    #[test]
    fn prompts_begin_with_the_shared_tokens_and_differ_after_them() {
        let options = options("--prompt-tokens 40 --shared-tokens 33").unwrap();
        let [a, b] = [0, 7].map(|number| prompt(1000, &options, number));
        assert_eq!((a.len(), &a[..33]), (40, &b[..33]));
        assert!(a[33..].iter().zip(&b[33..]).all(|(a, b)| a != b));
        assert_eq!(options.shared_prompt_tokens(1000), 32);
    }

    #[test]
    fn lengths_are_spread_over_prompts() {
        let lengths = |line: &str| options(line).unwrap().lengths();
        let spread = |more: &str| lengths(&format!("--tokens 24 --min-tokens 13 {more}"));
        assert_eq!(spread("--prompts 1 --samples 3"), [19; 3]);
        let mut all = spread("--prompts 12 --samples 2");
        assert!(all.chunks_exact(2).all(|samples| samples[0] == samples[1]));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all, (13..=24).collect::<Vec<_>>());
        assert_eq!(lengths("--tokens 5 --prompts 7 --samples 1"), [5; 7]);
    }

    #[test]
    fn options_out_of_range_are_a_usage_error() {
        let all = "100000000 tokens in all";
        for (line, expected) in [
            ("", ""),
            ("--min-tokens 10 --tokens 10", ""),
            ("--prompts 99999999999999", all),
            ("--samples 18446744073709551615 --tokens 1000000", all),
            ("--shared-tokens 129", "is more than --prompt-tokens 128"),
            ("--min-tokens 100 --tokens 10", "is more than --tokens 10"),
        ] {
            let error = options(line).unwrap().check().err();
            let error = error.map_or_else(String::new, |error| error.to_string());
            assert!(error.contains(expected), "{line}: {error}");
            assert_eq!(error.is_empty(), expected.is_empty(), "{line}: {error}");
        }
    }
}
