//! `rapid train`: trains by a recipe and a verifier into a run folder, or plans the run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::ArgGroup;
use datasets::Dataset;
use engine::config::ModelConfig;
use engine::{Leader, check_slices};
use trainer::config::{self, Config, MAX_THREADS};
use trainer::data::{self, Prompts, TaskCounts};
use trainer::interrupt::StopSignal;
use trainer::plan::{MemoryBudget, MemoryEstimate, RunPlan, free_space, warnings};
use trainer::policy::UnloadedModel;
use trainer::reward::RewardClient;
use trainer::run::{self, Launch, Progress, RunFolder, RunOutcome, Target, TrainError};
use trainer::stderr::say;

use super::args::{check_data_dir, device, free_folder, positive, up_to};
use super::verifier_process::VerifierProcess;
use super::{count, shell};

/// Train a model by reinforcement learning on a verifier's rewards
///
/// The recipe states the model, the tasks and the algorithm. The run writes everything into its folder: the resolved configuration, metrics,
/// samples, evaluations, checkpoints. --resume continues a run that was interrupted or killed, to the bit; it also continues a finished run
/// that --set makes longer, if it was made with run.keep_state=true.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("start").required(true).args(["recipe", "resume"]))]
#[command(after_help = format!("\
Examples:
  rapid-verifier serve --listen 127.0.0.1:8700 &
  rapid train --recipe quickstart --verifier http://127.0.0.1:8700
  rapid train --recipe my.toml --set optimiser.lr=5e-6 --set run.updates=100 --out runs/mine
  rapid train --recipe paper/qwen2.5-0.5b-mbppplus-rapid-h4 --dry-run > my.toml
  rapid train --recipe my.toml --set run.slices=8 --dry-run --ranks 8
  rapid train --recipe quickstart --set data.dataset=mine.jsonl --print-config
  rapid train --resume runs/mine
  rapid train --resume runs/mine --set run.updates=200
  srun rapid train --recipe my.toml --set run.slices=8 --out runs/mine --or-resume

Built-in recipes: quickstart, smollm2-gsm8k, smollm2-mbppplus and smollm2-sft; and for the rows of the paper's tables \
paper/qwen2.5-0.5b-DATASET-ALGORITHM, DATASET one of mbppplus, math, minif2f and ALGORITHM one of sft, grpo, pg, dapo, rapid-h2, \
rapid-h4, rapid-h8, rapid-h16, and paper/MODEL-mbppplus-ALGORITHM, MODEL one of qwen2.5-1.5b, llama3.2-1b, gemma3-1b and ALGORITHM \
one of sft, grpo, pg, dapo, rapid-h4; authors/… in place of paper/… is the same row as the authors' public code ran it.

The recipe quickstart explains every key (trainer/recipes/quickstart.toml, in the repository). The keys are
{}

RAPID_VERIFIER is the verifier's address if neither --verifier nor the recipe has one, RAPID_VERIFIER_TOKEN its token.", config::KEYS.list()))]
pub(crate) struct Args {
    /// A TOML file, or the name of a built-in recipe
    #[arg(long, value_name = "NAME|FILE")]
    recipe: Option<String>,
    /// Set a key of the recipe; may be repeated
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    sets: Vec<String>,
    /// Address of the verifier that judges completions
    #[arg(long, value_name = "URL")]
    verifier: Option<String>,
    /// Continue the run in this folder
    #[arg(long, value_name = "RUN", conflicts_with = "out")]
    resume: Option<PathBuf>,
    /// Folder of data sets: DIR/mbppplus/train.jsonl, …
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Folder of the new run [default: runs/RECIPE, with a number if that exists]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Continue the run in the folder of --out if there is one: the same command starts a job and restarts it
    #[arg(long, requires = "out", conflicts_with = "resume")]
    or_resume: bool,
    /// auto, cpu, cuda or cuda:N
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    device: Option<config::Device>,
    /// Threads of the CPU backend
    #[arg(long, value_name = "N", value_parser = up_to(MAX_THREADS))]
    threads: Option<usize>,
    /// Number type of matrix products: auto, f32 or bf16
    #[arg(long, value_name = "TYPE")]
    dtype: Option<String>,
    /// Print the resolved recipe, with the plan of the run in comments, and do nothing else; --recipe accepts the output
    #[arg(long)]
    dry_run: bool,
    /// Print the resolved recipe, and do nothing else: no file of the model or the tasks is read
    #[arg(long, conflicts_with = "dry_run")]
    print_config: bool,
    /// With --dry-run, plan the run for this many ranks of mpirun or srun
    #[arg(long, value_name = "N", requires = "dry_run", default_value_t = 1, value_parser = positive)]
    ranks: usize,
    /// Stop at the next safe point when stdin ends, as at Ctrl-C: for a process that starts this one
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.print_config {
        super::check_alone()?;
        return super::print(&args.config()?.to_toml());
    }
    if args.dry_run {
        super::check_alone()?;
        check_data_dir(args.data_dir.as_deref())?;
        let (config, data_dir) = (args.config()?, args.data_dir()?);
        return plan(&config, &args.target(), data_dir.as_deref(), args.ranks);
    }
    super::on_ranks(args.threads, |ranks| {
        check_data_dir(args.data_dir.as_deref())?;
        let (config, target) = (args.config()?, args.target());
        if let (Some(run), true) = (args.existing(), args.or_resume) {
            say(&format!(
                "continuing the run in {}; its settings are those of its config.toml, not the recipe's",
                run.display()
            ));
        }
        let (data_dir, ranks) = (args.data_dir()?, ranks.cloned());
        let until_stdin_ends = args.until_stdin_ends;
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(train(config, data_dir, target, until_stdin_ends, ranks))
    })
}

async fn train(
    config: Config,
    data_dir: Option<PathBuf>,
    target: Target,
    until_stdin_ends: bool,
    ranks: Option<Leader>,
) -> anyhow::Result<()> {
    let folder = target.folder().to_owned();
    let stop = StopSignal::on_ctrl_c();
    if until_stdin_ends {
        stop.when_stdin_ends();
    }
    if let Some(folder) = target.new_folder() {
        RunFolder::check_free(folder)?;
    }
    let verifier = match config.verifier.url {
        Some(_) => None,
        None => {
            // What a run would refuse is refused before anything is fetched, started or written.
            run::locate_model(&config.model)?;
            let sets = data::open(&config, data_dir.as_deref())?;
            let kinds = kinds(sets.iter().map(|set| &set.tasks));
            let (data_dir, run) = (data_dir.as_deref(), Some(&*folder));
            let own = VerifierProcess::of_command(&config.verifier, &kinds, data_dir, run);
            Some(own.await?)
        }
    };
    let launch = Launch {
        config,
        data_dir,
        target,
        verifier: verifier.as_ref().map(|own| own.url().to_owned()),
        stop,
        progress: Progress::on_stderr(),
        ranks,
    };
    let result = run::launch(launch).await;
    if verifier.is_some() && !folder.join("config.toml").exists() {
        let log = folder.join("verifier.log");
        if let Err(TrainError::Reward(_)) = &result {
            say(&format!("the verifier's log is {}", log.display()));
        } else {
            // A run that is refused for another reason leaves nothing.
            let _ = std::fs::remove_file(log).and_then(|()| std::fs::remove_dir(&folder));
        }
    }
    drop(verifier);
    let (program, typed) = (shell::program(), shell::path(&folder));
    let resume = format!("{program} train --resume {typed}");
    match result {
        Ok(summary) if summary.ended == RunOutcome::Finished => {
            super::print(&format!("{}\n", folder.display()))?;
            say(&format!(
                "finished after {}, {}; `{program} report {typed}` makes its report",
                count(summary.step, "update"),
                summary.time()
            ));
            Ok(())
        }
        Ok(summary) => {
            let (made, all) = (summary.step, summary.updates);
            say(&format!(
                "stopped after {made} of {all} updates; continue with: {resume}"
            ));
            Err(super::Interrupted.into())
        }
        Err(error) if folder.join("config.toml").is_file() && error.can_resume() => {
            // Whoever started a run that ends with its input, as `rapid sweep` does, continues it too.
            let hint = match until_stdin_ends {
                true => String::new(),
                false => format!("; continue it with `{resume}`"),
            };
            Err(anyhow::Error::new(error).context(format!(
                "the run in {} has ended early{hint}",
                folder.display()
            )))
        }
        Err(error) => Err(error.into()),
    }
}

/// The kinds of the tasks of data sets.
pub(super) fn kinds<'a>(sets: impl IntoIterator<Item = &'a Dataset>) -> BTreeSet<String> {
    let sets = sets.into_iter();
    let all = sets.flat_map(|set| set.train.iter().chain(&set.eval));
    all.map(|task| task.spec.kind().to_owned()).collect()
}

fn plan(
    config: &Config,
    target: &Target,
    data_dir: Option<&Path>,
    ranks: usize,
) -> anyhow::Result<()> {
    // The plan refuses whatever the run would refuse, except that the run also needs a verifier.
    check_slices(config.run.slices, ranks)?;
    if let Some(folder) = target.new_folder() {
        RunFolder::check_free(folder)?;
    }
    if config.verifier.url.is_some() {
        RewardClient::new(&config.verifier)?;
    }
    let inputs = PlanInputs::read(config, data_dir)?;
    if let Some((_, prompts)) = &inputs.model {
        run::check_epoch(config, prompts)?;
    }
    let plan = inputs.plan(config, ranks)?;
    let device = config.engine_options().device;
    if let Err(error) = device.available() {
        tracing::warn!("planned for this machine's memory, not the GPU's: {error}");
    }
    let memory = MemoryBudget::of(device);
    let disk = target.new_folder().and_then(free_space);
    let misfits = plan
        .model
        .map_or(Ok(Vec::new()), |model| model.check(config, memory, disk));
    for misfit in misfits.iter().flatten() {
        say(&format!("warning: {misfit}"));
    }
    let counts = inputs.model.as_ref().map(|(_, prompts)| &prompts.counts);
    for warning in warnings(config, counts.unwrap_or(&inputs.tasks)) {
        say(&format!("warning: {warning}"));
    }
    super::print(&planned(config, &plan.text(config, memory, disk)))?;
    misfits?;
    Ok(())
}

/// What the files of a run say about its plan.
pub(super) struct PlanInputs {
    /// Training tasks, or all of a teacher's completions, including the wrong ones.
    records: usize,
    tasks: TaskCounts,
    /// The graders that its tasks need: `math`, `code`, `lean`, or the operator's own.
    pub(super) graders: BTreeSet<String>,
    /// The model's sizes, and the prompts; `None` if the model is not on this machine.
    model: Option<(ModelConfig, Prompts)>,
}

impl PlanInputs {
    /// Reads the data sets and the model's files, except its weights.
    pub(super) fn read(config: &Config, data_dir: Option<&Path>) -> anyhow::Result<Self> {
        let sets = data::open(config, data_dir)?;
        let tasks: Vec<&Dataset> = sets.iter().map(|set| &set.tasks).collect();
        let records = match &config.data.teacher {
            Some(path) => run::count_teacher_lines(config, path)?,
            None => tasks.iter().map(|set| set.train.len()).sum(),
        };
        let graders = kinds(tasks.iter().copied());
        let tasks = TaskCounts::of_datasets(&tasks);
        let model = match run::locate_model(&config.model) {
            Err(TrainError::NoModel(_)) => None,
            Err(error) => return Err(error.into()),
            Ok(path) => {
                let model = UnloadedModel::open(&path)?;
                let prompts = Prompts::new(config, sets, &model)?;
                Some((model.config, prompts))
            }
        };
        Ok(Self {
            records,
            tasks,
            graders,
            model,
        })
    }

    /// The plan of a run on `ranks` ranks. Its settings may differ from those read for, but not in what changes a prompt.
    pub(super) fn plan(&self, config: &Config, ranks: usize) -> anyhow::Result<RunPlan> {
        let memory = self.model.as_ref().map(|(model, prompts)| {
            anyhow::Ok(MemoryEstimate::new(config, model, prompts, ranks)?)
        });
        Ok(RunPlan {
            trained_on: self.tasks.trained_on,
            ..RunPlan::new(config, self.records, self.tasks.eval, memory.transpose()?)
        })
    }
}

/// The resolved recipe with the plan in comments, which is itself a valid recipe.
fn planned(config: &Config, plan: &str) -> String {
    let plan = plan.replace('\n', "\n# ");
    format!("{}\n\n# {plan}\n", config.to_toml().trim_end())
}

impl Args {
    /// The recipe, or the configuration of the run to continue, with the other options on top.
    fn config(&self) -> anyhow::Result<Config> {
        let options = [
            ("verifier.url", self.verifier.clone()),
            ("engine.dtype", self.dtype.clone()),
        ];
        let mut sets = self.sets.clone();
        let given = options.into_iter();
        sets.extend(given.filter_map(|(key, value)| Some(format!("{key}={}", value?))));
        let mut config = match (self.existing(), &self.recipe) {
            (Some(run), _) => run::resume_config(run, &sets)?,
            // clap requires one of the two; an empty name is refused with the names that exist.
            (None, recipe) => config::load(recipe.as_deref().unwrap_or_default(), &sets)?,
        };
        config.engine.device = self.device.unwrap_or(config.engine.device);
        config.engine.threads = self.threads.or(config.engine.threads);
        Ok(config)
    }

    /// The folder of data sets: the given one, else that of the run to continue.
    fn data_dir(&self) -> anyhow::Result<Option<PathBuf>> {
        Ok(match (&self.data_dir, self.existing()) {
            (None, Some(run)) => run::data_dir_of(run)?,
            (given, _) => given.clone(),
        })
    }

    /// The folder of the run to continue.
    fn existing(&self) -> Option<&Path> {
        let started = |out: &&PathBuf| self.or_resume && out.join("config.toml").is_file();
        let run = self.resume.as_ref();
        run.or_else(|| self.out.as_ref().filter(started))
            .map(PathBuf::as_path)
    }

    fn target(&self) -> Target {
        match (self.existing(), &self.out) {
            (Some(run), _) => Target::Resume(run.to_owned()),
            (None, Some(out)) => Target::New(out.clone()),
            (None, None) => Target::New(free_folder(self.recipe.as_deref().unwrap_or("run"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_dry_run_is_the_same_recipe() {
        for name in config::built_in() {
            let config = config::load(&name, &["run.updates=1".to_owned()]).unwrap();
            let plan = RunPlan::new(&config, 300, 100, None);
            let printed = planned(&config, &plan.text(&config, None, None));
            assert!(printed.contains(", 300 training tasks"), "{printed}");
            assert_eq!(config::parse("my.toml", &printed, &[]).unwrap(), config);
        }
        let sets = ["math", "code"].map(|it| format!("data.sets.{it}.dataset=starter-{it}"));
        let mixture = config::load("quickstart", &sets).unwrap();
        let plan = RunPlan::new(&mixture, 300, 100, None).text(&mixture, None, None);
        assert!(plan.starts_with("tasks: starter-code + starter-math, 300"));
    }
}
