//! `rapid eval`: Pass@k of a model on a data set, judged by a verifier.

mod settings;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use datasets::passk::{Interval, no_interval, percent};
use datasets::{Dataset, Task};
use engine::Leader;
use serde::Serialize;
use trainer::atomic_file::AtomicFile;
use trainer::config::{MAX_SAMPLES, MAX_TOKENS};
use trainer::data::PromptRenderer;
use trainer::eval::{
    self, Evaluation, PartialEvaluation, PartialEvaluationError, PassAt, Summary, Verdicts,
};
use trainer::interrupt::StopSignal;
use trainer::policy::Policy;
use trainer::record::SampleRecord;
use trainer::reward::{RewardClient, RewardError};
use trainer::rollout::{PartialRollout, RolloutError, RolloutProgress, SamplingParams};
use trainer::stderr::say;

use super::args::{
    CutoffArgs, DeviceArgs, PromptArgs, VerifierArgs, check_completion_count, check_out_is_own,
    from_zero, model_path, open_dataset, open_model, positive, temperature, up_to,
};
use super::checkpoint_defaults::CheckpointDefaults;
use super::progress_bar::progress_bar;
use super::train::kinds;
use super::verifier_process::VerifierProcess;
use super::{Interrupted, Usage, count, prompts};

/// Fields of every line of the file of `--out`.
const FIELDS: [&str; 5] = ["task", "sample", "prompt", "completion", "verdict"];

/// Evaluate Pass@k of a model on a data set, judged by a verifier
///
/// Samples completions of each task, has them judged as they finish, and prints the unbiased Pass@k with its 95% interval over tasks, and the number of completions
/// with each verdict. A run's checkpoint is evaluated with the prompts and the sampling settings of its run, unless an option overrides them.
/// With --out, the completions are stored as they are sampled (FILE.drawn.jsonl), and the same command resumes an interrupted evaluation.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rapid eval --model smollm2-135m-instruct --dataset starter-math --max-tokens 24 --verifier http://127.0.0.1:8700
  rapid eval --model runs/a/checkpoints/best --dataset gsm8k --limit 200 --out samples.jsonl --verifier http://127.0.0.1:8700
  rapid eval --model m.gguf --dataset mbppplus --temperature 0 -n 1 --k 1 --json --verifier http://127.0.0.1:8700

RAPID_VERIFIER_TOKEN is the verifier's token, if it requires one.")]
pub(crate) struct Args {
    /// A GGUF file, a folder with a Hugging Face checkpoint, or the name of a fetched model
    #[arg(long, value_name = "MODEL")]
    model: String,
    /// A data set's name, or a path to a file of tasks
    #[arg(long, value_name = "NAME")]
    dataset: String,
    #[command(flatten)]
    verifier: VerifierArgs,
    /// Samples per task
    #[arg(short = 'n', value_name = "N", default_value_t = 8, value_parser = up_to(MAX_SAMPLES))]
    samples: usize,
    /// The k of each Pass@k, at most n [default: 1 and n]
    #[arg(long, value_name = "K", value_delimiter = ',', value_parser = up_to(MAX_SAMPLES))]
    k: Vec<usize>,
    /// Sampling temperature; 0 is greedy [default: the checkpoint's, else 0.9]
    #[arg(long, value_name = "T", value_parser = temperature)]
    temperature: Option<f32>,
    #[command(flatten)]
    cutoffs: CutoffArgs,
    /// Minimum tokens of a completion: its first N tokens are not end tokens. A stop string may end it earlier [default: the checkpoint's, else 0]
    #[arg(long, value_name = "N", value_parser = from_zero::<usize>)]
    min_tokens: Option<usize>,
    /// Maximum tokens of a completion, including the end token [default: the checkpoint's, else 512]
    #[arg(long, value_name = "N", value_parser = up_to(MAX_TOKENS))]
    max_tokens: Option<usize>,
    /// File for the samples, one per line, with prompt, completion and verdict
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Accept a verifier with other policies than those of the checkpoint's run
    #[arg(long)]
    any_verifier: bool,
    /// A folder of data sets, as DIR/gsm8k/eval.jsonl
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Which part of the data set
    #[arg(long, value_enum, default_value_t = Split::Eval)]
    split: Split,
    /// Evaluate only the first N tasks
    #[arg(long, value_name = "N", value_parser = positive)]
    limit: Option<usize>,
    /// Seed of the sampling; two models with the same seed sample from the same random stream
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = from_zero::<u64>)]
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
pub(crate) enum Split {
    /// Held-out tasks
    #[value(aliases = ["test", "validation", "dev"])]
    Eval,
    /// Training tasks
    Train,
}

impl Split {
    /// The first tasks of this part, at most `limit`.
    pub(crate) fn tasks(self, dataset: &Dataset, limit: Option<usize>) -> Vec<Task> {
        let tasks = match self {
            Split::Eval => &dataset.eval,
            Split::Train => &dataset.train,
        };
        let first = tasks.iter().take(limit.unwrap_or(usize::MAX));
        first.cloned().collect()
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    super::on_ranks(args.device.threads, |ranks| evaluate(args, ranks))
}

fn evaluate(args: &Args, ranks: Option<&Leader>) -> anyhow::Result<()> {
    let k = requested_k(&args.k, args.samples)?;
    if let Some(out) = &args.out {
        check_out_is_own(out, "rapid eval", &FIELDS)?;
    }
    let dataset = open_dataset(&args.dataset, args.data_dir.as_deref())?;
    let tasks = args.split.tasks(&dataset, args.limit);
    check_completion_count(tasks.len(), args.samples)?;
    // The model's errors are reported before the wait for the verifier.
    let model = model_path(&args.model)?;
    let mut checkpoint = CheckpointDefaults::of(&model)?;
    let mut renderer = checkpoint.renderer(&args.prompt, &args.dataset, &tasks)?;
    let params = settings::resolve(args, &checkpoint)?;
    checkpoint.report();
    let mut verifier = args.verifier.settings();
    if !args.any_verifier {
        verifier = checkpoint.verifier(verifier);
    }
    // A wrong address is reported before all the work.
    let url = verifier.url.as_deref();
    url.map_or(Ok(()), verifier_api::check_address)?;
    // A file that cannot be written is reported before all the work.
    let out = args.out.as_deref();
    out.map(create).transpose()?;
    let mut partial_evaluation = out.map(PartialEvaluation::open).transpose()?;
    if let Some(day) = partial_evaluation.as_ref().and_then(PartialEvaluation::day) {
        // Completions that were sampled yesterday continue prompts with yesterday's date.
        renderer.day = day;
    }
    let evaluation = super::block_on(async {
        let own = match verifier.url {
            Some(_) => None,
            None => {
                let (kinds, data_dir) = (kinds([&dataset]), args.data_dir.as_deref());
                Some(VerifierProcess::of_command(&verifier, &kinds, data_dir, None).await?)
            }
        };
        if let Some(own) = &own {
            verifier.url = Some(own.url().to_owned());
        }
        let rewards = RewardClient::new(&verifier)?;
        let started = rewards.start(&[(&args.dataset, &dataset)]).await;
        let differs = matches!(started, Err(RewardError::GraderSettings(_)));
        match checkpoint.source().filter(|_| differs) {
            Some(settings) => started.with_context(|| {
                let settings = settings.display();
                format!("{settings} requires the policies of the training, and --any-verifier accepts others")
            })?,
            None => started?,
        };
        let engine = tokio::task::block_in_place(|| open_model(&args.model, &args.device, ranks))?;
        let device = engine.info().device.clone();
        let message = [("user".to_owned(), "a".to_owned())];
        let has_chat = engine.chat_prompt(&message, renderer.day).is_ok();
        let max_tokens = params.max_tokens;
        say(&prompts::description(&renderer, has_chat, max_tokens));
        let engine: Arc<dyn Policy> = Arc::new(engine);
        let prompts =
            tokio::task::block_in_place(|| prompts::of_tasks(&renderer, engine.as_ref(), tasks))?;
        let mut rollout = match &mut partial_evaluation {
            Some(partial_evaluation) => {
                let origin = tokio::task::block_in_place(|| {
                    let engine = args.device.settings().resolved();
                    settings::origin(&model, &prompts, &params, &engine, &device)
                })?;
                let stored = partial_evaluation.resume(&origin, renderer.day)?;
                if partial_evaluation.completions() > 0 {
                    say(&format!(
                        "continuing with {} that were sampled before",
                        count(partial_evaluation.completions(), "completion")
                    ));
                }
                stored
            }
            None => PartialRollout::default(),
        };
        let stop = StopSignal::on_ctrl_c();
        let bar = progress_bar((prompts.len() * args.samples) as u64, "samples");
        let mut watch = |tally: &RolloutProgress| {
            bar.set_position(tally.sampled as u64);
            let rate = tally.tokens as f64 / tally.elapsed.as_secs_f64().max(1e-3);
            bar.set_message(format!("{rate:.0} tokens/s"));
        };
        let evaluation = eval::evaluate(
            engine.as_ref(),
            &rewards,
            &prompts,
            &params,
            &mut rollout,
            &stop,
            &mut watch,
        )
        .await;
        bar.finish_and_clear();
        match evaluation {
            Ok(evaluation) => Ok((evaluation, rollout)),
            Err(RolloutError::Stopped) => Err(Interrupted.into()),
            Err(error) => Err(error.into()),
        }
    });
    let (evaluation, rollout) = match evaluation {
        Ok(evaluation) => evaluation,
        Err(error) => {
            if let Some(partial_evaluation) = partial_evaluation {
                // The stored completions may belong to another evaluation.
                let own = !error.is::<PartialEvaluationError>();
                leave(partial_evaluation, own);
            }
            return Err(error);
        }
    };
    if let Some(path) = &args.out {
        write_samples(create(path)?, &evaluation)
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let judged = check_judged(&evaluation.records);
    match partial_evaluation {
        Some(partial_evaluation) if judged.is_ok() => partial_evaluation.finish(rollout),
        Some(partial_evaluation) => leave(partial_evaluation, true),
        None => {}
    }
    super::print(&output(args, &k, &params, &renderer, &evaluation)?)?;
    if let Some(hint) = Verdicts::hint(&evaluation.records.iter(), ("--template", "--max-tokens")) {
        say(&format!("warning: {hint}"));
    }
    judged
}

/// Leaves the stored completions of an evaluation that ends early, and reports their number if they are its own.
fn leave(partial_evaluation: PartialEvaluation, own: bool) {
    let stored = partial_evaluation.completions();
    if stored > 0 && own {
        let stored = count(stored, "completion");
        say(&format!(
            "{stored} stored; the same command continues with them"
        ));
    }
    partial_evaluation.remove_if_empty();
}

/// Refuses an evaluation in which no sample could be judged: it measured nothing.
fn check_judged(records: &[SampleRecord]) -> anyhow::Result<()> {
    match records.last() {
        Some(last) if records.iter().all(|record| record.reward.is_none()) => {
            let reason = last.detail["reason"].as_str().map(str::to_owned);
            let reason = reason.unwrap_or_else(|| last.detail.to_string());
            let samples = count(records.len(), "sample");
            bail!("none of {samples} could be judged: {reason}");
        }
        _ => Ok(()),
    }
}

/// The k of each Pass@k, sorted and without duplicates: 1 and the number of samples by default. All are at most that number.
fn requested_k(given: &[usize], samples: usize) -> Result<Vec<usize>, Usage> {
    let default = [1, samples];
    let k = if given.is_empty() { &default } else { given };
    let k: Vec<usize> = BTreeSet::from_iter(k).into_iter().copied().collect();
    match k.last() {
        Some(k) if *k > samples => Err(Usage(format!(
            "Pass@{k} needs at least {k} samples per task; give -n {k} or leave {k} out of --k"
        ))),
        _ => Ok(k),
    }
}

/// Creates the file of `--out`.
pub(crate) fn create(path: &Path) -> anyhow::Result<AtomicFile> {
    AtomicFile::create(path)
        .map_err(|error| Usage(format!("{} cannot be written: {error}", path.display())).into())
}

fn write_samples(mut file: AtomicFile, evaluation: &Evaluation) -> std::io::Result<()> {
    for record in &evaluation.records {
        serde_json::to_writer(&mut file, record)?;
        file.write_all(b"\n")?;
    }
    file.finish()
}

/// The output of `--json`.
#[derive(Serialize)]
struct Figures<'a> {
    model: &'a str,
    dataset: &'a str,
    split: Split,
    samples_per_task: usize,
    temperature: f32,
    min_tokens: usize,
    max_tokens: usize,
    template: &'a str,
    seed: u64,
    #[serde(flatten)]
    summary: &'a Summary,
    verdicts: Verdicts,
    inference_s: f64,
    verify_s: f64,
}

fn output(
    args: &Args,
    k: &[usize],
    params: &SamplingParams,
    renderer: &PromptRenderer,
    evaluation: &Evaluation,
) -> anyhow::Result<String> {
    let summary = eval::summary(&evaluation.records, k);
    let verdicts = Verdicts::of(&evaluation.records);
    let temperature = params.sampling.temperature;
    if args.json {
        let figures = Figures {
            model: &args.model,
            dataset: &args.dataset,
            split: args.split,
            samples_per_task: args.samples,
            temperature,
            min_tokens: params.min_tokens,
            max_tokens: params.max_tokens,
            template: &renderer.name,
            seed: args.seed,
            summary: &summary,
            verdicts,
            inference_s: evaluation.inference.as_secs_f64(),
            verify_s: evaluation.verify.as_secs_f64(),
        };
        return Ok(serde_json::to_string_pretty(&figures)? + "\n");
    }
    let mut out = format!(
        "{} on {}, {}, {} each, temperature {temperature}\n\n{}\n",
        args.model,
        args.dataset,
        count(summary.tasks, "task"),
        count(args.samples, "sample"),
        table(&summary)
    );
    for (name, count) in verdicts.named().into_iter().filter(|(_, count)| *count > 0) {
        let _ = writeln!(out, "  {name:<22} {count:>6}");
    }
    Ok(out)
}

fn table(summary: &Summary) -> String {
    let mut out = String::new();
    let mut passes = |passes: &[PassAt], suffix: &str| {
        for PassAt { k, estimate } in passes {
            let spread = match estimate.interval {
                Some(Interval { low, high }) => {
                    format!("95% interval {} to {}", percent(low), percent(high))
                }
                None => no_interval(estimate.tasks),
            };
            let (label, mean) = (format!("Pass@{k}{suffix}"), percent(estimate.mean));
            let _ = writeln!(out, "  {label:<22} {mean:>7}   {spread}");
        }
    };
    passes(&summary.pass, "");
    passes(&summary.any_form, ", any form");
    let tokens = format!("{:.1}", summary.mean_tokens);
    let _ = writeln!(out, "  {:<22} {tokens:>6}", "mean length, tokens");
    let truncated = percent(summary.truncated);
    let _ = writeln!(out, "  {:<22} {truncated:>7}", "cut off at the limit");
    if summary.masked > 0 {
        let note = "counted as neither correct nor incorrect";
        let masked = format!("{:>6}    {note}", summary.masked);
        let _ = writeln!(out, "  {:<22} {masked}", "without a verdict");
    }
    out
}

#[cfg(test)]
mod tests {
    use datasets::passk::Estimate;

    use super::*;

    fn record(reward: Option<f64>) -> SampleRecord {
        serde_json::from_value(serde_json::json!({
            "task": "a", "sample": 0, "prompt": "", "completion": "", "reward": reward,
            "verdict": "unavailable", "detail": {"reason": "no interpreter"}, "tokens": 1, "logp": -1.0, "finish": "stop",
        }))
        .unwrap()
    }

    #[test]
    fn an_evaluation_without_any_verdict_is_an_error_with_its_reason() {
        let check = |rewards: &[Option<f64>]| {
            let records = rewards.iter().map(|reward| record(*reward));
            check_judged(&records.collect::<Vec<_>>())
        };
        let error = check(&[None, None]).unwrap_err().to_string();
        assert_eq!(error, "none of 2 samples could be judged: no interpreter");
        assert!(check(&[None, Some(0.0)]).is_ok() && check(&[]).is_ok());
        // The fields by which an earlier output is recognised.
        let line = serde_json::to_value(record(None)).unwrap();
        assert!(FIELDS.iter().all(|field| line.get(field).is_some()));
    }

    #[test]
    fn a_k_that_is_given_twice_is_measured_once() {
        let k = |given: &[usize], samples| requested_k(given, samples).unwrap();
        assert_eq!(k(&[2, 1, 1, 2], 8), [1, 2]);
        assert_eq!((k(&[], 8), k(&[], 1)), (vec![1, 8], vec![1]));
        assert!(requested_k(&[9], 8).is_err());
    }

    #[test]
    fn the_table_shows_every_figure() {
        let pass = |k, mean, low, high| PassAt {
            k,
            estimate: Estimate {
                mean,
                interval: Some(Interval { low, high }),
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
        insta::assert_snapshot!(table(&summary));
    }
}
