//! What the observers show of a run.

use super::*;
use crate::tensorboard::{self, Value};

/// The points of a run's TensorBoard file, except times, by tag and step.
pub(super) fn tensorboard_points(root: &Path) -> String {
    let mut lines: Vec<String> = tensorboard::read(&root.join("tensorboard"))
        .into_iter()
        .filter(|point| !point.tag.starts_with("time/"))
        .map(|point| format!("{} {:06} {:?}\n", point.tag, point.step, point.value))
        .collect();
    lines.sort();
    lines.concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn tensorboard_shows_every_number_of_the_logs() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    run_in(&root, &config(&server.url, &[])).await.unwrap();
    let points = tensorboard::read(&root.join("tensorboard"));
    let mut checked = 0;
    for (section, log) in [("train", "metrics.jsonl"), ("time", "timings.jsonl")] {
        let text = std::fs::read_to_string(root.join(log)).unwrap();
        for line in text.lines() {
            let record: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(line).unwrap();
            let step = record["step"].as_u64().unwrap() as usize;
            for (name, value) in &record {
                let Some(value) = value
                    .as_f64()
                    .filter(|_| name != "step" && name != "ended_at")
                else {
                    continue;
                };
                let tag = format!("{section}/{name}");
                let values = points.iter().filter(|p| p.step == step && p.tag == tag);
                let values: Vec<&Value> = values.map(|point| &point.value).collect();
                assert_eq!(values, [&Value::Scalar(f64::from(value as f32))], "{tag}");
                checked += 1;
            }
        }
    }
    assert!(checked > 10 * 30, "{checked}");
    let steps = |tag: &str| -> Vec<usize> {
        let of_tag = points.iter().filter(|point| point.tag == tag);
        of_tag.map(|point| point.step).collect()
    };
    assert_eq!(steps("train/pass_at_4"), (1..=10).collect::<Vec<_>>());
    for tag in ["eval/pass_at_1", "eval/pass_at_4", "samples/eval"] {
        assert_eq!(steps(tag), [0, 4, 8, 10], "{tag}");
    }
    // Five tasks are too few for an interval.
    assert!(steps("eval/pass_at_4_high").is_empty());
    assert_eq!(steps("samples/train"), [0, 3, 6, 9]);
}

#[tokio::test(flavor = "multi_thread")]
async fn alarms_are_logged_once_and_can_be_turned_off() {
    let (home, server) = home_and_verifier().await;
    let (on, off) = (home.path().join("on"), home.path().join("off"));
    // All answers are the same letter here, so learning raises the alarm on repetition.
    let long = &["run.updates=60", "eval.samples=0"];
    run_in(&on, &config(&server.url, long)).await.unwrap();
    let alarms: Vec<AlarmRecord> = read_log(&on, Log::Alarms).unwrap();
    let steps = steps(&on);
    assert_eq!(
        alarms,
        observers::alarms::AlarmMonitor::default().replay(&steps, &[])
    );
    assert!(!alarms.is_empty());
    let points = tensorboard::read(&on.join("tensorboard"));
    let shown = points.iter().filter(|point| point.tag == "alarms").count();
    assert_eq!(shown, alarms.len());

    let config = super::config(&server.url, &[long[0], long[1], "run.alarms=false"]);
    run_in(&off, &config).await.unwrap();
    assert!(!off.join("alarms.jsonl").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_of_one_raise_no_alarm_that_nothing_is_learnt() {
    let (home, server) = home_and_verifier().await;
    let root = home.path().join("run");
    let sets = [
        "algorithm.group_size=1",
        "algorithm.baseline=batch",
        "run.updates=12",
        "eval.samples=0",
    ];
    run_in(&root, &super::config(&server.url, &sets))
        .await
        .unwrap();
    let steps = steps(&root);
    let uniform = |step: &StepRecord| step.groups.right + step.groups.wrong;
    assert!(steps.iter().map(uniform).sum::<usize>() > 100);
    let alarms: Vec<AlarmRecord> = read_log(&root, Log::Alarms).unwrap();
    let group_alarms = [Alarm::AllWrong, Alarm::AllRight];
    assert!(
        alarms
            .iter()
            .all(|record| !group_alarms.contains(&record.alarm)),
        "{alarms:?}"
    );
}
