//! `rapid eval`: Pass@k of a model on a data set, judged by a verifier.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use datasets::{Dataset, Task};
use serde::Serialize;
use trainer::aside::Aside;
use trainer::config::{self, MOST_SAMPLES, MOST_TOKENS};
use trainer::data::{Asking, DataError, Prompt};
use trainer::eval::{self, Evaluation, PassAt, Settings, Summary};
use trainer::policy::Policy;
use trainer::reward::RewardClient;
use trainer::rollout::{Drawing, Kept, RolloutError, Tally};
use trainer::stderr::say;
use trainer::stop::Stop;

use super::args::{
    DeviceArgs, PromptArgs, TruncationArgs, VerifierArgs, apart, few_enough, model_path,
    open_dataset, open_model, positive, temperature, up_to,
};
use super::bar::bar;
use super::{Interrupted, Usage, count};

/// Evaluate Pass@k of a model on a data set, judged by a verifier
///
/// Draws samples of each task, has them judged as they finish, and prints the unbiased Pass@k with its 95% interval over tasks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rapid eval --model smollm2-135m-instruct --dataset starter-math --max-tokens 24 --verifier http://127.0.0.1:8700
  rapid eval --model runs/a/checkpoints/best --dataset gsm8k --limit 200 -n 8 --k 1,8 --out samples.jsonl --verifier http://127.0.0.1:8700
  rapid eval --model m.gguf --dataset mbppplus --temperature 0 -n 1 --k 1 --json --verifier http://127.0.0.1:8700

RAPID_VERIFIER_TOKEN is the verifier's token, where it asks for one.")]
pub(crate) struct Args {
    /// A GGUF file, a folder with a Hugging Face checkpoint, or the name of a fetched model
    #[arg(long, value_name = "MODEL")]
    model: String,
    /// A data set's name, or a path to a .jsonl file
    #[arg(long, value_name = "NAME")]
    dataset: String,
    #[command(flatten)]
    verifier: VerifierArgs,
    /// Samples a task
    #[arg(short = 'n', value_name = "N", default_value_t = 8, value_parser = up_to(MOST_SAMPLES))]
    samples: usize,
    /// The k of each Pass@k, at most n [default: 1 and n]
    #[arg(long, value_name = "K", value_delimiter = ',', value_parser = up_to(MOST_SAMPLES))]
    k: Vec<usize>,
    /// Sampling temperature; 0 is greedy
    #[arg(long, value_name = "T", default_value_t = 0.9, value_parser = temperature, allow_negative_numbers = true)]
    temperature: f32,
    #[command(flatten)]
    truncation: TruncationArgs,
    /// Most tokens of a completion, the end token included
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = up_to(MOST_TOKENS))]
    max_tokens: usize,
    /// Where the samples go, one a line, with prompt, completion and verdict
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// A folder of data sets, as DIR/gsm8k/eval.jsonl
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Which part of the data set
    #[arg(long, value_enum, default_value_t = Part::Eval)]
    split: Part,
    /// Evaluate only the first N tasks
    #[arg(long, value_name = "N", value_parser = positive)]
    limit: Option<usize>,
    /// Decides every sample; two models under one seed draw from the same stream
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    prompt: PromptArgs,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    /// Held-out tasks
    Eval,
    /// Training tasks
    Train,
}

impl Part {
    /// The tasks of this part, as they lie.
    pub(crate) fn of(self, dataset: &Dataset) -> &[Task] {
        match self {
            Part::Eval => &dataset.eval,
            Part::Train => &dataset.train,
        }
    }

    /// The tasks of this part.
    pub(crate) fn tasks(self, dataset: Dataset) -> Vec<Task> {
        match self {
            Part::Eval => dataset.eval,
            Part::Train => dataset.train,
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut settings = settings(args)?;
    if let Some(out) = &args.out {
        apart("--dataset", Path::new(&args.dataset), out)?;
    }
    let dataset = open_dataset(&args.dataset, args.data_dir.as_deref())?;
    let tasks = args.split.of(&dataset);
    let limit = args.limit.unwrap_or(usize::MAX);
    few_enough(tasks.len().min(limit), args.samples)?;
    // What can be wrong here is better known before the verifier is waited for.
    let asking = asking(&args.prompt.of(&args.dataset), tasks)?;
    settings.drawing.stop_strings = asking.stop_strings().to_vec();
    model_path(&args.model)?;
    let rewards = RewardClient::new(&args.verifier.settings())?;
    let mut out = args.out.as_deref().map(create).transpose()?;
    let evaluation = super::block_on(async {
        rewards.start(&args.dataset, &dataset).await?;
        let engine: Arc<dyn Policy> = Arc::new(tokio::task::block_in_place(|| {
            open_model(&args.model, &args.device)
        })?);
        let mut tasks = args.split.tasks(dataset);
        tasks.truncate(limit);
        let prompts = tokio::task::block_in_place(|| asked(&asking, engine.as_ref(), tasks))?;
        let stop = Stop::on_ctrl_c();
        let bar = bar((prompts.len() * args.samples) as u64, "samples");
        let mut watch = |tally: &Tally| {
            bar.set_position(tally.drawn as u64);
            bar.set_message(format!(
                "{:.0} tokens/s",
                tally.tokens as f64 / tally.elapsed.as_secs_f64().max(1e-3)
            ));
        };
        let evaluation = eval::evaluate(
            &engine,
            &rewards,
            &prompts,
            &settings,
            &mut Kept::default(),
            &stop,
            &mut watch,
        )
        .await;
        bar.finish_and_clear();
        match evaluation {
            Err(RolloutError::Stopped) => Err(Interrupted.into()),
            other => Ok(other?),
        }
    })?;
    if let (Some(file), Some(path)) = (out.take(), &args.out) {
        write_samples(file, &evaluation)
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    super::print(&shown(args, &evaluation)?)?;
    judged(&evaluation)
}

/// Refuses an evaluation of which nothing could be judged: it measured nothing.
fn judged(evaluation: &Evaluation) -> anyhow::Result<()> {
    let records = &evaluation.records;
    match records.last() {
        Some(last) if records.iter().all(|record| record.sample.reward.is_none()) => {
            let detail = &last.sample.detail;
            let reason = detail["reason"].as_str().map(str::to_owned);
            bail!(
                "none of {} could be judged: {}",
                count(records.len(), "sample"),
                reason.unwrap_or_else(|| detail.to_string())
            );
        }
        _ => Ok(()),
    }
}

/// The k of each Pass@k that is wanted, in their order.
fn each_once(given: &[usize], samples: usize) -> Vec<usize> {
    let mut k = match given {
        [] => vec![1, samples],
        given => given.to_vec(),
    };
    k.sort_unstable();
    k.dedup();
    k
}

fn settings(args: &Args) -> anyhow::Result<Settings> {
    let k = each_once(&args.k, args.samples);
    if let Some(k) = k.iter().find(|k| **k > args.samples) {
        return Err(Usage(format!(
            "Pass@{k} needs at least {k} samples a task; give -n {k} or leave {k} out of --k"
        ))
        .into());
    }
    Ok(Settings {
        samples: args.samples,
        k,
        seed: args.seed,
        drawing: Drawing {
            sampling: args.truncation.at(args.temperature),
            max_tokens: args.max_tokens,
            stop_strings: Vec::new(),
        },
        any_form: true,
    })
}

/// How tasks are asked, by a template that suits them.
pub(crate) fn asking(data: &config::Data, tasks: &[Task]) -> anyhow::Result<Asking> {
    if tasks.is_empty() {
        return Err(Usage(format!(
            "the data set {} has no tasks in this split; give the other one with --split",
            data.dataset
        ))
        .into());
    }
    let asking = Asking::new(data).and_then(|asking| asking.suits(tasks).map(|()| asking));
    asking.map_err(|error| match error {
        DataError::Template(reason) => Usage(format!("--template: {reason}")).into(),
        other => anyhow::Error::new(other),
    })
}

/// The prompts of tasks; those that fill the model's context are left out with a warning.
pub(crate) fn asked(
    asking: &Asking,
    policy: &dyn Policy,
    tasks: Vec<Task>,
) -> anyhow::Result<Vec<Arc<Prompt>>> {
    let all = tasks.len();
    let room = policy.context().saturating_sub(1);
    let (prompts, left_out) = asking.prompts(policy, tasks, room)?;
    if prompts.is_empty() {
        bail!("no task is left to ask: every prompt fills the model's context");
    }
    if left_out > 0 {
        say(&format!(
            "warning: {left_out} of {all} tasks are left out, since their prompts fill the model's context"
        ));
    }
    Ok(prompts)
}

/// Begins a file that `--out` names.
pub(crate) fn create(path: &Path) -> anyhow::Result<Aside> {
    Aside::create(path)
        .map_err(|error| Usage(format!("{} cannot be written: {error}", path.display())).into())
}

fn write_samples(mut file: Aside, evaluation: &Evaluation) -> std::io::Result<()> {
    for record in &evaluation.records {
        serde_json::to_writer(&mut file, record)?;
        file.write_all(b"\n")?;
    }
    file.finish()
}

/// What `--json` prints.
#[derive(Serialize)]
struct Figures<'a> {
    model: &'a str,
    dataset: &'a str,
    split: Part,
    samples_per_task: usize,
    temperature: f32,
    seed: u64,
    #[serde(flatten)]
    summary: &'a Summary,
    inference_s: f64,
    verify_s: f64,
}

fn shown(args: &Args, evaluation: &Evaluation) -> anyhow::Result<String> {
    let k = settings(args)?.k;
    let summary = evaluation.summary(&k);
    if args.json {
        let figures = Figures {
            model: &args.model,
            dataset: &args.dataset,
            split: args.split,
            samples_per_task: args.samples,
            temperature: args.temperature,
            seed: args.seed,
            summary: &summary,
            inference_s: evaluation.inference.as_secs_f64(),
            verify_s: evaluation.verify.as_secs_f64(),
        };
        return Ok(serde_json::to_string_pretty(&figures)? + "\n");
    }
    let head = format!(
        "{} on {}, {}, {} each, temperature {}",
        args.model,
        args.dataset,
        count(summary.tasks, "task"),
        count(args.samples, "sample"),
        args.temperature
    );
    Ok(table(&head, &summary))
}

fn table(head: &str, summary: &Summary) -> String {
    let mut out = format!("{head}\n\n");
    let mut passes = |passes: &[PassAt], suffix: &str| {
        for pass in passes {
            let label = format!("Pass@{}{suffix}", pass.k);
            let e = pass.estimate;
            let _ = writeln!(
                out,
                "  {label:<22} {:>6.1}%   95% interval {:.1}% to {:.1}%",
                100.0 * e.mean,
                100.0 * e.low,
                100.0 * e.high
            );
        }
    };
    passes(&summary.pass, "");
    passes(&summary.any_form, ", any form");
    let _ = writeln!(
        out,
        "  {:<22} {:>6.1}",
        "mean length, tokens", summary.mean_tokens
    );
    let _ = writeln!(
        out,
        "  {:<22} {:>6.1}%",
        "cut off at the limit",
        100.0 * summary.truncated
    );
    if summary.masked > 0 {
        let _ = writeln!(
            out,
            "  {:<22} {:>6}    they count neither as right nor as wrong",
            "without a verdict", summary.masked
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use trainer::eval::Record;
    use trainer::passk::Estimate;

    #[test]
    fn an_evaluation_of_which_nothing_was_judged_is_an_error_with_its_reason() {
        let record = |reward: Option<f64>| -> Record {
            serde_json::from_value(serde_json::json!({
                "task": "a", "sample": 0, "prompt": "", "completion": "", "reward": reward,
                "verdict": "unavailable", "detail": {"reason": "no interpreter"}, "tokens": 1, "logp": -1.0, "finish": "stop",
            }))
            .unwrap()
        };
        let of = |records: Vec<Record>| {
            judged(&Evaluation {
                records,
                inference: Duration::ZERO,
                verify: Duration::ZERO,
            })
        };
        let error = of(vec![record(None), record(None)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "none of 2 samples could be judged: no interpreter"
        );
        assert!(of(vec![record(None), record(Some(0.0))]).is_ok());
        assert!(of(Vec::new()).is_ok());
    }

    #[test]
    fn a_k_that_is_given_twice_is_measured_once() {
        assert_eq!(each_once(&[2, 1, 1, 2], 8), [1, 2]);
        assert_eq!(each_once(&[], 8), [1, 8]);
        assert_eq!(each_once(&[], 1), [1]);
    }

    #[test]
    fn the_table_says_what_was_measured() {
        let pass = |k, mean, low, high| PassAt {
            k,
            estimate: Estimate {
                mean,
                low,
                high,
                tasks: 48,
            },
        };
        let summary = Summary {
            tasks: 48,
            samples: 382,
            masked: 2,
            pass: vec![
                pass(1, 0.1875, 0.12, 0.2593),
                pass(8, 0.4167, 0.2917, 0.5625),
            ],
            any_form: vec![pass(1, 0.19, 0.12, 0.26)],
            mean_tokens: 6.12,
            truncated: 0.1016,
        };
        insta::assert_snapshot!(table(
            "m.gguf on starter-math, 48 tasks, 8 samples each, temperature 0.9",
            &summary
        ));
    }
}
