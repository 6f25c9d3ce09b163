//! `rapid-verifier prepare`. The compiler leaves 1.6 GB of freed memory behind, and a service would occupy it for as long as it runs. So every command that judges runs
//! this in a subprocess if the sandbox is not built yet.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use verifier::judging::{DiskStores, Judge};
use verifier::registry::Registry;
use verifier::run_canonical_solutions::{self, Outcome, TaskToRun};
use verifier::setup;
use verifier_api::GraderState;

use super::progress::Progress;
use super::{ConfigArgs, Usage, prepared_judge, print, runtime, say};

/// Do ahead of time what the first use would wait for: compile the WebAssembly sandbox, which takes a minute or two, or run the canonical solutions of data sets
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rapid-verifier prepare
  rapid-verifier prepare --dataset mbppplus --data-dir data
  rapid-verifier prepare --dataset tasks.jsonl --cache-dir /var/cache/rapid --sandbox-dir python-wasi

With --dataset, each task's canonical solution runs once, with all workers, and the values that it returns are stored in the cache folder for serve and score. That
takes three minutes of processor time for mbppplus, more than half of it for one task. After an interruption, or beside another process, no solution runs twice.")]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Data sets with canonical solutions to run, separated by commas: names, or your own .jsonl files
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    dataset: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.config.resolve()?;
    if args.dataset.is_empty() {
        setup::wasm_folders(&config).build(&|line| {
            // A closed pipe does not stop the work, which later runs use too.
            let _ = writeln!(std::io::stdout(), "{line}");
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    if !config.cache.disk {
        let reason =
            "the results would not be stored: leave out --no-disk-cache and cache.disk = false";
        anyhow::bail!(Usage(reason.to_owned()));
    }
    let mut lists = Vec::new();
    for name in &args.dataset {
        let dataset = datasets::open(name, config.data_dir.as_deref())?;
        let name = dataset.name.clone();
        let tasks = run_canonical_solutions::tasks_with_canonical_solution(dataset);
        if tasks.is_empty() {
            say(&format!(
                "{name}: no task has expected values to compute; there is nothing to prepare"
            ));
        } else {
            lists.push((name, tasks));
        }
    }
    if lists.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let expected_values = setup::open_expected_values(&config);
    anyhow::ensure!(
        expected_values.is_some(),
        "the results could not be stored; name a writable folder with --cache-dir"
    );
    let stores = DiskStores {
        verdicts: None,
        expected_values,
    };
    let judge = prepared_judge(&config, Registry::default(), stores)?;
    let state = judge.graders.info();
    if let Some(code) = state.iter().find(|grader| grader.name == "code")
        && code.state != GraderState::Ready
    {
        let reason = code.reason.as_deref().unwrap_or_default();
        anyhow::bail!("no solution can be run: {reason}");
    }
    for (name, tasks) in lists {
        run_solutions(&judge, &name, &tasks)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the canonical solutions of the data set `name`.
fn run_solutions(judge: &Arc<Judge>, name: &str, tasks: &[TaskToRun]) -> anyhow::Result<()> {
    let (started, total) = (Instant::now(), tasks.len());
    let progress = Progress::new(name, "solutions", 0, total);
    let (mut cached, mut computed, mut failed, mut failed_for_now) = (0, 0, 0, 0);
    let running = run_canonical_solutions::run(judge, tasks, |index, outcome| {
        match outcome {
            Outcome::Cached => cached += 1,
            Outcome::Computed => computed += 1,
            Outcome::Failed { reason, retryable } => {
                failed += 1;
                failed_for_now += usize::from(retryable);
                progress.say(&format!("{}: {reason}", tasks[index].id));
            }
        }
        progress.step();
    });
    runtime()?.block_on(running);
    drop(progress);
    let without = match failed {
        0 => String::new(),
        failed => format!(", {failed} without a result"),
    };
    print(&format!(
        "{name}: {computed} of {total} solutions run in {:.1} s, {cached} were known{without}\n",
        started.elapsed().as_secs_f64()
    ))?;
    anyhow::ensure!(
        failed_for_now == 0,
        "{failed_for_now} of the solutions of {name} could not be run this time; run the command again"
    );
    Ok(())
}
