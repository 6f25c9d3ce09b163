//! `rapid sweep`: makes the runs of a sweep file, each as a process of its own.

mod child;
mod dry_run;
mod sizes;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use indicatif::ProgressBar;
use trainer::config;
use trainer::interrupt::StopSignal;
use trainer::reward::RewardClient;
use trainer::stderr::say;
use trainer::sweep::manifest::Machine;
use trainer::sweep::schedule::{Claim, claim};
use trainer::sweep::{Plan, PlannedRun, RunState, SweepFile, SweepFolder, estimate};

use super::args::{check_data_dir, positive};
use super::bar::bar;
use super::verifier_process::VerifierProcess;
use super::{Interrupted, Usage, count};
use child::{Child, Ended};
use sizes::Sizes;

/// How often a process looks whether runs that other processes make are done.
const LOOK: Duration = Duration::from_secs(1);

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
    match text.parse() {
        Ok(number) if number > 0.0 && f64::is_finite(number) => Ok(number),
        _ => Err("give a number above 0".to_owned()),
    }
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
fn chosen<'a>(args: &Args, plan: &'a Plan) -> anyhow::Result<Vec<&'a PlannedRun>> {
    let blocks = match args.block {
        None => &plan.blocks[..],
        Some(number) => {
            let block = number
                .checked_sub(1)
                .and_then(|index| plan.blocks.get(index..=index));
            block.ok_or_else(|| {
                Usage(format!(
                    "--block {number}: the sweep has {}, counted from 1",
                    count(plan.blocks.len(), "block")
                ))
            })?
        }
    };
    let arms: BTreeSet<&str> = plan.runs().map(|run| run.arm.as_str()).collect();
    let (mut only_arms, mut only_seeds) = (BTreeSet::new(), BTreeSet::new());
    for only in &args.only {
        match only.strip_prefix("seed=") {
            Some(seed)
                if plan
                    .blocks
                    .iter()
                    .any(|block| block.seed.to_string() == seed) =>
            {
                only_seeds.insert(seed.to_owned());
            }
            None if arms.contains(only.as_str()) => {
                only_arms.insert(only.as_str());
            }
            _ => {
                let arms: Vec<&str> = arms.into_iter().collect();
                let seeds: Vec<String> = plan
                    .blocks
                    .iter()
                    .map(|block| format!("seed={}", block.seed))
                    .collect();
                return Err(Usage(format!(
                    "--only {only}: the sweep has no such arm or seed; it has {} and {}",
                    arms.join(", "),
                    seeds.join(", ")
                ))
                .into());
            }
        }
    }
    let runs: Vec<&PlannedRun> = blocks
        .iter()
        .flat_map(|block| &block.runs)
        .filter(|run| only_arms.is_empty() || only_arms.contains(run.arm.as_str()))
        .filter(|run| only_seeds.is_empty() || only_seeds.contains(&run.seed.to_string()))
        .collect();
    if runs.is_empty() {
        return Err(Usage("--block and --only have no run in common".to_owned()).into());
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

/// Refuses runs that would each fail for want of a verifier: those of a verifier that does not answer, and those whose tasks the verifier that is started beside a run
/// does not judge.
async fn check_verifiers(args: &Args, runs: &[&PlannedRun], sizes: &Sizes) -> anyhow::Result<()> {
    let mut asked = BTreeSet::new();
    for run in runs {
        let settings = verifier(args, run);
        let Some(url) = &settings.url else {
            check_mathematics(&run.name, sizes.graders(run))?;
            VerifierProcess::program()?;
            continue;
        };
        if asked.insert(url.clone()) {
            RewardClient::new(&settings)?.reach().await?;
        }
    }
    Ok(())
}

/// Refuses a run whose tasks need another grader than the one for mathematics.
fn check_mathematics(run: &str, graders: &BTreeSet<&'static str>) -> Result<(), Usage> {
    match graders.iter().find(|grader| **grader != "math") {
        None => Ok(()),
        Some(grader) => Err(Usage(format!(
            "the run {run} has {grader} tasks, and the verifier that is started beside a run judges only mathematics; start one with `rapid-verifier serve`, and give its address with --verifier"
        ))),
    }
}

/// The state of a sweep while its runs are made.
struct Sweep<'a> {
    args: &'a Args,
    folder: &'a SweepFolder,
    sizes: Sizes,
    /// The names of the runs to make.
    chosen: BTreeSet<&'a str>,
    /// The names of runs that ended here, or are finished.
    ended: BTreeSet<&'a str>,
    diverged: Vec<&'a str>,
    failed: Vec<(&'a str, String)>,
    bar: ProgressBar,
}

/// What a process does next.
enum Next<'a> {
    /// It makes this run, whose log it has locked.
    Make(&'a PlannedRun, File, RunState),
    /// Other processes make what is left.
    Wait,
    /// No run is left.
    Done,
}

async fn sweep(args: &Args, root: &Path, file: SweepFile) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("the program's own file is not known")?;
    // Whatever can be refused is refused before the folder is made, which would refuse the corrected sweep as another one.
    let plan = Plan::new(&file)?;
    let runs = chosen(args, &plan)?;
    let planned = SweepFolder::check(root, &file)?;
    let sizes = Sizes::of(&plan, args.data_dir.as_deref())?;
    let manifest = planned.manifest()?;
    let has_ended = |run: &&&PlannedRun| planned.state(run, &manifest).has_ended();
    let left: Vec<&PlannedRun> = runs.iter().filter(|run| !has_ended(run)).copied().collect();
    check_verifiers(args, &left, &sizes).await?;
    let folder = SweepFolder::create(root, file)?;
    let runs = chosen(args, folder.plan())?;
    for sentence in folder.plan().unmatched() {
        say(&format!("warning: {sentence}"));
    }
    let mut sweep = Sweep {
        args,
        folder: &folder,
        sizes,
        chosen: runs.iter().map(|run| run.name.as_str()).collect(),
        ended: BTreeSet::new(),
        diverged: Vec::new(),
        failed: Vec::new(),
        bar: bar(runs.len() as u64, "sweep"),
    };
    let stop = StopSignal::on_ctrl_c();
    let interrupted = sweep.make_all(&runs, &program, &stop).await?;
    sweep.bar.finish_and_clear();
    sweep.report(runs.len(), interrupted)
}

/// The end of a progress message: what is left of the time that was estimated `seconds` ago.
fn about(left: Option<f64>, seconds: f64) -> String {
    left.map_or_else(String::new, |left| {
        format!(
            ", about {} left",
            estimate::hours((left - seconds).max(0.0))
        )
    })
}

impl<'a> Sweep<'a> {
    /// Makes all runs; true if a stop was requested.
    async fn make_all(
        &mut self,
        runs: &[&'a PlannedRun],
        program: &Path,
        stop: &StopSignal,
    ) -> anyhow::Result<bool> {
        while !stop.requested() {
            match self.next(runs)? {
                Next::Make(run, log, state) => self.make(run, log, state, program, stop).await?,
                Next::Wait => tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    () = stop.wait() => {}
                },
                Next::Done => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Claims the next run that is free.
    fn next(&mut self, runs: &[&'a PlannedRun]) -> anyhow::Result<Next<'a>> {
        let mut rest = Next::Done;
        for run in runs {
            if self.ended.contains(run.name.as_str()) {
                continue;
            }
            match claim(self.folder, run)? {
                Claim::Free(log, state) => return Ok(Next::Make(run, log, state)),
                Claim::Taken => rest = Next::Wait,
                Claim::Ended(RunState::Diverged) => self.diverged(&run.name),
                Claim::Ended(_) => self.finished(&run.name)?,
            }
        }
        Ok(rest)
    }

    /// A run is finished. A process that was killed may not have removed its checkpoints.
    fn finished(&mut self, name: &'a str) -> anyhow::Result<()> {
        self.folder.tidy(name)?;
        self.end(name);
        Ok(())
    }

    /// A run has diverged: it counts as it ended.
    fn diverged(&mut self, name: &'a str) {
        self.diverged.push(name);
        self.end(name);
    }

    fn end(&mut self, name: &'a str) {
        self.ended.insert(name);
        self.bar.set_position(self.ended.len() as u64);
    }

    async fn make(
        &mut self,
        run: &'a PlannedRun,
        log: File,
        state: RunState,
        program: &Path,
        stop: &StopSignal,
    ) -> anyhow::Result<()> {
        let left = self.time_left(run)?;
        let updates = self.sizes.of_run(run).updates;
        if self.bar.is_hidden() {
            let (number, of) = (self.ended.len() + 1, self.chosen.len());
            let text = about(left, 0.0);
            say(&format!("run {number} of {of}: {}{text}", run.name));
        }
        let show = |seconds: f64, done: usize| {
            let text = about(left, seconds);
            self.bar
                .set_message(format!("{} {done}/{updates} updates{text}", run.name));
        };
        // The program's file may be another one than for the run before.
        let machine = Machine::here(program)?;
        let verifier = verifier(self.args, run);
        let child = Child {
            folder: self.folder,
            run,
            machine: &machine,
            data_dir: self.args.data_dir.as_deref(),
            verifier: verifier.url.as_deref(),
        };
        let ended = child.make(log, state, program, stop, show);
        match ended.await? {
            Ended::Finished => self.finished(&run.name)?,
            Ended::Stopped => {}
            Ended::Diverged(reason) => {
                self.bar
                    .suspend(|| say(&format!("{} diverged: {reason}", run.name)));
                self.diverged(&run.name);
            }
            Ended::Failed(reason) => {
                self.bar
                    .suspend(|| say(&format!("{} failed: {reason}", run.name)));
                self.end(&run.name);
                self.failed.push((&run.name, reason));
            }
        }
        Ok(())
    }

    /// Seconds that the current run and the rest of the chosen runs take; `None` while that is not known.
    fn time_left(&self, current: &PlannedRun) -> anyhow::Result<Option<f64>> {
        let manifest = self.folder.manifest()?;
        let plan = self.folder.plan();
        let finished = estimate::finished(plan, &manifest);
        let left = plan
            .runs()
            .filter(|run| self.chosen.contains(run.name.as_str()))
            .filter(|run| run.name == current.name || !self.ended.contains(run.name.as_str()))
            .map(|run| {
                let completions = |run: &PlannedRun| self.sizes.completions(run);
                estimate::seconds(run, &finished, completions, None).map(|(seconds, _)| seconds)
            });
        Ok(left.sum())
    }

    /// The last lines, and the command's result.
    fn report(&self, runs: usize, interrupted: bool) -> anyhow::Result<()> {
        let root = self.folder.root().display();
        if interrupted {
            say(&format!(
                "stopped after {} of {}; the same command continues",
                self.ended.len(),
                count(runs, "run")
            ));
            return Err(Interrupted.into());
        }
        super::print(&format!("{root}\n"))?;
        if !self.diverged.is_empty() {
            say(&format!(
                "{} diverged, and would again; the report counts {} as it ended: {}",
                count(self.diverged.len(), "run"),
                if self.diverged.len() == 1 {
                    "it"
                } else {
                    "each"
                },
                self.diverged.join(", ")
            ));
        }
        if self.failed.is_empty() {
            let finished = runs - self.diverged.len();
            say(&format!("finished: {}", count(finished, "run")));
            return Ok(());
        }
        let list: Vec<String> = self
            .failed
            .iter()
            .map(|(name, reason)| format!("{name} ({reason})"))
            .collect();
        anyhow::bail!(
            "{} of {} failed: {}; their logs are in {root}/runs, and the same command tries them again",
            list.len(),
            count(runs, "run"),
            list.join(", ")
        )
    }
}
