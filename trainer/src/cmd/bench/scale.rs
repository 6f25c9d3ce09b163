//! `rapid bench scale`: how long a phase would take on many GPUs, from the counted work of one of them and the rates of a network.

use std::fmt::Write as _;

use engine::backend::cuda::ledger::{DeviceModel, H200};
use engine::{Demand, EngineOptions, Footprint, bucket_elements, sampling_share, trained_elements};
use serde::Serialize;

use super::plan::{counted, engine_options};
use super::{Options, What};
use crate::cmd::Usage;
use crate::cmd::args::{PLAN, positive};

/// Largest number of ranks.
const MAX_RANKS: usize = 4096;
/// Bytes of a number in an exchange.
const NUMBER: f64 = 4.0;

#[derive(Debug, Clone, clap::Args)]
#[command(mut_arg("device", |arg| arg.hide(true).default_value(PLAN)), mut_arg("profile", |arg| arg.hide(true)))]
#[command(mut_arg("threads", |arg| arg.hide(true)), mut_arg("kernel", |arg| arg.hide(true)))]
pub(super) struct Scale {
    /// Numbers of ranks, each with a GPU: powers of two
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = ranks, default_values_t = [1, 2, 4, 8, 16, 32, 64, 128, 256])]
    ranks: Vec<usize>,
    /// Updates after a phase (H), which divide its prompts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    updates: usize,
    /// How much a rank sends per second, and receives at the same time, in GB/s
    #[arg(long, value_name = "GB/S", default_value_t = 50.0, value_parser = rate)]
    network: f64,
    /// What a message between two ranks takes in addition, in µs
    #[arg(long, value_name = "US", default_value_t = 10.0, value_parser = rate)]
    latency: f64,
    /// Ranks exchange through the host's memory, as they do without NCCL
    #[arg(long)]
    through_host: bool,
    /// Verdicts per second of one verifier, to print how many verifiers keep up with sampling
    #[arg(long, value_name = "RATE", value_parser = rate)]
    verdicts: Option<f64>,
    #[command(flatten)]
    options: Options,
}

fn ranks(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(ranks @ 1..=MAX_RANKS) if usize::is_power_of_two(ranks) => Ok(ranks),
        _ => Err(format!("give powers of two up to {MAX_RANKS}")),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(rate),
        _ => Err("give a number above 0".to_owned()),
    }
}

/// A phase on a number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Row {
    ranks: usize,
    /// Prompts of the phase.
    prompts: usize,
    sampling_seconds: f64,
    /// Of all updates, without what ranks exchange.
    update_seconds: f64,
    exchange_seconds: f64,
    seconds: f64,
    /// How many times as many completions per second as on the first number of ranks.
    speedup: f64,
    /// `speedup` in percent of how many times as many ranks there are.
    efficiency_percent: f64,
    /// Planned memory of each rank.
    memory_bytes: u64,
    /// What each rank sends in an update, and receives too.
    exchanged_bytes: f64,
    /// Completions per second while sampling.
    completions_per_s: f64,
    /// Verifiers that judge as many.
    verifiers: Option<u64>,
}

/// The predicted times.
#[derive(Debug, Serialize)]
struct Prediction {
    device: DeviceModel,
    model: String,
    dtype: String,
    samples: usize,
    prompt_tokens: usize,
    tokens: usize,
    updates: usize,
    network_gbyte_per_s: f64,
    latency_us: f64,
    through_host: bool,
    /// Seconds of the longest completion by itself, which no number of ranks makes shorter.
    longest_completion_seconds: f64,
    /// The same phase on more ranks.
    divided: Vec<Row>,
    /// A phase whose prompts grow with the ranks.
    grown: Vec<Row>,
}

pub(super) fn run(scale: &Scale) -> anyhow::Result<()> {
    scale.options.check()?;
    scale.check()?;
    let prediction = scale.predict()?;
    if scale.options.json {
        return crate::cmd::print(&(serde_json::to_string_pretty(&prediction)? + "\n"));
    }
    crate::cmd::print(&prediction.text(scale))
}

/// The counted seconds of a rank.
#[derive(Debug, Clone, Copy)]
struct Share {
    sampling: f64,
    /// Of one update.
    update: f64,
    /// The part of an update in which AdamW changes all weights.
    adamw: f64,
}

impl Scale {
    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    fn check(&self) -> Result<(), Usage> {
        if self.options.device.device != PLAN || self.options.profile {
            return Err(Usage(format!(
                "`rapid bench scale` predicts and measures nothing; leave --device at {PLAN}, and --profile out"
            )));
        }
        if self.updates > self.options.prompts {
            return Err(Usage(format!(
                "--updates {} is more than --prompts {}; an update needs at least one prompt",
                self.updates, self.options.prompts
            )));
        }
        Ok(())
    }

    fn predict(&self) -> anyhow::Result<Prediction> {
        let options = &self.options;
        let longest = What::Rollout(Options {
            prompts: 1,
            samples: 1,
            min_tokens: None,
            ..options.clone()
        });
        let (longest, _) = seconds(&longest)?;
        let first = self.ranks[0];
        let (mut divided, mut grown) = (Vec::new(), Vec::new());
        let share = |ranks| {
            let share = self.share(ranks)?;
            // A share of few completions may have no long one, and some rank has the longest.
            let sampling = share.sampling.max(longest);
            anyhow::Ok(Share { sampling, ..share })
        };
        let whole = share(first)?;
        for ranks in self.ranks.iter().copied() {
            divided.push(self.row(ranks, options.prompts, share(ranks)?)?);
            grown.push(self.row(ranks, options.prompts * ranks / first, whole)?);
        }
        for rows in [&mut divided, &mut grown] {
            let rate = |row: &Row| row.prompts as f64 / row.seconds;
            let first = rows[0];
            for row in rows {
                row.speedup = rate(row) / rate(&first);
                row.efficiency_percent =
                    100.0 * row.speedup * first.ranks as f64 / row.ranks as f64;
            }
        }
        Ok(Prediction {
            device: H200,
            model: options.model_name(),
            dtype: options.device.dtype.clone(),
            samples: options.samples,
            prompt_tokens: options.prompt_tokens,
            tokens: options.tokens,
            updates: self.updates,
            network_gbyte_per_s: self.network,
            latency_us: self.latency,
            through_host: self.through_host,
            longest_completion_seconds: longest,
            divided,
            grown,
        })
    }

    /// What each of some ranks computes, if they divide the phase.
    fn share(&self, ranks: usize) -> anyhow::Result<Share> {
        let options = &self.options;
        let with = |prompts: usize, samples: usize| Options {
            prompts,
            samples,
            ..options.clone()
        };
        let (prompts, samples) = sampling_share(options.prompts, options.samples, ranks);
        let sampled = with(prompts, samples);
        let prompts = options.prompts.div_ceil(self.updates);
        let trained = if prompts >= ranks {
            with(prompts.div_ceil(ranks), options.samples)
        } else {
            let completions = (prompts * options.samples).div_ceil(ranks);
            with(1, completions.min(options.samples))
        };
        let (sampling, _) = seconds(&What::Rollout(sampled))?;
        let (update, adamw) = seconds(&What::Train(trained))?;
        Ok(Share {
            sampling,
            update,
            adamw,
        })
    }

    fn row(&self, ranks: usize, prompts: usize, share: Share) -> anyhow::Result<Row> {
        let options = &self.options;
        let config = options.config()?;
        let engine_options = EngineOptions {
            slices: Some(ranks),
            ..engine_options(options)?
        };
        let demand = Demand {
            sampled_prompts: prompts,
            update_prompts: prompts.div_ceil(self.updates),
            ranks,
            ..options.demand(&What::Step(options.clone()), &config)
        };
        let memory = Footprint::on_gpu(H200.memory, &config, &engine_options, &demand);
        let trained = trained_elements(&config, engine_options.lora) as f64;
        let (updates, n) = (self.updates as f64, ranks as f64);
        let exchanged_bytes = 2.0 * NUMBER * trained * (n - 1.0) / n;
        let update_seconds = updates * (share.update - share.adamw * (1.0 - 1.0 / n));
        let exchange_seconds = updates * self.exchange(trained, n);
        let seconds = share.sampling + update_seconds + exchange_seconds;
        let completions_per_s = (prompts * options.samples) as f64 / share.sampling;
        Ok(Row {
            ranks,
            prompts,
            sampling_seconds: share.sampling,
            update_seconds,
            exchange_seconds,
            seconds,
            speedup: 1.0,
            efficiency_percent: 100.0,
            memory_bytes: memory.peak(),
            exchanged_bytes,
            completions_per_s,
            verifiers: self
                .verdicts
                .map(|verdicts| (completions_per_s / verdicts).ceil() as u64),
        })
    }

    /// Seconds that `n` ranks exchange gradients and weights in an update, one piece after the other.
    fn exchange(&self, trained: f64, n: f64) -> f64 {
        if n == 1.0 {
            return 0.0;
        }
        let (all, shard) = (NUMBER * trained, NUMBER * trained / n);
        // The host reads the whole gradient and the own shard of the weights, and writes the sums and the others' weights. It sends the length of each piece first.
        let (copied, messages) = match self.through_host {
            true => (2.0 * all + shard, 2.0),
            false => (0.0, 1.0),
        };
        let copied = copied / H200.host_bandwidth;
        let sent = 2.0 * (all - shard) / (1e9 * self.network);
        let buckets = 2.0 * (trained / n / bucket_elements(n as usize) as f64).ceil();
        copied + sent + buckets * messages * (n - 1.0) * 1e-6 * self.latency
    }
}

/// Predicted seconds of this work on one GPU, and the part of them that AdamW takes.
fn seconds(what: &What) -> anyhow::Result<(f64, f64)> {
    let options = what.options();
    let (account, _) = counted(what, options, H200, engine_options(options)?)?;
    let work = account.all;
    Ok((work.seconds(), work.operation("adamw").seconds))
}

impl Prediction {
    fn text(&self, scale: &Scale) -> String {
        let mut text = format!(
            "A phase of {} in {} and its updates (H = {}), predicted for {}s and not measured\n\
             prompts of {} tokens × {} completions of up to {} tokens; each rank sends {} GB/s{}, and a message takes {} µs more\n\
             the longest completion by itself takes {:.2} s\n",
            self.model,
            self.dtype,
            self.updates,
            self.device.name,
            self.prompt_tokens,
            self.samples,
            self.tokens,
            self.network_gbyte_per_s,
            match self.through_host {
                true => " through the host's memory",
                false => "",
            },
            self.latency_us,
            self.longest_completion_seconds,
        );
        for (title, rows) in [
            ("The same phase on more ranks", &self.divided),
            ("A phase that grows with the ranks", &self.grown),
        ] {
            let _ = writeln!(
                text,
                "\n{title}\n{:>6}{:>9}{:>12}{:>11}{:>12}{:>9}{:>10}{:>12}{:>11}{:>16}{}",
                "ranks",
                "prompts",
                "sampling s",
                "updates s",
                "exchange s",
                "s in all",
                "speed-up",
                "efficiency",
                "GB a rank",
                "completions/s",
                scale.verdicts.map_or("", |_| "  verifiers"),
            );
            for row in rows {
                let verifiers = row.verifiers.map(|count| format!("{count:>11}"));
                let _ = writeln!(
                    text,
                    "{:>6}{:>9}{:>12.2}{:>11.2}{:>12.2}{:>9.2}{:>10.1}{:>11.0}%{:>11.1}{:>16.0}{}",
                    row.ranks,
                    row.prompts,
                    row.sampling_seconds,
                    row.update_seconds,
                    row.exchange_seconds,
                    row.seconds,
                    row.speedup,
                    row.efficiency_percent,
                    row.memory_bytes as f64 / 1e9,
                    row.completions_per_s,
                    verifiers.unwrap_or_default(),
                );
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        scale: Scale,
    }

    fn scale(line: &str) -> Scale {
        let words = format!("scale --random-weights qwen2.5-0.5b --dtype bf16 {line}");
        let line = Line::try_parse_from(words.split_whitespace());
        line.unwrap().scale
    }

    #[test]
    fn ranks_divide_the_work_and_not_the_longest_completion() {
        let scale =
            scale("--prompts 16 --samples 4 --tokens 40 --updates 2 --ranks 1,4,64 --verdicts 100");
        let found = scale.predict().unwrap();
        let [one, four, many] = found.divided[..].try_into().unwrap();
        let [Row { ranks: 1, .. }, grown @ Row { ranks: 4, .. }, _] = found.grown[..] else {
            panic!("{:?}", found.grown);
        };
        assert_eq!((one.exchange_seconds, one.speedup), (0.0, 1.0));
        assert!(
            four.update_seconds < one.update_seconds / 2.0,
            "{one:?} {four:?}"
        );
        assert!(four.memory_bytes < one.memory_bytes);
        for row in [one, four, many] {
            assert!(
                row.sampling_seconds >= found.longest_completion_seconds,
                "{row:?}"
            );
            assert!(row.efficiency_percent <= 100.0, "{row:?}");
        }
        assert!(many.exchange_seconds > four.exchange_seconds);
        let through_host = Scale {
            through_host: true,
            ..scale.clone()
        };
        let copies = through_host.exchange(494e6, 4.0) - scale.exchange(494e6, 4.0);
        assert!(copies > 2.0 * 4.0 * 494e6 / H200.host_bandwidth, "{copies}");
        // 4 of 64 ranks' shares: 3/4 of the gradient and of the weights.
        let parameters = 494e6;
        assert!((four.exchanged_bytes / (2.0 * 4.0 * 0.75 * parameters) - 1.0).abs() < 0.01);
        assert_eq!(grown.sampling_seconds, one.sampling_seconds);
        assert_eq!(
            (grown.prompts, grown.verifiers),
            (
                64,
                Some((64.0 * 4.0 / grown.sampling_seconds / 100.0).ceil() as u64)
            )
        );
        let text = found.text(&scale);
        assert!(
            text.contains("not measured") && text.contains("verifiers"),
            "{text}"
        );
    }

    #[test]
    fn what_cannot_be_predicted_is_refused() {
        assert!(
            scale("--prompts 2 --updates 3")
                .check()
                .unwrap_err()
                .to_string()
                .contains("--updates 3")
        );
        assert_eq!(ranks("3").unwrap_err(), "give powers of two up to 4096");
        assert!(rate("0").is_err() && rate("nan").is_err());
    }
}
