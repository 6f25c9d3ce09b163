//! Phases whose size is chosen from the effective sample size (`algorithm.auto_h`).

use super::*;
use crate::algo::{PhaseSize, SizeReason};
use crate::record::SampleRecord;

const TARGET: f64 = 0.8;
const MAX: usize = 12;

/// Settings with which both the target and the growth limit H.
const AUTO: [&str; 6] = [
    "algorithm.preset=rapid-auto",
    "algorithm.auto_h=0.8",
    "algorithm.h=12",
    "optimiser.lr=0.2",
    "run.updates=31",
    "eval.every=10",
];

fn auto_config(url: &str, more: &[&str]) -> Config {
    config(url, &[&AUTO[..], more].concat())
}

/// The updates of each phase.
fn phases(steps: &[StepRecord]) -> Vec<&[StepRecord]> {
    steps.chunk_by(|a, b| a.phase == b.phase).collect()
}

fn ess(phase: &[StepRecord]) -> Vec<Option<f64>> {
    let fraction = |step: &StepRecord| step.algo.ess / step.algo.judged as f64;
    phase.iter().map(|step| Some(fraction(step))).collect()
}

/// The task of each completion of each phase, in order.
fn tasks(root: &Path) -> Vec<String> {
    let mut tasks = Vec::new();
    for phase in 0.. {
        let samples = root.join(format!("samples/phase-{phase}.jsonl"));
        let Ok(text) = std::fs::read_to_string(samples) else {
            break;
        };
        let task = |line| serde_json::from_str::<SampleRecord>(line).unwrap().task;
        tasks.extend(text.lines().map(task));
    }
    tasks
}

#[tokio::test(flavor = "multi_thread")]
async fn each_phase_is_as_long_as_the_effective_sample_size_of_the_one_before_allows() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let summary = run_in(&root, &auto_config(&server.url, &[])).await.unwrap();
    assert_eq!((summary.ended, summary.step), (RunOutcome::Finished, 31));
    let steps = steps(&root);
    let phases = phases(&steps);
    let mut expected = PhaseSize::after(&[], TARGET, MAX);
    assert_eq!((expected.h, expected.reason), (2, SizeReason::First));
    for (index, phase) in phases.iter().enumerate() {
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
        expected = PhaseSize::after(&ess(phase), TARGET, MAX);
    }
    let sizes: Vec<usize> = phases.iter().map(|phase| phase.len()).collect();
    let reasons: Vec<SizeReason> = phases
        .iter()
        .filter_map(|phase| Some(phase[0].auto_h?.reason))
        .collect();
    assert!(
        reasons.contains(&SizeReason::Lifetime) && reasons.contains(&SizeReason::Growth),
        "{sizes:?}, {reasons:?}"
    );

    // The prompts are those of phases of one size, in the same order.
    let fixed = home.path().join("fixed");
    let sets = ["algorithm.auto_h=0", "algorithm.h=3"];
    run_in(&fixed, &auto_config(&server.url, &sets))
        .await
        .unwrap();
    assert_eq!(tasks(&root), tasks(&fixed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_killed_anywhere_chooses_the_same_sizes_when_it_is_resumed() {
    let home = fakes::folder();
    let (run, killed) = (home.path().join("run"), home.path().join("killed"));
    // A checkpoint is in mid-phase, or at its end.
    let every = ["run.checkpoint_every=3"];
    let server = copying_verifier(&run, &killed).await;
    run_in(&run, &auto_config(&server.url, &every))
        .await
        .unwrap();
    drop(server);
    let expected = outputs(&run);
    let server = FakeVerifier::accepting_b().await;
    let config = auto_config(&server.url, &every);
    for killed in copies(&killed) {
        run_in(&killed, &config).await.unwrap();
        assert_same(&outputs(&killed), &expected, &killed.display().to_string());
    }
    assert!(copies(&killed).count() >= 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_update_failed_chooses_the_same_sizes_when_it_is_resumed() {
    let (home, server) = home_and_verifier().await;
    let config = auto_config(&server.url, &["eval.every=0"]);
    assert_same_after_failures(home.path(), &config, 31, (0..31).step_by(3)).await;
}

/// Two runs, of which the first has `short` updates and is then made as long as the second.
async fn extended(home: &Path, url: &str, sets: &[&str], short: usize) -> [PathBuf; 2] {
    let roots = ["longer", "at-once"].map(|name| home.join(format!("{name}-{short}")));
    let length = format!("run.updates={short}");
    let first = [sets, &[length.as_str()]].concat();
    run_in(&roots[0], &auto_config(url, &first)).await.unwrap();
    run_in(&roots[1], &auto_config(url, sets)).await.unwrap();
    let longer = resume_config(&roots[0], &["run.updates=31".to_owned()]).unwrap();
    run_in(&roots[0], &longer).await.unwrap();
    roots
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extended_run_chooses_the_sizes_of_one_of_its_length_from_the_start() {
    let (home, server) = home_and_verifier().await;
    let sets = ["eval.samples=0", "run.keep=12", "run.checkpoint_every=1"];
    for short in [2, 3, 9, 30] {
        let [longer, at_once] = extended(home.path(), &server.url, &sets, short).await;
        for file in ["metrics.jsonl", "config.toml", "checkpoints/last/state.bin"] {
            let read = |root: &Path| std::fs::read(root.join(file)).unwrap();
            assert!(read(&longer) == read(&at_once), "{short}: {file}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_a_phase_that_later_weights_sampled_is_measured_by_itself() {
    let (home, server) = home_and_verifier().await;
    // No checkpoint is left from before the phase that the old end cuts: the second, of updates 3 to 6.
    let sets = [
        "eval.samples=0",
        "run.checkpoint_every=1",
        "optimiser.lr=0.05",
    ];
    let [longer, _] = extended(home.path(), &server.url, &sets, 4).await;
    let steps = steps(&longer);
    let phases = phases(&steps);
    assert_eq!(steps.len(), 31);
    assert!(longer.join("samples/phase-1-from-2.jsonl").is_file());
    let lengths: Vec<usize> = phases[1].iter().map(|step| step.phase_updates).collect();
    assert_eq!(lengths, [2, 2, 4, 4]);
    assert_eq!(phases[1][2].algo.ell_std, 0.0);
    let expected = PhaseSize::after(&ess(&phases[1][2..]), TARGET, MAX);
    assert_eq!(phases[2][0].auto_h, Some(expected));
}
