//! `rapid sweep`: makes the runs of a sweep file, each as a process of its own.

mod child;
mod dry_run;
mod sizes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use indicatif::ProgressBar;
use trainer::config;
use trainer::interrupt::StopSignal;
use trainer::reward::RewardClient;
use trainer::run::is_divergence;
use trainer::stderr::say;
use trainer::sweep::{Event, Plan, PlannedRun, RunState, SweepFile, SweepFolder};

use super::args::{check_data_dir, parsed, positive};
use super::progress_bar::progress_bar;
use super::verifier_process::VerifierProcess;
use super::{Interrupted, Usage, count};
use sizes::Sizes;

/// How often a process checks whether other processes have made their runs.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Make the runs of a grid: arms, seeds and settings, in one folder
///
/// Each run is a process of its own, with a verifier beside it unless there is one. The runs of a seed and round are a block, and follow each other. Ctrl-C stops the
/// current run at a safe point; the same command continues, also after a crash. Several processes may work on one folder. A run that fails does not stop the others.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rapid sweep my-sweep.toml --dry-run                        what would run, for how long, with how much memory and disk space
  rapid sweep my-sweep.toml --out runs/my-sweep              all of it; again, to continue
  rapid sweep my-sweep.toml --out runs/my-sweep --block 2    the second block: all runs of one seed and round
  rapid sweep my-sweep.toml --only pg --only seed=3          of the arm pg, and of seed 3, the runs that are both

A sweep file names a recipe, seeds and arms; docs/sweeps.md describes it:

  recipe = \"quickstart\"
  seeds = [0, 1, 2]
  [[arms]]
  name = \"pg\"
  set = { \"algorithm.preset\" = \"pg\", \"algorithm.h\" = 1 }
  [[arms]]
  name = \"rapid-h4\"
  set = { \"algorithm.preset\" = \"rapid-paper\", \"algorithm.h\" = 4 }

The verifier that is started judges mathematics. For programs and proofs, start one with `rapid-verifier serve` and give --verifier.")]
pub(crate) struct Args {
    /// The sweep file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The sweep's folder [default: runs/FILE, without .toml]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Address of the verifier that judges completions [default: one is started for each run]
    #[arg(long, value_name = "URL")]
    verifier: Option<String>,
    /// Only the runs of this arm or this seed; may be repeated
    #[arg(long, value_name = "ARM|seed=N")]
    only: Vec<String>,
    /// Only the runs of the Nth block, counted from 1
    #[arg(long, value_name = "N", value_parser = positive)]
    block: Option<usize>,
    /// Folder of data sets: DIR/mbppplus/train.jsonl, …
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Print the runs with their estimated time, memory and disk space, and do nothing else
    #[arg(long)]
    dry_run: bool,
    /// Print the dry run as JSON
    #[arg(long, requires = "dry_run")]
    json: bool,
    /// Completions per second, measured elsewhere, for the dry run's times while no run of the sweep has finished
    #[arg(long, value_name = "R", requires = "dry_run", value_parser = above_zero)]
    rate: Option<f64>,
}

fn above_zero(text: &str) -> Result<f64, String> {
    let fits = |number: &f64| *number > 0.0 && number.is_finite();
    parsed(text, fits, "a number above 0")
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    check_data_dir(args.data_dir.as_deref())?;
    let file = SweepFile::read(&args.file)?;
    let root = args.out.clone().unwrap_or_else(|| {
        let stem = args.file.file_stem().unwrap_or_default();
        Path::new("runs").join(stem)
    });
    if args.dry_run {
        return dry_run::print(args, &root, &file);
    }
    super::block_on(sweep(args, &root, file))
}

/// The chosen runs of a plan, in order.
fn chosen<'a>(args: &Args, plan: &'a Plan) -> Result<Vec<&'a PlannedRun>, Usage> {
    let blocks = match args.block {
        None => &plan.blocks[..],
        Some(number) => plan.blocks.get(number - 1..number).ok_or_else(|| {
            let blocks = count(plan.blocks.len(), "block");
            Usage(format!(
                "--block {number}: the sweep has {blocks}, counted from 1"
            ))
        })?,
    };
    let seed = |run: &PlannedRun| format!("seed={}", run.seed);
    let known = plan.runs().flat_map(|run| [run.arm.clone(), seed(run)]);
    let known: BTreeSet<String> = known.collect();
    if let Some(only) = args.only.iter().find(|only| !known.contains(*only)) {
        let known = Vec::from_iter(known).join(", ");
        return Err(Usage(format!(
            "--only {only}: the sweep has no such arm or seed; it has {known}"
        )));
    }
    // An arm's name has no `=`.
    let (seeds, arms): (Vec<&String>, Vec<&String>) =
        args.only.iter().partition(|only| only.contains('='));
    let runs = blocks.iter().flatten();
    let runs = runs.filter(|run| arms.is_empty() || arms.contains(&&run.arm));
    let runs = runs.filter(|run| seeds.is_empty() || seeds.contains(&&seed(run)));
    let runs: Vec<&PlannedRun> = runs.collect();
    if runs.is_empty() {
        return Err(Usage("--block and --only have no run in common".to_owned()));
    }
    Ok(runs)
}

/// A run's verifier. It has an address if the command line, the recipe or the environment names one.
fn verifier(args: &Args, run: &PlannedRun) -> config::Verifier {
    let mut settings = run.config.verifier.clone();
    settings.url = args.verifier.clone().or(settings.url);
    config::set_default_verifier(&mut settings);
    settings
}

/// Refuses runs without a fit verifier: theirs does not answer, or the one that is started beside a run does not judge its tasks.
async fn check_verifiers(args: &Args, runs: &[&PlannedRun], sizes: &Sizes) -> anyhow::Result<()> {
    let mut asked = BTreeSet::new();
    for run in runs {
        let settings = verifier(args, run);
        let Some(url) = &settings.url else {
            let mut graders = sizes.of_run(run).graders.iter();
            if let Some(grader) = graders.find(|grader| **grader != "math") {
                bail!(Usage(format!(
                    "the run {} has {grader} tasks, and the verifier that is started beside a run judges only mathematics; start one with `rapid-verifier serve`, and give its address with --verifier",
                    run.name
                )));
            }
            VerifierProcess::program()?;
            continue;
        };
        if asked.insert(url.clone()) {
            RewardClient::new(&settings)?.reach().await?;
        }
    }
    Ok(())
}

/// The state of a sweep while its runs are made.
struct Sweep<'a> {
    args: &'a Args,
    program: PathBuf,
    folder: &'a SweepFolder,
    sizes: Sizes,
    chosen: Vec<&'a PlannedRun>,
    /// How runs ended, here or before, by name; with the reason of a failure.
    ended: BTreeMap<&'a str, (RunState, String)>,
    bar: ProgressBar,
    stop: StopSignal,
}

async fn sweep(args: &Args, root: &Path, file: SweepFile) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("the program's own file is not known")?;
    // Whatever can be refused is refused before the folder is made, which would refuse the corrected sweep as another one.
    let planned = SweepFolder::check(root, &file)?;
    let sizes = Sizes::of(&planned.plan, args.data_dir.as_deref())?;
    let manifest = planned.manifest()?;
    let mut left = chosen(args, &planned.plan)?;
    left.retain(|run| !planned.state(run, &manifest).has_ended());
    check_verifiers(args, &left, &sizes).await?;
    let folder = SweepFolder::create(root, file)?;
    for sentence in folder.plan.unmatched() {
        say(&format!("warning: {sentence}"));
    }
    let chosen = chosen(args, &folder.plan)?;
    let mut sweep = Sweep {
        args,
        program,
        folder: &folder,
        sizes,
        bar: progress_bar(chosen.len() as u64, "sweep"),
        chosen,
        ended: BTreeMap::new(),
        stop: StopSignal::on_ctrl_c(),
    };
    sweep.make_all().await?;
    sweep.bar.finish_and_clear();
    sweep.report()
}

impl<'a> Sweep<'a> {
    /// Makes all runs, until a stop is requested.
    async fn make_all(&mut self) -> anyhow::Result<()> {
        while !self.stop.requested() && self.ended.len() < self.chosen.len() {
            match self.claim()? {
                Some((run, log)) => self.make(run, log).await?,
                // Other processes make what is left.
                None => tokio::select! {
                    () = tokio::time::sleep(POLL_INTERVAL) => {}
                    () = self.stop.wait() => {}
                },
            }
        }
        Ok(())
    }

    /// Claims the next run that is free, and notes those before it that have ended.
    fn claim(&mut self) -> anyhow::Result<Option<(&'a PlannedRun, File)>> {
        for run in self.chosen.clone() {
            if self.ended.contains_key(run.name.as_str()) {
                continue;
            }
            match self.folder.claim(run)? {
                None => {}
                Some((_, state)) if state.has_ended() => self.end(run, state, String::new())?,
                Some((log, _)) => return Ok(Some((run, log))),
            }
        }
        Ok(None)
    }

    /// A run has ended. If it is finished, a process that was killed may not have removed its checkpoints.
    fn end(&mut self, run: &'a PlannedRun, state: RunState, reason: String) -> anyhow::Result<()> {
        if state == RunState::Finished {
            self.folder.tidy(&run.name)?;
        }
        self.ended.insert(&run.name, (state, reason));
        self.bar.set_position(self.ended.len() as u64);
        Ok(())
    }

    async fn make(&mut self, run: &'a PlannedRun, log: File) -> anyhow::Result<()> {
        let updates = self.sizes.of_run(run).plan.updates;
        if self.bar.is_hidden() {
            let (number, of) = (self.ended.len() + 1, self.chosen.len());
            say(&format!("run {number} of {of}: {}", run.name));
        }
        let show = |done: usize| {
            let text = format!("{} {done}/{updates} updates", run.name);
            self.bar.set_message(text);
        };
        let (event, reason) = child::make(self, run, log, show).await?;
        let state = match event {
            Event::Finish => RunState::Finished,
            Event::Fail if is_divergence(&reason) => RunState::Diverged,
            Event::Fail => RunState::Failed,
            // It was stopped.
            _ => return Ok(()),
        };
        if event == Event::Fail {
            let said = format!("{} {}: {reason}", run.name, state.name());
            self.bar.suspend(|| say(&said));
        }
        self.end(run, state, reason)
    }

    /// The last lines, and the command's result.
    fn report(&self) -> anyhow::Result<()> {
        let root = self.folder.root.display();
        let runs = count(self.chosen.len(), "run");
        if self.ended.len() < self.chosen.len() {
            let ended = self.ended.len();
            say(&format!(
                "stopped after {ended} of {runs}; the same command continues"
            ));
            return Err(Interrupted.into());
        }
        super::print(&format!("{root}\n"))?;
        let (mut diverged, mut failed) = (Vec::new(), Vec::new());
        for (name, (state, reason)) in &self.ended {
            match state {
                RunState::Diverged => diverged.push(*name),
                RunState::Failed => failed.push(format!("{name} ({reason})")),
                _ => {}
            }
        }
        if !diverged.is_empty() {
            say(&format!(
                "{} diverged, and would again; the report counts {} as it ended: {}",
                count(diverged.len(), "run"),
                ["it", "each"][usize::from(diverged.len() > 1)],
                diverged.join(", ")
            ));
        }
        if failed.is_empty() {
            let finished = count(self.ended.len() - diverged.len(), "run");
            say(&format!("finished: {finished}"));
            return Ok(());
        }
        bail!(
            "{} of {runs} failed: {}; their logs are in {root}/runs, and the same command tries them again",
            failed.len(),
            failed.join(", ")
        )
    }
}
