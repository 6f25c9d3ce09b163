//! Runs whose numbers are no longer finite.

use super::*;

/// Runs with an update, of this number counted from 0, that makes the weights NaN. Returns the error, and the steps of the remaining checkpoints.
async fn diverged(root: &Path, config: &Config, update: usize) -> (TrainError, Vec<usize>) {
    let policy = Arc::new(FakePolicy::diverging_at(update));
    let error = train(job(root, config, policy).unwrap()).await.unwrap_err();
    let folder = RunFolder::open(root).unwrap();
    (error, checkpoint::steps(&folder).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_diverges_keeps_an_earlier_checkpoint_and_names_it_in_the_error() {
    let (home, server) = home_and_verifier().await;
    // A checkpoint after every second update, of which one is kept, and an evaluation after every fourth.
    for (name, update, evaluation, after, remaining, named) in [
        // A checkpoint is saved between the bad update and the evaluation that detects it.
        (
            "detected in an evaluation",
            3,
            "eval.samples=4",
            4,
            &[2, 4][..],
            2,
        ),
        ("detected in an update", 3, "eval.samples=0", 4, &[2, 4], 2),
        ("detected in a phase", 5, "eval.samples=0", 6, &[4, 6], 4),
        ("before a checkpoint", 4, "eval.samples=0", 5, &[4], 4),
    ] {
        let root = home.path().join(name);
        let config = config(&server.url, &[evaluation]);
        let (error, steps) = diverged(&root, &config, update).await;
        assert_eq!(steps, remaining, "{name}");
        let message = error.to_string();
        let remedy = format!("model.path={}/checkpoints/step-{named} ", root.display());
        assert!(
            matches!(error, TrainError::Diverged { step, .. } if step == after)
                && !error.can_resume()
                && message.contains(&remedy)
                && message.contains("a learning rate below 5e-2: "),
            "{name}: {message}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_run_keeps_the_checkpoint_before_weights_that_nothing_was_computed_with() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let config = config(&server.url, &["eval.samples=0"]);
    let last = FakePolicy::diverging_at(9);
    // Resumed, it removes nothing more.
    for policy in [last, FakePolicy::default()] {
        let job = job(&root, &config, Arc::new(policy));
        train(job.unwrap()).await.unwrap();
        let folder = RunFolder::open(&root).unwrap();
        assert_eq!(checkpoint::steps(&folder).unwrap(), [8, 10]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_error_of_a_run_that_diverges_before_its_first_checkpoint_says_that_there_is_none() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let config = config(&server.url, &["eval.samples=0"]);
    let (error, steps) = diverged(&root, &config, 0).await;
    assert_eq!(steps, [0; 0]);
    let message = error.to_string();
    assert!(
        message.contains("There is no earlier checkpoint"),
        "{message}"
    );
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
    let config = config(&server.url, &sets);
    let job = Job {
        reference: None,
        ..plain_job(&home.path().join("run"), &config).unwrap()
    };
    let error = train(job).await.unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("under the reference policy") && !is_divergence(&message),
        "{message}"
    );
    assert!(error.can_resume());
}
