//! `rapid-verifier score`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;
use verifier::grade::code::Extent;
use verifier::registry::Registry;
use verifier::score::{Score, judge_samples, read_samples};
use verifier::setup;

use super::{ConfigArgs, Usage, check_place, prepare, print, progress_bar, write_whole};

/// Judge a file of samples; no server is needed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rapid-verifier score --dataset mbppplus --samples samples.jsonl
  rapid-verifier score --dataset starter-math --samples samples.jsonl --k 1,8 --json
  rapid-verifier score --dataset tasks.jsonl --samples samples.jsonl --out judged.jsonl

A sample is one line, {\"task_id\": 2, \"completion\": \"…\"}; `task` or `id` serve as well, and \"Mbpp/2\" or \"mbppplus/2\" name the same task.")]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Data set of the samples' tasks: a name, or a .jsonl file of one's own
    #[arg(long, value_name = "NAME")]
    dataset: String,
    /// File of samples, one JSON object a line
    #[arg(long, value_name = "FILE")]
    samples: PathBuf,
    /// The k of Pass@k
    #[arg(long, value_delimiter = ',', default_value = "1")]
    k: Vec<usize>,
    /// Run all tests of each program, so that `passed` counts beyond the first that fails
    #[arg(long)]
    all_tests: bool,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
    /// Write the judgements, one JSON object a line, in the samples' order
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Fails where `out` is one of the files that are read, which it would replace.
fn check_apart(out: &Path, read: &[(&str, &Path)]) -> Result<(), Usage> {
    let Ok(place) = out.canonicalize() else {
        return Ok(());
    };
    match read
        .iter()
        .find(|(_, path)| path.canonicalize().is_ok_and(|other| other == place))
    {
        Some((flag, _)) => Err(Usage(format!(
            "--out {} is the file of {flag}, which it would replace; name another file",
            out.display()
        ))),
        None => Ok(()),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.k.contains(&0) {
        return Err(Usage("--k: Pass@0 means nothing; give numbers from 1".to_owned()).into());
    }
    if let Some(path) = &args.out {
        check_apart(
            path,
            &[
                ("--samples", args.samples.as_path()),
                ("--dataset", Path::new(&args.dataset)),
            ],
        )?;
        check_place(path)?;
    }
    let mut config = args.config.resolve()?;
    let dataset = datasets::open(&args.dataset, config.data_dir.as_deref())?;
    let name = dataset.name.clone();
    let samples = read_samples(&args.samples, &dataset)?;
    config.limits.queue = config.limits.queue.max(samples.len());
    let mut registry = Registry::default();
    registry.add(dataset);
    let (service, open) = setup::with_registry(&config, None, registry, setup::disk(&config))?;
    service.prepare(prepare::apart(&config, open));

    let bar = progress_bar(samples.len());
    let runtime =
        tokio::runtime::Runtime::new().context("the async runtime could not be started")?;
    let extent = if args.all_tests {
        Extent::All
    } else {
        Extent::UntilFailure
    };
    let judgements = runtime.block_on(judge_samples(&service, &samples, extent, || bar.inc(1)));
    bar.finish_and_clear();

    if let Some(path) = &args.out {
        let mut text = String::new();
        for (sample, judgement) in samples.iter().zip(&judgements) {
            let mut line = serde_json::to_value(judgement)?;
            line["task"] = json!(sample.task);
            line["completion"] = json!(sample.completion);
            text.push_str(&line.to_string());
            text.push('\n');
        }
        write_whole(path, &text)?;
    }
    let score = Score::new(&name, &judgements, &args.k);
    if args.json {
        print(&(serde_json::to_string_pretty(&score)? + "\n"))?;
    } else {
        print(&score.table())?;
    }
    // A file of which nothing could be judged was not scored.
    let judged = score.samples == 0 || score.masked < score.samples;
    if !judged {
        let reason = judgements
            .iter()
            .find_map(|judgement| judgement.detail["reason"].as_str())
            .unwrap_or_default();
        anyhow::bail!(
            "none of the {} samples could be judged: {reason}",
            score.samples
        );
    }
    Ok(ExitCode::SUCCESS)
}
