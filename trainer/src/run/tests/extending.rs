//! A run that is made longer, beside one that had its length from the start.

use super::*;
use crate::record::ExtensionRecord;

/// The configuration of the run in a folder, as `--resume --set` makes it.
fn set(root: &Path, sets: &[&str]) -> Result<Config, TrainError> {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    resume_config(root, &sets)
}

/// What the run's extensions were.
fn notes(root: &Path) -> Vec<ExtensionRecord> {
    let text = std::fs::read_to_string(root.join("extended.jsonl")).unwrap();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// The course, and the configuration.
fn whole(root: &Path) -> BTreeMap<String, String> {
    let mut files = course(root);
    let config = std::fs::read_to_string(root.join("config.toml")).unwrap();
    files.insert("config.toml".into(), config);
    files
}

/// A run of one length and another of a second, in this order, in a new folder each.
async fn both(
    home: &Path,
    url: &str,
    sets: &[&str],
    lengths: [&str; 2],
) -> [std::path::PathBuf; 2] {
    let roots = ["longer", "at-once"].map(|name| home.join(name));
    for (root, length) in roots.iter().zip(lengths) {
        let sets = [sets, &[length]].concat();
        go(root, &config(url, &sets)).await.unwrap();
    }
    roots
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_run_made_longer_equals_one_that_was_as_long_from_the_start() {
    let server = Scripted::accepting_b().await;
    let lengths = ["run.updates=12", "run.updates=24"];
    for sets in [
        &[][..],
        &["algorithm.mix_groups=true", "algorithm.dynamic_sampling=1"],
        &["optimiser.warmup=20", "algorithm.h=1", "run.keep=3"],
    ] {
        let home = tempfile::tempdir().unwrap();
        let [longer, at_once] = both(home.path(), &server.url, sets, lengths).await;
        let config = set(&longer, &["run.updates=24"]).unwrap();
        let summary = go(&longer, &config).await.unwrap();
        assert_eq!((summary.ended, summary.step), (Ended::Finished, 24));
        assert_same(&whole(&longer), &whole(&at_once), &sets.join(" "));
        let notes = notes(&longer);
        let [note] = &notes[..] else {
            panic!("{notes:?}")
        };
        assert_eq!(
            (note.step, note.from, note.updates_before, note.updates),
            (12, 12, 12, 24)
        );
        assert!(note.equal && !note.redrawn && !at_once.join("extended.jsonl").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_made_longer_again_and_before_its_end() {
    let (home, server) = (tempfile::tempdir().unwrap(), Scripted::accepting_b().await);
    let lengths = ["run.updates=4", "run.updates=24"];
    let [longer, at_once] = both(home.path(), &server.url, &["algorithm.h=2"], lengths).await;
    for length in ["run.updates=8", "run.updates=16"] {
        let config = set(&longer, &[length]).unwrap();
        go(&longer, &config).await.unwrap();
    }
    let config = set(&longer, &["run.updates=20"]).unwrap();
    let policy = Arc::new(Toy::failing_at(1));
    let unfinished = train(job(&longer, &config, policy, &Stop::default()).unwrap()).await;
    unfinished.unwrap_err();
    let config = set(&longer, &["run.updates=24"]).unwrap();
    go(&longer, &config).await.unwrap();
    assert_same(&whole(&longer), &whole(&at_once), "four times");
    let notes = notes(&longer);
    let steps: Vec<usize> = notes.iter().map(|note| note.step).collect();
    assert_eq!(steps, [4, 8, 16, 17]);
    assert!(notes.iter().all(|note| note.equal));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_at_the_old_end_is_the_one_line_more() {
    let (home, server) = (tempfile::tempdir().unwrap(), Scripted::accepting_b().await);
    let lengths = ["run.updates=12", "run.updates=24"];
    let [longer, at_once] = both(home.path(), &server.url, &["eval.every=5"], lengths).await;
    let config = set(&longer, &["run.updates=24"]).unwrap();
    go(&longer, &config).await.unwrap();
    let (mut longer, at_once) = (whole(&longer), whole(&at_once));
    let evals = longer["eval.jsonl"]
        .lines()
        .filter(|line| !line.starts_with("{\"step\":12,"));
    let evals: String = evals.map(|line| format!("{line}\n")).collect();
    assert_ne!(evals, longer["eval.jsonl"]);
    longer.insert("eval.jsonl".into(), evals);
    longer.remove("samples/eval-12.jsonl");
    for name in ["metrics.jsonl", "eval.jsonl", "state", "config.toml"]
        .into_iter()
        .chain(
            at_once
                .keys()
                .map(String::as_str)
                .filter(|name| name.starts_with("phase-")),
        )
    {
        assert_eq!(longer[name], at_once[name], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phase_that_the_old_end_cut_short_is_made_again_from_a_checkpoint_before_it() {
    let server = Scripted::accepting_b().await;
    for (sets, first, longer_by, from) in [
        // Phase 3 is update 10 alone, and draws the prompts of updates 10 to 12.
        (&["run.keep=2"][..], "run.updates=10", "run.updates=20", 8),
        (
            &["run.keep=9", "run.checkpoint_every=1"],
            "run.updates=11",
            "run.updates=20",
            9,
        ),
        (
            &["run.keep=2", "algorithm.mix_groups=true"],
            "run.updates=10",
            "run.updates=20",
            8,
        ),
        (
            &["run.checkpoint_every=100"],
            "run.updates=2",
            "run.updates=20",
            0,
        ),
        // 33 prompts are eight updates of four, and one of one.
        (&["run.keep=4"], "run.epochs=3", "run.epochs=6", 6),
        (&["run.keep=4"], "run.epochs=3", "run.updates=20", 6),
    ] {
        let home = tempfile::tempdir().unwrap();
        let [longer, at_once] = both(home.path(), &server.url, sets, [first, longer_by]).await;
        let ended = go(&longer, &set(&longer, &[]).unwrap()).await.unwrap().step;
        let evaluated = std::fs::read_to_string(longer.join("eval.jsonl")).unwrap();
        go(&longer, &set(&longer, &[longer_by]).unwrap())
            .await
            .unwrap();
        assert_same(&whole(&longer), &whole(&at_once), &sets.join(" "));
        let note = &notes(&longer)[0];
        assert_eq!((note.step, note.from), (ended, from), "{sets:?}");
        assert!(note.equal && !note.redrawn);
        // What the shorter run came to is not lost.
        let kept = longer.join(format!("checkpoints/ended-{ended}"));
        assert!(kept.join("state.bin").exists());
        let last = std::fs::read_to_string(kept.join("eval.json")).unwrap();
        assert_eq!(evaluated.lines().last(), last.lines().next());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_of_an_evaluation_stay_where_it_is_due_with_the_same_weights() {
    let server = Scripted::accepting_b().await;
    for (sets, first, stay) in [
        // Phase 3 is made again, with the weights after update 10.
        (["run.keep=2", "eval.every=5"], "run.updates=10", false),
        (["run.keep=2", "eval.every=4"], "run.updates=12", true),
        (["run.keep=2", "eval.every=5"], "run.updates=12", false),
    ] {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("run");
        go(&root, &config(&server.url, &[&sets[..], &[first]].concat()))
            .await
            .unwrap();
        let ended = config_of(&root).run.updates.unwrap();
        let job = job(
            &root,
            &set(&root, &["run.updates=24"]).unwrap(),
            Arc::new(Toy::default()),
            &Stop::default(),
        )
        .unwrap();
        let drawn = job.folder.partial_eval(ended);
        std::fs::write(&drawn, "").unwrap();
        let extension = extend::Extension::of(&job, &config_of(&root), 11, ended, ended);
        let extension = extension.unwrap().unwrap();
        extension.begin(&job.folder).unwrap();
        assert_eq!(drawn.exists(), stay, "{sets:?} {first}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_checkpoint_before_a_short_phase_is_kept_the_rest_of_it_is_drawn_now_and_that_is_noted()
 {
    let (home, server) = (tempfile::tempdir().unwrap(), Scripted::accepting_b().await);
    let sets = ["eval.samples=0", "run.checkpoint_every=5"];
    let lengths = ["run.updates=10", "run.updates=20"];
    let [longer, at_once] = both(home.path(), &server.url, &sets, lengths).await;
    go(&longer, &set(&longer, &["run.updates=20"]).unwrap())
        .await
        .unwrap();
    let note = &notes(&longer)[0];
    assert_eq!((note.step, note.from), (10, 10));
    assert!(note.redrawn && !note.equal);
    let steps = |root: &Path| -> Vec<StepRecord> { read_log(root, Log::Metrics).unwrap() };
    let (mut ours, theirs) = (steps(&longer), steps(&at_once));
    assert_eq!(ours.len(), 20);
    assert_eq!((ours[9].phase_updates, ours[10].phase_updates), (1, 3));
    assert_eq!((ours[10].update, ours[10].algo.ell_std), (1, 0.0));
    ours[9].phase_updates = 3;
    assert_eq!(ours[..10], theirs[..10]);
    assert_ne!(ours[10], theirs[10]);
    assert!(longer.join("samples/phase-3-from-1.jsonl").is_file());
    // The prompts are the same ones.
    let tasks = |root: &Path, name: &str| -> Vec<String> {
        let text = std::fs::read_to_string(root.join("samples").join(name)).unwrap();
        let line = |line| {
            serde_json::from_str::<crate::record::SampleRecord>(line)
                .unwrap()
                .task
        };
        text.lines().map(line).collect()
    };
    let drawn = [
        tasks(&longer, "phase-3.jsonl"),
        tasks(&longer, "phase-3-from-1.jsonl"),
    ];
    assert_eq!(drawn.concat(), tasks(&at_once, "phase-3.jsonl"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_last_update_that_was_short_and_stays_is_noted() {
    let (home, server) = (tempfile::tempdir().unwrap(), Scripted::accepting_b().await);
    let root = home.path().join("run");
    let sets = [
        "eval.samples=0",
        "run.epochs=3",
        "run.checkpoint_every=0",
        "algorithm.h=9",
    ];
    go(&root, &config(&server.url, &sets)).await.unwrap();
    // With a falling rate, nothing is made twice for a run that will be another anyway.
    let config = set(&root, &["run.epochs=6"]).unwrap();
    let config = Config {
        optimiser: config::Optimiser {
            schedule: config::LrSchedule::Linear,
            ..config.optimiser.clone()
        },
        ..config
    };
    let job = job(&root, &config, Arc::new(Toy::default()), &Stop::default()).unwrap();
    let extension = extend::Extension::of(&job, &config_of(&root), 11, 9, 9);
    let said = extension.unwrap().unwrap().to_string();
    assert!(
        said.contains("Update 9 was made of 1 instead of 4 prompts")
            && said.contains("the other 3 are not asked"),
        "{said}"
    );
    drop(job);
    go(&root, &config).await.unwrap();
    let steps: Vec<StepRecord> = read_log(&root, Log::Metrics).unwrap();
    assert_eq!(steps.iter().map(|step| step.prompts).max(), Some(4));
    assert_eq!(
        (steps.len(), steps[8].prompts, steps[16].prompts),
        (17, 1, 2)
    );
    assert!(!notes(&root)[0].equal);
}

fn config_of(root: &Path) -> Config {
    set(root, &[]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_falling_learning_rate_is_told_with_what_it_was_and_what_it_becomes() {
    let (home, server) = (tempfile::tempdir().unwrap(), Scripted::accepting_b().await);
    let root = home.path().join("run");
    let sets = [
        "eval.samples=0",
        "run.updates=9",
        "optimiser.schedule=linear",
        "optimiser.lr=0.1",
    ];
    go(&root, &config(&server.url, &sets)).await.unwrap();
    let longer = set(&root, &["run.updates=19"]).unwrap();
    let extension = {
        let job = job(&root, &longer, Arc::new(Toy::default()), &Stop::default()).unwrap();
        extend::Extension::of(&job, &config_of(&root), 11, 9, 9)
    };
    let extension = extension.unwrap().unwrap();
    assert!(!extension.record.equal && extension.record.from == 9);
    insta::assert_snapshot!(extension.to_string(), @r#"the run is made longer: 19 updates instead of 9; the learning rate was 1.111e-2 in update 9 and becomes 5.263e-2 in update 10, since `optimiser.schedule = "linear"` is stretched over the new length; a run of 19 updates from the start would have had 5.789e-2 in update 9, so this one does not equal it"#);
    go(&root, &longer).await.unwrap();
    let steps: Vec<StepRecord> = read_log(&root, Log::Metrics).unwrap();
    let note = &notes(&root)[0];
    assert_eq!((note.lr_before, note.lr), (Some(steps[8].lr), steps[9].lr));
    assert!(steps[8].lr < steps[9].lr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_killed_while_it_is_made_longer_ends_as_one_that_was_not() {
    let home = tempfile::tempdir().unwrap();
    let quiet = Scripted::accepting_b().await;
    for (name, sets) in [
        ("stepped-back", &["run.keep=2"][..]),
        ("redrawn", &["eval.samples=0", "run.checkpoint_every=5"]),
        ("goes-on", &["algorithm.h=2"]),
    ] {
        let short = home.path().join(name);
        go(&short, &config(&quiet.url, sets)).await.unwrap();
        let never = home.path().join(format!("{name}-never"));
        copy(&short, &never);
        go(&never, &set(&never, &["run.updates=20"]).unwrap())
            .await
            .unwrap();

        // The folder is copied while the run is in the middle of judging its n-th request: everything later is lost.
        let (from, to) = (short.clone(), home.path().join(format!("{name}-killed")));
        let copies = Arc::new(AtomicUsize::new(0));
        let made = copies.clone();
        let server = Scripted::serve(move |number, items| {
            if number % 4 == 1 {
                copy(
                    &from,
                    &to.join(made.fetch_add(1, Ordering::SeqCst).to_string()),
                );
            }
            Answer::accepting_b(&items)
        })
        .await;
        let config = set(
            &short,
            &["run.updates=20", &format!("verifier.url={}", server.url)],
        );
        go(&short, &config.unwrap()).await.unwrap();
        let killed = home.path().join(format!("{name}-killed"));
        let copies = copies.load(Ordering::SeqCst);
        assert!(copies >= 4, "{copies}");
        let first = home.path().join(format!("{name}-first"));
        copy(&killed.join("0"), &first);
        for number in 0..copies {
            let killed = killed.join(number.to_string());
            let config = set(&killed, &[&format!("verifier.url={}", quiet.url)]).unwrap();
            let summary = go(&killed, &config).await.unwrap();
            assert_eq!((summary.ended, summary.step), (Ended::Finished, 20));
            assert_eq!(notes(&killed).len(), 1);
            let what = format!("{name}, {number}");
            if name != "redrawn" {
                assert_same(&course(&killed), &course(&never), &what);
                continue;
            }
            // Nothing is evaluated there, so no checkpoint is the best.
            for file in [
                "metrics.jsonl",
                "samples/phase-3-from-1.jsonl",
                "checkpoints/last/state.bin",
            ] {
                let read = |root: &Path| std::fs::read(root.join(file)).unwrap();
                assert!(read(&killed) == read(&never), "{what}: {file}");
            }
        }
        if name == "redrawn" {
            // The first copy was made while the rest of the phase was drawn.
            let twice = home.path().join("twice");
            copy(&first, &twice);
            let config = set(
                &twice,
                &["run.updates=23", &format!("verifier.url={}", quiet.url)],
            );
            let summary = go(&twice, &config.unwrap()).await.unwrap();
            assert_eq!((summary.ended, summary.step), (Ended::Finished, 23));
            let notes = notes(&twice);
            let told: Vec<_> = notes
                .iter()
                .map(|note| (note.from, note.redrawn, note.equal))
                .collect();
            assert_eq!(told, [(10, true, false); 2]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_noted_by_a_process_that_was_killed_before_the_run_was_longer_has_no_effect() {
    let (home, server) = (tempfile::tempdir().unwrap(), Scripted::accepting_b().await);
    let [longer, at_once] = both(
        home.path(),
        &server.url,
        &["run.keep=2"],
        ["run.updates=10", "run.updates=20"],
    )
    .await;
    // As it stands after the note, the step back, and nothing else.
    {
        let config = set(&longer, &["run.updates=20"]).unwrap();
        let job = job(&longer, &config, Arc::new(Toy::default()), &Stop::default()).unwrap();
        let extension = extend::Extension::of(&job, &config_of(&longer), 11, 10, 10);
        extension.unwrap().unwrap().begin(&job.folder).unwrap();
    }
    let as_it_was = home.path().join("as-it-was");
    copy(&longer, &as_it_was);
    let summary = go(&as_it_was, &config_of(&as_it_was)).await.unwrap();
    assert_eq!((summary.ended, summary.step), (Ended::Finished, 10));
    for root in [&longer, &as_it_was] {
        go(root, &set(root, &["run.updates=20"]).unwrap())
            .await
            .unwrap();
        assert_eq!(notes(root).len(), 1);
        assert_same(&whole(root), &whole(&at_once), "after all");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_cannot_be_made_shorter() {
    let (home, server) = (tempfile::tempdir().unwrap(), Scripted::accepting_b().await);
    let root = home.path().join("run");
    go(&root, &config(&server.url, &["run.epochs=3"]))
        .await
        .unwrap();
    let said = set(&root, &["run.epochs=1"]).unwrap_err().to_string();
    assert_eq!(
        said,
        "the run has 3 epochs, and a run that is continued can only be made longer, not 1 epoch; give more, or leave the setting out"
    );
    let before = whole(&root);
    let error = go(&root, &set(&root, &["run.updates=8"]).unwrap())
        .await
        .unwrap_err();
    assert!(
        error.is_refusal() && error.to_string().starts_with("the run has 9 updates, and"),
        "{error}"
    );
    assert_eq!(whole(&root), before);
    assert!(!root.join("extended.jsonl").exists());
}
