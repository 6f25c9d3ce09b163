//! `weights.jsonl`: the token-level importance weights of the end of a phase.

use super::algorithms::preset_config;
use super::*;
use crate::record::TokenWeights;

#[tokio::test(flavor = "multi_thread")]
async fn the_last_update_of_a_phase_has_a_line_with_stale_weights() {
    let (home, server) = home_and_verifier().await;
    // In a phase of one update, all weights are 1.
    for (h, expected) in [
        ("algorithm.h=4", &[(4, 0), (8, 1), (12, 2), (16, 3), (20, 4)][..]),
        ("algorithm.h=1", &[]),
    ] {
        let root = home.path().join(h);
        let config = preset_config(&server.url, Preset::RapidPaper, &[h]);
        run_in(&root, &config).await.unwrap();
        let lines: Vec<TokenWeights> = read_log(&root, Log::Weights).unwrap();
        let places = lines.iter().map(|line| (line.step, line.phase));
        assert!(places.eq(expected.iter().copied()));
        for line in &lines {
            assert_eq!((line.update, line.policy.len()), (3, line.behaviour.len()));
            // Three updates have changed the policy since it sampled.
            let is_stale = line.log_ratios().any(|ratio| ratio.abs() > 1e-6);
            assert!(is_stale, "{line:?}");
            assert!(line.reward == 0.0 || line.completion.contains('b'));
        }
    }
}
