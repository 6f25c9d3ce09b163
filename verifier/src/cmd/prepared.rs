//! What the commands that judge prepare first.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::Context as _;
use sandboxes::SandboxError;
use verifier::config::{Config, SandboxKind};
use verifier::graders::OpenSandbox;
use verifier::judging::{DiskStores, Judge};
use verifier::registry::Registry;
use verifier::setup;

/// The runtime of a command.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Runtime::new().context("the async runtime could not be started")
}

/// The judge of a command that judges by itself, prepared.
pub(crate) fn prepared_judge(
    config: &Config,
    registry: Registry,
    stores: DiskStores,
) -> anyhow::Result<Arc<Judge>> {
    let (judge, open) = setup::judge(config, registry, stores)?;
    judge.prepare(prepare_in_subprocess(config, open));
    Ok(judge)
}

/// Returns an opener like `open` that builds the WebAssembly sandbox in a subprocess.
pub(crate) fn prepare_in_subprocess(config: &Config, open: OpenSandbox) -> OpenSandbox {
    if config.code.sandbox != SandboxKind::Wasm {
        return open;
    }
    let (folders, cache) = (setup::wasm_folders(config), setup::cache_dir(config));
    Box::new(move || {
        if let Some(sandbox) = folders.load()? {
            return Ok(sandbox);
        }
        if let Some(artifact) = &folders.artifact_dir {
            build_in_subprocess(artifact, &cache)?;
        }
        open()
    })
}

/// Builds the sandbox in a subprocess. If none can be started, this does nothing, and the sandbox is built in this process later.
fn build_in_subprocess(artifact: &Path, cache: &Path) -> Result<(), SandboxError> {
    let started = std::env::current_exe().and_then(|program| {
        Command::new(program)
            .args(["prepare", "--log", "error", "--sandbox-dir"])
            .arg(artifact)
            .arg("--cache-dir")
            .arg(cache)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    });
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            tracing::warn!("no process could be started to prepare the sandbox ({error})");
            return Ok(());
        }
    };
    if let Some(lines) = child.stdout.take() {
        for line in BufReader::new(lines).lines().map_while(Result::ok) {
            tracing::info!("{line}");
        }
    }
    let output = child
        .wait_with_output()
        .map_err(|error| SandboxError::Unusable(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let mut lines = stderr.lines();
    let reason = match lines.find_map(|line| line.strip_prefix("error: ")) {
        Some(reason) => reason.to_owned(),
        None => format!(
            "the process that prepared the Python sandbox ended with {}; that takes 3 GB of memory, once: see the output of `rapid-verifier prepare`",
            output.status
        ),
    };
    Err(SandboxError::Unusable(reason))
}
