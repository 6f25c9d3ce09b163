//! The queue while all workers are busy.

use std::sync::{Condvar, Mutex};

use sandboxes::lean::{Compiled, LeanError};

use super::*;

/// A gate at which programs wait until it opens.
pub(super) struct Gate(Mutex<bool>, Condvar);

impl Gate {
    pub(super) fn shut() -> Arc<Gate> {
        Arc::new(Gate(Mutex::new(false), Condvar::new()))
    }

    pub(super) fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    pub(super) fn wait(&self) {
        let mut open = self.0.lock().unwrap();
        while !*open {
            open = self.1.wait(open).unwrap();
        }
    }
}

/// A service in which programs that contain "slow" wait until the gate opens. Programs that contain "long" run out of fuel in a first pass, and wait with their full fuel.
pub(super) fn gated(gate: &Arc<Gate>) -> (Arc<Service>, Arc<FakeSandbox>) {
    gated_with(settings(), gate)
}

pub(super) fn gated_with(
    settings: ServiceSettings,
    gate: &Arc<Gate>,
) -> (Arc<Service>, Arc<FakeSandbox>) {
    let service = service(settings);
    let held = Arc::clone(gate);
    let sandbox = Arc::new(FakeSandbox::new(move |source, calls, limits| {
        let long = source.contains("long");
        if long && limits.fuel < Limits::default().fuel {
            return Ok(ended(Vec::new(), sandboxes::End::OutOfFuel));
        }
        if long || source.contains("slow") {
            held.wait();
        }
        Ok(doubled(source, calls))
    }));
    service.prepare(opens(&sandbox));
    (service, sandbox)
}

pub(super) fn slow(from: usize, count: usize) -> Json {
    (from..from + count)
        .map(|n| item("s", &doubles(), &format!("right slow {n}")))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_answers_429_with_a_retry_time_and_queues_nothing_of_the_batch() {
    let gate = Gate::shut();
    let (service, _) = gated(&gate);
    let app = app(Arc::clone(&service));
    let first = verifying(&app, &slow(0, 18));
    until(|| service.first_pass_pool.load().1 >= 2).await;
    let body = json!({ "items": slow(100, 10) }).to_string();
    let request = post("/v1/verify").body(Body::from(body)).unwrap();
    let (status, text, headers) = answer_to(&app, request).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert!(text.contains("/problems/queue-full"), "{text}");
    assert_ne!(headers[header::RETRY_AFTER], "0");
    assert_eq!(service.first_pass_pool.load().0, 16);
    gate.open();
    assert_eq!(first.await.unwrap().0, StatusCode::OK);
    assert_eq!(verify(&app, &slow(100, 10)).await.0, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn mathematics_does_not_wait_for_programs() {
    let gate = Gate::shut();
    let (service, _) = gated(&gate);
    let app = app(service);
    let first = verifying(&app, &slow(0, 10));
    let (status, body) = tokio::time::timeout(
        Duration::from_secs(20),
        verify(&app, &json!([item("a", &json!("sums/1"), r"\boxed{2}")])),
    )
    .await
    .unwrap();
    assert_eq!(status, StatusCode::OK);
    assert_eq!(results(&body, "verdict"), json!([["correct"]]));
    gate.open();
    first.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queued_items_of_a_disconnected_client_are_not_judged() {
    let gate = Gate::shut();
    let (service, sandbox) = gated(&gate);
    let before = sandbox.runs.load(Ordering::SeqCst);
    let app = app(Arc::clone(&service));
    let request = tokio::spawn(async move { verify(&app, &slow(0, 15)).await });
    until(|| service.first_pass_pool.load() == (13, 2)).await;
    request.abort();
    let _ = request.await;
    until(|| service.first_pass_pool.load().0 == 0).await;
    gate.open();
    until(|| service.first_pass_pool.load() == (0, 0)).await;
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), before + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_program_does_not_wait_for_long_ones() {
    let gate = Gate::shut();
    let (service, _) = gated(&gate);
    let app = app(Arc::clone(&service));
    let long: Json = (0..10)
        .map(|n| item("s", &doubles(), &format!("right long {n}")))
        .collect();
    let first = verifying(&app, &long);
    until(|| service.long_pool.load() == (8, 2)).await;
    let (status, body) = verify(&app, &json!([item("a", &doubles(), "right")])).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(results(&body, "verdict"), json!([["correct"]]));
    assert!(!first.is_finished());
    gate.open();
    let (_, body) = first.await.unwrap();
    assert_eq!(results(&body, "verdict"), json!(vec![["correct"]; 10]));
}

/// A Lean that waits until the gate opens, and compiles nothing.
struct HeldLean(Arc<Gate>);

impl Lean for HeldLean {
    fn compile_within(&self, _: &str, _: &str, seconds: u64) -> Result<Compiled, LeanError> {
        self.0.wait();
        Err(LeanError::ProcessorTime(seconds))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_program_does_not_wait_for_proofs() {
    let (open, gate) = (Gate::shut(), Gate::shut());
    open.open();
    let (service, _) = gated(&open);
    let lean = HeldLean(Arc::clone(&gate));
    service.graders.set_lean(grader_of(Arc::new(lean)));
    let app = app(Arc::clone(&service));
    let task = json!({ "kind": "lean", "header": "", "statement": "theorem t : True := by" });
    let proofs: Json = (0..4)
        .map(|n| item("p", &task, &format!("exact h{n}")))
        .collect();
    let first = verifying(&app, &proofs);
    until(|| service.proof_pool.load() == (2, 2)).await;
    let (_, body) = verify(&app, &json!([item("a", &doubles(), "right long")])).await;
    assert_eq!(body["results"][0]["verdict"], "correct");
    assert!(!first.is_finished());
    gate.open();
    assert_eq!(first.await.unwrap().0, StatusCode::OK);
}
