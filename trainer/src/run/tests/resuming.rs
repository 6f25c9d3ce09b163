//! The checks before a run is resumed.

use datasets::{Dataset, TaskSpec};
use engine::EngineError;

use super::*;

/// The files that a resumed run truncates or rewrites.
const FILES: [&str; 5] = [
    "metrics.jsonl",
    "timings.jsonl",
    "eval.jsonl",
    "alarms.jsonl",
    "config.toml",
];

fn files(root: &Path) -> [String; 5] {
    FILES.map(|name| std::fs::read_to_string(root.join(name)).unwrap_or_default())
}

fn restore(root: &Path, files: &[String; 5]) {
    for (name, text) in FILES.iter().zip(files) {
        std::fs::write(root.join(name), text).unwrap();
    }
}

/// Damages a line, counted from 1, of a file.
fn damage(file: &Path, line: usize) {
    let text = std::fs::read_to_string(file).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[line - 1].replace_range(..3, "???");
    std::fs::write(file, lines.join("\n") + "\n").unwrap();
}

/// Asserts that resuming the run is refused with these words, and changes nothing.
async fn assert_refused(root: &Path, config: &Config, words: &[&str]) {
    let before = files(root);
    let error = run_in(root, config).await.unwrap_err();
    assert_refusal(&error, words);
    assert_eq!(files(root), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_logs_and_missing_checkpoints_are_named_and_nothing_is_changed() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let config = config(&server.url, &["run.keep=2"]);
    run_in(&root, &config).await.unwrap();
    let (undamaged, expected) = (files(&root), outputs(&root));
    for (log, line, remedy) in [
        ("metrics.jsonl", 2, "delete the checkpoints from"),
        ("timings.jsonl", 10, "delete that line"),
        ("eval.jsonl", 1, "delete that line"),
    ] {
        damage(&root.join(log), line);
        // Another damaged line, in the last log that is checked: none may be truncated before all are checked.
        damage(&root.join("eval.jsonl"), 3);
        let place = format!("{log}, line {line} is damaged (expected value at column 1)");
        assert_refused(&root, &config, &[&place, "Restore the file", remedy]).await;
        restore(&root, &undamaged);
    }
    let without_first = undamaged[0].split_once('\n').unwrap().1;
    std::fs::write(root.join("metrics.jsonl"), without_first).unwrap();
    assert_refused(&root, &config, &["metrics.jsonl has 9 whole lines"]).await;
    restore(&root, &undamaged);
    run_in(&root, &config).await.unwrap();
    assert_eq!(files(&root), undamaged);

    // A folder without the mark is not a checkpoint, and the next checkpoint replaces it. Lines after the checkpoint before it may be damaged. Checkpoints and files that
    // were being written when a process was killed are removed.
    let mark = root.join("checkpoints/step-10/run.json");
    std::fs::remove_file(&mark).unwrap();
    damage(&root.join("metrics.jsonl"), 9);
    let partial = [".checkpoint-a1b2c3", ".step-9.partial"];
    let partial = partial.map(|name| format!("checkpoints/{name}"));
    for folder in &partial {
        std::fs::create_dir(root.join(folder)).unwrap();
        std::fs::write(root.join(folder).join("model.safetensors"), "half").unwrap();
    }
    let partial_files = ["rollouts", "samples", "tensorboard"];
    let partial_files = partial_files.map(|folder| format!("{folder}/.rapid-partial-a1b2c3"));
    for file in &partial_files {
        std::fs::write(root.join(file), "half").unwrap();
    }
    run_in(&root, &config).await.unwrap();
    assert_same(&outputs(&root), &expected, "damaged after update 8");
    assert!(mark.is_file());
    for path in partial.iter().chain(&partial_files) {
        assert!(!root.join(path).exists(), "{path}");
    }

    let checkpoints = root.join("checkpoints");
    std::fs::remove_dir_all(&checkpoints).unwrap();
    let words = [
        "checkpoints has no checkpoint, but 10 updates are in the logs",
        "delete metrics.jsonl",
    ];
    // A new value of `run.checkpoint_every`, or a new length, does not change which checkpoints were saved.
    let [seldom, longer] =
        ["run.checkpoint_every=0", "run.updates=12"].map(|set| super::config(&server.url, &[set]));
    for config in [&config, &seldom, &longer] {
        let error = RunFolder::open(&root).unwrap_err();
        assert_refusal(&error, &words);
        assert!(!checkpoints.exists());
        std::fs::create_dir(&checkpoints).unwrap();
        assert_refused(&root, config, &words).await;
        std::fs::remove_dir(&checkpoints).unwrap();
    }
    std::fs::remove_file(root.join("metrics.jsonl")).unwrap();
    run_in(&root, &config).await.unwrap();
    assert_same(&outputs(&root), &expected, "from the first update again");
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
        std::os::unix::fs::symlink("step-2", &last).unwrap();
        let summary = run_in(&root, &config).await.unwrap();
        assert_eq!((summary.ended, summary.step), (RunOutcome::Finished, 10));
        assert!(folder(10).join("run.json").is_file());
        assert_eq!(std::fs::read_link(&last).unwrap(), Path::new("step-10"));
        assert_same(&outputs(&root), &expected, &format!("from {newest}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_samples_are_reported_before_any_file_changes() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let config = config(&server.url, &[]);
    fail_after(4, &root, &config).await;
    let resumed = async || {
        let provenance = Provenance::of(&config, &[&dataset(11, 5)], Some(home.path())).unwrap();
        let job = plain_job(&root, &config).unwrap();
        train(Job {
            provenance: Some(provenance),
            ..job
        })
        .await
    };
    let rollout = root.join("rollouts/phase-1.json");
    let samples = std::fs::read(&rollout).unwrap();
    std::fs::remove_file(&rollout).unwrap();
    // This line, which was being written, would be truncated.
    let metrics = root.join("metrics.jsonl");
    let text = std::fs::read_to_string(&metrics).unwrap() + "{\"step\":";
    std::fs::write(&metrics, &text).unwrap();
    let error = resumed().await.unwrap_err();
    assert_refusal(&error, &["phase-1.json is missing"]);
    assert_eq!(std::fs::read_to_string(&metrics).unwrap(), text);
    assert!(!root.join("data.json").exists());
    std::fs::write(&rollout, samples).unwrap();
    resumed().await.unwrap();
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
    let [resumed, expected] = [&killed, &run].map(|root| outputs(root));
    assert_same(&resumed, &expected, "killed in its second phase");
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
    let words = "checkpoints/step-4: state.bin: is damaged; delete that folder to continue from the checkpoint before it";
    assert_refusal(&error, &[words]);
}

#[test]
fn a_run_with_other_tasks_than_it_began_with_is_refused() {
    let home = fakes::folder();
    let (root, template) = (home.path().join("run"), home.path().join("mine.txt"));
    std::fs::write(&template, "{question}").unwrap();
    let set = format!("data.template={}", template.display());
    let config = config("http://127.0.0.1:1", &[&set]);
    let provenance =
        |tasks: &Dataset| Provenance::of(&config, &[tasks], Some(home.path())).unwrap();
    let original = dataset(16, 4);
    let previous = provenance(&original);
    previous.check(&previous, "toy").unwrap();
    let refused = |tasks: &Dataset, words: &str| {
        let error = provenance(tasks).check(&previous, "toy").unwrap_err();
        assert_refusal(&error, &["the data set toy", "Restore", words]);
    };
    let numbers = "16 to train on and 4 held out, and now there are 8 and 4";
    refused(&dataset(8, 4), numbers);
    let mut others = vec![original.clone(); 4];
    others[0].train[3].spec = TaskSpec::math("c");
    others[1].train[3].question.push('?');
    others[2].eval[3].id.push('x');
    others[3].train.swap(0, 1);
    for other in &others {
        refused(other, "their number is the same");
    }
    std::fs::write(&template, "{question}?").unwrap();
    refused(&original, "the file of its prompt template");

    // The run was killed before its provenance was written, then it was damaged.
    let folder = RunFolder::claim(&root).unwrap();
    assert_eq!(data_dir_of(&root).unwrap(), None);
    previous.save(&folder).unwrap();
    assert_eq!(Provenance::of_run(&root).unwrap(), Some(previous));
    std::fs::write(root.join("data.json"), "{").unwrap();
    let error = data_dir_of(&root).unwrap_err();
    assert_refusal(&error, &["data.json is damaged", "delete that file"]);
}

#[test]
fn another_model_is_refused_and_another_device_or_grader_gets_a_warning() {
    let config = config("http://127.0.0.1:1", &[]);
    let plain = || Provenance::of(&config, &[&dataset(2, 2)], None).unwrap();
    let provenance = |model: &str, device: &str, math: Option<[&str; 2]>| {
        let grader = |[version, policy]: [&str; 2]| {
            let info = serde_json::json!({"name": "math", "version": version, "state": "ready", "policy": policy});
            serde_json::from_value(info).unwrap()
        };
        let graders: Vec<verifier_api::GraderInfo> = math.map(grader).into_iter().collect();
        plain().with(model.to_owned(), device, &graders)
    };
    let (cpu, usual) = ("cpu (2 threads, avx512, f32)", ["math-4", "boxed"]);
    let original = provenance("a", cpu, Some(usual));
    let silent = provenance("a", cpu, None);
    let elsewhere = provenance("a", "cpu (8 threads, avx2, bf16)", Some(usual));
    // A provenance from before the engine was open; a verifier that did not describe its graders, or no longer does.
    for (before, now) in [
        (&plain(), &original),
        (&silent, &original),
        (&original, &silent),
        (&original, &elsewhere),
    ] {
        now.check_model(before, Path::new("m")).unwrap();
        assert_eq!(now.warnings(before), Vec::<String>::new());
    }
    let other = provenance("b", cpu, Some(usual)).check_model(&original, Path::new("models/m"));
    let words = "the files of the model models/m are not those";
    assert_refusal(&other.unwrap_err(), &[words]);
    let moved = "the run was computed on cpu so far, and continues on NVIDIA H100,";
    let judged = "math grader was math-4, boxed so far, and is";
    for (device, [version, policy]) in [
        ("NVIDIA H100 (bf16)", usual),
        (cpu, ["math-5", "boxed"]),
        (cpu, ["math-4", "lenient"]),
    ] {
        let warnings = provenance("a", device, Some([version, policy])).warnings(&original);
        let words = match device == cpu {
            true => format!("{judged} {version}, {policy} now"),
            false => moved.to_owned(),
        };
        assert!(warnings.len() == 1 && warnings[0].contains(&words));
    }
}

#[test]
fn a_new_run_is_refused_in_a_folder_with_other_files() {
    let home = fakes::folder();
    let file = home.path().join("notes.txt");
    std::fs::write(&file, "").unwrap();
    let refused = |place: &Path, words: &str| {
        let error = RunFolder::check_free(place).unwrap_err();
        assert_refusal(&error, &["--out", words]);
    };
    let no_folder = format!("{} exists and is not a folder", file.display());
    refused(&file, &no_folder);
    refused(&file.join("run"), &no_folder);
    refused(home.path(), "such as notes.txt");

    let new = home.path().join("new");
    RunFolder::check_free(&new).unwrap();
    assert!(!new.exists(), "the check creates nothing");
    std::fs::create_dir(&new).unwrap();
    // The folder as `rapid quickstart` begins.
    std::fs::write(new.join("verifier.log"), "log").unwrap();
    RunFolder::check_free(&new).unwrap();
    std::fs::write(new.join("data.json"), "{}").unwrap();
    refused(&new, "such as data.json");
    // The folder as an interrupted start leaves it, before it is a run.
    let config = config("http://127.0.0.1:1", &[]);
    let provenance = Provenance::of(&config, &[&dataset(2, 2)], None).unwrap();
    provenance.save(&RunFolder::claim(&new).unwrap()).unwrap();
    RunFolder::check_free(&new).unwrap();
    RunFolder::claim(&new).unwrap().save_config("").unwrap();
    refused(&new, "holds a run already");
}
