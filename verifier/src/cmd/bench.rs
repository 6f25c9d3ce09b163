//! `rapid-verifier bench`.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::ValueEnum;
use datasets::TaskSpec;
use serde_json::json;
use verifier::grade::math::{Extraction, grade};
use verifier::registry::Registry;
use verifier::score::{Sample, judge_samples};
use verifier::setup;

use super::{ConfigArgs, progress_bar};

/// Measure how fast this machine judges
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rapid-verifier bench math
  rapid-verifier bench code --json
  rapid-verifier bench code --dataset mbppplus --data-dir data")]
pub(crate) struct Args {
    /// Which grader
    what: What,
    #[command(flatten)]
    config: ConfigArgs,
    /// Tasks to measure with [default: starter-math or starter-code]
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
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
        What::Math => math(args)?,
        What::Code => code(args)?,
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    } else if let Some(figures) = figures.as_object() {
        for (name, figure) in figures {
            println!("{name:<24} {figure}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One thread, right answers and each task's neighbour's answer as a wrong one, for a second.
fn math(args: &Args) -> anyhow::Result<serde_json::Value> {
    let config = args.config.resolve()?;
    let dataset = datasets::open(
        args.dataset.as_deref().unwrap_or("starter-math"),
        config.data_dir.as_deref(),
    )?;
    let answers: Vec<String> = dataset
        .train
        .into_iter()
        .chain(dataset.eval)
        .filter_map(|task| match task.spec {
            TaskSpec::Math(task) => Some(task.answer),
            _ => None,
        })
        .collect();
    anyhow::ensure!(
        !answers.is_empty(),
        "the data set `{}` has no math tasks to measure with",
        dataset.name
    );
    let boxed: Vec<String> = answers
        .iter()
        .map(|answer| format!("The sum is as asked. \\boxed{{{answer}}}"))
        .collect();
    let (mut pairs, mut slowest) = (0_u64, Duration::ZERO);
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(1) {
        for (index, completion) in boxed.iter().enumerate() {
            for answer in [&answers[index], &answers[(index + 1) % answers.len()]] {
                let one = Instant::now();
                black_box(grade(
                    black_box(answer),
                    black_box(completion),
                    Extraction::Boxed,
                ));
                slowest = slowest.max(one.elapsed());
                pairs += 1;
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(
        json!({ "dataset": dataset.name, "threads": 1, "pairs": pairs, "pairs_per_second": (pairs as f64 / seconds).round(), "slowest_us": slowest.as_micros() as u64 }),
    )
}

/// Each task's own solution, judged once through the pool with nothing cached but the expected values.
fn code(args: &Args) -> anyhow::Result<serde_json::Value> {
    let mut config = args.config.resolve()?;
    config.cache.disk = false;
    let dataset = datasets::open(
        args.dataset.as_deref().unwrap_or("starter-code"),
        config.data_dir.as_deref(),
    )?;
    let name = dataset.name.clone();
    let samples = |mark: &str| -> Vec<Sample> {
        dataset
            .train
            .iter()
            .chain(&dataset.eval)
            .filter_map(|task| match &task.spec {
                TaskSpec::Code(code) => {
                    let completion = format!("{mark}{}", code.canonical.as_ref()?);
                    Some(Sample {
                        task: task.id.clone(),
                        prompt: String::new(),
                        completion,
                    })
                }
                _ => None,
            })
            .collect()
    };
    // The comment makes another completion, so that the second round is not answered from the cache.
    let (first, second) = (samples(""), samples("# measured\n"));
    anyhow::ensure!(
        !first.is_empty(),
        "the data set `{name}` has no code tasks with a solution to measure with"
    );
    config.limits.queue = config.limits.queue.max(first.len());
    let mut registry = Registry::default();
    registry.add(dataset.clone());
    let (service, open) = setup::with_registry(&config, None, registry, None)?;
    service.prepare(open);
    let runtime =
        tokio::runtime::Runtime::new().context("the async runtime could not be started")?;
    let bar = progress_bar(2 * first.len());
    // Makes the expected values.
    runtime.block_on(judge_samples(&service, &first, || bar.inc(1)));
    let started = Instant::now();
    let judgements = runtime.block_on(judge_samples(&service, &second, || bar.inc(1)));
    let seconds = started.elapsed().as_secs_f64();
    bar.finish_and_clear();
    if let Some(unavailable) = judgements
        .iter()
        .find(|judgement| judgement.reward.is_none())
    {
        anyhow::bail!(
            "{} could not be judged: {}",
            unavailable.id,
            unavailable.detail["reason"].as_str().unwrap_or_default()
        );
    }
    let mut times: Vec<f64> = judgements
        .iter()
        .map(|judgement| judgement.elapsed_ms)
        .collect();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    Ok(json!({
        "dataset": name,
        "workers": setup::workers(&config),
        "programs": judgements.len(),
        "correct": judgements.iter().filter(|judgement| judgement.reward == Some(1.0)).count(),
        "programs_per_second": (judgements.len() as f64 / seconds * 10.0).round() / 10.0,
        "median_ms": at(0.5),
        "p90_ms": at(0.9),
        "slowest_ms": at(1.0),
    }))
}
