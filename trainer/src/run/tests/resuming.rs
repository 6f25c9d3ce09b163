//! The checks before a run is resumed.

use datasets::{Dataset, MathTask, TaskSpec};
use engine::EngineError;

use super::*;
use crate::run::folder::provenance::Provenance;

/// The files that a resumed run truncates or rewrites.
fn files(root: &Path) -> BTreeMap<&'static str, String> {
    let names = [
        "metrics.jsonl",
        "timings.jsonl",
        "eval.jsonl",
        "alarms.jsonl",
        "config.toml",
    ];
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap_or_default();
    names.map(|name| (name, read(name))).into()
}

/// Changes the lines of a file.
fn edit(file: &Path, change: impl FnOnce(&mut Vec<String>)) {
    let text = std::fs::read_to_string(file).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    change(&mut lines);
    std::fs::write(file, lines.join("\n") + "\n").unwrap();
}

/// Asserts that resuming the run is refused with these words, and changes nothing.
async fn assert_refused(root: &Path, config: &Config, words: &[&str]) {
    let before = files(root);
    let error = run_in(root, config).await.unwrap_err();
    let message = error.to_string();
    assert!(
        error.is_refusal() && words.iter().all(|part| message.contains(part)),
        "{message}"
    );
    assert_eq!(files(root), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_line_is_named_and_no_log_is_truncated() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let config = config(&server.url, &[]);
    run_in(&root, &config).await.unwrap();
    let undamaged = files(&root);
    for (log, line, remedy) in [
        (
            "metrics.jsonl",
            2,
            "delete the checkpoints from that update",
        ),
        ("timings.jsonl", 10, "delete that line"),
        ("eval.jsonl", 1, "delete that line"),
    ] {
        edit(&root.join(log), |lines| {
            lines[line - 1].replace_range(..3, "???");
        });
        // Another damaged line, in the last log that is checked: none may be truncated before all are checked.
        edit(&root.join("eval.jsonl"), |lines| {
            lines[2].replace_range(..3, "???");
        });
        let place = format!("{log}, line {line} is damaged (expected value at column 1)");
        assert_refused(
            &root,
            &config,
            &[place.as_str(), "Restore the file", remedy],
        )
        .await;
        for (name, text) in &undamaged {
            std::fs::write(root.join(name), text).unwrap();
        }
    }
    edit(&root.join("metrics.jsonl"), |lines| {
        lines.remove(1);
    });
    assert_refused(&root, &config, &["metrics.jsonl has 9 whole lines"]).await;
    for (name, text) in &undamaged {
        std::fs::write(root.join(name), text).unwrap();
    }
    run_in(&root, &config).await.unwrap();
    assert_eq!(files(&root), undamaged);
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_after_the_checkpoint_may_be_damaged() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let config = config(&server.url, &["run.keep=2"]);
    run_in(&root, &config).await.unwrap();
    let expected = outputs(&root);
    std::fs::remove_dir_all(root.join("checkpoints/step-10")).unwrap();
    // Checkpoints and samples that were being written when a process was killed.
    let partial = [
        "checkpoints/.checkpoint-a1b2c3",
        "checkpoints/.step-9.partial",
    ];
    for folder in partial {
        std::fs::create_dir(root.join(folder)).unwrap();
        std::fs::write(root.join(folder).join("model.safetensors"), "half").unwrap();
    }
    let partial_samples = [
        "rollouts/.rapid-partial-a1b2c3",
        "samples/.rapid-partial-a1b2c3",
    ];
    for file in partial_samples {
        std::fs::write(root.join(file), "half").unwrap();
    }
    edit(&root.join("metrics.jsonl"), |lines| {
        lines[8].replace_range(..3, "???");
    });
    run_in(&root, &config).await.unwrap();
    assert_same(&outputs(&root), &expected, "damaged after update 8");
    for path in partial.iter().chain(&partial_samples) {
        assert!(!root.join(path).exists(), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_run_can_be_resumed_from_each_remaining_checkpoint() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let config = config(&server.url, &["run.keep=4", "run.checkpoint_every=1"]);
    run_in(&root, &config).await.unwrap();
    let expected = outputs(&root);
    let folder = |step: usize| root.join(format!("checkpoints/step-{step}"));
    // Phase 2 has the updates 7 to 9.
    for newest in [9, 8, 7] {
        for step in newest + 1..10 {
            std::fs::remove_dir_all(folder(step)).unwrap();
        }
        // A folder without the mark is not a checkpoint, and the next checkpoint replaces it.
        std::fs::remove_file(folder(10).join("run.json")).unwrap();
        // The process may have been killed before it pointed `last` at the newest.
        let last = root.join("checkpoints/last");
        std::fs::remove_file(&last).unwrap();
        std::os::unix::fs::symlink("step-7", &last).unwrap();
        let summary = run_in(&root, &config).await.unwrap();
        assert_eq!((summary.ended, summary.step), (RunOutcome::Finished, 10));
        assert!(folder(10).join("run.json").is_file());
        assert_eq!(std::fs::read_link(&last).unwrap(), Path::new("step-10"));
        assert_same(&outputs(&root), &expected, &format!("from {newest}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_checkpoints_are_missing_restarts_only_without_its_metrics() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let config = config(&server.url, &[]);
    run_in(&root, &config).await.unwrap();
    let expected = outputs(&root);
    let checkpoints = root.join("checkpoints");
    std::fs::remove_dir_all(&checkpoints).unwrap();
    std::fs::create_dir(&checkpoints).unwrap();
    // A new value of `run.checkpoint_every` does not change which checkpoints were saved.
    let seldom = super::config(&server.url, &["run.checkpoint_every=0"]);
    for config in [&config, &seldom] {
        let words = [
            "checkpoints has no checkpoint, but 10 updates are in the logs",
            "delete metrics.jsonl",
        ];
        assert_refused(&root, config, &words).await;
    }
    std::fs::remove_file(root.join("metrics.jsonl")).unwrap();
    run_in(&root, &config).await.unwrap();
    assert_same(&outputs(&root), &expected, "from the first update again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_folder_of_checkpoints_was_removed_is_not_made_again() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    // No checkpoint but that of the last update, as in a run that is shorter than `run.checkpoint_every`.
    let sets = ["run.checkpoint_every=20"];
    run_in(&root, &config(&server.url, &sets)).await.unwrap();
    std::fs::remove_dir_all(root.join("checkpoints")).unwrap();
    for sets in [&sets[..], &["run.checkpoint_every=20", "run.updates=12"]] {
        let words = ["10 updates are in the logs", "delete metrics.jsonl"];
        assert_refused(&root, &config(&server.url, sets), &words).await;
        assert!(!root.join("checkpoints").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_samples_are_reported_before_any_log_is_truncated() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let config = config(&server.url, &[]);
    fail_after(4, &root, &config).await;
    std::fs::remove_file(root.join("rollouts/phase-1.json")).unwrap();
    // This line, which was being written, would be truncated.
    let metrics = root.join("metrics.jsonl");
    let text = std::fs::read_to_string(&metrics).unwrap();
    std::fs::write(&metrics, text + "{\"step\":").unwrap();
    assert_refused(&root, &config, &["phase-1.json is missing"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_run_saves_its_provenance_once_nothing_refuses_it() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let config = config(&server.url, &[]);
    fail_after(4, &root, &config).await;
    let resumed = || {
        let provenance = Provenance::of(&config, &dataset(11, 5), Some(home.path())).unwrap();
        Job {
            provenance: Some(provenance),
            ..plain_job(&root, &config).unwrap()
        }
    };
    let rollout = root.join("rollouts/phase-1.json");
    let samples = std::fs::read(&rollout).unwrap();
    std::fs::remove_file(&rollout).unwrap();
    let error = train(resumed()).await.unwrap_err();
    assert!(error.is_refusal(), "{error}");
    assert!(!root.join("data.json").exists());
    std::fs::write(&rollout, samples).unwrap();
    train(resumed()).await.unwrap();
    assert_eq!(data_dir_of(&root).unwrap().as_deref(), Some(home.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_killed_before_its_first_checkpoint_reuses_its_first_samples() {
    let home = fakes::folder();
    let (run, killed) = (home.path().join("run"), home.path().join("killed"));
    // The folder is copied in the second phase, while its first verdicts are requested.
    let (from, to, requested) = (run.clone(), killed.clone(), AtomicUsize::new(0));
    let server = FakeVerifier::serve(move |_, items| {
        let before = requested.fetch_add(items.len(), Ordering::SeqCst);
        if (before..before + items.len()).contains(&(20 + 16)) {
            copy(&from, &to);
        }
        Answer::accepting_b(&items)
    })
    .await;
    let sets = ["run.checkpoint_every=100", "eval.every=0", "algorithm.h=1"];
    run_in(&run, &config(&server.url, &sets)).await.unwrap();
    assert!(killed.join("rollouts/phase-0.json").exists());

    // Samples of later weights are removed, since the weights after the repeated updates may differ.
    let stale = ["eval-8.drawn.jsonl", "phase-3.json", "phase-3.drawn.jsonl"];
    for name in stale {
        std::fs::write(killed.join("rollouts").join(name), "stale").unwrap();
    }
    let phase_1 = killed.join("rollouts/phase-1.drawn.jsonl");
    assert!(!std::fs::read(&phase_1).unwrap().is_empty());
    run_in(&killed, &config(&server.url, &sets)).await.unwrap();
    assert_same(
        &outputs(&killed),
        &outputs(&run),
        "killed in its second phase",
    );
    for name in stale {
        assert!(!killed.join("rollouts").join(name).exists(), "{name}");
    }
}

#[test]
fn the_error_for_a_damaged_state_names_the_checkpoint_to_delete() {
    let damaged = EngineError::Model {
        path: "checkpoints/step-4/state.bin".into(),
        reason: "is damaged".into(),
    };
    let error = checkpoint::unusable(Path::new("checkpoints/step-4"), damaged);
    assert!(error.is_refusal());
    assert_eq!(
        error.to_string(),
        "checkpoints/step-4: state.bin: is damaged; delete that folder to continue from the checkpoint before it"
    );
}

#[test]
fn a_run_with_other_tasks_than_it_began_with_is_refused() {
    let home = fakes::folder();
    let root = home.path().join("run");
    let config = config("http://127.0.0.1:1", &[]);
    let provenance = |tasks: &Dataset| Provenance::of(&config, tasks, Some(home.path())).unwrap();
    let folder = RunFolder::create(&root, "").unwrap();
    let original = dataset(16, 4);
    // The run was killed before its provenance was written.
    provenance(&original).check(&root, "toy").unwrap();
    assert_eq!(data_dir_of(&root).unwrap(), None);
    provenance(&original).save(&folder).unwrap();
    provenance(&original).check(&root, "toy").unwrap();
    assert_eq!(data_dir_of(&root).unwrap().as_deref(), Some(home.path()));

    let refused = |tasks: &Dataset| {
        let error = provenance(tasks).check(&root, "toy").unwrap_err();
        assert!(error.is_refusal());
        error.to_string()
    };
    let message = refused(&dataset(8, 4));
    assert!(
        message.contains("the data set toy")
            && message.contains("16 to train on and 4 held out, and now there are 8 and 4")
            && message.contains("Restore"),
        "{message}"
    );
    let mut others = vec![original.clone(); 4];
    others[0].train[3].spec = TaskSpec::Math(MathTask { answer: "c".into() });
    others[1].train[3].question.push('?');
    others[2].eval[3].id.push('x');
    others[3].train.swap(0, 1);
    for other in &others {
        assert!(
            refused(other).contains("their number is the same"),
            "{other:?}"
        );
    }
    std::fs::write(root.join("data.json"), "{").unwrap();
    let message = refused(&original);
    assert!(
        message.contains("data.json is damaged") && message.contains("delete that file"),
        "{message}"
    );
}

#[test]
fn a_run_stores_its_graders_and_warns_of_others() {
    let home = fakes::folder();
    let root = home.path().join("run");
    let config = config("http://127.0.0.1:1", &[]);
    let provenance = |graders: serde_json::Value| {
        let graders: Vec<verifier_api::GraderInfo> = serde_json::from_value(graders).unwrap();
        let provenance = Provenance::of(&config, &dataset(2, 2), None).unwrap();
        provenance.with_graders(&graders)
    };
    let math = |version: &str, policy: &str| serde_json::json!([{"name": "math", "version": version, "state": "ready", "policy": policy}]);
    let folder = RunFolder::create(&root, "").unwrap();
    let silent = || serde_json::json!([]);
    let usual = || math("math-4", "boxed, standard");
    let changes = |graders| provenance(graders).grader_changes(&root).unwrap();
    // The run was killed before its provenance was written; then, its verifier did not describe its graders; then, it does not any more.
    for (saved, now) in [
        (None, usual()),
        (Some(silent()), usual()),
        (Some(usual()), usual()),
        (None, silent()),
    ] {
        if let Some(saved) = saved {
            provenance(saved).save(&folder).unwrap();
        }
        assert_eq!(changes(now), Vec::<String>::new());
    }
    for (version, policy) in [("math-5", "boxed, standard"), ("math-4", "boxed, lenient")] {
        let message = changes(math(version, policy));
        let both = format!(
            "math grader was math-4, boxed, standard so far, and is {version}, {policy} now"
        );
        assert!(
            message.len() == 1 && message[0].contains(&both),
            "{message:?}"
        );
    }
}

#[test]
fn another_model_is_refused_and_another_device_gets_a_warning() {
    let home = fakes::folder();
    let (root, model) = (home.path().join("run"), Path::new("models/m"));
    let config = config("http://127.0.0.1:1", &[]);
    let plain = || Provenance::of(&config, &dataset(2, 2), None).unwrap();
    let provenance = |model: &str, device: &str| plain().with_model(model.to_owned(), device);
    let folder = RunFolder::create(&root, "").unwrap();
    // A provenance without a model and a device, as before the engine is open.
    plain().save(&folder).unwrap();
    let original = provenance("a", "cpu (2 threads, avx512, f32)");
    original.check_model(&root, model).unwrap();
    assert_eq!(original.device_change(&root).unwrap(), None);
    original.save(&folder).unwrap();

    let other = provenance("b", "cpu (8 threads, avx2, bf16)");
    assert_eq!(other.device_change(&root).unwrap(), None);
    let error = other.check_model(&root, model).unwrap_err();
    let message = error.to_string();
    assert!(
        error.is_refusal() && message.starts_with("the files of the model models/m are not those"),
        "{message}"
    );
    let same = provenance("a", "NVIDIA H100 80GB HBM3 (bf16)");
    same.check_model(&root, model).unwrap();
    let message = same.device_change(&root).unwrap().unwrap();
    assert!(
        message.starts_with(
            "the run was computed on cpu so far, and continues on NVIDIA H100 80GB HBM3,"
        ),
        "{message}"
    );
}

#[test]
fn held_out_tasks_that_are_trained_on_are_counted() {
    let home = fakes::folder();
    let config = config("http://127.0.0.1:1", &[]);
    let counted = |name: &str, tasks: &Dataset| {
        let root = home.path().join(name);
        let provenance = Provenance::of(&config, tasks, None).unwrap();
        provenance
            .save(&RunFolder::create(&root, "").unwrap())
            .unwrap();
        trained_on(&root).unwrap()
    };
    let disjoint = dataset(4, 3);
    assert_eq!(counted("disjoint", &disjoint), Some(0));
    let without_splits = Dataset {
        eval: disjoint.train.clone(),
        ..disjoint.clone()
    };
    assert_eq!(counted("without-splits", &without_splits), Some(4));
    let mut same_question = disjoint;
    same_question.eval[1].question = "  Question toy/train/2".into();
    assert_eq!(counted("same-question", &same_question), Some(1));
    let empty = home.path().join("empty");
    RunFolder::create(&empty, "").unwrap();
    assert_eq!(trained_on(&empty).unwrap(), None);
}

#[test]
fn a_changed_template_file_counts_as_other_tasks() {
    let home = fakes::folder();
    let (root, file) = (home.path().join("run"), home.path().join("mine.txt"));
    let set = format!("data.template={}", file.display());
    let config = config("http://127.0.0.1:1", &[&set]);
    let tasks = dataset(2, 2);
    let provenance = || Provenance::of(&config, &tasks, None).unwrap();
    std::fs::write(&file, "{question}").unwrap();
    provenance()
        .save(&RunFolder::create(&root, "").unwrap())
        .unwrap();
    provenance().check(&root, "toy").unwrap();
    std::fs::write(&file, "{question}?").unwrap();
    assert!(matches!(
        provenance().check(&root, "toy"),
        Err(TrainError::OtherTasks { .. })
    ));
}

#[test]
fn a_new_run_is_refused_in_a_folder_with_other_files() {
    let home = fakes::folder();
    let file = home.path().join("notes.txt");
    std::fs::write(&file, "").unwrap();
    for place in [file.clone(), file.join("run")] {
        let error = RunFolder::check_free(&place).unwrap_err();
        assert!(matches!(&error, TrainError::NoFolder(path) if *path == file));
        assert!(error.to_string().contains("--out"), "{error}");
    }
    let message = RunFolder::check_free(home.path()).unwrap_err().to_string();
    assert!(
        message.contains("such as notes.txt") && message.contains("--out"),
        "{message}"
    );

    let new = home.path().join("new");
    RunFolder::check_free(&new).unwrap();
    assert!(!new.exists(), "the check creates nothing");
    std::fs::create_dir(&new).unwrap();
    // The folder as `rapid quickstart` begins.
    std::fs::write(new.join("verifier.log"), "log").unwrap();
    RunFolder::check_free(&new).unwrap();
    std::fs::write(new.join("data.json"), "{}").unwrap();
    let message = RunFolder::check_free(&new).unwrap_err().to_string();
    assert!(message.contains("such as data.json"), "{message}");
    // The folder as an interrupted start leaves it, before it is a run.
    let config = config("http://127.0.0.1:1", &[]);
    let provenance = Provenance::of(&config, &dataset(2, 2), None).unwrap();
    provenance.save(&RunFolder::claim(&new).unwrap()).unwrap();
    RunFolder::check_free(&new).unwrap();
    RunFolder::create(&new, "").unwrap();
    assert!(matches!(
        RunFolder::check_free(&new),
        Err(TrainError::Exists(_))
    ));
}
