mod auto_h;
mod clock;
mod diverging;
mod evaluating;
mod extending;
mod resuming;
mod unjudged;
mod watching;
mod weights;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::folder::checkpoint;
use super::*;
use crate::config::{self, Config};
use crate::data::{Prompt, Prompts};
use crate::fakes::{
    Answer, FakePolicy, FakeVerifier, dataset, judgement, prompt, verifier_settings,
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

fn job(
    root: &Path,
    config: &Config,
    policy: Arc<dyn Policy>,
    stop: &StopSignal,
) -> Result<Job, TrainError> {
    let folder = if root.join("config.toml").exists() {
        RunFolder::open(root)?
    } else {
        RunFolder::create(root, &config.to_toml())?
    };
    Ok(Job {
        config: config.clone(),
        rewards: RewardClient::new(&config::Verifier {
            url: config.verifier.url.clone(),
            ..verifier_settings("", config.verifier.patience_s)
        })
        .unwrap(),
        prompts: prompts(policy.as_ref()),
        reference: None,
        demonstrations: None,
        policy,
        folder,
        provenance: None,
        stop: stop.clone(),
        journal: Journal::new(Progress::silent()),
        clock: Clock::start(),
    })
}

/// A [`job`] that nothing fails and nobody stops.
fn plain_job(root: &Path, config: &Config) -> Result<Job, TrainError> {
    let policy = Arc::new(FakePolicy::default());
    job(root, config, policy, &StopSignal::default())
}

/// Starts or resumes the run in a folder, and trains to its end.
async fn run_in(root: &Path, config: &Config) -> Result<Summary, TrainError> {
    train(plain_job(root, config)?).await
}

/// Starts or resumes the run in a folder, on a model that fails after this number of updates.
async fn fail_after(updates: usize, root: &Path, config: &Config) -> TrainError {
    let policy = Arc::new(FakePolicy::failing_at(updates));
    let job = job(root, config, policy, &StopSignal::default()).unwrap();
    train(job).await.unwrap_err()
}

/// A folder for runs, and a verifier that accepts `b`.
async fn home_and_verifier() -> (tempfile::TempDir, FakeVerifier) {
    let server = FakeVerifier::accepting_b().await;
    (tempfile::tempdir().unwrap(), server)
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

    let steps: Vec<StepRecord> = read_log(&root, Log::Metrics).unwrap();
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
    let home = tempfile::tempdir().unwrap();
    let uninterrupted = home.path().join("uninterrupted");
    let server = FakeVerifier::accepting_b().await;
    let config = config(&server.url, &[]);
    run_in(&uninterrupted, &config).await.unwrap();
    let expected = outputs(&uninterrupted);
    drop(server);

    // The folder is copied while the run is in the middle of judging its n-th request: everything later is lost.
    let run = home.path().join("run");
    let copies = Arc::new(AtomicUsize::new(0));
    let (from, to, counter) = (run.clone(), home.path().to_owned(), copies.clone());
    let server = FakeVerifier::serve(move |number, items| {
        if number % 5 == 2 && from.join("config.toml").exists() {
            copy(
                &from,
                &to.join(format!("killed-{}", counter.fetch_add(1, Ordering::SeqCst))),
            );
        }
        Answer::accepting_b(&items)
    })
    .await;
    run_in(&run, &super::tests::config(&server.url, &[]))
        .await
        .unwrap();
    assert_same(&outputs(&run), &expected, "judged by another verifier");
    let copies = copies.load(Ordering::SeqCst);
    assert!(copies >= 8, "{copies}");
    drop(server);

    let server = FakeVerifier::accepting_b().await;
    let config = super::tests::config(&server.url, &[]);
    for number in 0..copies {
        let killed = home.path().join(format!("killed-{number}"));
        // A line that was being written when the process was killed.
        let metrics = killed.join("metrics.jsonl");
        let mut text = std::fs::read(&metrics).unwrap_or_default();
        text.extend(b"{\"step\":");
        std::fs::write(&metrics, text).unwrap();
        let summary = run_in(&killed, &config).await.unwrap();
        assert_eq!(summary.ended, RunOutcome::Finished);
        assert_same(&outputs(&killed), &expected, &format!("killed-{number}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_step_failed_resumes_in_mid_phase() {
    let (home, server) = home_and_verifier().await;
    let (uninterrupted, failed) = (
        home.path().join("uninterrupted"),
        home.path().join("failed"),
    );
    let config = config(&server.url, &[]);
    run_in(&uninterrupted, &config).await.unwrap();
    for fail_at in [0, 4, 8] {
        let _ = std::fs::remove_dir_all(&failed);
        let error = fail_after(fail_at, &failed, &config).await;
        assert!(matches!(error, TrainError::Engine(_)), "{error}");
        let policy = Arc::new(FakePolicy::default());
        train(job(&failed, &config, policy.clone(), &StopSignal::default()).unwrap())
            .await
            .unwrap();
        assert_eq!(policy.steps(), 10 - fail_at, "no update is made twice");
        assert_same(
            &outputs(&failed),
            &outputs(&uninterrupted),
            &format!("failed at {fail_at}"),
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_run_can_be_resumed_and_equals_one_that_was_not_stopped() {
    let home = tempfile::tempdir().unwrap();
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
        let summary = train(
            job(
                &root,
                &config(&server.url, &[]),
                Arc::new(FakePolicy::default()),
                &stop,
            )
            .unwrap(),
        )
        .await
        .unwrap();
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
    let home = tempfile::tempdir().unwrap();
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
async fn only_the_newest_and_the_best_checkpoints_are_kept() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    run_in(&root, &config(&server.url, &["run.keep=2"]))
        .await
        .unwrap();
    let evals: Vec<EvalRecord> = read_log(&root, Log::Eval).unwrap();
    let best = best(&evals).unwrap().0;
    let folder = RunFolder::open(&root).unwrap();
    let mut expected = vec![best, 8, 10];
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(checkpoint::steps(&folder).unwrap(), expected);
    assert_eq!(
        std::fs::read_link(root.join("checkpoints/last")).unwrap(),
        Path::new("step-10")
    );
    assert_eq!(
        std::fs::read_link(root.join("checkpoints/best")).unwrap(),
        Path::new(&format!("step-{best}"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_best_checkpoint_has_the_highest_pass_at_1_whichever_k_the_recipe_has() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let config = config(&server.url, &["eval.k=[4]"]);
    let evals = run_in(&root, &config).await.unwrap().evals;
    assert!(evals.iter().all(|eval| eval.pass_at.keys().eq(&[1, 4])));
    let best = best(&evals).unwrap().0;
    assert_eq!(
        std::fs::read_link(root.join("checkpoints/best")).unwrap(),
        Path::new(&format!("step-{best}"))
    );
}

#[test]
fn settings_that_change_the_numbers_of_a_run_cannot_change_when_it_is_resumed() {
    let home = tempfile::tempdir().unwrap();
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
