//! Sends ten thousand hostile and honest samples to one service, 64 at a time. Every sample gets an allowed verdict, and the service's allocated memory does not
//! grow.
//!
//! The resident memory of a busy process varies by a hundred megabytes with its allocator's reserves, so it does not show a leak. The preloaded library
//! `soak/live_bytes.cpp` counts the bytes that are allocated and not freed; they are the same after the same work.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::json;
use tests::artifacts;
use tests::attacks::{self, Case};
use tests::data;
use tests::programs::Verifier;
use tests::repository::root;
use tests::samples::{Sample, labelled};

const IN_FLIGHT: usize = 64;
/// Limits of the caches. A cache grows up to its limit, which is not a leak; with these limits the caches are full after the warm-up.
const CACHES: [&str; 2] = ["cache.memory_bytes=10000", "cache.expected_bytes=10000"];
/// Growth in bytes per sample that counts as a leak.
const MIN_LEAK: f64 = 1000.0;

#[test]
fn a_mixed_load_gets_its_verdicts_and_allocated_memory_does_not_grow() {
    if artifacts::sandbox().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let live = LiveBytes::new(folder.path());
    let (parts, size) = if artifacts::long("9,700 of 10,000 mixed samples") {
        (10, 1000)
    } else {
        (4, 75)
    };
    let data = data::holding("mbppplus").expect("there is an excerpt");
    let tasks = json!(attacks::folder().join("tasks.jsonl"));
    let datasets = format!("datasets=[{tasks},\"mbppplus\"]");
    let mut arguments = vec!["--workers", "2", "--set", &datasets];
    // The limits for which the attacks' verdicts are written; a program that exhausts them takes half a second.
    let limits = ["code.fuel=1000000000", "code.memory_bytes=536870912"];
    for setting in limits.iter().chain(&CACHES) {
        arguments.extend(["--set", setting]);
    }
    arguments.extend(["--data-dir", data.folder.to_str().unwrap()]);
    let soak = Soak {
        verifier: Verifier::start_with(&arguments, &live.environment()),
        live,
        faults: Mutex::default(),
    };
    let cases = attacks::all(&[]);
    let labelled = labelled(&data);
    let mut mixture = mix(&cases, &labelled);

    // The warm-up computes expected values, fills the caches, and allocates the working memory.
    let warm_up: Vec<Kind<'_>> = mixture.by_ref().take(size).collect();
    soak.part("the warm-up", 0, &warm_up);
    let mut readings = Vec::new();
    for part in 1..=parts {
        let kinds: Vec<Kind<'_>> = mixture.by_ref().take(size).collect();
        let live = soak.part(&format!("part {part} of {parts}"), part * size, &kinds);
        readings.push(((part * size) as f64, live as f64));
    }
    let faults = soak.faults.into_inner().unwrap();
    let count = faults.len();
    assert!(faults.is_empty(), "{count} faults:\n{}", faults.join("\n"));
    let (slope, error) = growth(&readings);
    eprintln!("{slope:.0} ± {error:.0} bytes per sample");
    assert!(
        slope - 3.0 * error < MIN_LEAK,
        "allocated bytes grow by {slope:.0} ± {error:.0} per sample: {readings:?}"
    );
}

/// The slope of the least-squares line through the points, and its standard error.
fn growth(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let products = points.iter().map(|point| (point.0 - x) * (point.1 - y));
    let covariance: f64 = products.sum();
    let slope = covariance / spread;
    let residual = |point: &(f64, f64)| point.1 - y - slope * (point.0 - x);
    let squares: f64 = points.iter().map(residual).map(|it| it.powi(2)).sum();
    (slope, (squares / (count - 2.0) / spread).sqrt())
}

#[test]
fn a_leak_is_distinguished_from_noise() {
    let readings = |per_sample: f64| -> Vec<(f64, f64)> {
        // Variations of kilobytes, in a fixed pattern.
        let noise = [3e4, -2e4, 1e4, -4e4, 2e4].into_iter().cycle();
        let samples = (1..=10).map(|n| f64::from(n) * 1000.0);
        let pairs = samples.zip(noise);
        pairs
            .map(|(n, noise)| (n, 1e8 + per_sample * n + noise))
            .collect()
    };
    let is_leak = |(slope, error): (f64, f64)| slope - 3.0 * error >= MIN_LEAK;
    assert!(!is_leak(growth(&readings(0.0))));
    assert!(is_leak(growth(&readings(1.1 * MIN_LEAK))));
}

/// The number of bytes that a process has allocated and not freed, counted by a preloaded library.
struct LiveBytes {
    library: String,
    count: String,
}

impl LiveBytes {
    fn new(folder: &Path) -> Self {
        let source = root().join("tests/soak/live_bytes.cpp");
        let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let live = Self {
            library: path("live_bytes.so"),
            count: path("live_bytes"),
        };
        let mut compiler = Command::new("g++");
        compiler.args(["-std=c++17", "-O2", "-shared", "-fPIC", "-o", &live.library]);
        let output = compiler.arg(source).output();
        let output = output.expect("g++ is installed (apt-get install g++)");
        assert!(output.status.success(), "{output:?}");
        live
    }

    fn environment(&self) -> [(&str, &str); 2] {
        [
            ("LD_PRELOAD", &self.library),
            ("RAPID_LIVE_BYTES", &self.count),
        ]
    }

    /// The minimum over two seconds, in which the memory of sent answers is freed.
    fn read(&self) -> u64 {
        let read_once = || {
            let bytes = std::fs::read(&self.count).unwrap();
            let count = i64::from_ne_bytes(bytes.try_into().unwrap());
            u64::try_from(count).unwrap()
        };
        let readings = (0..20).map(|_| {
            std::thread::sleep(Duration::from_millis(100));
            read_once()
        });
        readings.min().unwrap()
    }
}

#[derive(Clone, Copy)]
enum Kind<'a> {
    /// A case of the attacks, and its task.
    Case(&'a Case, &'a str),
    Labelled(&'a Sample),
    /// An incomplete request.
    Broken,
}

/// An endless mixture. In twenty requests, one exhausts resources, one is broken, and five are a model's samples if there are any. The others take each family in
/// turn.
fn mix<'a>(cases: &'a [Case], labelled: &'a [Sample]) -> impl Iterator<Item = Kind<'a>> {
    let (exhausting, others): (Vec<_>, Vec<_>) =
        cases.iter().partition(|case| case.family == "exhausting");
    let mut families: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
    for case in others {
        families.entry(&case.family).or_default().push(case);
    }
    let expected = ["confusing", "escaping", "forging", "honest", "lasting"];
    assert_eq!(Vec::from_iter(families.keys().copied()), expected);
    let mut families: Vec<_> = families
        .into_values()
        .map(|family| family.into_iter().cycle().enumerate())
        .collect();
    let mut exhausting = exhausting.into_iter().cycle().enumerate();
    let light: Vec<&Sample> = labelled.iter().filter(|sample| sample.light()).collect();
    let mut light = light.into_iter().cycle();
    let mut turn = 0;
    // A case that comes again has its next task.
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
            on_a_task(next.expect("a family repeats without end"))
        })
    })
}

struct Soak {
    verifier: Verifier,
    live: LiveBytes,
    faults: Mutex<Vec<String>>,
}

impl Soak {
    /// Sends all of the requests, 64 at a time, and returns the bytes that the idle service has allocated afterwards.
    fn part(&self, name: &str, first: usize, kinds: &[Kind<'_>]) -> u64 {
        let started = Instant::now();
        self.verifier.under_load(IN_FLIGHT, kinds.len(), |number| {
            self.send(first + number, kinds[number]);
        });
        let (live, memory) = (self.live.read(), self.verifier.memory());
        eprintln!(
            "{name}: {} samples in {:.0} s, then {:.1} MB allocated, {memory:?}",
            kinds.len(),
            started.elapsed().as_secs_f64(),
            live as f64 / 1e6
        );
        live
    }

    fn send(&self, number: usize, kind: Kind<'_>) {
        // Verdicts do not depend on the prompt, but it is part of their cache keys.
        let prompt = format!("sample {number}");
        match kind {
            Kind::Case(case, task) => {
                let answer = self.verifier.first_result(&case.request(&prompt, task));
                let verdict = answer["verdict"].as_str().unwrap_or_default();
                let allowed = case.verdicts.iter().any(|allowed| allowed == verdict);
                if !allowed || answer["cached"] != false {
                    let (id, verdicts) = (case.id(), &case.verdicts);
                    self.fault(format!("{id} on {task}: {answer}, instead of {verdicts:?}"));
                }
            }
            Kind::Labelled(sample) => {
                let item = json!({"id": "labelled", "task": sample.task, "prompt": prompt, "completion": sample.completion});
                let answer = self.verifier.judge(item);
                let reward = f64::from(u8::from(sample.passed));
                if answer["reward"] != reward || answer["cached"] != false {
                    self.fault(format!("{}: {answer}, instead of {reward}", sample.task));
                }
            }
            Kind::Broken => {
                let body = format!("{{\"items\": [{{\"id\": \"{prompt}\", \"task\": ");
                let answer = self.verifier.request("POST", "/v1/verify", body.as_bytes());
                if answer.status != 400 {
                    self.fault(format!("half a request: {answer:?}"));
                }
            }
        }
    }

    fn fault(&self, fault: String) {
        self.faults.lock().unwrap().push(fault);
    }
}
