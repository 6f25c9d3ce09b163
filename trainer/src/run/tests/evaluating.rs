//! When a run is evaluated, and with which completions.

use super::*;
use crate::record::SampleRecord;

/// The numbers of updates of the logged evaluations.
fn evaluated(root: &Path) -> Vec<usize> {
    let evals: Vec<EvalRecord> = read_log(root, Log::Eval).unwrap();
    evals.iter().map(|eval| eval.step).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_evaluated_after_each_epoch_also_if_it_is_resumed() {
    let server = FakeVerifier::accepting_b().await;
    let dropped = ["algorithm.h=2", "algorithm.drop_last_phase=true"];
    for (sets, expected) in [
        // 11 prompts are an epoch, and 4 an update.
        (&[][..], &[0, 3, 6, 9][..]),
        // An epoch has 11 prompts; 8 fill a phase of two updates.
        (&dropped, &[0, 2, 4, 6]),
    ] {
        let home = fakes::folder();
        let root = home.path().join("run");
        let more = ["run.epochs=3", "run.keep=9", "run.checkpoint_every=1"];
        let sets = [sets, &more, &["eval.every_epochs=1"]].concat();
        let config = config(&server.url, &sets);
        let last = run_in(&root, &config).await.unwrap().step;
        assert_eq!(evaluated(&root), expected, "{sets:?}");
        let plan = RunPlan::new(&config, 11, 5, None);
        assert_eq!(plan.evaluations, expected.len());
        let uninterrupted = outputs(&root);
        // First the checkpoints after an epoch's last update are lost, then also the one of that update.
        let second = expected[1];
        for newest in [second, second - 1] {
            for step in newest + 1..=last {
                let folder = root.join(format!("checkpoints/step-{step}"));
                std::fs::remove_dir_all(folder).unwrap();
            }
            run_in(&root, &config).await.unwrap();
            assert_same(&outputs(&root), &uninterrupted, &format!("from {newest}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_evaluations_have_the_least_number_of_tokens() {
    let (home, server) = home_and_verifier().await;
    let roots = [0, 3].map(|least| home.path().join(format!("run-{least}")));
    for (root, least) in roots.iter().zip([0, 3]) {
        let least = format!("eval.min_tokens={least}");
        let config = config(&server.url, &[&least, "run.updates=3", "eval.every=0"]);
        run_in(root, &config).await.unwrap();
    }
    let shortest = |root: &Path| {
        let text = std::fs::read_to_string(root.join("samples/eval-3.jsonl")).unwrap();
        let tokens = |line| serde_json::from_str::<SampleRecord>(line).unwrap().tokens;
        text.lines().map(tokens).min()
    };
    // Three letters, and the last of at most four.
    let lengths = roots.each_ref().map(|root| shortest(root));
    assert_eq!(lengths, [Some(1), Some(4)]);
    let [without, with] = roots.each_ref().map(|root| outputs(root));
    for name in ["metrics.jsonl", "phase-0.jsonl", "state"] {
        assert_eq!(without[name], with[name], "{name}");
    }
}
