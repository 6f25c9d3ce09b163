//! `rapid quickstart`: fetches a small model, starts a verifier, trains, and compares the evaluations before and after.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use datasets::fetch::{self, ArtifactKind};
use trainer::config::{self, Config};
use trainer::interrupt::StopSignal;
use trainer::report::{self, Comparison, RunData};
use trainer::run::{self, Launch, Progress, RunFolder, RunOutcome, Target};
use trainer::stderr::say;

use super::args::{device, free_folder, from_zero, positive};
use super::verifier_process::{SANDBOX, VerifierProcess};
use super::{Interrupted, count, shell};

const RECIPE: &str = "quickstart";

/// Fetch a small model, start a verifier, train, evaluate before and after, and report
///
/// Trains SmolLM2-135M-Instruct with the built-in recipe `quickstart` on arithmetic and word problems. Rewards come from a verifier that runs beside it for as long
/// as this takes: some minutes on two cores. Ctrl-C ends it cleanly; --resume continues from there.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rapid quickstart
  rapid quickstart --seed 2 --device cpu --out runs/second
  rapid quickstart --resume runs/second            continue a run that was stopped")]
pub(crate) struct Args {
    /// Seed of the order of the tasks and of every sample
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = from_zero::<u64>)]
    seed: u64,
    /// The run folder [default: runs/quickstart, or runs/quickstart-2 … if that exists]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Optimiser updates [default: the recipe's]
    #[arg(long, value_name = "N", value_parser = positive)]
    updates: Option<usize>,
    /// Where to compute: auto, cpu, cuda or cuda:N [default: auto, a GPU if one works]
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    device: Option<config::Device>,
    /// Threads of the CPU backend [default: one per processor]
    #[arg(long, value_name = "N", value_parser = positive)]
    threads: Option<usize>,
    /// Continue a run that was stopped
    #[arg(long, value_name = "RUN", conflicts_with_all = ["out", "updates", "seed"])]
    resume: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    super::block_on(quickstart(args))
}

async fn quickstart(args: &Args) -> anyhow::Result<()> {
    let stop = StopSignal::on_ctrl_c();
    // Errors of the command line are reported before anything is fetched.
    VerifierProcess::program()?;
    let config = resolve(args)?;
    if let Some(config::Device(device)) = args.device {
        device.available()?;
    }
    let target = match &args.resume {
        Some(run) => Target::Resume(run.clone()),
        None => Target::New(args.out.clone().unwrap_or_else(|| free_folder(RECIPE))),
    };
    let folder = target.folder().to_owned();
    if let Target::New(folder) = &target {
        RunFolder::check_free(folder)?;
    }
    let stopped = tokio::select! {
        fetched = fetch_all(&config) => { fetched?; false }
        () = stop.wait() => true,
    };
    if stopped {
        say("stopped before training began; downloaded files are kept");
        return Err(Interrupted.into());
    }
    let (settings, run) = (&config.verifier, Some(&*folder));
    let verifier = VerifierProcess::of_command(settings, &BTreeSet::new(), None, run).await?;

    let launched = run::launch(Launch {
        config,
        data_dir: None,
        target,
        verifier: Some(verifier.url().to_owned()),
        stop,
        progress: Progress::on_stderr(),
        ranks: None,
    })
    .await;
    drop(verifier);
    let summary =
        launched.with_context(|| format!("the run in {} did not finish", folder.display()))?;
    let outcome = tokio::task::block_in_place(|| report(&summary.folder))?;
    match summary.ended {
        RunOutcome::Finished => super::print(&outcome),
        RunOutcome::Interrupted => {
            let (program, folder) = (shell::program(), shell::path(&folder));
            say(&format!(
                "stopped after {} of {} updates; continue with\n  {program} quickstart --resume {folder}\nor, with a verifier of your own,\n  {program} train --resume {folder} --verifier URL",
                summary.step, summary.updates
            ));
            Err(Interrupted.into())
        }
    }
}

fn resolve(args: &Args) -> anyhow::Result<Config> {
    let mut sets = Vec::new();
    if let Some(threads) = args.threads {
        sets.push(format!("engine.threads={threads}"));
    }
    let mut config = if let Some(run) = &args.resume {
        run::resume_config(run, &sets)?
    } else {
        sets.push(format!("run.seed={}", args.seed));
        sets.extend(args.updates.map(|updates| format!("run.updates={updates}")));
        config::load(RECIPE, &sets)?
    };
    config.engine.device = args.device.unwrap_or(config.engine.device);
    Ok(config)
}

async fn fetch_all(config: &Config) -> anyhow::Result<()> {
    if let Some(model) = &config.model.name {
        fetch::fetch(ArtifactKind::Model, model).await?;
    }
    fetch::fetch(ArtifactKind::Sandbox, SANDBOX).await?;
    Ok(())
}

/// Writes the report. Returns the table of the evaluations before and after, the report's path, and commands to try next.
fn report(folder: &Path) -> anyhow::Result<String> {
    let run = RunData::read(folder)?;
    let page = report::write(std::slice::from_ref(&run), folder)?;
    let comparison = Comparison::of(&run).unwrap_or_default();
    let updates = run.steps.last().map_or(0, |step| step.step);
    let config = run.config.unwrap_or_default();
    Ok(format!(
        "\n{}, {} of each, before and after {}:\n\n{}\nThe report is {}\n\nNext:\n\
         \x20 what it answers now:\n\
         \x20   {program} generate --model {last} --dataset {dataset} --split eval --limit 5 --out completions.jsonl\n\
         \x20 another run, to see how much is luck:\n\
         \x20   {program} quickstart --seed {next_seed}\n\
         \x20 your own model, tasks and recipe:\n\
         \x20   {program} train --help\n",
        count(comparison.tasks, "held-out task"),
        count(comparison.samples, "sample"),
        count(updates, "update"),
        comparison.text(),
        run::absolute(&page).display(),
        program = shell::program(),
        last = shell::path(&folder.join("checkpoints").join("last")),
        dataset = config.data.dataset,
        next_seed = config.run.seed.wrapping_add(1)
    ))
}
