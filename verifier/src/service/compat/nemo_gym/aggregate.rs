//! The statistics of `/aggregate_metrics`: those of NeMo Gym's own servers, over each numeric field of the answers to `/verify`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The field with the index of an answer's task.
const TASK_INDEX: &str = "_ng_task_index";
/// The field that counts the rollouts of a task.
const ROLLOUT_INDEX: &str = "_ng_rollout_index";

type Response = Map<String, Value>;

/// The statistics of each task and of all tasks. Leaves out answers without a measured reward.
pub(super) fn metrics(responses: &[Response]) -> Value {
    let measured: Vec<&Response> = responses.iter().filter(|one| is_measured(one)).collect();
    let mut groups: BTreeMap<i64, Vec<&Response>> = BTreeMap::new();
    for response in &measured {
        let task = response.get(TASK_INDEX).and_then(Value::as_i64);
        groups.entry(task.unwrap_or(0)).or_default().push(response);
    }
    let groups: Vec<Response> = groups
        .into_iter()
        .map(|(task, responses)| {
            let mut group = statistics(&responses);
            group.insert("sample".to_owned(), json!({}));
            group.insert(TASK_INDEX.to_owned(), json!(task));
            group
        })
        .collect();
    let all = statistics(&measured);
    let means: Response = all
        .iter()
        .filter(|(name, _)| name.starts_with("mean/"))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    json!({ "group_level_metrics": groups, "agent_metrics": all, "key_metrics": means })
}

fn is_measured(response: &Response) -> bool {
    let masked = response.get("mask_sample") == Some(&Value::Bool(true));
    !masked && response.get("_ng_failure_class").is_none_or(Value::is_null)
}

/// Mean, maximum, minimum, median and sample standard deviation of each field that is a number or a truth value.
fn statistics(responses: &[&Response]) -> Response {
    let mut columns: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, value) in responses.iter().copied().flatten() {
        let number = match value {
            Value::Bool(value) => Some(f64::from(u8::from(*value))),
            other => other.as_f64(),
        };
        if let Some(number) = number.filter(|_| name != TASK_INDEX && name != ROLLOUT_INDEX) {
            columns.entry(name.as_str()).or_default().push(number);
        }
    }
    let mut statistics = Response::new();
    for (name, mut numbers) in columns {
        numbers.sort_by(f64::total_cmp);
        let (count, half) = (numbers.len() as f64, numbers.len() / 2);
        let mean = numbers.iter().sum::<f64>() / count;
        let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        let median = match numbers.len() % 2 {
            1 => numbers[half],
            _ => f64::midpoint(numbers[half - 1], numbers[half]),
        };
        for (statistic, value) in [
            ("mean", mean),
            ("max", numbers[numbers.len() - 1]),
            ("min", numbers[0]),
            ("median", median),
            ("std", (squares / (count - 1.0).max(1.0)).sqrt()),
        ] {
            statistics.insert(format!("{statistic}/{name}"), json!(value));
        }
    }
    statistics
}
