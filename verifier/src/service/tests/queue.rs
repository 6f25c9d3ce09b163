//! The queue while all workers are busy.

use std::sync::OnceLock;

use sandboxes::lean::LeanError;

use super::parked::{task_with_solution, tasks_with_solutions};
use super::*;
use crate::fake_lean::FakeLean;

/// A gate at which programs wait until it opens.
#[derive(Default)]
pub(super) struct Gate(OnceLock<()>);

impl Gate {
    pub(super) fn shut() -> Arc<Gate> {
        Arc::default()
    }

    pub(super) fn open(&self) {
        let _ = self.0.set(());
    }

    pub(super) fn wait(&self) {
        self.0.wait();
    }
}

/// A service where programs with "slow" wait until the gate opens. Programs with "long" run out of fuel in a first pass, and wait with their full fuel.
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
    service.judge.prepare(opens(&sandbox));
    (service, sandbox)
}

pub(super) fn slow(from: usize, count: usize) -> Json {
    (from..from + count)
        .map(|n| item("s", &doubles(), &format!("right slow {n}")))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_answers_429_and_queues_nothing_of_the_batch() {
    let gate = Gate::shut();
    let (service, _) = gated(&gate);
    let app = app(Arc::clone(&service));
    let first = verifying(&app, &slow(0, 18));
    until(|| service.judge.short.load().1 >= 2).await;
    let body = json!({ "items": slow(100, 10) }).to_string();
    let request = post("/v1/verify").body(Body::from(body)).unwrap();
    let (status, text, headers) = answer_to(&app, request).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert!(text.contains("/problems/queue-full"), "{text}");
    assert_ne!(headers[header::RETRY_AFTER], "0");
    assert_eq!(service.judge.short.load().0, 16);
    gate.open();
    assert_eq!(first.await.unwrap().0, StatusCode::OK);
    assert_eq!(verify(&app, &slow(100, 10)).await.0, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queued_items_of_a_disconnected_client_are_not_judged() {
    let gate = Gate::shut();
    let (service, sandbox) = gated(&gate);
    let before = sandbox.runs();
    let app = app(Arc::clone(&service));
    let request = tokio::spawn(async move { verify(&app, &slow(0, 15)).await });
    until(|| service.judge.short.load() == (13, 2)).await;
    request.abort();
    let _ = request.await;
    until(|| service.judge.short.load().0 == 0).await;
    gate.open();
    until(|| service.judge.short.load() == (0, 0)).await;
    assert_eq!(sandbox.runs(), before + 2);
}

/// Items that take long; whether they occupy their threads; and an item that does not wait for them.
type Case = (Json, fn(&Service) -> bool, Json);

/// Short work waits for no long work of its kind, and none for work of another kind.
#[tokio::test(flavor = "multi_thread")]
async fn an_item_does_not_wait_for_items_that_take_long() {
    let theorem = json!({ "kind": "lean", "header": "", "statement": "theorem t : True := by" });
    let long = |n: usize| item("s", &doubles(), &format!("right long {n}"));
    let proof = |n: usize| item("proof", &theorem, &format!("exact h{n}"));
    let cases: [Case; 4] = [
        (
            slow(0, 10),
            |service| service.judge.short.load() == (8, 2),
            item("a", &json!("sums/1"), r"\boxed{2}"),
        ),
        (
            (0..10).map(long).collect(),
            |service| service.judge.long.load() == (7, 3),
            item("a", &doubles(), "right"),
        ),
        (
            tasks_with_solutions("right long", 5),
            // Three solutions run, and two were deferred by a first pass.
            |service| service.judge.long.load() == (2, 3) && service.judge.short.load() == (0, 0),
            item("a", &task_with_solution("right soon"), "right"),
        ),
        (
            (0..4).map(proof).collect(),
            |service| service.judge.proofs.load() == (2, 2),
            long(99),
        ),
    ];
    for (held, is_busy, asked) in cases {
        let (programs, proofs) = (Gate::shut(), Gate::shut());
        let (service, sandbox) = gated(&programs);
        let (before, gate) = (sandbox.parses(), Arc::clone(&proofs));
        let lean = FakeLean::new(move |_, _, seconds| {
            gate.wait();
            Err(LeanError::ProcessorTime(seconds))
        });
        service.judge.graders.set_lean(grader_of(lean));
        let app = app(Arc::clone(&service));
        let first = verifying(&app, &held);
        until(|| is_busy(&service)).await;
        if held[0]["id"] == "proof" {
            programs.open();
        }
        let (_, body) = verify(&app, &json!([asked])).await;
        assert_eq!(results(&body, "verdict"), json!([["correct"]]), "{held}");
        assert!(!first.is_finished());
        programs.open();
        proofs.open();
        assert_eq!(first.await.unwrap().0, StatusCode::OK);
        // Each program was parsed once, wherever it waited.
        let all = held.as_array().unwrap().iter().chain([&asked]);
        let programs = all.filter(|item| item["task"]["kind"] == "code");
        assert_eq!(sandbox.parses(), before + programs.count(), "{held}");
    }
}
