//! What the programs say of GPUs on a machine without one.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use engine::Device;
use tests::programs::{rapid, run};

/// Whether this machine has no GPU; says so where it has one.
fn without_gpu() -> bool {
    let found = Device::gpu();
    if let Ok(gpu) = &found {
        eprintln!("SKIPPED: what is said where there is no GPU: this machine has {gpu}");
    }
    found.is_err()
}

/// What the doctor found of one thing.
fn line<'a>(doctor: &'a str, what: &str) -> &'a str {
    let mut lines = doctor.lines();
    let found = lines.find(|line| line.split_whitespace().nth(1) == Some(what));
    found.unwrap_or_else(|| panic!("nothing of {what} in:\n{doctor}"))
}

#[test]
fn the_doctor_says_that_there_is_no_gpu_and_computes_on_the_cpu() {
    if without_gpu() {
        let doctor = run(&mut rapid(["doctor"])).stdout;
        assert!(line(&doctor, "device").ends_with(" cpu"), "{doctor}");
        let gpu = line(&doctor, "gpu");
        assert!(gpu.contains(" none "), "{gpu}");
    }
}

#[test]
fn a_gpu_that_was_asked_for_and_is_not_there_is_an_error() {
    if without_gpu() {
        let outcome = run(&mut rapid(["doctor", "--device", "cuda:0"]));
        let device = line(&outcome.stdout, "device").to_owned();
        assert!(device.starts_with("FAIL"), "{device}");
        assert!(device.contains("cuda:0 cannot be used: "), "{device}");
        let _ = outcome.failure(1);
    }
}
