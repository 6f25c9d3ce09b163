//! `rapid-verifier prepare`. Where the sandbox has yet to be made, every command that judges has this done by a process of its own: the compiler
//! leaves 1.6 GB of freed memory behind, which a service would keep for as long as it runs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use sandboxes::SandboxError;
use verifier::config::{Config, SandboxKind};
use verifier::graders::OpenSandbox;
use verifier::setup;

use super::ConfigArgs;

/// Make the WebAssembly sandbox ahead of its first use: a minute or two, once
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rapid-verifier prepare
  rapid-verifier prepare --cache-dir /var/cache/rapid --sandbox-dir python-wasi")]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.config.resolve()?;
    setup::wasm_place(&config).make(&|line| {
        // Whoever asked may have gone away; the work is for the next one, too.
        let _ = writeln!(std::io::stdout(), "{line}");
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What does as `open` does, but for the making of a WebAssembly sandbox, which is left to a process of its own.
pub(crate) fn apart(config: &Config, open: OpenSandbox) -> OpenSandbox {
    if config.code.sandbox != SandboxKind::Wasm {
        return open;
    }
    let (place, cache) = (setup::wasm_place(config), setup::cache_dir(config));
    Box::new(move || {
        if let Some(sandbox) = place.load()? {
            return Ok(sandbox);
        }
        if let Some(artifact) = &place.artifact_dir {
            make(artifact, &cache)?;
        }
        open()
    })
}

/// Has the sandbox made. Where no process can be started for it, that is left to this one.
fn make(artifact: &Path, cache: &Path) -> Result<(), SandboxError> {
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
            tracing::warn!("no process could be started to prepare the sandbox in ({error})");
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
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = said
        .lines()
        .find_map(|line| line.strip_prefix("error: "))
        .map_or_else(
            || {
                format!(
                    "the process that prepared the Python sandbox ended with {}; that takes 3 GB of memory, once: see what `rapid-verifier prepare` says",
                    output.status
                )
            },
            str::to_owned,
        );
    Err(SandboxError::Unusable(reason))
}
