//! The ranges that NVIDIA's profilers get: NVTX's own library passes them from `rapid` to a profiler that writes them to a file.

use std::path::Path;
use std::process::Command;

use tests::programs::{rapid, run};

/// A model that is small enough for sampling and training within a moment.
const CONFIG: &str = r#"{
    "model_type": "llama", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "tie_word_embeddings": true, "eos_token_id": 2
}"#;

#[test]
fn the_engines_phases_are_ranges_in_a_profiler() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiler/profiler.cpp");
    let profiler = folder.path().join("profiler.so");
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++17", "-shared", "-fPIC", "-o"]);
    let output = compiler.args([&profiler, &source]).output();
    let output = output.expect("g++ is installed (apt-get install g++)");
    assert!(output.status.success(), "{output:?}");

    let config = folder.path().join("config.json");
    std::fs::write(&config, CONFIG).unwrap();
    let mut command = rapid(["bench", "step", "--device", "cpu", "--threads", "1"]);
    command.args(["--prompts", "2", "--samples", "2", "--prompt-tokens", "5"]);
    command.args(["--tokens", "4", "--random-weights"]);
    command.arg(config).env("NVTX_INJECTION64_PATH", profiler);
    command.env("RAPID_RANGES", folder.path().join("ranges"));
    let outcome = run(&mut command).success();
    if outcome.stderr.contains("NVTX") {
        let remedy = "pip install nvidia-nvtx";
        assert!(outcome.stderr.contains(remedy), "{}", outcome.stderr);
        let why = outcome.stderr.trim();
        eprintln!("SKIPPED: the ranges in a profiler; scripts/cuda.sh fetches NVTX: {why}");
        return;
    }
    let ranges = std::fs::read_to_string(folder.path().join("ranges")).unwrap();
    // Both prompts at once, then three steps of all samples; then the same model trains.
    let generation = "generate\n  prefill\n  decode\n  decode\n  decode\n";
    let update = "step\n  forward\n  objective\n  backward\n  optimiser\n";
    let both = [generation, update].concat();
    assert!(ranges.starts_with(&both), "{ranges}");
}
