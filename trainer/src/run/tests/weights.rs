//! `weights.jsonl`: the token-level importance weights of the end of a phase.

use super::algorithms::preset_config;
use super::*;
use crate::record::TokenWeights;

async fn weights(home: &Path, url: &str, preset: Preset, more: &[&str]) -> Vec<TokenWeights> {
    let root = home.join(format!("{}{}", preset.name(), more.concat()));
    let config = preset_config(url, preset, more);
    let job = job(&root, &config, Arc::new(FakePolicy::default())).unwrap();
    train(job).await.unwrap();
    read_log(&root, Log::Weights).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_update_of_a_phase_leaves_the_weights_of_a_completion() {
    let (home, server) = home_and_verifier().await;
    let h = ["algorithm.h=4"];
    let lines = weights(home.path(), &server.url, Preset::RapidPaper, &h).await;
    let steps: Vec<(usize, usize, usize)> = lines
        .iter()
        .map(|line| (line.step, line.phase, line.update))
        .collect();
    assert_eq!(
        steps,
        [(4, 0, 3), (8, 1, 3), (12, 2, 3), (16, 3, 3), (20, 4, 3)]
    );
    for line in &lines {
        assert_eq!(line.policy.len(), line.behaviour.len());
        // Three updates have changed the policy since it sampled.
        assert!(
            line.log_ratios().any(|ratio| ratio.abs() > 1e-6),
            "{line:?}"
        );
        assert!(line.reward == 0.0 || line.completion.contains('b'));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phase_of_one_update_has_no_weights_but_1() {
    let (home, server) = home_and_verifier().await;
    let h = ["algorithm.h=1"];
    assert!(
        weights(home.path(), &server.url, Preset::Pg, &h)
            .await
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_whose_weights_cannot_be_logged_is_made_once() {
    let (home, server) = home_and_verifier().await;
    let job = |root: &Path, url: &str| {
        let config = preset_config(url, Preset::RapidPaper, &["algorithm.h=4"]);
        job(root, &config, Arc::new(FakePolicy::default())).unwrap()
    };
    let (undisturbed, disturbed) = (home.path().join("a"), home.path().join("b"));
    train(job(&undisturbed, &server.url)).await.unwrap();

    let log = disturbed.join("weights.jsonl");
    let place = log.clone();
    let disturbing = FakeVerifier::serve(move |_, items| {
        // A folder in its place cannot be appended to. A run reads its logs before the first verdict.
        std::fs::create_dir_all(&place).unwrap();
        Answer::accepting_b(&items)
    })
    .await;
    let failed = train(job(&disturbed, &disturbing.url)).await;
    let error = failed.unwrap_err().to_string();
    assert!(error.contains("weights.jsonl"), "{error}");
    let logged: Vec<StepRecord> = read_log(&disturbed, Log::Metrics).unwrap();
    assert_eq!(logged.len(), 3);
    // It would have the weights after four updates.
    assert!(!disturbed.join("checkpoints/step-3").exists());
    std::fs::remove_dir(&log).unwrap();
    train(job(&disturbed, &server.url)).await.unwrap();
    assert_same(
        &outputs(&disturbed),
        &outputs(&undisturbed),
        "after it failed",
    );
}
