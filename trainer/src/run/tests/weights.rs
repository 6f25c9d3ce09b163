//! `weights.jsonl`: the token-level importance weights of the end of a phase.

use super::algorithms::preset_config;
use super::*;
use crate::record::TokenWeights;

#[tokio::test(flavor = "multi_thread")]
async fn the_last_update_of_a_phase_is_made_once() {
    let (home, server) = home_and_verifier().await;
    let config = |url: &str, h: &str| preset_config(url, Preset::RapidPaper, &[h]);
    let [undisturbed, disturbed, alone] = ["a", "b", "c"].map(|name| home.path().join(name));
    let h = "algorithm.h=4";
    run_in(&undisturbed, &config(&server.url, h)).await.unwrap();
    let lines: Vec<TokenWeights> = read_log(&undisturbed, Log::Weights).unwrap();
    let places = lines
        .iter()
        .map(|line| (line.step, line.phase, line.update));
    assert!(places.eq([(4, 0, 3), (8, 1, 3), (12, 2, 3), (16, 3, 3), (20, 4, 3)]));
    for line in &lines {
        assert_eq!(line.policy.len(), line.behaviour.len());
        // Three updates have changed the policy since it sampled.
        let has_changed = line.log_ratios().any(|ratio| ratio.abs() > 1e-6);
        assert!(has_changed, "{line:?}");
        assert!(line.reward == 0.0 || line.completion.contains('b'));
    }

    let log = disturbed.join("weights.jsonl");
    let place = log.clone();
    let disturbing = FakeVerifier::serve(move |_, items| {
        // A folder in its place cannot be appended to. A run reads its logs before the first verdict.
        std::fs::create_dir_all(&place).unwrap();
        Answer::accepting_b(&items)
    })
    .await;
    let failed = run_in(&disturbed, &config(&disturbing.url, h)).await;
    assert_contains(&failed.unwrap_err(), &["weights.jsonl"]);
    assert_eq!(steps(&disturbed).len(), 3);
    // It would have the weights after four updates.
    assert!(!disturbed.join("checkpoints/step-3").exists());
    std::fs::remove_dir(&log).unwrap();
    run_in(&disturbed, &config(&server.url, h)).await.unwrap();
    let [again, expected] = [&disturbed, &undisturbed].map(|root| outputs(root));
    assert_same(&again, &expected, "after it failed");

    // In a phase of one update, all weights are 1.
    let config = config(&server.url, "algorithm.h=1");
    run_in(&alone, &config).await.unwrap();
    assert!(!alone.join("weights.jsonl").exists());
}
