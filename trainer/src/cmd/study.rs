//! `rapid study`: measurements of the gradient estimators.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use engine::sample::MIN_TEMPERATURE;
use trainer::config::{self, MAX_SAMPLES, MAX_TOKENS};
use trainer::interrupt::StopSignal;
use trainer::policy::Policy;
use trainer::report::run_data::distinct_names;
use trainer::reward::RewardClient;
use trainer::rollout::{PartialRollout, RolloutProgress, collect};
use trainer::study::{self, Behaviour, Sampled, Study, StudyPlan};

use super::args::{
    DeviceArgs, PromptArgs, from_zero, model_path, open_dataset, open_model, parsed, up_to,
};
use super::checkpoint_defaults::CheckpointDefaults;
use super::eval::Split;
use super::progress_bar::progress_bar;
use super::{Usage, block_on, print, prompts};

/// The toy's numbers of updates by which a behaviour policy is behind, and its completions per group.
const STALENESS: [usize; 6] = [0, 1, 2, 4, 8, 16];
const GROUP_SIZE: usize = 4;

/// Measure the bias and variance of the gradient estimators
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rapid study estimator --out study")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Estimator(Box<EstimatorArgs>),
}

/// Measure what the off-policy estimators do: bias, direction and variance
///
/// On toy prompts, everything is computed exactly, in about ten seconds and without a model. With --model, the presets and the factors are measured on a model, with completions
/// that earlier states of it sampled: every estimate is compared with the model's own gradient. Writes estimator.json, estimator.csv and index.html; prints the page's path.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rapid study estimator --out study
  rapid study estimator --out study --model runs/a/checkpoints/step-20 --behaviour runs/a/checkpoints/step-19,runs/a/checkpoints/step-16
    --dataset starter-math --max-tokens 24 --verifier http://127.0.0.1:8700      (run.keep is the number of newest checkpoints that a run keeps)
  rapid study estimator --out trial --model m.gguf --behaviour m.gguf --dataset tasks.jsonl --groups 64 --verifier http://127.0.0.1:8700")]
struct EstimatorArgs {
    /// Folder to write into; created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Estimate the gradient of this policy π: a GGUF file, a folder with a Hugging Face checkpoint, or the name of a fetched model
    #[arg(long, value_name = "MODEL", requires_all = ["behaviour", "dataset", "verifier"])]
    model: Option<String>,
    /// Behaviour policies μ, which sample the completions: the model some updates ago; several for several stalenesses
    #[arg(long, value_name = "MODEL", value_delimiter = ',', requires = "model")]
    behaviour: Vec<String>,
    /// A data set's name, or a path to a file of tasks
    #[arg(long, value_name = "NAME", requires = "model")]
    dataset: Option<String>,
    /// The verifier's address, as `rapid-verifier serve` prints it
    #[arg(
        long,
        value_name = "URL",
        env = "RAPID_VERIFIER",
        hide_env_values = true
    )]
    verifier: Option<String>,
    /// A folder of data sets, as DIR/gsm8k/train.jsonl
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Which part of the data set
    #[arg(long, value_enum, default_value_t = Split::Train)]
    split: Split,
    #[command(flatten)]
    prompt: PromptArgs,
    /// Groups that each model samples: sixteen per prompt, so the number of prompts is this divided by sixteen
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = groups)]
    groups: usize,
    /// Completions per group
    #[arg(long, value_name = "G", default_value_t = GROUP_SIZE, value_parser = group_size)]
    group_size: usize,
    /// Maximum tokens of a completion, including the end token [default: the checkpoint's, else 256]
    #[arg(long, value_name = "N", value_parser = up_to(MAX_TOKENS))]
    max_tokens: Option<usize>,
    /// Sampling temperature, as in training
    #[arg(long, value_name = "T", default_value_t = 1.0, value_parser = above_zero)]
    temperature: f32,
    /// Seed of the toy, the prompts, every sample and the sketches
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = from_zero::<u64>)]
    seed: u64,
    #[command(flatten)]
    device: DeviceArgs,
}

fn groups(text: &str) -> Result<usize, String> {
    let expected = "a whole number from 4 to 1000000, and hundreds for a result: fewer groups do not tell a bias from noise";
    parsed(text, |groups| (4..=1_000_000).contains(groups), expected)
}

fn group_size(text: &str) -> Result<usize, String> {
    let expected = format!(
        "a whole number from 2 to {MAX_SAMPLES}; a single completion has none to be compared with"
    );
    parsed(text, |size| (2..=MAX_SAMPLES).contains(size), &expected)
}

fn above_zero(text: &str) -> Result<f32, String> {
    let fits = |t: &f32| (MIN_TEMPERATURE..=100.0).contains(t);
    let expected = "a number from 0.000001 to 100: at 0 there is nothing to sample";
    parsed(text, fits, expected)
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let What::Estimator(args) = &args.what;
    // A folder that cannot be written to is reported before the work.
    let (out, shown) = (&args.out, args.out.display());
    std::fs::create_dir_all(out)
        .map_err(|error| Usage(format!("--out {shown} cannot be created: {error}")))?;
    let model = args.model.as_ref();
    let model = model.map(|model| block_on(on_model(args, model)));
    let study = Study {
        model: model.transpose()?,
        toy: study::toy(args.seed, GROUP_SIZE, &STALENESS)?,
    };
    print(&format!("{}\n", study::write(&study, out)?.display()))
}

async fn on_model(args: &EstimatorArgs, model: &str) -> anyhow::Result<Sampled> {
    // clap requires both.
    let name = args.dataset.as_deref().unwrap_or_default();
    let rewards = RewardClient::new(&config::Verifier {
        url: args.verifier.clone(),
        ..config::Verifier::default()
    })?;
    let dataset = open_dataset(name, args.data_dir.as_deref())?;
    // The models' errors are reported before the wait for the verifier.
    for behaviour in &args.behaviour {
        model_path(behaviour)?;
    }
    let mut checkpoint = CheckpointDefaults::of(&model_path(model)?)?;
    let tasks = args.split.tasks(&dataset, None);
    let renderer = checkpoint.renderer(&args.prompt, name, &tasks)?;
    let plan = StudyPlan {
        groups: args.groups,
        group_size: args.group_size,
        temperature: args.temperature,
        max_tokens: checkpoint.max_tokens(args.max_tokens, 256),
        seed: args.seed,
    };
    checkpoint.report();
    rewards.start(&[(name, &dataset)]).await?;
    let open = |model: &str| tokio::task::block_in_place(|| open_model(model, &args.device, None));
    let shape = |engine: &engine::Engine| {
        let info = engine.info();
        format!(
            "{}, {} weights, {} tokens",
            info.architecture, info.parameters, info.vocabulary
        )
    };
    let engine = open(model)?;
    let own = shape(&engine);
    let policy: Arc<dyn Policy> = Arc::new(engine);
    let prompts = || prompts::of_tasks(&renderer, policy.as_ref(), tasks);
    let prompts = tokio::task::block_in_place(prompts)?;
    let prompts = plan.prompts(&prompts);
    let params = plan.sampling(prompts.len());
    let bar = progress_bar(0, "study");
    let show = |what: &str, done: usize, total: usize| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        bar.set_message(what.to_owned());
    };
    let paths: Vec<PathBuf> = args.behaviour.iter().map(PathBuf::from).collect();
    // The policy itself comes first.
    let models = [model].into_iter();
    let models = models.chain(args.behaviour.iter().map(String::as_str));
    let names = [model.to_owned()].into_iter().chain(distinct_names(&paths));
    let mut behaviours = Vec::new();
    for (number, (path, name)) in models.zip(names).enumerate() {
        let mut sampler = policy.clone();
        if path != model {
            let earlier = open(path)?;
            let its = shape(&earlier);
            anyhow::ensure!(
                its == own,
                "{path} ({its}) is not an earlier state of {model} ({own}); give checkpoints of one run"
            );
            sampler = Arc::new(earlier);
        }
        // Each model has its own random numbers, so one that is sampled twice gives independent samples.
        let numbered: Vec<_> = prompts.iter().map(|it| (it.clone(), number)).collect();
        let rollout = collect(
            sampler.as_ref(),
            &rewards,
            &numbered,
            &params,
            &mut PartialRollout::default(),
            // Nothing of a study that is stopped remains, so Ctrl-C ends the program at once.
            &StopSignal::default(),
            &mut |tally: &RolloutProgress| show(&name, tally.sampled, tally.wanted),
        )
        .await?;
        behaviours.push(Behaviour {
            groups: rollout.groups,
            staleness: staleness(model, path).unwrap_or(number),
            name,
        });
    }
    let sampled = || study::sampled(policy.as_ref(), &plan, &behaviours, &show);
    let sampled = tokio::task::block_in_place(sampled);
    bar.finish_and_clear();
    Ok(sampled?)
}

/// The number of updates between two checkpoints `step-N` of one run; 0 between a model and itself, `None` if the paths do not tell.
fn staleness(model: &str, behaviour: &str) -> Option<usize> {
    if model == behaviour {
        return Some(0);
    }
    let step = |path: &str| {
        let name = Path::new(path).file_name()?.to_str()?;
        name.strip_prefix("step-")?.parse::<usize>().ok()
    };
    step(model)?.checked_sub(step(behaviour)?)
}

#[cfg(test)]
mod tests {
    use super::staleness;

    #[test]
    fn staleness_is_the_number_of_updates_between_two_checkpoints() {
        assert_eq!(staleness("a/step-20", "a/step-16/"), Some(4));
        assert_eq!(staleness("m.gguf", "m.gguf"), Some(0));
        // A later state is not a behaviour policy of the run.
        for (model, behaviour) in [("a/best", "a/step-3"), ("step-1", "step-3")] {
            assert_eq!(staleness(model, behaviour), None);
        }
    }
}
