//! `rapid-verifier score`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;

use datasets::Dataset;
use futures::StreamExt as _;
use verifier::config::Config;
use verifier::grade::code::TestMode;
use verifier::judging::Judge;
use verifier::registry::Registry;
use verifier::score::{
    Audit, Results, ResultsError, Sample, SampleScorer, Score, judge_samples, read_samples,
};
use verifier::setup;
use verifier_api::Judgement;

use super::progress::Progress;
use super::{ConfigArgs, Usage, prepared_judge, print_result, runtime, say};

/// Judge a file of samples; no server is needed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rapid-verifier score --dataset mbppplus --samples samples.jsonl
  rapid-verifier score --dataset starter-math --samples samples.jsonl --k 1,8 --json
  rapid-verifier score --dataset tasks.jsonl --samples samples.jsonl --out judged.jsonl
  rapid-verifier score --dataset humaneval --samples evalplus_results/humaneval/model.jsonl.gz
  zcat samples.jsonl.gz | rapid-verifier score --dataset mbppplus --samples -
  rapid-verifier score --dataset tasks.jsonl --audit

A sample is one line, {\"task_id\": 2, \"completion\": \"…\"}. `task` or `id` work too, and \"Mbpp/2\" or \"mbppplus/2\" name the same task. EvalPlus's files
work unchanged: a `solution` is a whole program, which runs unchanged, while the program is extracted from a `completion`.
With --out, judgements are written in the samples' order. After an interruption, the same command continues where the file ends.
docs/score.md, in the repository, has the details.")]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Data set of the samples' tasks: a name, or your own .jsonl file
    #[arg(long, value_name = "NAME")]
    dataset: String,
    /// File of samples, one JSON object per line, which may be compressed with gzip; `-` for standard input; or EvalPlus's folder of programs
    #[arg(long, value_name = "FILE", required_unless_present = "audit")]
    samples: Option<PathBuf>,
    /// Judge the tasks instead of samples: report tasks with weak tests, which programs pass without solving anything
    #[arg(long, conflicts_with_all = ["samples", "k", "all_tests", "out"])]
    audit: bool,
    /// The k of Pass@k
    #[arg(long, value_delimiter = ',', default_value = "1")]
    k: Vec<usize>,
    /// Run all tests of each program, so that `passed` also counts tests after the first failed one
    #[arg(long)]
    all_tests: bool,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
    /// Write the judgements to this file, one JSON object per line, in the samples' order; samples that it has already are not judged again
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Fails if `out` is one of the files that are `read`.
fn check_out(out: &Path, read: &[(&str, &Path)]) -> Result<(), Usage> {
    let canonical = out.canonicalize().ok();
    let is_out = |path: &Path| canonical.is_some() && path.canonicalize().ok() == canonical;
    match read.iter().find(|(_, path)| is_out(path)) {
        Some((flag, _)) => Err(Usage(format!(
            "--out {} is the file of {flag}, which is only read; name another file",
            out.display()
        ))),
        None => Ok(()),
    }
}

fn judge_of(config: &Config, dataset: Dataset) -> anyhow::Result<Arc<Judge>> {
    let mut registry = Registry::default();
    registry.add(dataset);
    prepared_judge(config, registry, setup::open_disk_stores(config))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(path) = &args.samples else {
        return audit(args);
    };
    if args.k.contains(&0) {
        return Err(Usage("--k: Pass@0 means nothing; give numbers from 1".to_owned()).into());
    }
    if let Some(out) = &args.out {
        check_out(
            out,
            &[("--samples", path), ("--dataset", Path::new(&args.dataset))],
        )?;
    }
    let config = args.config.resolve()?;
    let dataset = datasets::open(&args.dataset, config.data_dir.as_deref())?;
    let name = dataset.name.clone();
    let samples = read_samples(path, &dataset)?;
    note_repeated(&samples);
    // Opened before the sandbox is built, which may take a minute.
    let (results, stored) = match &args.out {
        Some(path) => {
            let (results, stored) = Results::open(path, &samples)?;
            (Some(results), stored)
        }
        None => (None, Vec::new()),
    };
    let on = judge_of(&config, dataset)?;

    let test_mode = if args.all_tests {
        TestMode::All
    } else {
        TestMode::UntilFailure
    };
    let scorer = SampleScorer::new(&on, &samples, test_mode);
    let judgements = judge(&scorer, &name, &samples, results, stored)?;
    let score = Score::new(&name, &judgements, &args.k);
    print_result(args.json, &score, || score.table())?;
    if score.samples > 0 && score.masked == score.samples {
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

/// Runs trivial programs on the data set's tests.
fn audit(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.config.resolve()?;
    let dataset = datasets::open(&args.dataset, config.data_dir.as_deref())?;
    let name = dataset.name.clone();
    let samples = Audit::samples(&dataset);
    if samples.is_empty() {
        anyhow::bail!(Usage(format!(
            "--audit tries tests of functions, and {name} has no functions"
        )));
    }
    let on = judge_of(&config, dataset)?;
    let progress = Progress::new(&name, "programs", 0, samples.len());
    let judging = judge_samples(&on, &samples, TestMode::All, || progress.step());
    let audit = Audit::of(&name, &runtime()?.block_on(judging));
    drop(progress);
    if audit.unavailable.len() == audit.tasks {
        let reason = audit.unavailable.values().next();
        anyhow::bail!(
            "none of the {} tasks could be judged: {}",
            audit.tasks,
            reason.map_or("", String::as_str)
        );
    }
    print_result(args.json, &audit, || audit.table())?;
    Ok(ExitCode::SUCCESS)
}

/// Judges the samples that `results` lacks. Returns all judgements, including the `stored` ones.
fn judge(
    scorer: &SampleScorer<'_>,
    name: &str,
    samples: &[Sample],
    mut results: Option<Results>,
    stored: Vec<Judgement>,
) -> anyhow::Result<Vec<Judgement>> {
    let unjudged = match &results {
        Some(results) => scorer.unjudged(results, &stored)?,
        None => (0..samples.len()).collect(),
    };
    let done = samples.len() - unjudged.len();
    if !stored.is_empty() {
        say(&format!(
            "{done} of {} samples have a verdict in the file of --out already",
            samples.len()
        ));
    }
    let progress = Progress::new(name, "samples", done, samples.len());
    let mut judgements: Vec<Option<Judgement>> = stored.into_iter().map(Some).collect();
    judgements.resize(samples.len(), None);
    {
        let step = || progress.step();
        let mut judging = pin!(scorer.judge(unjudged, &step));
        runtime()?.block_on(async {
            while let Some((index, judgement)) = judging.next().await {
                if let Some(results) = &mut results {
                    results.put(index, &samples[index], &judgement)?;
                }
                judgements[index] = Some(judgement);
            }
            Ok::<(), ResultsError>(())
        })?;
    }
    drop(progress);
    if let Some(results) = results {
        results.finish()?;
    }
    Ok(judgements.into_iter().flatten().collect())
}

/// Notes repeated samples, such as those of a file that was concatenated twice. No figure shows them.
fn note_repeated(samples: &[Sample]) {
    let texts = samples
        .iter()
        .map(|sample| (&sample.task, &sample.completion));
    let (all, distinct) = (samples.len(), HashSet::<_>::from_iter(texts).len());
    if distinct < all {
        let repeated = all - distinct;
        say(&format!(
            "note: {repeated} of the {all} samples repeat an earlier one of the same task word for word; each counts"
        ));
    }
}
