mod auto_h;
mod clock;
mod diverging;
mod evaluating;
mod extending;
mod resuming;
mod unjudged;
mod watching;
mod weights;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::folder::checkpoint;
use super::*;
use crate::config::{self, Config, Preset};
use crate::data::{Prompt, Prompts};
use crate::fakes::{
    self, Answer, FakePolicy, FakeVerifier, dataset, judgement, prompt, verifier_settings,
};
use crate::interrupt::StopSignal;
use crate::plan::{MemoryBudget, MemoryEstimate, RunPlan};
use crate::policy::Policy;
use crate::record::{Alarm, AlarmRecord, EvalRecord, StepRecord, StepTimings, best};
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

fn prompts(policy: &dyn Policy) -> Prompts {
    let dataset = dataset(11, 5);
    let all = |tasks: &[datasets::Task]| -> Vec<Arc<Prompt>> {
        tasks.iter().map(|task| prompt(policy, task)).collect()
    };
    Prompts {
        train: all(&dataset.train),
        eval: all(&dataset.eval),
        left_out: 0,
        eval_left_out: 0,
        context: policy.context(),
        overlap: Vec::new(),
    }
}

/// A job as `rapid train` makes it, with the reference and the demonstrations that the recipe needs.
fn job(root: &Path, config: &Config, policy: Arc<dyn Policy>) -> Result<Job, TrainError> {
    let folder = if root.join("config.toml").exists() {
        RunFolder::open(root)?
    } else {
        RunFolder::create(root, &config.to_toml())?
    };
    let prompts = prompts(policy.as_ref());
    let demonstrations = prompts.train.iter().map(|prompt| Demonstration {
        prompt: Arc::clone(prompt),
        text: "b".into(),
        tokens: vec![1, 0],
    });
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

/// A [`job`] whose model does not fail.
fn plain_job(root: &Path, config: &Config) -> Result<Job, TrainError> {
    job(root, config, Arc::new(FakePolicy::default()))
}

/// Starts or resumes the run in a folder, and trains to its end.
async fn run_in(root: &Path, config: &Config) -> Result<Summary, TrainError> {
    train(plain_job(root, config)?).await
}

/// Starts or resumes the run in a folder, on a model that fails after this number of updates.
async fn fail_after(updates: usize, root: &Path, config: &Config) -> TrainError {
    let policy = Arc::new(FakePolicy::failing_at(updates));
    train(job(root, config, policy).unwrap()).await.unwrap_err()
}

/// The logged updates of a run.
fn steps(root: &Path) -> Vec<StepRecord> {
    read_log(root, Log::Metrics).unwrap()
}

/// Makes `updates` updates in each of new folders until the model fails, and asserts that the resumed run makes the others once and equals an uninterrupted one.
async fn assert_same_after_failures(
    home: &Path,
    config: &Config,
    updates: usize,
    failures: impl Iterator<Item = usize>,
) {
    let uninterrupted = home.join("uninterrupted");
    run_in(&uninterrupted, config).await.unwrap();
    for made in failures {
        let failed = home.join(format!("failed-{made}"));
        let error = fail_after(made, &failed, config).await;
        assert!(matches!(error, TrainError::Engine(_)), "{error}");
        let policy = Arc::new(FakePolicy::default());
        train(job(&failed, config, policy.clone()).unwrap())
            .await
            .unwrap();
        assert_eq!(policy.steps(), updates - made, "no update is made twice");
        let what = format!("failed after {made}");
        assert_same(&outputs(&failed), &outputs(&uninterrupted), &what);
    }
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
    assert_eq!(
        outputs.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>(),
        "{what}"
    );
    for (name, text) in outputs {
        let (mut lines, mut others) = (text.lines(), expected[name].lines());
        for number in 1.. {
            let pair = (lines.next(), others.next());
            assert_eq!(pair.0, pair.1, "{what}: {name}, line {number}");
            if pair.0.is_none() {
                break;
            }
        }
    }
}

/// The outputs of a run that must be equal for two runs of one seed: logs, samples, state, TensorBoard, and which checkpoint is the best.
fn outputs(root: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for name in [
        "metrics.jsonl",
        "eval.jsonl",
        "alarms.jsonl",
        "weights.jsonl",
    ] {
        files.insert(
            name.to_owned(),
            std::fs::read_to_string(root.join(name)).unwrap_or_default(),
        );
    }
    files.insert("tensorboard".into(), watching::tensorboard_points(root));
    for entry in std::fs::read_dir(root.join("samples")).unwrap().flatten() {
        files.insert(
            entry.file_name().into_string().unwrap(),
            std::fs::read_to_string(entry.path()).unwrap(),
        );
    }
    let state = std::fs::read(root.join("checkpoints/last/state.bin")).unwrap();
    files.insert("state".into(), blake3::hash(&state).to_string());
    let best = std::fs::read_link(root.join("checkpoints/best")).unwrap();
    files.insert("best".into(), best.display().to_string());
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_learns_and_writes_its_logs_samples_and_checkpoints() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let summary = run_in(
        &root,
        &config(&server.url, &["run.updates=40", "eval.every=0"]),
    )
    .await
    .unwrap();
    assert_eq!(
        (summary.ended, summary.step, summary.evals.len()),
        (RunOutcome::Finished, 40, 2)
    );
    let (before, after) = (
        summary.evals[0].pass_at_1().unwrap(),
        summary.evals[1].pass_at_1().unwrap(),
    );
    assert!(after > before + 0.3, "{before} → {after}");

    let steps = steps(&root);
    assert_eq!(
        steps.iter().map(|s| s.step).collect::<Vec<_>>(),
        (1..=40).collect::<Vec<_>>()
    );
    // 40 updates are 13 phases of 3 and one of 1; on policy at each phase's first update.
    assert_eq!(
        (
            steps[39].phase,
            steps[39].update,
            steps[39].phase_updates,
            steps[38].phase_updates
        ),
        (13, 0, 1, 3)
    );
    assert!(
        steps
            .iter()
            .all(|s| (s.update == 0) == (s.algo.ell_std == 0.0)),
        "ℓ is 0 on policy, and only there"
    );
    assert!(
        steps
            .iter()
            .all(|s| s.algo.judged == 16 && s.pass_at.contains_key(&4))
    );
    let timings: Vec<StepTimings> = read_log(&root, Log::Timings).unwrap();
    assert!(
        timings
            .iter()
            .zip(&steps)
            .all(|(t, s)| (t.inference > 0.0) == (s.update == 0))
    );
    for file in [
        "config.toml",
        "samples/phase-0.jsonl",
        "samples/phase-0.md",
        "samples/eval-40.md",
        "samples/phase-13.jsonl",
        "samples/eval-0.jsonl",
        "samples/eval-40.jsonl",
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
async fn a_run_killed_anywhere_and_resumed_equals_one_that_was_not_killed() {
    let home = fakes::folder();
    let uninterrupted = home.path().join("uninterrupted");
    let server = FakeVerifier::accepting_b().await;
    let config = config(&server.url, &[]);
    run_in(&uninterrupted, &config).await.unwrap();
    let expected = outputs(&uninterrupted);
    drop(server);

    let (run, killed) = (home.path().join("run"), home.path().join("killed"));
    let server = copying_verifier(&run, &killed).await;
    run_in(&run, &super::tests::config(&server.url, &[]))
        .await
        .unwrap();
    assert_same(&outputs(&run), &expected, "judged by another verifier");
    drop(server);

    let server = FakeVerifier::accepting_b().await;
    let config = super::tests::config(&server.url, &[]);
    for killed in copies(&killed) {
        // A line that was being written when the process was killed.
        let metrics = killed.join("metrics.jsonl");
        let mut text = std::fs::read(&metrics).unwrap_or_default();
        text.extend(b"{\"step\":");
        std::fs::write(&metrics, text).unwrap();
        let summary = run_in(&killed, &config).await.unwrap();
        assert_eq!(summary.ended, RunOutcome::Finished);
        assert_same(&outputs(&killed), &expected, &killed.display().to_string());
    }
    assert!(copies(&killed).count() >= 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_step_failed_resumes_in_mid_phase() {
    let (home, server) = home_and_verifier().await;
    let config = config(&server.url, &[]);
    assert_same_after_failures(home.path(), &config, 10, [0, 4, 8].into_iter()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_run_can_be_resumed_and_equals_one_that_was_not_stopped() {
    let home = fakes::folder();
    let uninterrupted = home.path().join("uninterrupted");
    let working = FakeVerifier::accepting_b().await;
    run_in(&uninterrupted, &config(&working.url, &[]))
        .await
        .unwrap();
    for request in [1, 8, 17, 30, 45] {
        let (root, stop) = (
            home.path().join(format!("stopped-{request}")),
            StopSignal::default(),
        );
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
            ..plain_job(&root, &config(&server.url, &[])).unwrap()
        };
        let summary = train(job).await.unwrap();
        assert_eq!(
            summary.ended,
            RunOutcome::Interrupted,
            "request {request}, after {} updates",
            summary.step
        );
        let summary = run_in(&root, &config(&working.url, &[])).await.unwrap();
        assert_eq!(summary.ended, RunOutcome::Finished);
        assert_same(
            &outputs(&root),
            &outputs(&uninterrupted),
            &format!("stopped at request {request}"),
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_cannot_train_in_one_folder() {
    let home = fakes::folder();
    let root = home.path().join("run");
    let first = RunFolder::create(&root, "").unwrap();
    assert!(matches!(RunFolder::open(&root), Err(TrainError::Locked(_))));
    assert!(matches!(
        RunFolder::create(&root, ""),
        Err(TrainError::Locked(_))
    ));
    drop(first);
    assert!(matches!(
        RunFolder::create(&root, ""),
        Err(TrainError::Exists(_))
    ));
    assert!(RunFolder::open(&root).is_ok());
    assert!(matches!(
        RunFolder::open(home.path()),
        Err(TrainError::NoRun(_))
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_ends_the_run_with_advice_and_the_run_can_be_resumed() {
    let (home, server) = home_and_verifier().await;
    let (uninterrupted, full) = (home.path().join("uninterrupted"), home.path().join("full"));
    run_in(&uninterrupted, &config(&server.url, &[]))
        .await
        .unwrap();

    let timings = full.join("timings.jsonl");
    let log = timings.clone();
    let filling = FakeVerifier::serve(move |number, items| {
        if number == 30 {
            // Appending to this file fails with "No space left on device".
            std::fs::remove_file(&log).unwrap();
            std::os::unix::fs::symlink("/dev/full", &log).unwrap();
        }
        Answer::accepting_b(&items)
    })
    .await;
    let error = run_in(&full, &config(&filling.url, &[]))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("timings.jsonl") && error.contains("make room"),
        "{error}"
    );
    std::fs::remove_file(&timings).unwrap();
    run_in(&full, &config(&server.url, &[])).await.unwrap();
    assert_same(
        &outputs(&full),
        &outputs(&uninterrupted),
        "after a full disk",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_checkpoints_and_the_one_with_the_highest_pass_at_1_are_kept() {
    let (home, server) = home_and_verifier().await;
    // Whichever k the recipe has.
    for (name, k) in [("both", "eval.k=[1, 4]"), ("four", "eval.k=[4]")] {
        let root = home.path().join(name);
        let config = config(&server.url, &["run.keep=2", k]);
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
}

#[test]
fn settings_that_change_the_numbers_of_a_run_cannot_change_when_it_is_resumed() {
    let home = fakes::folder();
    let mut config = config("http://127.0.0.1:1", &[]);
    std::fs::write(home.path().join("config.toml"), config.to_toml()).unwrap();
    let resumed = resume_config(
        home.path(),
        &[
            "verifier.url=http://127.0.0.1:2".into(),
            "run.keep=3".into(),
        ],
    )
    .unwrap();
    (config.verifier.url, config.run.keep) = (Some("http://127.0.0.1:2".into()), 3);
    assert_eq!(resumed, config);
    for set in [
        "optimiser.lr=1e-3",
        "run.seed=4",
        "algorithm.h=4",
        "engine.dtype=bf16",
        "engine.kernel=fma",
    ] {
        let error = resume_config(home.path(), &[set.into()])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("cannot change when a run is continued"),
            "{error}"
        );
    }
    assert!(matches!(
        resume_config(&home.path().join("no"), &[]),
        Err(TrainError::NoRun(_))
    ));
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
        exchanged: 0,
    };
    let plan = RunPlan::new(&config, 11, 5, Some(model));
    // The newest checkpoint, the best, and one that is being written.
    let disk = |free| model.fits_on_disk(plan.checkpoints, Some(free));
    assert_eq!(disk(4_800_000_000), Ok(None));
    assert!(disk(4_799_999_999).is_ok_and(|warning| warning.is_some()));
    assert!(disk(1_599_999_999).is_err());
    // 33 prompts: 9 updates of 4 prompts, the last of 1; 3 phases of 3 updates.
    assert_eq!(
        (
            plan.updates,
            plan.phases,
            plan.completions,
            plan.evaluations
        ),
        (9, Some(3), 132, 4)
    );
    insta::assert_snapshot!(plan.to_string(), @r"
    11 training tasks, 5 held out
    3 inference phases of up to 48 completions
    9 updates on up to 16 completions each
    132 completions in all, at most 528 tokens
    4 evaluations of 20 completions
    memory: about 2.5 GB, 0.4 GB of it for the 100 M weights, 1.2 GB for gradient and moments, and 0.7 GB for keys and values or, in their place, kept activations
    disk: at most 3 checkpoints at once, 1.6 GB each
    ");
    assert_eq!(model.fits(None), Ok(None));
    assert_eq!(model.fits(Some(MemoryBudget::Gpu(2_600_000_000))), Ok(None));
    let warning = model
        .fits(Some(MemoryBudget::Machine(2_000_000_000)))
        .unwrap();
    let warning = warning.unwrap().to_string();
    assert!(warning.contains("of this machine's 2.0 GB"), "{warning}");
    assert!(
        model
            .fits(Some(MemoryBudget::Machine(1_600_000_000)))
            .is_err()
    );
    insta::assert_snapshot!(
        model.fits(Some(MemoryBudget::Gpu(2_000_000_000))).unwrap_err().to_string(),
        @"the run takes up to 2.5 GB of the GPU's 2.0 GB: 0.4 GB for weights, 1.2 GB for gradient and moments, 0.1 GB for one pass, 0.1 GB for the program itself, and the larger of 0.3 GB for keys and values and 0.7 GB for kept activations; lower sampling.max_tokens or algorithm.group_size, set engine.kv_tokens, engine.activations_mib or engine.pack_tokens, or train adapters ([lora])"
    );
    assert!(
        RunPlan::new(&config, 11, 5, None)
            .to_string()
            .ends_with("so its memory and disk space are not known")
    );
}

mod algorithms;
