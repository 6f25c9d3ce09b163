//! Samples of tasks with a canonical solution that has not been run yet.

use super::queue::{Gate, gated};
use super::*;

/// A task with the canonical solution `source`.
pub(super) fn task_with_solution(source: &str) -> Json {
    json!({ "kind": "code", "entry_point": "f", "canonical": source, "tests": [{ "args": [1] }, { "args": [3] }] })
}

fn samples(task: &Json, count: usize) -> Json {
    (0..count)
        .map(|n| item("s", task, &format!("right {n}")))
        .collect()
}

/// A sample each of `count` tasks. Their solutions differ in the number after `source`.
pub(super) fn tasks_with_solutions(source: &str, count: usize) -> Json {
    (0..count)
        .map(|n| {
            let task = task_with_solution(&format!("{source} {n}"));
            item("s", &task, "right")
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canonical_solution_is_run_once_and_no_worker_waits_for_it() {
    let gate = Gate::shut();
    let (service, sandbox) = gated(&gate);
    let parsed = sandbox.parses();
    let before = sandbox.runs();
    let app = app(Arc::clone(&service));
    let first = verifying(&app, &samples(&task_with_solution("right slow"), 10));
    let loads = || (service.judge.short.load(), service.judge.long.load());
    // Only the solution has a thread.
    until(|| service.judge.parked() == 10 && loads() == ((0, 0), (0, 1))).await;
    let (_, body) = verify(&app, &samples(&doubles(), 3)).await;
    assert_eq!(results(&body, "verdict"), json!(vec![["correct"]; 3]));
    assert!(!first.is_finished());
    gate.open();
    let (_, body) = first.await.unwrap();
    assert_eq!(results(&body, "verdict"), json!(vec![["correct"]; 10]));
    assert_eq!(sandbox.runs(), before + 3 + 1 + 10);
    // The waiting samples were not parsed again.
    assert_eq!(sandbox.parses(), parsed + 3 + 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_samples_count_as_queued() {
    let gate = Gate::shut();
    let (service, _) = gated(&gate);
    let app = app(Arc::clone(&service));
    let first = verifying(&app, &samples(&task_with_solution("right slow"), 15));
    until(|| service.judge.parked() == 15).await;
    let (status, _) = verify(&app, &samples(&doubles(), 6)).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert!(service.judge.gauges().queued >= 15);
    gate.open();
    assert_eq!(first.await.unwrap().0, StatusCode::OK);
    let (status, _) = verify(&app, &samples(&doubles(), 6)).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canonical_solution_that_nobody_waits_for_is_not_run() {
    let gate = Gate::shut();
    let (service, sandbox) = gated(&gate);
    let before = sandbox.runs();
    let app = app(Arc::clone(&service));
    // Five wait at the gate: three in the threads for full runs, and two in those for first passes.
    let first = verifying(&app, &tasks_with_solutions("right slow", 7));
    let (short, long) = (&service.judge.short, &service.judge.long);
    until(|| long.load() == (0, 3) && short.load() == (2, 2)).await;
    first.abort();
    let _ = first.await;
    until(|| short.load().0 == 0 && service.judge.parked() <= 5).await;
    gate.open();
    until(|| long.load() == (0, 0) && short.load() == (0, 0)).await;
    assert_eq!(sandbox.runs(), before + 5);
    assert_eq!(service.judge.parked(), 0);
}
