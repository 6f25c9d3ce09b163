//! `rapid-verifier kernel`: the process that checks compiled proofs. A verifier starts it; people do not use it.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use verifier::grade::lean::serve_kernel;

/// Check compiled proofs, for the verifier that starts this process and sends requests to its stdin
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rapid-verifier kernel --memory-mib 8192 -- /opt/lean/lib/lean      as `serve` starts it, in a jail")]
pub(crate) struct Args {
    /// Maximum private memory in MiB, without the stack
    #[arg(long, value_name = "MIB")]
    memory_mib: u64,
    /// Folders of compiled modules
    #[arg(value_name = "DIR")]
    folders: Vec<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (from, to) = (io::stdin().lock(), io::stdout().lock());
    serve_kernel(args.folders, args.memory_mib, from, to)
        .context("a proof could not be checked")?;
    Ok(ExitCode::SUCCESS)
}
