//! Runs with numbers that are no longer finite.

use super::*;

/// Runs with an update, of this number counted from 0, that makes the weights NaN. Returns the result, and the steps of the remaining checkpoints.
async fn diverged(
    root: &Path,
    config: &Config,
    update: Option<usize>,
) -> (Result<Summary, TrainError>, Vec<usize>) {
    let mut policy = FakePolicy::default();
    policy.diverge_at = update;
    let ended = train(job(root, config, Arc::new(policy)).unwrap()).await;
    let folder = RunFolder::open(root).unwrap();
    (ended, checkpoint::steps(&folder).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diverging_run_keeps_and_names_an_earlier_checkpoint() {
    let (home, server) = home_and_verifier().await;
    let place = |name: &str| home.path().join(name);
    // A checkpoint after every second update, one of them kept, and an evaluation after every fourth. In the first case, a checkpoint is saved between the bad
    // update and the evaluation that detects it.
    for (name, update, evaluation, after, remaining) in [
        ("in an evaluation", 3, "eval.samples=4", 4, &[2, 4][..]),
        ("in an update", 3, "eval.samples=0", 4, &[2, 4]),
        ("in a phase", 5, "eval.samples=0", 6, &[4, 6]),
        ("before a checkpoint", 4, "eval.samples=0", 5, &[4]),
        ("before the first checkpoint", 0, "eval.samples=0", 1, &[]),
    ] {
        let root = place(name);
        let config = config(&server.url, &[evaluation]);
        let (ended, steps) = diverged(&root, &config, Some(update)).await;
        let error = ended.unwrap_err();
        assert_eq!(steps, remaining, "{name}");
        assert!(matches!(error, TrainError::Diverged { step, .. } if step == after));
        assert!(!error.can_resume() && is_divergence(&error.to_string()));
        let Some(named) = remaining.first() else {
            assert_contains(&error, &["There is no earlier checkpoint"]);
            continue;
        };
        let remedy = format!("model.path={}/checkpoints/step-{named} ", root.display());
        assert_contains(&error, &[&remedy, "a learning rate below 5e-2: "]);
    }

    // A finished run keeps the checkpoint before its last weights, since nothing was computed with these. Resumed, it removes nothing more.
    let (root, config) = (place("last"), config(&server.url, &["eval.samples=0"]));
    for update in [Some(9), None] {
        let (ended, steps) = diverged(&root, &config, update).await;
        ended.unwrap();
        assert_eq!(steps, [8, 10]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_of_the_objective_is_not_a_divergence() {
    let (home, server) = home_and_verifier().await;
    // The loss has a KL term, and the job has no reference policy, so the objective refuses the numbers.
    let sets = [
        "algorithm.preset=grpo",
        "algorithm.kl=0.04",
        "eval.samples=0",
    ];
    let job = Job {
        reference: None,
        ..plain_job(&home.path().join("run"), &config(&server.url, &sets)).unwrap()
    };
    let error = train(job).await.unwrap_err();
    assert_contains(&error, &["under the reference policy"]);
    assert!(error.can_resume() && !is_divergence(&error.to_string()));
}
