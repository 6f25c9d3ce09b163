//! Phases of a size that follows from the effective sample size (`algorithm.auto_h`).

use super::*;
use crate::data::{PhaseSize, SizeReason};

/// Settings with which both the target and the growth limit H.
const AUTO: [&str; 7] = [
    "algorithm.preset=rapid-auto",
    "algorithm.auto_h=0.8",
    "algorithm.h=12",
    "optimiser.lr=0.2",
    "run.updates=31",
    "eval.every=10",
    // A checkpoint is in mid-phase, or at its end.
    "run.checkpoint_every=3",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_phase_is_as_long_as_the_last_effective_sample_size_allows() {
    let home = fakes::folder();
    let (root, killed) = (home.path().join("run"), home.path().join("killed"));
    let server = copying_verifier(&root, &killed).await;
    let summary = run_in(&root, &config(&server.url, &AUTO)).await.unwrap();
    drop(server);
    assert_eq!((summary.ended, summary.step), (RunOutcome::Finished, 31));
    let steps = steps(&root);
    let mut expected = PhaseSize::after(&[], 0.8, 12);
    assert_eq!((expected.h, expected.reason), (2, SizeReason::First));
    let mut reasons = Vec::new();
    for (index, phase) in steps.chunk_by(|a, b| a.phase == b.phase).enumerate() {
        assert_eq!(phase[0].auto_h, Some(expected));
        let length = expected.h.min(31 - phase[0].step + 1);
        assert_eq!(phase.len(), length);
        for (number, step) in phase.iter().enumerate() {
            let place = (step.phase, step.update, step.phase_updates);
            assert_eq!(place, (index, number, length));
            assert_eq!(step.auto_h.is_some(), number == 0);
            // Weights are 1 in the first update alone: no samples are drawn again in mid-phase.
            assert_eq!(step.algo.ell_std == 0.0, number == 0);
        }
        reasons.push(expected.reason);
        let ess = phase
            .iter()
            .map(|step| Some(step.algo.ess / step.algo.judged as f64));
        expected = PhaseSize::after(&ess.collect::<Vec<_>>(), 0.8, 12);
    }
    for reason in [SizeReason::Lifetime, SizeReason::Growth] {
        assert!(reasons.contains(&reason), "{reasons:?}");
    }

    // A run that was killed anywhere, or that had an update fail, chooses the same sizes.
    let server = FakeVerifier::accepting_b().await;
    let config = config(&server.url, &AUTO);
    assert!(copies(&killed).count() >= 8);
    let failed = (0..31).step_by(5);
    for made in failed.clone() {
        fail_after(made, &home.path().join(made.to_string()), &config).await;
    }
    let failed = failed.map(|made| home.path().join(made.to_string()));
    for interrupted in copies(&killed).chain(failed) {
        run_in(&interrupted, &config).await.unwrap();
        let what = interrupted.display().to_string();
        assert_same(&outputs(&interrupted), &outputs(&root), &what);
    }
}
