//! `rapid study`: measurements of the gradient estimators.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use engine::{Engine, Sampling};
use indicatif::ProgressBar;
use trainer::config::{self, MAX_COMPLETIONS, MAX_SAMPLES, MAX_TOKENS};
use trainer::interrupt::StopSignal;
use trainer::policy::Policy;
use trainer::report::run_data::distinct_names;
use trainer::reward::RewardClient;
use trainer::rollout::{
    self, PartialRollout, RolloutError, RolloutProgress, RolloutRequest, SampledGroup,
    SamplingParams,
};
use trainer::stderr::say;
use trainer::study::{self, Behaviour, Sampled, Study, StudyError, StudyPlan, Toy};

use super::args::{
    DeviceArgs, PromptArgs, from_zero, model_path, open_dataset, open_model, temperature, up_to,
};
use super::bar::bar;
use super::eval::Split;
use super::{Interrupted, Usage, block_on, checkpoint_overrides, print, prompts};

/// Minimum number of groups from which bias and its error can be estimated.
const MIN_GROUPS: usize = 4;
/// Maximum number of groups: more would take years to sample.
const MAX_GROUPS: usize = 1_000_000;
/// Maximum size of a sketch, in numbers; with it, inner products are off by about a thousandth.
const MAX_SKETCH: usize = 1 << 20;

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

/// Measure what the off-policy estimators do: bias, direction, variance, effective sample size
///
/// On toy prompts, everything is computed exactly, in about ten seconds and without a model. With --model, the same is measured on a model, with completions that earlier
/// states of it sampled: every estimate is compared with the model's own gradient, with standard errors. Writes estimator.json, estimator.csv and index.html; prints the
/// page's path.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rapid study estimator --out study
  rapid study estimator --out study --model runs/a/checkpoints/step-20 --behaviour runs/a/checkpoints/step-19,runs/a/checkpoints/step-16
    --dataset starter-math --max-tokens 24 --verifier http://127.0.0.1:8700      (run.keep is the number of newest checkpoints that a run keeps)
  rapid study estimator --out trial --model m.gguf --behaviour m.gguf --dataset tasks.jsonl --groups 64 --reference 128 --verifier http://127.0.0.1:8700")]
struct EstimatorArgs {
    /// Folder to write into; created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The policy π, whose gradient is estimated: a GGUF file, a folder with a Hugging Face checkpoint, or the name of a fetched model
    #[arg(long, value_name = "MODEL", requires_all = ["behaviour", "dataset", "verifier"])]
    model: Option<String>,
    /// Behaviour policies μ, which sample the completions: the model some updates ago; several for several stalenesses
    #[arg(long, value_name = "MODEL", value_delimiter = ',', requires = "model")]
    behaviour: Vec<String>,
    /// A data set's name, or a path to a .jsonl file
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
    /// Groups that each behaviour policy samples: sixteen per prompt, so the number of prompts is this divided by sixteen
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = up_to(MAX_GROUPS))]
    groups: usize,
    /// Completions per group
    #[arg(long, value_name = "G", default_value_t = 4, value_parser = group_size)]
    group_size: usize,
    /// Minimum number of the policy's own completions from which its gradient is computed
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = up_to(MAX_COMPLETIONS))]
    reference: usize,
    /// Maximum tokens of a completion, including the end token [default: the checkpoint's, else 256]
    #[arg(long, value_name = "N", value_parser = up_to(MAX_TOKENS))]
    max_tokens: Option<usize>,
    /// Sampling temperature, as in training
    #[arg(long, value_name = "T", default_value_t = 1.0, value_parser = above_zero)]
    temperature: f32,
    /// Size of a gradient's sketch, in numbers; inner products of sketches are off by about √(2/N)
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = sketch_size)]
    sketch: usize,
    /// Seed of the toy, the prompts, every sample and the sketches
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = from_zero::<u64>)]
    seed: u64,
    #[command(flatten)]
    device: DeviceArgs,
}

fn group_size(text: &str) -> Result<usize, String> {
    up_to(MAX_SAMPLES)(text).ok().filter(|size| *size > 1).ok_or_else(|| {
        format!("give a whole number from 2 to {MAX_SAMPLES}; a single completion has none to be compared with")
    })
}

fn sketch_size(text: &str) -> Result<usize, String> {
    up_to(MAX_SKETCH)(text)
        .ok()
        .filter(|size| *size >= 64)
        .ok_or_else(|| format!("give a whole number from 64 to {MAX_SKETCH}"))
}

fn above_zero(text: &str) -> Result<f32, String> {
    temperature(text).ok().filter(|t| *t > 0.0).ok_or_else(|| {
        "give a number from 0.000001 to 100: at 0 there is nothing to sample".to_owned()
    })
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let What::Estimator(args) = &args.what;
    if args.groups < MIN_GROUPS && args.model.is_some() {
        return Err(Usage(format!(
            "--groups {} is too few to distinguish a bias from noise; give at least {MIN_GROUPS}, and hundreds for a result",
            args.groups
        ))
        .into());
    }
    if args.groups.saturating_mul(args.group_size) > MAX_COMPLETIONS {
        return Err(Usage(format!(
            "--groups {} of --group-size {} are more than {MAX_COMPLETIONS} completions; lower one of them",
            args.groups, args.group_size
        ))
        .into());
    }
    // A folder that cannot be written to is reported before the work.
    std::fs::create_dir_all(&args.out).map_err(|error| {
        Usage(format!(
            "--out {} cannot be created: {error}",
            args.out.display()
        ))
    })?;
    let model = match &args.model {
        Some(model) => Some(block_on(on_model(args, model))?),
        None => None,
    };
    let toy = study::toy(&Toy {
        seed: args.seed,
        ..Toy::default()
    })?;
    let page = study::write(&Study { toy, model }, &args.out)?;
    print(&format!("{}\n", page.display()))
}

async fn on_model(args: &EstimatorArgs, model: &str) -> anyhow::Result<Sampled> {
    // clap requires both.
    let name = args.dataset.as_deref().unwrap_or_default();
    let settings = config::Verifier {
        url: args.verifier.clone(),
        ..config::Verifier::default()
    };
    let rewards = RewardClient::new(&settings)?;
    let dataset = open_dataset(name, args.data_dir.as_deref())?;
    // The models' errors are reported before the wait for the verifier.
    for behaviour in &args.behaviour {
        model_path(behaviour)?;
    }
    let mut checkpoint = checkpoint_overrides::Settings::of(&model_path(model)?)?;
    let renderer = checkpoint.renderer(&args.prompt, name, args.split.of(&dataset))?;
    let max_tokens = checkpoint.max_tokens(args.max_tokens, 256);
    checkpoint.report();
    rewards.start(name, &dataset).await?;
    let engine = tokio::task::block_in_place(|| open_model(model, &args.device))?;
    let tasks = args.split.tasks(dataset);
    let prompts = tokio::task::block_in_place(|| prompts::of_tasks(&renderer, &engine, tasks))?;
    let plan = StudyPlan {
        groups: args.groups,
        group_size: args.group_size,
        reference: args.reference,
        sampling: SamplingParams {
            sampling: Sampling {
                temperature: args.temperature,
                ..Sampling::default()
            },
            min_tokens: 0,
            max_tokens,
            stop_strings: renderer.stop_strings().to_vec(),
        },
        seed: args.seed,
        sketch: args.sketch,
    };
    let prompts = plan.prompts(&prompts);
    let sampler = Sampler {
        rewards,
        params: plan.sampling.clone(),
        stop: StopSignal::on_ctrl_c(),
        bar: bar(0, "study"),
    };
    let mut behaviours = Vec::new();
    let paths: Vec<PathBuf> = args.behaviour.iter().map(PathBuf::from).collect();
    let names = distinct_names(&paths);
    for ((number, path), name) in args.behaviour.iter().enumerate().zip(names) {
        let earlier = tokio::task::block_in_place(|| open_model(path, &args.device))?;
        check_same_model(model, &engine, path, &earlier)?;
        let requests = plan.off_policy(&prompts, number);
        behaviours.push(Behaviour {
            groups: sampler.sample(&name, Arc::new(earlier), &requests).await?,
            name,
            staleness: staleness(model, path).unwrap_or(number + 1),
        });
    }
    let policy: Arc<dyn Policy> = Arc::new(engine);
    let requests = plan.on_policy(&prompts);
    let reference = sampler
        .sample("reference", policy.clone(), &requests)
        .await?;
    let watch = |what: &str, done, total| {
        sampler.show(what, done, total);
        !sampler.stop.requested()
    };
    let sampled = tokio::task::block_in_place(|| {
        study::sampled(
            policy.as_ref(),
            (model, name),
            &plan,
            &reference,
            &behaviours,
            &watch,
        )
    });
    sampler.bar.finish_and_clear();
    sampled.map_err(|error| match error {
        StudyError::Stopped => Interrupted.into(),
        error => error.into(),
    })
}

/// Samples completions of the study's prompts, and shows how far the study is.
struct Sampler {
    rewards: RewardClient,
    params: SamplingParams,
    stop: StopSignal,
    bar: ProgressBar,
}

impl Sampler {
    async fn sample(
        &self,
        what: &str,
        policy: Arc<dyn Policy>,
        requests: &[RolloutRequest],
    ) -> anyhow::Result<Vec<SampledGroup>> {
        let what = format!("{what}, completions");
        let mut watch = |tally: &RolloutProgress| self.show(&what, tally.sampled, tally.wanted);
        let rollout = rollout::collect(
            &policy,
            &self.rewards,
            requests,
            &self.params,
            &mut PartialRollout::default(),
            &self.stop,
            &mut watch,
        )
        .await;
        match rollout {
            Ok(rollout) => Ok(rollout.groups),
            Err(RolloutError::Stopped) => Err(Interrupted.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Shows a part of the work as a bar; without a terminal, as a line for each tenth.
    fn show(&self, what: &str, done: usize, total: usize) {
        let tenth = |done: usize| done * 10 / total.max(1);
        if self.bar.is_hidden() && (done == 0 || tenth(done) > tenth(self.bar.position() as usize))
        {
            say(&format!("{what}: {done} of {total}"));
        }
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
        self.bar.set_message(what.to_owned());
    }
}

/// Refuses two models that cannot be two states of the same model.
fn check_same_model(
    model: &str,
    policy: &Engine,
    path: &str,
    behaviour: &Engine,
) -> anyhow::Result<()> {
    let (a, b) = (policy.info(), behaviour.info());
    anyhow::ensure!(
        (a.parameters, a.vocabulary, &a.architecture)
            == (b.parameters, b.vocabulary, &b.architecture),
        "{path} ({}, {} weights) is not an earlier state of {model} ({}, {} weights); give checkpoints of one run",
        b.architecture,
        b.parameters,
        a.architecture,
        a.parameters
    );
    Ok(())
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
    use super::*;

    #[test]
    fn staleness_is_the_number_of_updates_between_two_checkpoints() {
        for (model, behaviour, expected) in [
            (
                "runs/a/checkpoints/step-20",
                "runs/a/checkpoints/step-16/",
                Some(4),
            ),
            ("m.gguf", "m.gguf", Some(0)),
            ("runs/a/checkpoints/best", "runs/a/checkpoints/step-3", None),
            // A later state is not a behaviour policy of the run.
            ("step-1", "step-3", None),
        ] {
            assert_eq!(staleness(model, behaviour), expected, "{model} {behaviour}");
        }
    }
}
