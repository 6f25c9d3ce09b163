//! Compares extended runs with runs that had the new length from the start.

use super::*;
use crate::record::ExtensionRecord;

/// The configuration of a run that is resumed with `--set`.
fn resumed_config(root: &Path, sets: &[&str]) -> Result<Config, TrainError> {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    resume_config(root, &sets)
}

/// The records of the run's extensions.
fn extension_records(root: &Path) -> Vec<ExtensionRecord> {
    let text = std::fs::read_to_string(root.join("extended.jsonl")).unwrap();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// Resumes the run with these settings, to its end.
async fn extend(root: &Path, sets: &[&str]) -> Summary {
    let config = resumed_config(root, sets).unwrap();
    run_in(root, &config).await.unwrap()
}

/// The outputs of a run, and its configuration.
fn outputs_with_config(root: &Path) -> BTreeMap<String, String> {
    let mut files = outputs(root);
    let config = std::fs::read_to_string(root.join("config.toml")).unwrap();
    files.insert("config.toml".into(), config);
    files
}

/// Runs two runs of these lengths, each in a new folder.
async fn run_both(
    home: &Path,
    url: &str,
    sets: &[&str],
    lengths: [&str; 2],
) -> [std::path::PathBuf; 2] {
    let roots = ["longer", "at-once"].map(|name| home.join(name));
    for (root, length) in roots.iter().zip(lengths) {
        let sets = [sets, &[length]].concat();
        run_in(root, &config(url, &sets)).await.unwrap();
    }
    roots
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extended_run_equals_one_that_had_the_new_length_from_the_start() {
    let server = FakeVerifier::accepting_b().await;
    for (sets, lengths) in [
        (&[][..], &[12, 24][..]),
        (
            &["algorithm.mix_groups=true", "algorithm.dynamic_sampling=1"],
            &[12, 24],
        ),
        (
            &["optimiser.warmup=20", "algorithm.h=1", "run.keep=3"],
            &[12, 24],
        ),
        (&["algorithm.h=2"], &[4, 8, 16, 24]),
    ] {
        let home = fakes::folder();
        let first = format!("run.updates={}", lengths[0]);
        let both = [first.as_str(), "run.updates=24"];
        let [longer, at_once] = run_both(home.path(), &server.url, sets, both).await;
        for length in &lengths[1..] {
            let summary = extend(&longer, &[&format!("run.updates={length}")]).await;
            assert_eq!(
                (summary.ended, summary.step),
                (RunOutcome::Finished, *length)
            );
        }
        assert_same(
            &outputs_with_config(&longer),
            &outputs_with_config(&at_once),
            &sets.join(" "),
        );
        let records = extension_records(&longer).into_iter().map(|record| {
            assert!(record.equal && !record.resampled && record.from == record.step);
            [record.updates_before, record.updates]
        });
        let pairs = lengths.windows(2).map(|pair| [pair[0], pair[1]]);
        assert!(records.eq(pairs), "{sets:?}");
        assert!(!at_once.join("extended.jsonl").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_made_longer_only_once_it_has_finished() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    fail_after(5, &root, &config(&server.url, &[])).await;
    let before = std::fs::read_to_string(root.join("config.toml")).unwrap();
    let longer = resumed_config(&root, &["run.updates=20"]).unwrap();
    let error = run_in(&root, &longer).await.unwrap_err();
    assert!(
        error.is_refusal() && error.to_string().contains("made 5 of its 10 updates"),
        "{error}"
    );
    let after = std::fs::read_to_string(root.join("config.toml")).unwrap();
    assert_eq!(after, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_evaluation_at_the_old_end_is_the_only_additional_line() {
    let (home, server) = home_and_verifier().await;
    let lengths = ["run.updates=12", "run.updates=24"];
    let [longer, at_once] = run_both(home.path(), &server.url, &["eval.every=5"], lengths).await;
    extend(&longer, &["run.updates=24"]).await;
    let (mut longer, at_once) = (outputs_with_config(&longer), outputs_with_config(&at_once));
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
async fn a_phase_that_the_old_end_cut_short_is_made_again_from_an_earlier_checkpoint() {
    let server = FakeVerifier::accepting_b().await;
    for (sets, first, longer_by, from) in [
        // Phase 3 had only update 10, and now samples the prompts of updates 10 to 12.
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
        // 33 prompts are eight updates of four prompts, and one of one.
        (&["run.keep=4"], "run.epochs=3", "run.epochs=6", 6),
        (&["run.keep=4"], "run.epochs=3", "run.updates=20", 6),
    ] {
        let home = fakes::folder();
        let [longer, at_once] = run_both(home.path(), &server.url, sets, [first, longer_by]).await;
        let ended = extend(&longer, &[]).await.step;
        let evaluated = std::fs::read_to_string(longer.join("eval.jsonl")).unwrap();
        extend(&longer, &[longer_by]).await;
        assert_same(
            &outputs_with_config(&longer),
            &outputs_with_config(&at_once),
            &sets.join(" "),
        );
        let record = &extension_records(&longer)[0];
        assert_eq!((record.step, record.from), (ended, from), "{sets:?}");
        assert!(record.equal && !record.resampled);
        // The last checkpoint of the shorter run remains.
        let old_end = longer.join(format!("checkpoints/ended-{ended}"));
        assert!(old_end.join("state.bin").exists());
        let last = std::fs::read_to_string(old_end.join("eval.json")).unwrap();
        assert_eq!(evaluated.lines().last(), last.lines().next());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_checkpoint_before_a_short_phase_its_rest_is_sampled_now_and_that_is_recorded() {
    let (home, server) = home_and_verifier().await;
    let sets = ["eval.samples=0", "run.checkpoint_every=0"];
    let lengths = ["run.updates=10", "run.updates=20"];
    let [longer, at_once] = run_both(home.path(), &server.url, &sets, lengths).await;
    extend(&longer, &["run.updates=20"]).await;
    let record = &extension_records(&longer)[0];
    assert_eq!((record.step, record.from), (10, 10));
    assert!(record.resampled && !record.equal);
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
    let sampled = [
        tasks(&longer, "phase-3.jsonl"),
        tasks(&longer, "phase-3-from-1.jsonl"),
    ];
    assert_eq!(sampled.concat(), tasks(&at_once, "phase-3.jsonl"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_last_update_is_not_made_again_if_the_learning_rate_falls() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let sets = [
        "eval.samples=0",
        "run.epochs=3",
        "run.keep=9",
        "algorithm.h=9",
        "optimiser.schedule=linear",
    ];
    run_in(&root, &config(&server.url, &sets)).await.unwrap();
    let longer = resumed_config(&root, &["run.epochs=6"]).unwrap();
    let message = extension(&root, &longer, 9).to_string();
    assert!(message.contains("cut update 9 short"), "{message}");
    run_in(&root, &longer).await.unwrap();
    let steps = steps(&root);
    assert_eq!(steps.iter().map(|step| step.prompts).max(), Some(4));
    assert_eq!(
        (steps.len(), steps[8].prompts, steps[16].prompts),
        (17, 1, 2)
    );
    assert!(!extension_records(&root)[0].equal);
}

/// The extension of a run that ended after `step` updates.
fn extension(root: &Path, config: &Config, step: usize) -> extend::Extension {
    let previous = resumed_config(root, &[]).unwrap();
    let job = plain_job(root, config).unwrap();
    let extension = extend::Extension::of(&job, &previous, 11, step);
    extension.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_message_about_a_falling_learning_rate_has_its_old_and_new_values() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let sets = [
        "eval.samples=0",
        "run.updates=9",
        "optimiser.schedule=linear",
        "optimiser.lr=0.1",
    ];
    run_in(&root, &config(&server.url, &sets)).await.unwrap();
    let longer = resumed_config(&root, &["run.updates=19"]).unwrap();
    let extension = extension(&root, &longer, 9);
    assert!(!extension.record.equal && extension.record.from == 9);
    insta::assert_snapshot!(extension.to_string(), @r#"the run is made longer: 19 updates instead of 9; the learning rate was 1.111e-2 in update 9 and becomes 5.263e-2 in update 10, since `optimiser.schedule = "linear"` is stretched over the new length; a run of 19 updates from the start would have had 5.789e-2 in update 9, so this one does not equal it"#);
    run_in(&root, &longer).await.unwrap();
    let steps = steps(&root);
    let record = &extension_records(&root)[0];
    assert_eq!(
        (record.lr_before, record.lr),
        (Some(steps[8].lr), steps[9].lr)
    );
    assert!(steps[8].lr < steps[9].lr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_killed_during_its_extension_equals_one_that_was_not_killed() {
    let home = fakes::folder();
    let working = FakeVerifier::accepting_b().await;
    for (name, sets) in [
        ("stepped-back", &["run.keep=2"][..]),
        ("resampled", &["eval.samples=0", "run.checkpoint_every=0"]),
        ("continued", &["algorithm.h=2"]),
    ] {
        let short = home.path().join(name);
        run_in(&short, &config(&working.url, sets)).await.unwrap();
        let uninterrupted = home.path().join(format!("{name}-uninterrupted"));
        copy(&short, &uninterrupted);
        extend(&uninterrupted, &["run.updates=20"]).await;

        let killed = home.path().join(format!("{name}-killed"));
        let server = copying_verifier(&short, &killed).await;
        let elsewhere = format!("verifier.url={}", server.url);
        extend(&short, &["run.updates=20", &elsewhere]).await;
        for killed in copies(&killed) {
            let summary = extend(&killed, &[&format!("verifier.url={}", working.url)]).await;
            assert_eq!((summary.ended, summary.step), (RunOutcome::Finished, 20));
            assert_eq!(extension_records(&killed).len(), 1);
            let what = killed.display().to_string();
            if name != "resampled" {
                assert_same(&outputs(&killed), &outputs(&uninterrupted), &what);
                continue;
            }
            // This run has no evaluation, so no checkpoint is the best.
            for file in [
                "metrics.jsonl",
                "samples/phase-3-from-1.jsonl",
                "checkpoints/last/state.bin",
            ] {
                let read = |root: &Path| std::fs::read(root.join(file)).unwrap();
                assert!(read(&killed) == read(&uninterrupted), "{what}: {file}");
            }
        }
        assert!(copies(&killed).count() >= 3, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_record_of_an_extension_that_was_killed_before_it_began_has_no_effect() {
    let (home, server) = home_and_verifier().await;
    let [longer, at_once] = run_both(
        home.path(),
        &server.url,
        &["run.keep=2"],
        ["run.updates=10", "run.updates=20"],
    )
    .await;
    // The folder after the record and the step back, and before anything else.
    let config = resumed_config(&longer, &["run.updates=20"]).unwrap();
    let begun = extension(&longer, &config, 10);
    begun.begin(&RunFolder::open(&longer).unwrap()).unwrap();
    let summary = extend(&longer, &[]).await;
    assert_eq!((summary.ended, summary.step), (RunOutcome::Finished, 10));
    extend(&longer, &["run.updates=20"]).await;
    assert_eq!(extension_records(&longer).len(), 1);
    assert_same(
        &outputs_with_config(&longer),
        &outputs_with_config(&at_once),
        "after all",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_cannot_be_made_shorter() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    run_in(&root, &config(&server.url, &["run.epochs=3"]))
        .await
        .unwrap();
    let message = resumed_config(&root, &["run.epochs=1"])
        .unwrap_err()
        .to_string();
    assert_eq!(
        message,
        "the run has 3 epochs, and a run that is continued can only be made longer, not 1 epoch; give more, or leave the setting out"
    );
    let before = outputs_with_config(&root);
    let error = run_in(&root, &resumed_config(&root, &["run.updates=8"]).unwrap())
        .await
        .unwrap_err();
    assert!(
        error.is_refusal() && error.to_string().starts_with("the run has 9 updates, and"),
        "{error}"
    );
    assert_eq!(outputs_with_config(&root), before);
    assert!(!root.join("extended.jsonl").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_run_keeps_its_state_only_if_asked_and_cannot_go_on_without() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let config = config(&server.url, &["run.keep_state=false", "run.keep=2"]);
    let state = |step: usize| root.join(format!("checkpoints/step-{step}/state.bin"));
    let log = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    run_in(&root, &config).await.unwrap();
    assert!(root.join("checkpoints/step-10/run.json").exists());
    let metrics = log("metrics.jsonl");
    // Again, as a cluster restarts a job, and after a kill that left an older state.
    for _ in 0..2 {
        assert!(!state(10).exists() && !state(8).exists());
        std::fs::write(state(8), "").unwrap();
        let again = run_in(&root, &config).await.unwrap();
        assert_eq!((again.ended, again.step), (RunOutcome::Finished, 10));
        assert_eq!(log("metrics.jsonl"), metrics);
    }
    let refused = async |config: &Config| {
        let files = [log("metrics.jsonl"), log("config.toml")];
        let error = run_in(&root, config).await.unwrap_err();
        assert!(error.is_refusal(), "{error}");
        assert_eq!([log("metrics.jsonl"), log("config.toml")], files);
        error.to_string()
    };
    let longer = resumed_config(&root, &["run.updates=20", "run.keep_state=true"]).unwrap();
    let error = refused(&longer).await;
    assert!(
        error.contains("has no state.bin") && error.contains("`run.keep_state = true`"),
        "{error}"
    );
    // The last evaluation was lost, and the weights for it are not loaded.
    std::fs::write(root.join("eval.jsonl"), "").unwrap();
    assert!(refused(&config).await.contains("has no state.bin"));
}
