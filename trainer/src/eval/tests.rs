use super::{SampleRecord, counts, record as evaluation, summary};

fn record(task: &str, sample: usize, reward: Option<f64>, any_form: Option<f64>) -> SampleRecord {
    serde_json::from_value(serde_json::json!({
        "task": task, "sample": sample, "prompt": "What is 1 + 1?", "completion": "2", "reward": reward,
        "verdict": if reward.is_none() { "unavailable" } else { "correct" }, "detail": null, "tokens": 4, "logp": -1.0,
        "finish": if sample == 0 { "length" } else { "stop" }, "any_form": any_form,
    }))
    .unwrap()
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
    let of_two = summary.pass[1].estimate;
    assert_eq!((of_two.mean, of_two.tasks), (1.0, 1));
    assert_eq!((summary.truncated, summary.mean_tokens), (0.5, 4.0));
    // No record has the other reading.
    assert!(summary.any_form.is_empty());
}

#[test]
fn each_reading_has_its_rewards_and_tasks_stay_in_order() {
    let records = [
        record("b", 0, Some(0.0), Some(1.0)),
        record("a", 0, Some(1.0), Some(1.0)),
        record("b", 1, None, None),
    ];
    let summary = summary(&records, &[1]);
    let [strict, any_form] = [&summary.pass, &summary.any_form].map(|pass| pass[0].estimate.mean);
    assert_eq!((strict, any_form), (0.5, 1.0));
    let counts = counts(&records, |record| record.reward).into_iter();
    assert_eq!(counts.map(|(task, _)| task).collect::<Vec<_>>(), ["b", "a"]);
}

#[test]
fn each_of_several_data_sets_has_its_own_figures() {
    let records = [("a", 1.0), ("b", 0.0), ("c", 0.0), ("d", 1.0), ("e", 1.0)];
    let records = records.map(|(task, reward)| record(task, 0, Some(reward), None));
    let sets = [("x".to_owned(), 0..2), ("y".to_owned(), 2..5)];
    let of_all = evaluation(3, 1, &records, &[1], &sets);
    let mean = |name: &str| of_all.sets[name].pass_at[&1].mean;
    assert_eq!((of_all.pass_at_1(), mean("x")), (Some(0.6), 0.5));
    assert_eq!(of_all.sets["y"].tasks, ["c", "d", "e"]);
    assert!((mean("y") - 2.0 / 3.0).abs() < 1e-12);
    let alone = evaluation(3, 1, &records, &[1], &[]);
    assert!(!serde_json::to_string(&alone).unwrap().contains("sets"));
}
