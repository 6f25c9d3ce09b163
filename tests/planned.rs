//! The memory that a run is planned to take, against what it takes.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use tests::artifacts;
use tests::programs::{rapid, run};

/// How far the peak of the process may be from what was planned, of the peak.
const OFF: f64 = 0.1;

/// Sampling, training with all activations kept, with none and in bf16, both in turn, and adapters: what shapes the plan.
const WORKS: [&str; 6] = [
    "rollout --prompts 16 --samples 4 --prompt-tokens 64 --tokens 16",
    "train --prompts 4 --samples 1 --prompt-tokens 1 --tokens 255",
    "train --prompts 4 --samples 1 --prompt-tokens 1 --tokens 255 --activations-mib 0",
    "train --prompts 4 --samples 1 --prompt-tokens 1 --tokens 255 --dtype bf16",
    "step --prompts 4 --samples 4 --prompt-tokens 64 --tokens 16",
    "step --prompts 4 --samples 4 --prompt-tokens 64 --tokens 16 --lora 16",
];

#[test]
fn the_plan_is_within_a_tenth_of_the_peak() {
    let Some(model) = artifacts::model() else {
        return;
    };
    let mut off = Vec::new();
    for work in WORKS {
        let mut command = rapid(["bench"].into_iter().chain(work.split(' ')));
        command.args(["--device", "cpu", "--json", "--model"]);
        let said = run(command.arg(&model)).success().stdout;
        let figures: serde_json::Value = serde_json::from_str(&said).unwrap();
        let Some(peak) = figures["peak_bytes"].as_f64() else {
            artifacts::skipped("this system does not say how much memory a process has held");
            return;
        };
        let planned = figures["planned_bytes"].as_f64().unwrap();
        eprintln!(
            "{work}: planned {:.2} GB, peak {:.2} GB",
            planned / 1e9,
            peak / 1e9
        );
        if (planned - peak).abs() > OFF * peak {
            off.push((work, planned, peak));
        }
    }
    assert!(off.is_empty(), "{off:?}");
}
