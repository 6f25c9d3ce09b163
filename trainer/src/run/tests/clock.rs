//! What a run spends its time on adds up to the time that it takes.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use engine::backend::cuda::ledger::{H100, Ledger};
use engine::config::ModelConfig;
use engine::{Engine, EngineOptions};

use super::algorithms::preset_config;
use super::*;
use crate::record::{Activity, ClockRecord, RunTimes};

/// How long each pass of the policy takes.
const PASS: Duration = Duration::from_millis(50);

/// The seconds of so many passes.
fn passes(number: usize) -> f64 {
    PASS.as_secs_f64() * number as f64
}

/// A job with slow policies.
fn slow_job(root: &Path, config: &Config, policy: FakePolicy) -> Job {
    let mut job = job(root, config, Arc::new(policy.slow(PASS))).unwrap();
    if job.reference.is_some() {
        job.reference = Some(Arc::new(FakePolicy::default().slow(PASS)));
    }
    job.clock = Clock::start();
    job
}

/// Trains, and returns the result with the seconds that passed.
async fn timed(job: Job) -> (Result<Summary, TrainError>, f64) {
    let began = Instant::now();
    let result = train(job).await;
    (result, began.elapsed().as_secs_f64())
}

/// A slow run of a preset: its temporary folder, the run's folder in it, and its times, which add up.
async fn slow_run(preset: Preset, sets: &[&str]) -> (tempfile::TempDir, PathBuf, RunTimes) {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let config = preset_config(&server.url, preset, sets);
    let (summary, passed) = timed(slow_job(&root, &config, FakePolicy::default())).await;
    let times = summary.unwrap().times;
    assert_adds_up(&root, &times, passed);
    (home, root, times)
}

fn clock_lines(root: &Path) -> Vec<ClockRecord> {
    read_log(root, Log::Clock).unwrap()
}

/// Asserts that the activities of all processes add up to the seconds that passed, within 1%, and that the files say the same as `times`.
fn assert_adds_up(root: &Path, times: &RunTimes, passed: f64) {
    let all = times.wall();
    assert!(
        (all - passed).abs() <= 0.01 * passed,
        "{all} s of {passed} s: {times:?}"
    );
    let read = RunTimes::of(&clock_lines(root), &[]);
    assert!((read.wall() - all).abs() < 1e-6, "{read:?}, {times:?}");
}

fn assert_at_least(times: &RunTimes, least: &[(Activity, f64)]) {
    for (activity, least) in least {
        let seconds = times.of_activity(*activity);
        assert!(
            seconds >= *least && seconds > 0.0,
            "{activity:?}: {times:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_second_of_grpo_with_a_reference_has_a_name() {
    let sets = [
        "run.updates=10",
        "algorithm.kl=0.04",
        "algorithm.h=2",
        "sampling.behaviour_logprob=recompute",
    ];
    let (_home, root, times) = slow_run(Preset::Grpo, &sets).await;
    // Five phases of two updates. The phases are scored as a whole by the reference, and by mini-batch by the policy.
    assert_at_least(
        &times,
        &[
            (Activity::Start, 0.0),
            (Activity::Inference, 0.0),
            (Activity::Verify, 0.0),
            (Activity::Recompute, passes(10)),
            (Activity::Reference, passes(5)),
            (Activity::Forward, passes(10)),
            (Activity::Backward, passes(10)),
            (Activity::Optimiser, passes(10)),
            (Activity::Evaluation, 0.0),
            (Activity::Checkpoint, 0.0),
            (Activity::Other, 0.0),
        ],
    );
    assert!(!times.seconds.contains_key(&Activity::Lost));
    let not_training = times.of_activity(Activity::Start) + times.of_activity(Activity::Evaluation);
    assert!((times.training() + not_training - times.wall()).abs() < 1e-9);
    // The peak of each activity is known, and is at most the machine's memory.
    for activity in times.seconds.keys() {
        let peak = times.memory[activity];
        assert!(
            (1 << 20..1 << 40).contains(&peak),
            "{activity:?}: {peak} bytes"
        );
    }
    // A line of an update has the totals until then.
    let timings: Vec<StepTimings> = read_log(&root, Log::Timings).unwrap();
    for (line, next) in timings.iter().zip(&timings[1..]) {
        assert!(line.total[&Activity::Forward] + passes(1) <= next.total[&Activity::Forward]);
    }
    assert!(timings[9].total.values().sum::<f64>() <= times.wall());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_run_continues_the_times() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let config = preset_config(&server.url, Preset::RapidPaper, &["run.updates=20"]);
    let first = slow_job(&root, &config, FakePolicy::failing_at(10));
    let (failed, before) = timed(first).await;
    failed.unwrap_err();
    assert_adds_up(&root, &RunTimes::of(&clock_lines(&root), &[]), before);
    let second = slow_job(&root, &config, FakePolicy::default());
    let (summary, after) = timed(second).await;
    let times = summary.unwrap().times;
    assert_adds_up(&root, &times, before + after);
    assert_at_least(&times, &[(Activity::Forward, passes(20))]);
    assert!(!times.seconds.contains_key(&Activity::Lost));
}

/// A run, and a copy of its folder as `kill -9` would have left it while the second phase was judged: the newest checkpoint has two of the three updates.
async fn killed_run(home: &Path) -> (PathBuf, PathBuf, Config, FakeVerifier) {
    let (run, killed) = (home.join("run"), home.join("killed"));
    let (from, to, copied) = (run.clone(), killed.clone(), AtomicBool::new(false));
    let server = FakeVerifier::serve(move |_, items| {
        let steps: Vec<StepRecord> = read_log(&from, Log::Metrics).unwrap_or_default();
        if steps.len() == 3 && !copied.swap(true, Ordering::SeqCst) {
            copy(&from, &to);
        }
        Answer::accepting_b(&items)
    })
    .await;
    let config = preset_config(
        &server.url,
        Preset::RapidPaper,
        &["run.updates=10", "algorithm.h=3"],
    );
    let job = slow_job(&run, &config, FakePolicy::default());
    train(job).await.unwrap();
    (run, killed, config, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_a_kill_lost_is_counted_once_and_as_lost() {
    let home = fakes::folder();
    let (run, killed, config, _server) = killed_run(home.path()).await;
    let lines = clock_lines(&killed);
    let before = RunTimes::of(&lines, &[]);
    assert_eq!(lines.last().unwrap().step, 3);
    assert!(!before.seconds.contains_key(&Activity::Lost));
    // A line that was being written when the process was killed.
    let log = killed.join("clock.jsonl");
    let mut text = std::fs::read(&log).unwrap();
    text.extend(b"{\"step\":3,\"sec");
    std::fs::write(&log, text).unwrap();

    let job = slow_job(&killed, &config, FakePolicy::default());
    let (summary, after) = timed(job).await;
    let times = summary.unwrap().times;
    assert_adds_up(&killed, &times, before.wall() + after);
    let in_no_checkpoint = lines.iter().filter(|line| line.step > 2);
    let lost: f64 = in_no_checkpoint
        .flat_map(|line| line.seconds.values())
        .sum();
    assert!(lost >= passes(3), "{lines:?}");
    assert!((times.of_activity(Activity::Lost) - lost).abs() < 1e-9);
    // Ten updates, not eleven.
    let in_a_checkpoint = lines.iter().filter(|line| line.step <= 2);
    let kept = in_a_checkpoint.filter_map(|line| line.seconds.get(&Activity::Forward));
    let of_second = RunTimes::of(&clock_lines(&killed)[lines.len()..], &[]);
    let forward = kept.sum::<f64>() + of_second.of_activity(Activity::Forward);
    assert!(forward >= passes(10));
    assert!((times.of_activity(Activity::Forward) - forward).abs() < 1e-9);
    assert_same(&outputs(&killed), &outputs(&run), "killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_of_a_killed_process_that_are_not_used_are_lost() {
    let home = fakes::folder();
    let (_, killed, config, _server) = killed_run(home.path()).await;
    // The run begins again.
    for folder in ["checkpoints", "rollouts"] {
        std::fs::remove_dir_all(killed.join(folder)).unwrap();
        std::fs::create_dir(killed.join(folder)).unwrap();
    }
    std::fs::remove_file(killed.join("metrics.jsonl")).unwrap();
    let lines = clock_lines(&killed);
    let before = RunTimes::of(&lines, &[]);
    let job = slow_job(&killed, &config, FakePolicy::default());
    let (summary, after) = timed(job).await;
    let times = summary.unwrap().times;
    assert_adds_up(&killed, &times, before.wall() + after);
    let of_second = RunTimes::of(&clock_lines(&killed)[lines.len()..], &[]);
    for activity in [Activity::Inference, Activity::Verify, Activity::Forward] {
        let (all, second) = (times.of_activity(activity), of_second.of_activity(activity));
        assert!((all - second).abs() < 1e-9, "{activity:?}: {times:?}");
        assert!(before.of_activity(activity) > 0.0);
    }
    // The evaluation before the first update is not made again.
    let evaluation = before.of_activity(Activity::Evaluation);
    assert!(evaluation > 0.0 && times.of_activity(Activity::Evaluation) > evaluation);
}

/// A small model of the Llama family on a GPU that computes nothing, and the ledger of its memory.
fn on_a_planned_gpu() -> (Engine, Ledger) {
    let config = r#"{"model_type": "llama", "vocab_size": 320, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 64, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true,
        "hidden_act": "silu"}"#;
    let config = ModelConfig::from_json(config).unwrap();
    Engine::planned(config, H100, EngineOptions::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_of_a_gpu_is_that_of_the_policy_and_its_reference() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let config = preset_config(
        &server.url,
        Preset::Grpo,
        &["run.updates=2", "algorithm.kl=0.04", "algorithm.h=2"],
    );
    let ((policy, policy_ledger), (reference, reference_ledger)) =
        (on_a_planned_gpu(), on_a_planned_gpu());
    let parameters = policy.info().parameters;
    let mut job = job(&root, &config, Arc::new(policy)).unwrap();
    job.reference = Some(Arc::new(reference));
    let memory = train(job).await.unwrap().times.device_memory;
    // Two models in f32; then the gradient and the moments of one.
    assert!(memory[&Activity::Start] >= 2 * 4 * parameters);
    assert!(memory[&Activity::Backward] >= memory[&Activity::Start] + 12 * parameters);
    assert_eq!(memory[&Activity::Optimiser], memory[&Activity::Backward]);
    let most = memory.values().max().unwrap();
    let device = policy_ledger.peak_bytes() + reference_ledger.peak_bytes();
    assert!(*most <= device, "{most} of {device} bytes");
    let timings: Vec<StepTimings> = read_log(&root, Log::Timings).unwrap();
    assert!(timings[1].device_memory.contains_key(&Activity::Reference));
}
