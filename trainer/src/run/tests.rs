mod algorithms;
mod auto_h;
mod clock;
mod diverging;
mod evaluating;
mod extending;
mod masked;
mod resuming;
mod watching;
mod weights;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::folder::checkpoint;
use super::*;
use crate::config::{self, Config, Preset};
use crate::data::Prompts;
use crate::fakes::{self, Answer, FakePolicy, FakeVerifier, dataset, judgement, verifier_settings};
use crate::interrupt::StopSignal;
use crate::plan::{MemoryBudget, MemoryEstimate, RunPlan};
use crate::policy::Policy;
use crate::record::{AlarmRecord, EvalRecord, StepRecord, StepTimings, best};
use crate::reward::RewardClient;

const RECIPE: &str = "
[model]
name = \"toy\"
[data]
dataset = \"toy\"
template = \"plain\"
[algorithm]
group_size = 4
n_step = 16
h = 3
[sampling]
temperature = 1.0
max_tokens = 4
[optimiser]
lr = 0.05
schedule = \"constant\"
[run]
updates = 10
checkpoint_every = 2
keep_state = true
[eval]
every = 4
samples = 4
k = [1, 4]
";

fn config(url: &str, sets: &[&str]) -> Config {
    let mut sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    sets.push(format!("verifier.url={url}"));
    config::parse("test", RECIPE, &sets).unwrap()
}

/// The configuration of a run that is resumed with `--set`.
fn resumed_config(root: &Path, sets: &[&str]) -> Result<Config, TrainError> {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    resume_config(root, &sets)
}

/// A job as `rapid train` makes it, with the reference and the demonstrations that the recipe needs.
fn job(root: &Path, config: &Config, policy: Arc<dyn Policy>) -> Result<Job, TrainError> {
    let folder = if root.join("config.toml").exists() {
        RunFolder::open(root)?
    } else {
        let folder = RunFolder::claim(root)?;
        folder.save_config(&config.to_toml())?;
        folder
    };
    let sets = fakes::set(config, dataset(11, 5));
    let prompts = Prompts::new(config, sets, policy.as_ref())?;
    let demonstrations = prompts.train.iter();
    let demonstrations =
        demonstrations.map(|prompt| sft::demonstration(prompt, "b".into(), vec![1, 0]));
    let rewards = RewardClient::new(&config::Verifier {
        url: config.verifier.url.clone(),
        ..verifier_settings("", config.verifier.patience_s)
    });
    Ok(Job {
        config: config.clone(),
        rewards: rewards.unwrap(),
        reference: (config.algorithm.kl > 0.0)
            .then(|| Arc::new(FakePolicy::default()) as Arc<dyn Policy>),
        demonstrations: (config.algorithm.preset == Preset::Sft).then(|| demonstrations.collect()),
        prompts,
        policy,
        folder,
        provenance: None,
        stop: StopSignal::default(),
        journal: Journal::new(Progress::silent()),
        clock: Clock::start(),
    })
}

/// A [`job`] with a model that does not fail.
fn plain_job(root: &Path, config: &Config) -> Result<Job, TrainError> {
    job(root, config, Arc::new(FakePolicy::default()))
}

/// Starts or resumes the run in a folder, and trains to its end.
async fn run_in(root: &Path, config: &Config) -> Result<Summary, TrainError> {
    train(plain_job(root, config)?).await
}

/// Starts or resumes the run in a folder, on a model that fails after this number of updates.
async fn fail_after(updates: usize, root: &Path, config: &Config) -> TrainError {
    let mut policy = FakePolicy::default();
    policy.fail_at = Some(updates);
    let job = job(root, config, Arc::new(policy));
    train(job.unwrap()).await.unwrap_err()
}

fn steps(root: &Path) -> Vec<StepRecord> {
    read_log(root, Log::Metrics).unwrap()
}

/// Asserts that an error has these words.
#[track_caller]
fn assert_contains(error: &TrainError, words: &[&str]) {
    let message = error.to_string();
    assert!(words.iter().all(|part| message.contains(part)), "{message}");
}

/// Asserts that the start of a run was refused with these words.
#[track_caller]
fn assert_refusal(error: &TrainError, words: &[&str]) {
    assert!(error.is_refusal(), "{error}");
    assert_contains(error, words);
}

/// A verifier that accepts `b` and copies a run while it is in the middle of judging every fifth request: everything later is lost. The copies are `killed/0` and so on.
async fn copying_verifier(run: &Path, killed: &Path) -> FakeVerifier {
    let (from, to, copies) = (run.to_owned(), killed.to_owned(), AtomicUsize::new(0));
    FakeVerifier::serve(move |number, items| {
        if number % 5 == 2 && from.join("config.toml").exists() {
            let number = copies.fetch_add(1, Ordering::SeqCst);
            copy(&from, &to.join(number.to_string()));
        }
        Answer::accepting_b(&items)
    })
    .await
}

/// The copies of a killed run, in their order.
fn copies(killed: &Path) -> impl Iterator<Item = PathBuf> {
    let copies = (0..).map(|number: usize| killed.join(number.to_string()));
    copies.take_while(|copy| copy.exists())
}

/// A folder for runs, and a verifier that accepts `b`.
async fn home_and_verifier() -> (tempfile::TempDir, FakeVerifier) {
    let server = FakeVerifier::accepting_b().await;
    (fakes::folder(), server)
}

/// Asserts that the outputs of two runs are equal. A failure shows only the first line that differs.
fn assert_same(
    outputs: &BTreeMap<String, String>,
    expected: &BTreeMap<String, String>,
    what: &str,
) {
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(outputs), names(expected), "{what}");
    for (name, text) in outputs {
        let lines = text.lines().zip(expected[name].lines());
        for (number, (line, other)) in (1..).zip(lines) {
            assert_eq!(line, other, "{what}: {name}, line {number}");
        }
        let count = |text: &str| text.lines().count();
        assert_eq!(count(text), count(&expected[name]), "{what}: {name}");
    }
}

/// The outputs of a run that must be equal for two runs of one seed: logs, samples, state, TensorBoard, and which checkpoint is the best.
fn outputs(root: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for name in ["metrics", "eval", "alarms", "weights"].map(|log| format!("{log}.jsonl")) {
        let text = std::fs::read_to_string(root.join(&name)).unwrap_or_default();
        files.insert(name, text);
    }
    files.insert("tensorboard".into(), watching::tensorboard_points(root));
    for entry in std::fs::read_dir(root.join("samples")).unwrap().flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap();
        files.insert(entry.file_name().into_string().unwrap(), text);
    }
    let state = std::fs::read(root.join("checkpoints/last/state.bin")).unwrap();
    files.insert("state".into(), blake3::hash(&state).to_string());
    let best = std::fs::read_link(root.join("checkpoints/best")).unwrap();
    files.insert("best".into(), best.display().to_string());
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_writes_its_logs_samples_and_checkpoints() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let config = config(&server.url, &["run.updates=40", "eval.every=0"]);
    let summary = run_in(&root, &config).await.unwrap();
    let ended = (summary.ended, summary.step, summary.evals.len());
    assert_eq!(ended, (RunOutcome::Finished, 40, 2));

    let steps = steps(&root);
    assert!(steps.iter().map(|s| s.step).eq(1..=40));
    // 40 updates are 13 phases of 3 and one of 1; on policy at each phase's first update, and only there.
    let place = |s: &StepRecord| (s.phase, s.update, s.phase_updates);
    let last = [38, 39].map(|at| place(&steps[at]));
    assert_eq!(last, [(12, 2, 3), (13, 0, 1)]);
    let timings: Vec<StepTimings> = read_log(&root, Log::Timings).unwrap();
    for (step, timing) in steps.iter().zip(&timings) {
        assert!(step.update > 0 || step.algo.ell_std == 0.0);
        assert_eq!(step.update == 0, timing.inference > 0.0);
        assert!(step.algo.judged == 16 && step.pass_at.contains_key(&4));
    }
    assert!(steps.iter().any(|step| step.algo.ell_std > 0.0));
    for file in [
        "config.toml",
        "samples/phase-0.jsonl",
        "samples/phase-13.md",
        "samples/eval-0.jsonl",
        "samples/eval-40.md",
        "checkpoints/step-40/run.json",
    ] {
        assert!(root.join(file).is_file(), "{file}");
    }
    assert_eq!(std::fs::read_dir(root.join("rollouts")).unwrap().count(), 0);
}

/// Copies the files of a run as they are now, which is what `kill -9` would leave.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(&source).unwrap(), target).unwrap();
        } else if source.is_dir() {
            copy(&source, &target);
        } else {
            std::fs::copy(source, target).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_interrupted_anywhere_equals_one_that_was_not() {
    let (home, working) = home_and_verifier().await;
    let config = |server: &FakeVerifier| config(&server.url, &[]);
    let place = |name: &str| home.path().join(name);
    let uninterrupted = place("uninterrupted");
    run_in(&uninterrupted, &config(&working)).await.unwrap();
    let expected = outputs(&uninterrupted);
    let assert_resumes = async |root: &Path| {
        let summary = run_in(root, &config(&working)).await.unwrap();
        assert_eq!(summary.ended, RunOutcome::Finished);
        assert_same(&outputs(root), &expected, &root.display().to_string());
    };

    let (run, killed) = (place("run"), place("killed"));
    let server = copying_verifier(&run, &killed).await;
    run_in(&run, &config(&server)).await.unwrap();
    assert_same(&outputs(&run), &expected, "judged by another verifier");
    assert!(copies(&killed).count() >= 8);
    for killed in copies(&killed) {
        // A line that was being written when the process was killed.
        let metrics = killed.join("metrics.jsonl");
        let text = std::fs::read_to_string(&metrics).unwrap_or_default();
        std::fs::write(&metrics, text + "{\"step\":").unwrap();
        assert_resumes(&killed).await;
    }

    for request in [1, 8, 17, 30, 45] {
        let (root, stop) = (place(&format!("stopped-{request}")), StopSignal::default());
        let stop_request = stop.clone();
        let server = FakeVerifier::serve(move |number, items| {
            if number == request {
                stop_request.request();
            }
            Answer::accepting_b(&items)
        })
        .await;
        let job = Job {
            stop,
            ..plain_job(&root, &config(&server)).unwrap()
        };
        assert_eq!(train(job).await.unwrap().ended, RunOutcome::Interrupted);
        assert_resumes(&root).await;
    }

    let full = place("full");
    let (timings, log) = (full.join("timings.jsonl"), full.join("timings.jsonl"));
    let filling = FakeVerifier::serve(move |number, items| {
        if number == 30 {
            // Appending to this file fails with "No space left on device".
            std::fs::remove_file(&log).unwrap();
            std::os::unix::fs::symlink("/dev/full", &log).unwrap();
        }
        Answer::accepting_b(&items)
    })
    .await;
    let error = run_in(&full, &config(&filling)).await.unwrap_err();
    assert_contains(&error, &["timings.jsonl", "make room"]);
    std::fs::remove_file(&timings).unwrap();
    assert_resumes(&full).await;

    for made in [0, 4, 8] {
        let failed = place(&format!("failed-{made}"));
        let error = fail_after(made, &failed, &config(&working)).await;
        assert!(matches!(error, TrainError::Engine(_)), "{error}");
        let policy = Arc::new(FakePolicy::default());
        let job = job(&failed, &config(&working), policy.clone()).unwrap();
        train(job).await.unwrap();
        assert_eq!(policy.steps(), 10 - made, "no update is made twice");
        assert_same(&outputs(&failed), &expected, &failed.display().to_string());
    }
}

#[test]
fn two_processes_cannot_train_in_one_folder() {
    let home = fakes::folder();
    let root = home.path().join("run");
    let first = RunFolder::claim(&root).unwrap();
    first.save_config("").unwrap();
    for second in [RunFolder::open(&root), RunFolder::claim(&root)] {
        assert_contains(&second.unwrap_err(), &["another process is training in"]);
    }
    drop(first);
    let error = RunFolder::claim(&root).unwrap_err();
    assert_contains(&error, &["holds a run already", "--resume"]);
    assert!(RunFolder::open(&root).is_ok());
    let error = RunFolder::open(home.path()).unwrap_err();
    assert_contains(&error, &["holds no run"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_checkpoints_and_the_one_with_the_highest_pass_at_1_are_kept() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    // Whichever k the recipe has.
    let config = config(&server.url, &["run.keep=2", "eval.k=[4]"]);
    let evals = run_in(&root, &config).await.unwrap().evals;
    assert!(evals.iter().all(|eval| eval.pass_at.keys().eq(&[1, 4])));
    let best = best(&evals).unwrap().0;
    let folder = RunFolder::open(&root).unwrap();
    let expected = BTreeSet::from([best, 8, 10]);
    assert!(checkpoint::steps(&folder).unwrap().iter().eq(&expected));
    for (link, step) in [("last", 10), ("best", best)] {
        let target = std::fs::read_link(root.join("checkpoints").join(link)).unwrap();
        assert_eq!(target, Path::new(&format!("step-{step}")));
    }
}

#[test]
fn settings_that_change_numbers_cannot_change_on_resumption() {
    let home = fakes::folder();
    let mut config = config("http://127.0.0.1:1", &[]);
    std::fs::write(home.path().join("config.toml"), config.to_toml()).unwrap();
    let resumed = |sets: &[&str]| resumed_config(home.path(), sets);
    let changed = resumed(&["verifier.url=http://127.0.0.1:2", "run.keep=3"]).unwrap();
    (config.verifier.url, config.run.keep) = (Some("http://127.0.0.1:2".into()), 3);
    assert_eq!(changed, config);
    for set in [
        "optimiser.lr=1e-3",
        "run.seed=4",
        "algorithm.h=4",
        "engine.dtype=bf16",
        "engine.kernel=fma",
    ] {
        let error = resumed(&[set]).unwrap_err();
        assert_contains(&error, &["cannot change when a run is continued"]);
    }
}

#[test]
fn a_plan_counts_the_phases_updates_completions_and_evaluations_of_a_run() {
    let config = config("http://127.0.0.1:1", &["run.epochs=3", "eval.every=4"]);
    let model = MemoryEstimate {
        parameters: 100_000_000,
        ranks: 1,
        memory: engine::Footprint {
            reserved: 0,
            weights: 400_000_000,
            optimiser: 1_200_000_000,
            work: 100_000_000,
            cache: 300_000_000,
            activations: 700_000_000,
        },
        reference: 0,
        checkpoint: 1_600_000_000,
        checkpoints: 2,
        samples: 100_000_000,
        exchanged: 0,
    };
    let plan = RunPlan::new(&config, 11, 5, Some(model));
    // The newest checkpoint, the best, and one that is being written.
    let disk = |free| model.fits_on_disk(plan.checkpoints, Some(free));
    assert_eq!(disk(4_900_000_000), Ok(None));
    for warned in [4_899_999_999, 3_200_000_000] {
        assert!(disk(warned).is_ok_and(|warning| warning.is_some()));
    }
    assert!(disk(3_199_999_999).is_err());
    // 33 prompts: 9 updates of 4 prompts, the last of 1; 3 phases of 3 updates.
    let memory = Some(MemoryBudget {
        bytes: 8_000_000_000,
        is_gpu: false,
    });
    insta::assert_snapshot!(plan.text(&config, memory, Some(9_000_000_000)), @r#"
    tasks: toy, 11 training tasks, 5 held out; template "plain"
    algorithm: rapid-paper, G = 4, H = 3, 9 updates on up to 16 completions each
    sampling: 3 inference phases of up to 48 completions
    completions: 132 in all, at most 528 tokens
    evaluation: 4 evaluations of 20 completions
    memory: about 2.5 GB of 8.0 GB
      0.4 GB for 100 M weights, 1.2 GB for gradient and moments, 0.7 GB for keys and values or activations
    disk: at most 3 checkpoints of 1.6 GB at once and 0.1 GB of samples, together 4.9 GB of 9.0 GB
    "#);
    let fits = |bytes, is_gpu| model.fits(Some(MemoryBudget { bytes, is_gpu }));
    assert_eq!(model.fits(None), Ok(None));
    assert_eq!(fits(2_600_000_000, true), Ok(None));
    let warning = fits(2_000_000_000, false).unwrap().unwrap().to_string();
    assert!(warning.contains("of this machine's 2.0 GB"), "{warning}");
    assert!(fits(1_600_000_000, false).is_err());
    insta::assert_snapshot!(
        fits(2_000_000_000, true).unwrap_err().to_string(),
        @"the run takes up to 2.5 GB of the GPU's 2.0 GB: 0.4 GB for weights, 1.2 GB for gradient and moments, 0.1 GB for one pass, 0.1 GB for the program itself, and the larger of 0.3 GB for keys and values and 0.7 GB for kept activations; lower sampling.max_tokens or algorithm.group_size, set engine.kv_tokens, engine.activations_mib or engine.pack_tokens, or train adapters ([lora])"
    );
}
