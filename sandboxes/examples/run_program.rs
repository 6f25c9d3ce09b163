//! Runs one Python program in the wasm sandbox and times it.
//!
//! ```text
//! cargo run --release -p sandboxes --example run_program -- ARTIFACT_DIR CACHE_DIR PROGRAM.py ENTRY_POINT '[1, 2]'…
//! ```

use std::path::Path;
use std::time::Instant;

use sandboxes::wasm::WasmSandbox;
use sandboxes::{Limits, Program, Sandbox, SandboxError};

fn main() -> Result<(), SandboxError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [artifact, cache, file, entry_point, calls @ ..] = &arguments[..] else {
        eprintln!("usage: run_program ARTIFACT_DIR CACHE_DIR PROGRAM.py ENTRY_POINT ARGUMENTS…");
        std::process::exit(2);
    };
    let source = std::fs::read_to_string(file)
        .map_err(|error| SandboxError::Unusable(format!("{file}: {error}")))?;
    let start = Instant::now();
    let sandbox = WasmSandbox::open(Path::new(artifact), Path::new(cache), &|line| {
        eprintln!("{line}")
    })?;
    eprintln!(
        "opened in {:.3} s: {}",
        start.elapsed().as_secs_f64(),
        sandbox.identity().interpreter
    );
    let program = Program {
        source: &source,
        entry_point,
        calls,
    };
    for _ in 0..3 {
        let start = Instant::now();
        let run = sandbox.run(&program, &Limits::default())?;
        eprintln!("{:.2} ms, {run:?}", start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(())
}
