//! `rapid quickstart`: fetches a small model, starts a verifier, trains, and compares the evaluations before and after.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use datasets::fetch::{self, ArtifactKind};
use trainer::config::{self, Config};
use trainer::interrupt::StopSignal;
use trainer::report::{self, Comparison, RunData};
use trainer::run::{self, Launch, Progress, RunFolder, RunOutcome, Target};
use trainer::stderr::say;

use super::args::{device, free_folder, from_zero, positive};
use super::verifier_process::VerifierProcess;
use super::{Interrupted, count, shell};

const RECIPE: &str = "quickstart";
const SANDBOX: &str = "python-wasi";

/// Fetch a small model, start a verifier, train, evaluate before and after, and report
///
/// Trains SmolLM2-135M-Instruct with the built-in recipe `quickstart` on arithmetic and word problems, with rewards from a verifier that runs
/// beside it for as long as this takes: some minutes on two cores. Ctrl-C ends it cleanly; --resume continues from there.
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
    device: Option<String>,
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
    let program = VerifierProcess::program()?;
    let mut config = resolve(args)?;
    if args.device.is_some() {
        config.engine_options()?.device.available()?;
    }
    let target = match &args.resume {
        Some(run) => Target::Resume(run.clone()),
        None => Target::New(args.out.clone().unwrap_or_else(|| free_folder(RECIPE))),
    };
    let folder = match &target {
        Target::New(folder) | Target::Resume(folder) => folder.clone(),
    };
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
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("{} cannot be created", folder.display()))?;
    let log = folder.join("verifier.log");
    let verifier = VerifierProcess::start(&program, &log, &config.verifier).await?;
    say(&format!("the verifier listens on {}", verifier.url()));
    config.verifier.url = Some(verifier.url().to_owned());

    let progress = Progress::on_stderr();
    let launched = run::launch(Launch {
        config,
        data_dir: None,
        target,
        stop,
        progress,
        ranks: None,
    })
    .await;
    drop(verifier);
    let summary =
        launched.with_context(|| format!("the run in {} did not finish", folder.display()))?;
    let page = tokio::task::block_in_place(|| write_report(&summary.folder))?;
    match summary.ended {
        RunOutcome::Finished => super::print(&outcome(&summary.folder, &page)?),
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
    if let Some(device) = &args.device {
        sets.push(format!("engine.device={device}"));
    }
    if let Some(threads) = args.threads {
        sets.push(format!("engine.threads={threads}"));
    }
    if let Some(run) = &args.resume {
        return Ok(run::resume_config(run, &sets)?);
    }
    sets.push(format!("run.seed={}", args.seed));
    if let Some(updates) = args.updates {
        sets.push(format!("run.updates={updates}"));
    }
    Ok(config::load(RECIPE, &sets)?)
}

async fn fetch_all(config: &Config) -> anyhow::Result<()> {
    let model = config
        .model
        .name
        .iter()
        .map(|name| (ArtifactKind::Model, name.as_str()));
    for (kind, name) in model.chain([(ArtifactKind::Sandbox, SANDBOX)]) {
        fetch::fetch(kind, name).await?;
    }
    Ok(())
}

fn write_report(folder: &Path) -> anyhow::Result<PathBuf> {
    let run = RunData::read(folder)?;
    Ok(report::write(&[run], folder)?)
}

/// The table of the evaluations before and after, the path of the report, and commands to try next.
fn outcome(folder: &Path, page: &Path) -> anyhow::Result<String> {
    let run = RunData::read(folder)?;
    let comparison = Comparison::of(&run).unwrap_or_default();
    let updates = run.steps.last().map_or(0, |step| step.step);
    let seed = run.config.map_or(0, |config| config.run.seed);
    let run = (folder, page, updates, seed);
    Ok(outcome_text(&comparison, run, &shell::program()))
}

fn outcome_text(
    comparison: &Comparison,
    (folder, page, updates, seed): (&Path, &Path, usize, u64),
    program: &str,
) -> String {
    format!(
        "\n{}, {} of each, before and after {}:\n\n{}\nThe report is {}\n\nNext:\n\
         \x20 what it answers now:\n\
         \x20   {program} generate --model {last} --dataset starter-math --split eval --limit 5 --out completions.jsonl\n\
         \x20 another run, to see how much is luck:\n\
         \x20   {program} quickstart --seed {next_seed}\n\
         \x20 your own model, tasks and recipe:\n\
         \x20   {program} train --help\n",
        count(comparison.tasks, "held-out task"),
        count(comparison.samples, "sample"),
        count(updates, "update"),
        comparison.text(),
        run::absolute(page).display(),
        last = shell::path(&folder.join("checkpoints").join("last")),
        next_seed = seed.wrapping_add(1)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_shows_a_small_table_the_report_and_the_next_commands() {
        let comparison = Comparison {
            tasks: 48,
            samples: 8,
            ..Comparison::default()
        };
        let folder = Path::new("/home/it/my rapid/runs/quickstart");
        let run = (folder, &*folder.join("report.html"), 10, 0);
        let text = outcome_text(&comparison, run, "'/home/it/my rapid/rapid'");
        let dataset = config::load(RECIPE, &[]).unwrap().data.dataset;
        for part in [
            "\n48 held-out tasks, 8 samples of each, before and after 10 updates:\n\n",
            "\nThe report is /home/it/my rapid/runs/quickstart/report.html\n",
            " generate --model '/home/it/my rapid/runs/quickstart/checkpoints/last'",
            &format!(" --dataset {dataset} "),
            "    '/home/it/my rapid/rapid' quickstart --seed 1\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn the_commands_options_override_the_recipe() {
        let args = Args {
            seed: 5,
            out: None,
            updates: Some(3),
            device: Some("cpu".to_owned()),
            threads: Some(2),
            resume: None,
        };
        let config = resolve(&args).unwrap();
        let found = (config.run.seed, config.run.updates, config.engine.threads);
        assert_eq!(found, (5, Some(3), Some(2)));
        assert_eq!(config.engine.device, "cpu");
    }
}
