//! Ten thousand samples through one service, 64 at a time, hostile and honest: every one has the verdict that it must have, and memory stays
//! what it was.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::artifacts;
use tests::attacks::{self, Case};
use tests::programs::Verifier;
use tests::samples::{Sample, labelled};

/// Requests at a time.
const IN_FLIGHT: usize = 64;
/// Memory between parts is flat where the last is no further above the first than this much, and a tenth of the first. A leak of 10 KB a sample
/// is more.
const SLACK: u64 = 50_000_000;

#[test]
fn a_mixed_load_is_answered_as_it_must_be_and_memory_stays_flat() {
    if artifacts::sandbox().is_none() {
        return;
    }
    let (parts, size) = if artifacts::long() {
        (10, 1000)
    } else {
        artifacts::skipped("9,700 of 10,000 mixed samples; RAPID_TEST_LONG=1 sends them all");
        (4, 75)
    };
    let data = artifacts::data();
    let tasks = json!(attacks::folder().join("tasks.jsonl"));
    let datasets = match data {
        Some(_) => format!("datasets=[{tasks},\"mbppplus\"]"),
        None => format!("datasets=[{tasks}]"),
    };
    let mut arguments = vec!["--workers", "2", "--set", &datasets];
    // The limits that the attacks' verdicts are written for; what exhausts them costs half a second.
    for limit in ["code.fuel=1000000000", "code.memory_bytes=536870912"] {
        arguments.extend(["--set", limit]);
    }
    if let Some(data) = &data {
        arguments.extend(["--data-dir", data.to_str().unwrap()]);
    }
    let soak = Soak {
        verifier: Verifier::start(&arguments),
        faults: Mutex::default(),
        costs: Mutex::default(),
        peak: AtomicU64::new(0),
    };
    let cases = attacks::all(&[]);
    let labelled = data.map(|data| labelled(&data)).unwrap_or_default();
    let mut mixture = mix(&cases, &labelled);

    // The warm-up makes expected values, and takes what memory the work needs at a time.
    let warm_up: Vec<Kind<'_>> = mixture.by_ref().take(size).collect();
    soak.part("the warm-up", 0, &warm_up);
    let mut memory = Vec::new();
    for part in 1..=parts {
        let kinds: Vec<Kind<'_>> = mixture.by_ref().take(size).collect();
        memory.push(soak.part(&format!("part {part} of {parts}"), part * size, &kinds));
    }
    soak.report();
    let (first, last) = (memory[0], memory[parts - 1]);
    assert!(
        last <= first + first / 10 + SLACK,
        "memory grew from {first} to {last} bytes: {memory:?}"
    );
}

/// One thing to send.
#[derive(Clone, Copy)]
enum Kind<'a> {
    /// A case of the attacks, and its task.
    Case(&'a Case, &'a str),
    Labelled(&'a Sample),
    /// No request at all.
    Broken,
}

/// An endless supply: of twenty, one exhausts what it can, one is broken, five are a model's where there are any, and the others are of each
/// family in turn.
fn mix<'a>(cases: &'a [Case], labelled: &'a [Sample]) -> impl Iterator<Item = Kind<'a>> {
    let (exhausting, others): (Vec<_>, Vec<_>) =
        cases.iter().partition(|case| case.family == "exhausting");
    let mut families: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
    for case in others {
        families.entry(&case.family).or_default().push(case);
    }
    assert_eq!(
        families.keys().copied().collect::<Vec<_>>(),
        ["confusing", "escaping", "forging", "honest", "lasting"]
    );
    let mut families: Vec<_> = families
        .into_values()
        .map(|family| family.into_iter().cycle().enumerate())
        .collect();
    let mut exhausting = exhausting.into_iter().cycle().enumerate();
    let light: Vec<&Sample> = labelled.iter().filter(|sample| sample.light()).collect();
    let mut light = light.into_iter().cycle();
    let mut turn = 0;
    // Each time that a case comes round, it comes on its next task.
    let on_a_task = |(number, case): (usize, &'a Case)| {
        Kind::Case(case, &case.tasks[number % case.tasks.len()])
    };
    (0_usize..).map(move |number| {
        let sample = match number % 20 {
            0 | 4 | 8 | 12 | 16 => light.next().map(Kind::Labelled),
            5 => exhausting.next().map(on_a_task),
            15 => Some(Kind::Broken),
            _ => None,
        };
        sample.unwrap_or_else(|| {
            turn += 1;
            let family = (turn - 1) % families.len();
            let next = families[family].next();
            on_a_task(next.expect("a family goes round"))
        })
    })
}

struct Soak {
    verifier: Verifier,
    faults: Mutex<Vec<String>>,
    /// Samples, and the seconds that their answers took, by family.
    costs: Mutex<BTreeMap<String, (usize, f64)>>,
    /// The most memory that was seen in this part.
    peak: AtomicU64,
}

impl Soak {
    /// Sends all of it, 64 at a time, and returns the memory that the idle service has then.
    fn part(&self, name: &str, first: usize, kinds: &[Kind<'_>]) -> u64 {
        let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let started = Instant::now();
        self.peak.store(0, Ordering::SeqCst);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    self.watch();
                    std::thread::sleep(Duration::from_millis(250));
                }
            });
            let clients: Vec<_> = (0..IN_FLIGHT)
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            let number = next.fetch_add(1, Ordering::SeqCst);
                            let Some(kind) = kinds.get(number) else { break };
                            self.send(first + number, *kind);
                        }
                    })
                })
                .collect();
            let ended: Vec<_> = clients
                .into_iter()
                .map(std::thread::ScopedJoinHandle::join)
                .collect();
            over.store(true, Ordering::SeqCst);
            assert!(
                ended.iter().all(Result::is_ok),
                "a request was not answered"
            );
        });
        let memory = self.verifier.memory();
        eprintln!(
            "{name}: {} samples in {:.0} s, then {memory}; at most {} MB on the way",
            kinds.len(),
            started.elapsed().as_secs_f64(),
            self.peak.load(Ordering::SeqCst) / 1_000_000
        );
        memory.resident
    }

    /// The service is healthy, and has this much memory.
    fn watch(&self) {
        let answer = self.verifier.request("GET", "/healthz", b"");
        if answer.status != 200 {
            self.fault(format!("unhealthy: {answer:?}"));
        }
        let memory = self.verifier.memory().resident;
        self.peak.fetch_max(memory, Ordering::SeqCst);
    }

    fn send(&self, number: usize, kind: Kind<'_>) {
        let started = Instant::now();
        // Verdicts do not depend on the prompt, and are kept under it.
        let prompt = format!("sample {number}");
        let (family, fault) = match kind {
            Kind::Case(case, task) => {
                let answer = self.judge(&case.request_after(&prompt, task));
                let verdict = answer["verdict"].as_str().unwrap_or_default();
                let as_it_must = case.verdicts.iter().any(|allowed| allowed == verdict)
                    && answer["cached"] == false;
                let fault = format!(
                    "{} on {task}: {answer}, and not {:?}",
                    case.id(),
                    case.verdicts
                );
                (case.family.as_str(), (!as_it_must).then_some(fault))
            }
            Kind::Labelled(sample) => {
                let item = json!({"id": "labelled", "task": sample.task, "prompt": prompt, "completion": sample.completion});
                let answer = self.judge(&json!({ "items": [item] }).to_string());
                let reward = f64::from(u8::from(sample.passed));
                let as_it_must = answer["reward"] == reward && answer["cached"] == false;
                let fault = format!("{}: {answer}, and not {reward}", sample.task);
                ("labelled", (!as_it_must).then_some(fault))
            }
            Kind::Broken => {
                let body = format!("{{\"items\": [{{\"id\": \"{prompt}\", \"task\": ");
                let answer = self.verifier.request("POST", "/v1/verify", body.as_bytes());
                let fault = format!("half a request: {answer:?}");
                ("broken", (answer.status != 400).then_some(fault))
            }
        };
        if let Some(fault) = fault {
            self.fault(fault);
        }
        let mut costs = self.costs.lock().unwrap();
        let (samples, seconds) = costs.entry(family.to_owned()).or_default();
        *samples += 1;
        *seconds += started.elapsed().as_secs_f64();
    }

    fn judge(&self, body: &str) -> Value {
        let answer = self.verifier.request("POST", "/v1/verify", body.as_bytes());
        match answer.status {
            200 => answer.json()["results"][0].clone(),
            status => json!({ "status": status, "body": answer.body }),
        }
    }

    fn fault(&self, fault: String) {
        self.faults.lock().unwrap().push(fault);
    }

    /// Prints the counts, and fails where an answer was not as it must be.
    fn report(&self) {
        for (family, (samples, seconds)) in &*self.costs.lock().unwrap() {
            eprintln!(
                "{family}: {samples} samples, answered after {:.2} s on average",
                seconds / *samples as f64
            );
        }
        let faults = self.faults.lock().unwrap();
        assert!(
            faults.is_empty(),
            "{} faults:\n{}",
            faults.len(),
            faults.join("\n")
        );
    }
}
