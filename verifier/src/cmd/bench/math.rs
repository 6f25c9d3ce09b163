//! `rapid-verifier bench math`.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use datasets::TaskSpec;
use math_answer::pairs;
use serde_json::{Value, json};
use verifier::config::Config;
use verifier::grade::math::grade;

use crate::cmd::Usage;

/// Minimum duration of the measurement.
const MIN_TIME: Duration = Duration::from_secs(1);

/// Compares the pairs of a file again and again, for a second, on one thread, by the lenient policy: = and ~ are equal, ! is not.
pub(super) fn measure_pairs(path: &Path) -> anyhow::Result<Value> {
    if !path.exists() {
        anyhow::bail!(Usage(format!(
            "there is no file {}; give another to --pairs",
            path.display()
        )));
    }
    let text = datasets::jsonl::read_text(path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    let pairs =
        pairs::parse(&text).map_err(|error| anyhow::anyhow!("{}, {error}", path.display()))?;
    anyhow::ensure!(!pairs.is_empty(), "{} has no pairs", path.display());
    let wrong: Vec<[&str; 2]> = pairs::misjudged(&pairs)
        .iter()
        .map(|pair| [pair.expected, pair.answer])
        .collect();
    let speed = pairs::measure(&pairs, MIN_TIME);
    Ok(json!({
        "threads": 1,
        "pairs": pairs.len(),
        "wrong": wrong.len(),
        "pairs_per_second": speed.pairs_per_second.round(),
        "slowest_us": speed.slowest.as_micros() as u64,
        "wrong_pairs": wrong,
    }))
}

/// Grades each task's own answer, and the next task's answer as a wrong one, for a second, on one thread.
pub(super) fn measure_tasks(config: &Config, dataset: Option<&str>) -> anyhow::Result<Value> {
    let name = dataset.unwrap_or("starter-math");
    let dataset = datasets::open(name, config.data_dir.as_deref())?;
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
    while started.elapsed() < MIN_TIME {
        for (index, completion) in boxed.iter().enumerate() {
            for answer in [&answers[index], &answers[(index + 1) % answers.len()]] {
                let one = Instant::now();
                let (answer, completion) = black_box((answer, completion));
                black_box(grade("", answer, completion, config.math));
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
