//! What a run is asked before it goes on, and what is not asked of it.

use datasets::{Dataset, MathTask, TaskSpec};
use engine::EngineError;

use super::*;
use crate::run::folder::provenance::Provenance;

/// The files that a run which goes on cuts back or writes anew.
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

/// Changes a file by its lines.
fn edit(file: &Path, change: impl FnOnce(&mut Vec<String>)) {
    let text = std::fs::read_to_string(file).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    change(&mut lines);
    std::fs::write(file, lines.join("\n") + "\n").unwrap();
}

/// That the run does not go on, in these words, and is as it was.
async fn assert_refused(root: &Path, config: &Config, words: &[&str]) {
    let before = files(root);
    let error = go(root, config).await.unwrap_err();
    let said = error.to_string();
    assert!(
        error.is_refusal() && words.iter().all(|word| said.contains(word)),
        "{said}"
    );
    assert_eq!(files(root), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_line_is_named_and_no_log_is_cut() {
    let (home, server) = (tempfile::tempdir().unwrap(), Scripted::accepting_b().await);
    let root = home.path().join("run");
    let config = config(&server.url, &[]);
    go(&root, &config).await.unwrap();
    let whole = files(&root);
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
        // Another one further on: neither may be cut because of the other.
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
        for (name, text) in &whole {
            std::fs::write(root.join(name), text).unwrap();
        }
    }
    edit(&root.join("metrics.jsonl"), |lines| {
        lines.remove(1);
    });
    assert_refused(&root, &config, &["metrics.jsonl has 9 whole lines"]).await;
    for (name, text) in &whole {
        std::fs::write(root.join(name), text).unwrap();
    }
    go(&root, &config).await.unwrap();
    assert_eq!(files(&root), whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_follows_a_checkpoint_may_be_damaged() {
    let (home, server) = (tempfile::tempdir().unwrap(), Scripted::accepting_b().await);
    let root = home.path().join("run");
    let config = config(&server.url, &["run.keep=2"]);
    go(&root, &config).await.unwrap();
    let expected = course(&root);
    std::fs::remove_dir_all(root.join("checkpoints/step-10")).unwrap();
    // What was being written when a process was killed.
    let halves = [
        "checkpoints/.checkpoint-a1b2c3",
        "checkpoints/.step-9.partial",
    ];
    for half in halves {
        std::fs::create_dir(root.join(half)).unwrap();
        std::fs::write(root.join(half).join("model.safetensors"), "half").unwrap();
    }
    edit(&root.join("metrics.jsonl"), |lines| {
        lines[8].replace_range(..3, "???");
    });
    go(&root, &config).await.unwrap();
    assert_same(&course(&root), &expected, "damaged after update 8");
    for half in halves {
        assert!(!root.join(half).exists(), "{half}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_run_goes_on_from_each_checkpoint_that_it_keeps() {
    let (home, server) = (tempfile::tempdir().unwrap(), Scripted::accepting_b().await);
    let root = home.path().join("run");
    let config = config(&server.url, &["run.keep=4", "run.checkpoint_every=1"]);
    go(&root, &config).await.unwrap();
    let expected = course(&root);
    let folder = |step: usize| root.join(format!("checkpoints/step-{step}"));
    // Phase 2 has the updates 7 to 9.
    for newest in [9, 8, 7] {
        for step in newest + 1..10 {
            std::fs::remove_dir_all(folder(step)).unwrap();
        }
        // What has no mark is no checkpoint, and makes room for one.
        std::fs::remove_file(folder(10).join("run.json")).unwrap();
        let summary = go(&root, &config).await.unwrap();
        assert_eq!((summary.ended, summary.step), (Ended::Finished, 10));
        assert!(folder(10).join("run.json").is_file());
        assert_same(&course(&root), &expected, &format!("from {newest}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_checkpoints_are_gone_begins_anew_only_where_that_is_asked_for() {
    let (home, server) = (tempfile::tempdir().unwrap(), Scripted::accepting_b().await);
    let root = home.path().join("run");
    let config = config(&server.url, &[]);
    go(&root, &config).await.unwrap();
    let expected = course(&root);
    std::fs::remove_dir_all(root.join("checkpoints")).unwrap();
    // How often the run is to be saved from now on says nothing of what was saved.
    let seldom = super::config(&server.url, &["run.checkpoint_every=0"]);
    for config in [&config, &seldom] {
        let words = [
            "checkpoints has no checkpoint, but 10 updates are in the logs",
            "delete metrics.jsonl",
        ];
        assert_refused(&root, config, &words).await;
    }
    std::fs::remove_file(root.join("metrics.jsonl")).unwrap();
    go(&root, &config).await.unwrap();
    assert_same(&course(&root), &expected, "from the first update again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_killed_before_its_newest_checkpoint_was_linked_links_it() {
    let (home, server) = (tempfile::tempdir().unwrap(), Scripted::accepting_b().await);
    let root = home.path().join("run");
    let config = config(&server.url, &[]);
    go(&root, &config).await.unwrap();
    let last = root.join("checkpoints/last");
    std::fs::remove_file(&last).unwrap();
    std::os::unix::fs::symlink("step-8", &last).unwrap();
    go(&root, &config).await.unwrap();
    assert_eq!(std::fs::read_link(&last).unwrap(), Path::new("step-10"));
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_that_are_gone_are_missed_before_anything_is_cut() {
    let (home, server) = (tempfile::tempdir().unwrap(), Scripted::accepting_b().await);
    let root = home.path().join("run");
    let config = config(&server.url, &[]);
    let policy = Arc::new(Toy::failing_at(4));
    train(job(&root, &config, policy, &Stop::default()).unwrap())
        .await
        .unwrap_err();
    std::fs::remove_file(root.join("rollouts/phase-1.json")).unwrap();
    // A line that was being written would be cut off.
    let metrics = root.join("metrics.jsonl");
    let text = std::fs::read_to_string(&metrics).unwrap();
    std::fs::write(&metrics, text + "{\"step\":").unwrap();
    assert_refused(&root, &config, &["phase-1.json is missing"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_a_checkpoint_keeps_the_samples_that_it_began_with() {
    let home = tempfile::tempdir().unwrap();
    let (run, killed) = (home.path().join("run"), home.path().join("killed"));
    // The folder is copied as the first update's samples are trained on and others are asked for.
    let (from, to, asked) = (run.clone(), killed.clone(), AtomicUsize::new(0));
    let server = Scripted::serve(move |_, items| {
        let before = asked.fetch_add(items.len(), Ordering::SeqCst);
        if (before..before + items.len()).contains(&(20 + 16)) {
            copy(&from, &to);
        }
        Answer::accepting_b(&items)
    })
    .await;
    let sets = ["run.checkpoint_every=100", "eval.every=0", "algorithm.h=1"];
    go(&run, &config(&server.url, &sets)).await.unwrap();
    assert!(killed.join("rollouts/phase-0.json").exists());

    // What weights drew that are about to be trained anew is not what the new ones would draw.
    let stale = ["eval-8.drawn.jsonl", "phase-3.json", "phase-3.drawn.jsonl"];
    for name in stale {
        std::fs::write(killed.join("rollouts").join(name), "stale").unwrap();
    }
    let phase_1 = killed.join("rollouts/phase-1.drawn.jsonl");
    assert!(!std::fs::read(&phase_1).unwrap().is_empty());
    go(&killed, &config(&server.url, &sets)).await.unwrap();
    assert_same(
        &course(&killed),
        &course(&run),
        "killed in its second phase",
    );
    for name in stale {
        assert!(!killed.join("rollouts").join(name).exists(), "{name}");
    }
}

#[test]
fn a_damaged_state_is_named_by_the_folder_that_can_be_done_without() {
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
fn a_run_goes_on_with_the_tasks_that_it_began_with() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("run");
    let config = config("http://127.0.0.1:1", &[]);
    let note = |tasks: &Dataset| Provenance::of(&config, tasks, Some(home.path())).unwrap();
    let folder = RunFolder::create(&root, "").unwrap();
    let begun = dataset(16, 4);
    // Killed before its provenance was written.
    note(&begun).check(&root, "toy").unwrap();
    assert_eq!(data_dir_of(&root).unwrap(), None);
    note(&begun).save(&folder).unwrap();
    note(&begun).check(&root, "toy").unwrap();
    assert_eq!(data_dir_of(&root).unwrap().as_deref(), Some(home.path()));

    let refused = |tasks: &Dataset| {
        let error = note(tasks).check(&root, "toy").unwrap_err();
        assert!(error.is_refusal());
        error.to_string()
    };
    let said = refused(&dataset(8, 4));
    assert!(
        said.contains("the data set toy")
            && said.contains("16 to train on and 4 held out, and there are 8 and 4")
            && said.contains("Restore"),
        "{said}"
    );
    let mut others = vec![begun.clone(); 4];
    others[0].train[3].spec = TaskSpec::Math(MathTask { answer: "c".into() });
    others[1].train[3].question.push('?');
    others[2].eval[3].id.push('x');
    others[3].train.swap(0, 1);
    for other in &others {
        assert!(refused(other).contains("there are as many"), "{other:?}");
    }
    std::fs::write(root.join("data.json"), "{").unwrap();
    let said = refused(&begun);
    assert!(
        said.contains("data.json is damaged") && said.contains("delete that file"),
        "{said}"
    );
}

#[test]
fn a_run_keeps_which_graders_judged_and_a_word_is_said_of_others() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("run");
    let config = config("http://127.0.0.1:1", &[]);
    let note = |graders: serde_json::Value| {
        let graders: Vec<verifier_api::GraderInfo> = serde_json::from_value(graders).unwrap();
        let note = Provenance::of(&config, &dataset(2, 2), None).unwrap();
        note.judged_by(&graders)
    };
    let math = |version: &str, policy: &str| serde_json::json!([{"name": "math", "version": version, "state": "ready", "policy": policy}]);
    let folder = RunFolder::create(&root, "").unwrap();
    let none: Vec<String> = Vec::new();
    // Killed before its provenance was written; and a verifier that does not describe its graders.
    assert_eq!(
        note(math("math-4", "boxed, standard"))
            .judged_otherwise(&root)
            .unwrap(),
        none
    );
    note(serde_json::json!([])).save(&folder).unwrap();
    assert_eq!(
        note(math("math-4", "boxed, standard"))
            .judged_otherwise(&root)
            .unwrap(),
        none
    );

    note(math("math-4", "boxed, standard"))
        .save(&folder)
        .unwrap();
    assert_eq!(
        note(math("math-4", "boxed, standard"))
            .judged_otherwise(&root)
            .unwrap(),
        none
    );
    assert_eq!(
        note(serde_json::json!([])).judged_otherwise(&root).unwrap(),
        none
    );
    for (version, policy) in [("math-5", "boxed, standard"), ("math-4", "boxed, lenient")] {
        let said = note(math(version, policy)).judged_otherwise(&root).unwrap();
        let both = format!(
            "math grader was math-4, boxed, standard so far, and is {version}, {policy} now"
        );
        assert!(said.len() == 1 && said[0].contains(&both), "{said:?}");
    }
}

#[test]
fn a_run_goes_on_with_the_model_that_it_began_with_and_a_word_about_another_device() {
    let home = tempfile::tempdir().unwrap();
    let (root, model) = (home.path().join("run"), Path::new("models/m"));
    let config = config("http://127.0.0.1:1", &[]);
    let plain = || Provenance::of(&config, &dataset(2, 2), None).unwrap();
    let note = |model: &str, device: &str| plain().with(model.to_owned(), device);
    let folder = RunFolder::create(&root, "").unwrap();
    // Of a model and a device, before the engine has loaded.
    plain().save(&folder).unwrap();
    let begun = note("a", "cpu (2 threads, avx512, f32)");
    begun.check_model(&root, model).unwrap();
    assert_eq!(begun.moved(&root).unwrap(), None);
    begun.save(&folder).unwrap();

    let other = note("b", "cpu (8 threads, avx2, bf16)");
    assert_eq!(other.moved(&root).unwrap(), None);
    let error = other.check_model(&root, model).unwrap_err();
    let said = error.to_string();
    assert!(
        error.is_refusal() && said.starts_with("the files of the model models/m are not those"),
        "{said}"
    );
    let same = note("a", "NVIDIA H100 80GB HBM3 (bf16)");
    same.check_model(&root, model).unwrap();
    let said = same.moved(&root).unwrap().unwrap();
    assert!(
        said.starts_with(
            "the run was computed on cpu so far, and goes on on NVIDIA H100 80GB HBM3,"
        ),
        "{said}"
    );
}

#[test]
fn tasks_of_both_splits_are_counted() {
    let home = tempfile::tempdir().unwrap();
    let config = config("http://127.0.0.1:1", &[]);
    let counted = |name: &str, tasks: &Dataset| {
        let root = home.path().join(name);
        let note = Provenance::of(&config, tasks, None).unwrap();
        note.save(&RunFolder::create(&root, "").unwrap()).unwrap();
        trained_on(&root).unwrap()
    };
    let apart = dataset(4, 3);
    assert_eq!(counted("apart", &apart), Some(0));
    let undivided = Dataset {
        eval: apart.train.clone(),
        ..apart.clone()
    };
    assert_eq!(counted("undivided", &undivided), Some(4));
    let mut asked = apart;
    asked.eval[1].question = "  Question toy/train/2".into();
    assert_eq!(counted("asked", &asked), Some(1));
    let empty = home.path().join("empty");
    RunFolder::create(&empty, "").unwrap();
    assert_eq!(trained_on(&empty).unwrap(), None);
}

#[test]
fn a_template_in_a_file_is_of_the_data_too() {
    let home = tempfile::tempdir().unwrap();
    let (root, file) = (home.path().join("run"), home.path().join("mine.txt"));
    let set = format!("data.template={}", file.display());
    let config = config("http://127.0.0.1:1", &[&set]);
    let tasks = dataset(2, 2);
    let note = || Provenance::of(&config, &tasks, None).unwrap();
    std::fs::write(&file, "{question}").unwrap();
    note().save(&RunFolder::create(&root, "").unwrap()).unwrap();
    note().check(&root, "toy").unwrap();
    std::fs::write(&file, "{question}?").unwrap();
    assert!(matches!(
        note().check(&root, "toy"),
        Err(TrainError::OtherTasks { .. })
    ));
}

#[test]
fn a_new_run_is_refused_where_something_else_is() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("notes.txt");
    std::fs::write(&file, "").unwrap();
    for place in [file.clone(), file.join("run")] {
        let error = RunFolder::check_free(&place).unwrap_err();
        assert!(matches!(&error, TrainError::NoFolder(path) if *path == file));
        assert!(error.to_string().contains("--out"), "{error}");
    }
    let said = RunFolder::check_free(home.path()).unwrap_err().to_string();
    assert!(
        said.contains("such as notes.txt") && said.contains("--out"),
        "{said}"
    );

    let new = home.path().join("new");
    RunFolder::check_free(&new).unwrap();
    assert!(!new.exists(), "asking makes nothing");
    std::fs::create_dir(&new).unwrap();
    // As `rapid quickstart` begins.
    std::fs::write(new.join("verifier.log"), "told").unwrap();
    RunFolder::check_free(&new).unwrap();
    std::fs::write(new.join("data.json"), "{}").unwrap();
    let said = RunFolder::check_free(&new).unwrap_err().to_string();
    assert!(said.contains("such as data.json"), "{said}");
    // As a start leaves it that is cut off before its folder is a run's.
    let config = config("http://127.0.0.1:1", &[]);
    let note = Provenance::of(&config, &dataset(2, 2), None).unwrap();
    note.save(&RunFolder::claim(&new).unwrap()).unwrap();
    RunFolder::check_free(&new).unwrap();
    RunFolder::create(&new, "").unwrap();
    assert!(matches!(
        RunFolder::check_free(&new),
        Err(TrainError::Exists(_))
    ));
}
