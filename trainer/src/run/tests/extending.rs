//! Compares extended runs with runs that had the new length from the start.

use super::*;
use crate::record::ExtensionRecord;

const AUTO: [&str; 2] = ["algorithm.preset=rapid-auto", "algorithm.auto_h=0.8"];

fn extension_records(root: &Path) -> Vec<ExtensionRecord> {
    read_log(root, Log::Extensions).unwrap()
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

#[tokio::test(flavor = "multi_thread")]
async fn an_extended_run_equals_one_that_had_the_new_length_from_the_start() {
    let (home, server) = home_and_verifier().await;
    let mixed = ["algorithm.mix_groups=true", "algorithm.dynamic_sampling=1"];
    for (number, (sets, lengths)) in [
        (&[][..], &[12, 24][..]),
        (&mixed, &[12, 24]),
        (&["optimiser.warmup=20", "run.keep=3"], &[12, 24]),
        (&["algorithm.h=2"], &[4, 8, 24]),
        (&AUTO, &[2, 24]),
    ]
    .into_iter()
    .enumerate()
    {
        let [longer, at_once] =
            ["longer", "at-once"].map(|name| home.path().join(format!("{name}-{number}")));
        for (root, length) in [(&longer, lengths[0]), (&at_once, 24)] {
            let length = format!("run.updates={length}");
            let config = config(&server.url, &[sets, &[&length]].concat());
            run_in(root, &config).await.unwrap();
        }
        for length in &lengths[1..] {
            let summary = extend(&longer, &[&format!("run.updates={length}")]).await;
            assert_eq!(summary.ended, RunOutcome::Finished);
            assert_eq!(summary.step, *length);
        }
        let (mut longer_outputs, mut expected) =
            (outputs_with_config(&longer), outputs_with_config(&at_once));
        if lengths[0] == 2 {
            // The evaluation at the old end is an additional one.
            let kept = ["metrics", "config", "state", "phase"];
            let is_kept = |name: &str| kept.iter().any(|kept| name.starts_with(kept));
            longer_outputs.retain(|name, _| is_kept(name));
            expected.retain(|name, _| is_kept(name));
        }
        assert_same(&longer_outputs, &expected, &sets.join(" "));
        let records = extension_records(&longer).into_iter().map(|record| {
            assert!(record.equal);
            [record.updates_before, record.updates]
        });
        let pairs = lengths.windows(2).map(|pair| [pair[0], pair[1]]);
        assert!(records.eq(pairs), "{sets:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_cut_short_differs_from_a_longer_one() {
    let (home, server) = home_and_verifier().await;
    let (linear, cut) = (["optimiser.schedule=linear"], [3, 3, 3, 1, 3, 3, 3, 1]);
    for (name, sets, unit, lengths, sizes) in [
        ("phase", &[][..], "updates", [10, 20], &cut[..]),
        // 33 prompts are eight updates of four prompts, and one of one.
        ("update", &[], "epochs", [3, 6], &[3, 3, 3, 3, 3, 2]),
        ("auto", &AUTO, "updates", [3, 6], &[2, 1, 2, 1]),
        ("rate", &linear, "updates", [9, 18], &[3; 6]),
    ] {
        let [first, longer] = lengths.map(|length| format!("run.{unit}={length}"));
        let root = home.path().join(name);
        run_in(&root, &config(&server.url, &[sets, &[&first]].concat()))
            .await
            .unwrap();
        // An extension that was killed after it was recorded, and before it began, has no effect.
        let killed = "{\"updates_before\":3,\"updates\":999,\"equal\":true}\n";
        std::fs::write(root.join("extended.jsonl"), killed).unwrap();
        let killed = home.path().join(format!("{name}-killed"));
        let copying = copying_verifier(&root, &killed).await;
        let url = format!("verifier.url={}", copying.url);
        extend(&root, &[&longer, &url]).await;
        let steps = steps(&root);
        let mut phases = steps.chunk_by(|a, b| a.phase == b.phase);
        let found: Vec<usize> = phases.clone().map(<[_]>::len).collect();
        assert_eq!(found, sizes, "{name}");
        assert!(phases.all(|phase| phase[0].algo.ell_std == 0.0));
        let records = extension_records(&root);
        assert!(records.len() == 1 && !records[0].equal, "{records:?}");
        assert!(extend::message(&records[0]).starts_with("warning: "));
        let old_end = records[0].updates_before;
        assert_eq!(steps[old_end].lr > steps[old_end - 1].lr, name == "rate");
        let working = format!("verifier.url={}", server.url);
        for killed in copies(&killed) {
            extend(&killed, &[&working]).await;
            let what = killed.display().to_string();
            assert_same(&outputs(&killed), &outputs(&root), &what);
            assert_eq!(extension_records(&killed), records);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_made_longer_only_once_it_has_finished_and_never_shorter() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    fail_after(5, &root, &config(&server.url, &["run.epochs=3"])).await;
    let refused = async |set: &str, words: &str| {
        let config = std::fs::read_to_string(root.join("config.toml")).unwrap();
        let error = match resumed_config(&root, &[set]) {
            Ok(config) => run_in(&root, &config).await.unwrap_err(),
            Err(error) => error,
        };
        assert_refusal(&error, &[words]);
        let after = std::fs::read_to_string(root.join("config.toml")).unwrap();
        assert_eq!(after, config);
        assert_eq!(extension_records(&root), []);
    };
    refused("run.epochs=6", "made 5 of its 9 updates").await;
    extend(&root, &[]).await;
    let longer =
        "the run has 9 updates, and a run that is continued can only be made longer, not 3;";
    refused("run.epochs=1", longer).await;
    refused("run.updates=8", "the run has 9 updates, and").await;
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
        assert_refusal(&error, &["has no state.bin", "`run.keep_state = true`"]);
        assert_eq!([log("metrics.jsonl"), log("config.toml")], files);
    };
    refused(&resumed_config(&root, &["run.updates=20", "run.keep_state=true"]).unwrap()).await;
    // The last evaluation was lost, and the weights for it are not loaded.
    std::fs::write(root.join("eval.jsonl"), "").unwrap();
    refused(&config).await;
}
