//! Compares the planned memory of a run with its peak memory.

use tests::artifacts;
use tests::programs::{rapid, run};

/// Maximum difference between the planned memory and the process's peak, relative to the peak.
const MAX_DIFFERENCE: f64 = 0.1;

/// Works that the plan distinguishes: sampling for prompts that begin alike; sampling and training in turn.
const WORKS: [&str; 2] = [
    "rollout --prompts 32 --samples 1 --prompt-tokens 512 --shared-tokens 480 --tokens 8",
    "step --prompts 4 --samples 4 --prompt-tokens 64 --tokens 16",
];
/// The others, which take another two minutes: training with all activations kept, in bf16; plain sampling; training in f32, and with no activations kept; adapters.
const MORE_WORKS: [&str; 5] = [
    "train --prompts 4 --samples 1 --prompt-tokens 1 --tokens 255 --dtype bf16",
    "rollout --prompts 16 --samples 4 --prompt-tokens 64 --tokens 16",
    "train --prompts 4 --samples 1 --prompt-tokens 1 --tokens 255",
    "train --prompts 4 --samples 1 --prompt-tokens 1 --tokens 255 --activations-mib 0",
    "step --prompts 4 --samples 4 --prompt-tokens 64 --tokens 16 --lora 16",
];

#[test]
fn the_plan_is_within_a_tenth_of_the_peak() {
    let Some(model) = artifacts::model() else {
        return;
    };
    let mut failures = Vec::new();
    let more: &[&str] = if artifacts::long("the planned memory of 5 of 7 works") {
        &MORE_WORKS
    } else {
        &[]
    };
    for work in WORKS.iter().chain(more) {
        let mut command = rapid(["bench"].into_iter().chain(work.split(' ')));
        command.args(["--device", "cpu", "--json", "--model"]);
        let stdout = run(command.arg(&model)).success().stdout;
        let figures: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        let Some(peak) = figures["peak_bytes"].as_f64() else {
            artifacts::skipped("this system does not report the peak memory of a process");
            return;
        };
        let planned = figures["planned_bytes"].as_f64().unwrap();
        let [planned_gb, peak_gb] = [planned, peak].map(|bytes| bytes / 1e9);
        eprintln!("{work}: planned {planned_gb:.2} GB, peak {peak_gb:.2} GB");
        if (planned - peak).abs() > MAX_DIFFERENCE * peak {
            failures.push((work, planned, peak));
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}
