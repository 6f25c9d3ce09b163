//! What a run spends its time on adds up to the time that it takes.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use engine::backend::cuda::ledger::H100;
use engine::config::ModelConfig;
use engine::{Engine, EngineOptions};

use super::algorithms::preset_config;
use super::*;
use crate::record::{Activity, ClockRecord, RunTimes};

/// How long each pass of the policy takes.
const PASS: Duration = Duration::from_millis(50);

fn passes(number: usize) -> f64 {
    PASS.as_secs_f64() * number as f64
}

fn clock_lines(root: &Path) -> Vec<ClockRecord> {
    read_log(root, Log::Clock).unwrap()
}

/// Trains with slow policies, and returns the times. Asserts that the activities of all processes add up, within 1%, to the seconds since the run began, and that
/// the files say the same. Earlier processes took `before` of these seconds.
async fn slow_run(root: &Path, config: &Config, before: f64) -> RunTimes {
    let slow = || {
        let mut policy = FakePolicy::default();
        policy.pass = PASS;
        Arc::new(policy)
    };
    let mut job = job(root, config, slow()).unwrap();
    if job.reference.is_some() {
        job.reference = Some(slow());
    }
    job.clock = Clock::start();
    let began = Instant::now();
    let times = train(job).await.unwrap().times;
    let passed = before + began.elapsed().as_secs_f64();
    let all = times.wall();
    let off = (all - passed).abs();
    assert!(off <= 0.01 * passed, "{all} s of {passed} s: {times:?}");
    let read = RunTimes::of(&clock_lines(root), &[]);
    assert!((read.wall() - all).abs() < 1e-6, "{read:?}, {times:?}");
    times
}

#[tokio::test(flavor = "multi_thread")]
async fn every_second_of_grpo_with_a_reference_has_a_name() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let sets = [
        "run.updates=10",
        "algorithm.kl=0.04",
        "algorithm.h=2",
        "sampling.behaviour_logprob=recompute",
    ];
    let config = preset_config(&server.url, Preset::Grpo, &sets);
    let times = slow_run(&root, &config, 0.0).await;
    // Five phases of two updates. The phases are scored as a whole by the reference, and by mini-batch by the policy.
    for (activity, least) in [
        (Activity::Start, 0),
        (Activity::Inference, 0),
        (Activity::Verify, 0),
        (Activity::Recompute, 10),
        (Activity::Reference, 5),
        (Activity::Forward, 10),
        (Activity::Backward, 10),
        (Activity::Optimiser, 10),
        (Activity::Evaluation, 0),
        (Activity::Checkpoint, 0),
        (Activity::Other, 0),
    ] {
        let seconds = times.of_activity(activity);
        let is_enough = seconds >= passes(least) && seconds > 0.0;
        assert!(is_enough, "{activity:?}: {times:?}");
        // The peak of each activity is known, and is at most the machine's memory.
        assert!((1 << 20..1 << 40).contains(&times.memory[&activity]));
    }
    assert!(!times.seconds.contains_key(&Activity::Lost));
    let not_training = times.of_activity(Activity::Start) + times.of_activity(Activity::Evaluation);
    assert!((times.training() + not_training - times.wall()).abs() < 1e-9);
    // A line of an update has the totals until then.
    let timings: Vec<StepTimings> = read_log(&root, Log::Timings).unwrap();
    for (line, next) in timings.iter().zip(&timings[1..]) {
        assert!(line.total[&Activity::Forward] + passes(1) <= next.total[&Activity::Forward]);
    }
    assert!(timings[9].total.values().sum::<f64>() <= times.wall());
}

/// A folder as `kill -9` leaves it while the second phase is judged: the newest checkpoint has two of the three updates.
#[tokio::test(flavor = "multi_thread")]
async fn work_that_a_kill_lost_is_counted_once_and_as_lost() {
    let home = fakes::folder();
    let [run, killed] = ["run", "killed"].map(|name| home.path().join(name));
    let (from, to, copied) = (run.clone(), killed.clone(), AtomicBool::new(false));
    let server = FakeVerifier::serve(move |_, items| {
        let steps: Vec<StepRecord> = read_log(&from, Log::Metrics).unwrap_or_default();
        if steps.len() == 3 && !copied.swap(true, Ordering::SeqCst) {
            copy(&from, &to);
        }
        Answer::accepting_b(&items)
    })
    .await;
    let sets = ["run.updates=10", "algorithm.h=3"];
    let config = preset_config(&server.url, Preset::RapidPaper, &sets);
    slow_run(&run, &config, 0.0).await;
    let lines = clock_lines(&killed);
    let before = RunTimes::of(&lines, &[]);
    assert_eq!(lines.last().unwrap().step, 3);
    assert!(!before.seconds.contains_key(&Activity::Lost));
    // A line that was being written when the process was killed.
    let log = killed.join("clock.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text + "{\"step\":3,\"sec").unwrap();

    let times = slow_run(&killed, &config, before.wall()).await;
    let in_no_checkpoint = lines.iter().filter(|line| line.step > 2);
    let lost = in_no_checkpoint.flat_map(|line| line.times.seconds.values());
    let lost: f64 = lost.sum();
    assert!(lost >= passes(3), "{lines:?}");
    assert!((times.of_activity(Activity::Lost) - lost).abs() < 1e-9);
    assert!(times.of_activity(Activity::Forward) >= passes(10));
    assert_same(&outputs(&killed), &outputs(&run), "killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_of_a_gpu_is_that_of_the_policy_and_its_reference() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let sets = ["run.updates=2", "algorithm.kl=0.04", "algorithm.h=2"];
    let config = preset_config(&server.url, Preset::Grpo, &sets);
    // A small model on a GPU that computes nothing, and the ledger of its memory.
    let model = r#"{"model_type": "llama", "vocab_size": 320, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 64, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true,
        "hidden_act": "silu"}"#;
    let model = ModelConfig::from_json(model).unwrap();
    let open = || Engine::planned(model.clone(), H100, EngineOptions::default()).unwrap();
    let ((policy, policy_ledger), (reference, reference_ledger)) = (open(), open());
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
