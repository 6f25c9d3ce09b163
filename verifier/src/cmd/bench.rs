//! `rapid-verifier bench`.

mod math;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::ValueEnum;
use datasets::{Dataset, TaskSpec};
use serde_json::json;
use verifier::grade::code::TestMode;
use verifier::judging::DiskStores;
use verifier::registry::Registry;
use verifier::score::{Sample, judge_samples, read_samples};
use verifier::setup;

use super::progress::Progress;
use super::{ConfigArgs, prepared_judge, print_result, runtime};

/// Measure how fast this machine judges
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rapid-verifier bench math
  rapid-verifier bench math --pairs verifier/math-answer/tests/math_pairs.tsv --json
  rapid-verifier bench code --json
  rapid-verifier bench code --dataset mbppplus --exclude 599
  rapid-verifier bench code --dataset mbppplus --samples samples.jsonl")]
pub(crate) struct Args {
    /// The grader to measure
    what: What,
    #[command(flatten)]
    config: ConfigArgs,
    /// Tasks to measure with [default: starter-math or starter-code]
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// Programs to judge, in the form that `score` takes [default: each task's canonical solution]
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// Pairs of answers with a verdict to measure with, for math: lines of =, ~ or !, the expected answer and the answer to compare, separated by tabs
    #[arg(long, value_name = "FILE")]
    pairs: Option<PathBuf>,
    /// Tasks to leave out
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    exclude: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    Code,
    Math,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let figures = match args.what {
        What::Math => match &args.pairs {
            Some(path) => math::measure_pairs(path)?,
            None => math::measure_tasks(&args.config.resolve()?, args.dataset.as_deref())?,
        },
        What::Code => code(args)?,
    };
    print_result(args.json, &figures, || {
        let figures = figures.as_object().into_iter().flatten();
        figures
            .map(|(name, figure)| format!("{name:<24} {figure}\n"))
            .collect()
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Judges programs once through the pool. Only the expected values are cached.
fn code(args: &Args) -> anyhow::Result<serde_json::Value> {
    let mut config = args.config.resolve()?;
    config.cache.disk = false;
    let name = args.dataset.as_deref().unwrap_or("starter-code");
    let dataset = datasets::open(name, config.data_dir.as_deref())?;
    let name = dataset.name.clone();
    let programs: Vec<Sample> = match &args.samples {
        Some(path) => read_samples(path, &dataset)?,
        None => canonical_samples(&dataset),
    }
    .into_iter()
    .filter(|program| !args.exclude.iter().any(|id| is_task(&program.task, id)))
    .collect();
    anyhow::ensure!(
        !programs.is_empty(),
        "the data set `{name}` has no code tasks with a solution to measure with"
    );
    // The comment changes the keys, so the cache cannot answer the measured round.
    let mut first = canonical_samples(&dataset);
    first.retain(|sample| programs.iter().any(|program| program.task == sample.task));
    for sample in &mut first {
        sample.completion.push_str("\n# makes the expected values");
    }
    config.limits.queue = config.limits.queue.max(first.len()).max(programs.len());
    let mut registry = Registry::default();
    registry.add(dataset);
    let started = Instant::now();
    let on = prepared_judge(&config, registry, DiskStores::default())?;
    let start_seconds = started.elapsed().as_secs_f64();
    let runtime = runtime()?;
    let progress = Progress::new(&name, "programs", 0, first.len() + programs.len());
    let judge = |samples: &[Sample]| {
        let mode = TestMode::UntilFailure;
        runtime.block_on(judge_samples(&on, samples, mode, || progress.step()))
    };
    judge(&first);
    let (started, processor) = (Instant::now(), processor_seconds());
    let judgements = judge(&programs);
    let seconds = started.elapsed().as_secs_f64();
    let processor = processor_seconds() - processor;
    drop(progress);
    let mut unjudged = judgements.iter().filter(|it| it.reward.is_none());
    if let Some(unavailable) = unjudged.next() {
        anyhow::bail!(
            "{} could not be judged: {}",
            unavailable.id,
            unavailable.detail["reason"].as_str().unwrap_or_default()
        );
    }
    let mut times: Vec<(f64, &str)> = judgements
        .iter()
        .zip(&programs)
        .map(|(judgement, program)| (judgement.elapsed_ms, program.task.as_str()))
        .collect();
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize].0;
    let slowest: serde_json::Map<String, serde_json::Value> = times
        .iter()
        .rev()
        .take(SLOWEST)
        .map(|(ms, task)| ((*task).to_owned(), json!(ms)))
        .collect();
    Ok(json!({
        "dataset": name,
        "workers": setup::workers(&config),
        "start_seconds": rounded(start_seconds),
        "programs": judgements.len(),
        "correct": judgements.iter().filter(|judgement| judgement.reward == Some(1.0)).count(),
        "seconds": rounded(seconds),
        "processor_seconds": rounded(processor),
        "programs_per_second": rounded(judgements.len() as f64 / seconds),
        "median_ms": at(0.5),
        "p90_ms": at(0.9),
        "slowest_ms": slowest,
    }))
}

/// Number of slowest programs in the result.
const SLOWEST: usize = 8;

/// The canonical solutions of a data set, as samples.
fn canonical_samples(dataset: &Dataset) -> Vec<Sample> {
    dataset
        .train
        .iter()
        .chain(&dataset.eval)
        .filter_map(|task| match &task.spec {
            TaskSpec::Code(code) => Some(Sample {
                task: task.id.clone(),
                prompt: String::new(),
                completion: code.canonical.clone()?,
                is_whole_program: false,
            }),
            _ => None,
        })
        .collect()
}

/// Whether `id` names the task, by its full id or by its last part.
fn is_task(task: &str, id: &str) -> bool {
    task == id || task.rsplit('/').next() == Some(id)
}

fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// Processor time of all threads of this process so far, in steps of 10 ms; 0 if the system does not report it.
fn processor_seconds() -> f64 {
    let ticks = || -> Option<u64> {
        let text = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The name, in parentheses, may contain anything. User and system time are the 14th and 15th field.
        let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut next = || fields.next()?.parse::<u64>().ok();
        Some(next()? + next()?)
    };
    ticks().unwrap_or(0) as f64 / 100.0
}
