//! What the observers show of a run.

use super::*;
use crate::tensorboard;

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
async fn tensorboard_shows_every_number_of_the_logs_and_alarms_are_logged_once() {
    let (home, server) = home_and_verifier().await;
    let (on, off) = (home.path().join("on"), home.path().join("off"));
    // All answers are the same letter here, so learning raises the alarm on repetition.
    let long = ["run.updates=60", "eval.every=20"];
    run_in(&on, &config(&server.url, &long)).await.unwrap();
    let points = tensorboard::read(&on.join("tensorboard"));
    let mut checked = 0;
    for (section, log) in [("train", Log::Metrics), ("time", Log::Timings)] {
        let records: Vec<serde_json::Map<String, serde_json::Value>> = read_log(&on, log).unwrap();
        for record in records {
            let step = record["step"].as_u64().unwrap() as usize;
            let is_shown = |name: &str| name != "step" && name != "ended_at";
            for (name, value) in record.iter().filter(|(name, _)| is_shown(name)) {
                let Some(value) = value.as_f64() else {
                    continue;
                };
                let tag = format!("{section}/{name}");
                let values = points.iter().filter(|p| p.step == step && p.tag == tag);
                let values: Vec<f64> = values.map(|point| point.value).collect();
                assert_eq!(values, [f64::from(value as f32)], "{tag}");
                checked += 1;
            }
        }
    }
    assert!(checked > 60 * 30, "{checked}");
    let steps_of = |tag: &str| -> Vec<usize> {
        let of_tag = points.iter().filter(|point| point.tag == tag);
        of_tag.map(|point| point.step).collect()
    };
    assert_eq!(steps_of("train/pass_at_4").len(), 60);
    for tag in ["eval/pass_at_1", "eval/pass_at_4"] {
        assert_eq!(steps_of(tag), [0, 20, 40, 60], "{tag}");
    }
    // Five tasks are too few for an interval.
    assert!(steps_of("eval/pass_at_4_high").is_empty());

    let alarms: Vec<AlarmRecord> = read_log(&on, Log::Alarms).unwrap();
    let evals: Vec<EvalRecord> = read_log(&on, Log::Eval).unwrap();
    let mut monitor = observers::alarms::AlarmMonitor::default();
    assert_eq!(alarms, monitor.replay(&steps(&on), &evals));
    assert!(!alarms.is_empty());

    let config = config(&server.url, &[long[0], long[1], "run.alarms=false"]);
    run_in(&off, &config).await.unwrap();
    assert!(!off.join("alarms.jsonl").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_of_the_first_phase_stays_when_the_run_is_resumed() {
    let server = FakeVerifier::serve(|_, items| {
        let mut judged: Vec<_> = items.iter().map(|it| judgement(&it.id, false)).collect();
        for judgement in &mut judged {
            judgement["verdict"] = "malformed".into();
        }
        Answer::Results(judged)
    });
    let (home, server) = (fakes::folder(), server.await);
    let mut expected = None;
    for failing in [None, Some(1), Some(5)] {
        let root = home.path().join(format!("{failing:?}"));
        let config = config(&server.url, &[]);
        if let Some(updates) = failing {
            fail_after(updates, &root, &config).await;
        }
        run_in(&root, &config).await.unwrap();
        let alarms = std::fs::read_to_string(root.join("alarms.jsonl")).unwrap();
        assert!(alarms.starts_with("{\"step\":0,\"alarm\":\"no-answer\""));
        assert_eq!(*expected.get_or_insert(alarms.clone()), alarms);
    }
}
