//! The messages of the programs about GPUs on a machine without a GPU, and the scripts for one: the first hour, and the study.

use std::path::Path;
use std::process::Command;

use engine::Device;
use serde_json::Value;
use tests::artifacts;
use tests::programs::{Outcome, program, rapid, run};
use tests::repository::root;

/// Whether this machine has no GPU; prints that the test is skipped if it has one.
fn without_gpu() -> bool {
    let gpu = Device::gpu();
    if let Ok(gpu) = &gpu {
        eprintln!("SKIPPED: messages on a machine without a GPU: this machine has {gpu}");
    }
    gpu.is_err()
}

/// A script of the repository that runs `program`.
fn script(name: &str, program: &Path, out: &Path) -> Command {
    let mut command = Command::new("bash");
    command.arg(root().join("scripts").join(name));
    command.arg("--rapid").arg(program).arg("--out").arg(out);
    command
}

fn line<'a>(doctor: &'a str, what: &str) -> &'a str {
    let mut lines = doctor.lines();
    let found = lines.find(|line| line.split_whitespace().nth(1) == Some(what));
    found.unwrap_or_else(|| panic!("no line for {what} in:\n{doctor}"))
}

#[test]
fn without_a_gpu_the_cpu_computes_and_work_for_a_gpu_does_not_begin() {
    if without_gpu() {
        let doctor = run(&mut rapid(["doctor"])).stdout;
        assert!(line(&doctor, "device").ends_with(" cpu"), "{doctor}");
        let gpu = line(&doctor, "gpu");
        assert!(gpu.contains(" none "), "{gpu}");
        let outcome = run(&mut rapid(["doctor", "--device", "cuda:0"]));
        let device = line(&outcome.stdout, "device").to_owned();
        assert!(device.starts_with("FAIL"), "{device}");
        assert!(device.contains("cuda:0 cannot be used: "), "{device}");
        let _ = outcome.failure(1);

        let folder = tempfile::tempdir().unwrap();
        let outcome = run(&mut script("gpu.sh", &program("rapid"), folder.path()));
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        let why = "cuda:0 does not work";
        assert!(outcome.stderr.contains(why), "{outcome:?}");
        let steps = std::fs::read_dir(folder.path().join("steps")).unwrap();
        assert_eq!(steps.count(), 0);
    }
}

/// `scripts/gpu.sh` on the emulated device, at small sizes and without Python.
fn first_hour(program: &Path, out: &Path, more: &[&str]) -> Outcome {
    let mut command = script("gpu.sh", program, out);
    command.args(["--quick", "--device", "cuda:emulated"]);
    run(command.args(more).env("PYTHON", "no-python"))
}

fn steps(out: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(out.join("gpu.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    all["steps"].as_array().unwrap().clone()
}

/// Records steps as made.
fn take_as_made(out: &Path, names: &[&str]) {
    std::fs::create_dir_all(out.join("steps")).unwrap();
    for name in names {
        let record = format!(r#"{{"step": "{name}", "state": "passed"}}"#);
        std::fs::write(out.join(format!("steps/{name}.json")), record).unwrap();
    }
}

/// The checks that run with `RAPID_TEST_LONG=1` alone: those that trainer/engine/tests/cuda or the smoke step makes on the emulated device as well.
const LEFT_OUT: [&str; 7] = [
    "parity-f32",
    "graphs-f32",
    "graphs-bf16",
    "sizes-f32",
    "sizes-bf16",
    "phases-f32",
    "phases-bf16",
];

#[test]
fn a_gpus_steps_pass_on_an_emulated_one() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let outcome = first_hour(&program("rapid"), first.path(), &["--until", "machine"]).success();
    assert!(outcome.stdout.contains("0 of them failed"), "{outcome:?}");
    let (out, recorded) = (second.path(), steps(first.path()));
    std::fs::copy(first.path().join("gpu.tgz"), out.join("gpu.tgz")).unwrap();
    let _ = first_hour(&program("rapid"), out, &["--until", "parity-bf16"]).success();
    // A step that is recorded is not made again.
    let long = artifacts::long("7 checks of the first hour with a GPU, on the emulated one");
    if !long {
        take_as_made(out, &LEFT_OUT);
    }
    let outcome = first_hour(&program("rapid"), out, &[]).success();
    let all = steps(out);
    assert_eq!(all[..2], recorded[..2]);
    for step in &all {
        let (name, state) = (step["step"].as_str().unwrap(), &step["state"]);
        let needs_more = ["sanitizer", "torch", "vllm", "trl", "nsys", "ncu"];
        if needs_more.iter().any(|program| name.starts_with(program)) {
            assert_eq!(state, "not possible here", "{outcome:?}");
            assert!(!step["reason"].as_str().unwrap().is_empty(), "{step}");
        } else {
            assert_eq!(state, "passed", "{step}");
            let taken = !long && LEFT_OUT.contains(&name);
            assert_eq!(step["result"].is_null(), taken, "{step}");
        }
    }
    let named = |name: &str| {
        let found = all.iter().find(|step| step["step"] == name);
        found.unwrap_or_else(|| panic!("no step {name}"))["result"].clone()
    };
    for step in ["decode-tiny-4", "train-tiny"] {
        let result = named(step);
        for part in ["measured", "predicted"] {
            let speed = result[part]["completion_tokens_per_s"].as_f64();
            assert!(speed.unwrap() > 0.0, "{result}");
        }
        let peak = result["measured"]["device_peak_bytes"].as_u64();
        assert!(peak.is_some_and(|bytes| bytes > 0), "{step}: {peak:?}");
    }
    let kernels = named("profile-train")["rows"].clone();
    let predicted = kernels.as_array().unwrap().iter();
    let predicted = predicted.filter(|row| row["predicted_seconds"].is_f64());
    assert!(predicted.count() >= 8, "{kernels}");
}

#[test]
fn a_failed_step_is_recorded_and_the_next_ones_are_made() {
    // What fails, the steps taken as made, the last one, and the failed ones. If the device does not work at all, each launch is tried by itself.
    for (fails, made, until, failed) in [
        (
            "repeat",
            &["smoke", "machine", "parity-bf16"][..],
            "decode-tiny-4",
            &["graphs-bf16"][..],
        ),
        (
            "parity",
            &["machine"],
            "diagnosis-memcheck-bf16",
            &["smoke", "diagnosis-f32", "diagnosis-bf16"],
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (wrapper, out) = (folder.path().join("rapid"), folder.path().join("out"));
        let script = format!(
            "#!/bin/bash\ncase \"$*\" in *{fails}*) echo 'error: \"two\" bits differ' >&2; exit 1;; esac\nexec {} \"$@\"\n",
            program("rapid").display()
        );
        std::fs::write(&wrapper, script).unwrap();
        let chmod = Command::new("chmod").arg("+x").arg(&wrapper).status();
        assert!(chmod.unwrap().success());
        take_as_made(&out, made);
        let outcome = first_hour(&wrapper, &out, &["--until", until]);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        let mut all = steps(&out);
        assert_eq!(all.last().unwrap()["step"], until);
        all.retain(|step| step["state"] == "failed");
        let names: Vec<&Value> = all.iter().map(|step| &step["step"]).collect();
        assert_eq!(names, failed);
        let reason = all[0]["reason"].as_str().unwrap();
        assert!(reason.contains("\"two\" bits differ"), "{reason}");
    }
}

/// `scripts/gpu-study.sh` on the CPU, at small sizes.
fn study(out: &Path, more: &[&str]) -> Outcome {
    let mut command = script("gpu-study.sh", &program("rapid"), out);
    command.args(["--quick", "--device", "cpu"]).args(more);
    run(command.env_remove("RAPID_VERIFIER"))
}

#[test]
fn a_call_of_the_study_whose_time_is_over_says_how_many_steps_are_left() {
    let folder = tempfile::tempdir().unwrap();
    let none = study(folder.path(), &["--minutes", "0"]);
    assert_eq!(none.code, Some(3), "{none:?}");
    assert!(none.stdout.contains("steps left: 10."), "{none:?}");
    let _ = study(folder.path(), &["--until", "machine"]).success();
    let rest = study(folder.path(), &["--minutes", "0"]);
    assert_eq!(rest.code, Some(3), "{rest:?}");
    assert!(rest.stdout.contains("steps left: 9."), "{rest:?}");
    let wrong = study(folder.path(), &["--minutes", "ten"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}

#[test]
fn the_study_for_a_gpu_passes_on_the_cpu_and_goes_on() {
    let (Some(_), true) = (artifacts::model(), artifacts::long("the whole study")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let _ = study(folder.path(), &["--until", "times"]).success();
    let times = folder.path().join("times.csv");
    let text = std::fs::read_to_string(&times).unwrap();
    // Two sources, two sizes of an update, two H.
    assert_eq!(text.lines().count(), 1 + 8, "{text}");
    for line in text.lines().skip(1) {
        let seconds: f64 = line.rsplit(',').next().unwrap().parse().unwrap();
        assert!(seconds > 0.0, "{text}");
    }
    std::fs::remove_file(times).unwrap();
    // A CPU has no memory of its own.
    let text = std::fs::read_to_string(folder.path().join("gpu-study.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let measured = &all["steps"][1]["result"]["measured"];
    assert!(measured["device_peak_bytes"].is_null(), "{measured}");
    assert!(measured["planned_bytes"].is_u64(), "{measured}");
    let outcome = study(folder.path(), &[]).success();
    let says = "10 steps, 0 of them failed";
    assert!(outcome.stdout.contains(says), "{outcome:?}");
    // The recorded step was not made again.
    assert!(!folder.path().join("times.csv").exists());
    assert!(folder.path().join("sweep/report.html").is_file());
}
