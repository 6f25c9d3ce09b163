use engine::Finish;
use verifier_api::Verdict;

use super::{AnswerMode, Record, counts, summary};
use crate::record::SampleRecord;

fn record(task: &str, sample: usize, reward: Option<f64>, any_form: Option<f64>) -> Record {
    Record {
        sample: SampleRecord {
            task: task.into(),
            sample,
            prompt: "What is 1 + 1?".into(),
            completion: "2".into(),
            reward,
            verdict: if reward.is_none() {
                Verdict::Unavailable
            } else {
                Verdict::Correct
            },
            detail: serde_json::Value::Null,
            tokens: 4,
            logp: -1.0,
            finish: if sample == 0 {
                Finish::Length
            } else {
                Finish::Stop
            },
        },
        any_form,
    }
}

#[test]
fn a_masked_sample_counts_neither_as_right_nor_as_wrong() {
    let records = [
        record("a", 0, Some(1.0), None),
        record("a", 1, None, None),
        record("b", 0, Some(0.0), None),
        record("b", 1, Some(1.0), None),
    ];
    let summary = summary(&records, &[1, 2]);
    assert_eq!((summary.tasks, summary.samples, summary.masked), (2, 3, 1));
    // a: 1 of 1; b: 1 of 2.
    assert_eq!(summary.pass[0].estimate.mean, 0.75);
    // Only b has two samples with a verdict.
    assert_eq!(
        (
            summary.pass[1].estimate.mean,
            summary.pass[1].estimate.tasks
        ),
        (1.0, 1)
    );
    assert_eq!(summary.truncated, 0.5);
    assert_eq!(summary.mean_tokens, 4.0);
    assert!(
        summary.any_form.is_empty(),
        "no record has the other reading"
    );
}

#[test]
fn each_reading_has_its_own_rewards() {
    let records = [
        record("a", 0, Some(0.0), Some(1.0)),
        record("b", 0, Some(1.0), Some(1.0)),
    ];
    let summary = summary(&records, &[1]);
    let [strict, any_form] = [&summary.pass, &summary.any_form].map(|pass| pass[0].estimate.mean);
    assert_eq!((strict, any_form), (0.5, 1.0));
}

#[test]
fn tasks_are_counted_in_the_order_of_their_first_samples() {
    let records = [
        record("b", 0, Some(0.0), None),
        record("a", 0, Some(0.0), None),
        record("b", 1, Some(0.0), None),
    ];
    let names: Vec<String> = counts(&records, AnswerMode::AsAnswered)
        .into_iter()
        .map(|(task, _)| task)
        .collect();
    assert_eq!(names, ["b", "a"]);
}
