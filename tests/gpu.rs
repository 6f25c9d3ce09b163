//! The messages of the programs about GPUs on a machine without a GPU.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use engine::Device;
use tests::programs::{rapid, run};

/// Whether this machine has no GPU; prints that the test is skipped if it has one.
fn without_gpu() -> bool {
    let gpu = Device::gpu();
    if let Ok(gpu) = &gpu {
        eprintln!("SKIPPED: messages on a machine without a GPU: this machine has {gpu}");
    }
    gpu.is_err()
}

/// The doctor's line for one check.
fn line<'a>(doctor: &'a str, what: &str) -> &'a str {
    let mut lines = doctor.lines();
    let found = lines.find(|line| line.split_whitespace().nth(1) == Some(what));
    found.unwrap_or_else(|| panic!("no line for {what} in:\n{doctor}"))
}

#[test]
fn the_doctor_reports_that_there_is_no_gpu_and_that_the_cpu_computes() {
    if without_gpu() {
        let doctor = run(&mut rapid(["doctor"])).stdout;
        assert!(line(&doctor, "device").ends_with(" cpu"), "{doctor}");
        let gpu = line(&doctor, "gpu");
        assert!(gpu.contains(" none "), "{gpu}");
    }
}

#[test]
fn a_requested_gpu_that_does_not_exist_is_an_error() {
    if without_gpu() {
        let outcome = run(&mut rapid(["doctor", "--device", "cuda:0"]));
        let device = line(&outcome.stdout, "device").to_owned();
        assert!(device.starts_with("FAIL"), "{device}");
        assert!(device.contains("cuda:0 cannot be used: "), "{device}");
        let _ = outcome.failure(1);
    }
}
