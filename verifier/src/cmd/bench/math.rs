//! `rapid-verifier bench math`.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use datasets::TaskSpec;
use serde_json::{Value, json};
use verifier::grade::math::{Comparison, Policy, compare, grade};

use super::Args;
use crate::cmd::Usage;

pub(super) fn measure(args: &Args) -> anyhow::Result<Value> {
    match &args.pairs {
        Some(path) => pairs(path),
        None => tasks(args),
    }
}

/// One thread, every pair of a file in turn for a second, by the lenient policy: = and ~ are equal, ! is not.
fn pairs(path: &Path) -> anyhow::Result<Value> {
    if !path.exists() {
        return Err(Usage(format!(
            "there is no file {}; give another to --pairs",
            path.display()
        ))
        .into());
    }
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    let mut pairs = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split('\t').collect();
        let [verdict @ ("=" | "~" | "!"), right, given] = fields.as_slice() else {
            anyhow::bail!(
                "{}, line {} is no pair: it takes =, ~ or !, the right answer and the given one, separated by tabs",
                path.display(),
                number + 1
            );
        };
        pairs.push((*verdict != "!", *right, *given));
    }
    anyhow::ensure!(!pairs.is_empty(), "{} has no pairs", path.display());
    let same = |right: &str, given: &str| {
        matches!(
            compare(black_box(right), black_box(given), Policy::Lenient),
            Comparison::Same(_)
        )
    };
    let wrong: Vec<[&str; 2]> = pairs
        .iter()
        .filter(|(equal, right, given)| same(right, given) != *equal)
        .map(|(_, right, given)| [*right, *given])
        .collect();
    let (mut compared, mut slowest) = (0_u64, Duration::ZERO);
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(1) {
        for (_, right, given) in &pairs {
            let one = Instant::now();
            black_box(same(right, given));
            slowest = slowest.max(one.elapsed());
            compared += 1;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(json!({
        "threads": 1,
        "pairs": pairs.len(),
        "wrong": wrong.len(),
        "pairs_per_second": (compared as f64 / seconds).round(),
        "slowest_us": slowest.as_micros() as u64,
        "wrong_pairs": wrong,
    }))
}

/// One thread, right answers and each task's neighbour's answer as a wrong one, for a second.
fn tasks(args: &Args) -> anyhow::Result<serde_json::Value> {
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
                    "",
                    black_box(answer),
                    black_box(completion),
                    config.math,
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
