//! `rapid-verifier fetch`.

use std::process::ExitCode;

use anyhow::Context as _;
use datasets::fetch::{Kind, Terminal, fetch};
use verifier::setup;

/// Fetch the sandbox's interpreter into the cache folder
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rapid-verifier fetch
  RAPID_HOME=/srv/rapid rapid-verifier fetch

Sources and checksums come from the manifest; nothing is fetched that is there already.")]
pub(crate) struct Args {
    /// What to fetch
    #[arg(default_value = setup::SANDBOX)]
    name: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let name = args.name.strip_prefix("sandbox:").unwrap_or(&args.name);
    let runtime =
        tokio::runtime::Runtime::new().context("the async runtime could not be started")?;
    let folder = runtime.block_on(fetch(Kind::Sandbox, name, &Terminal::new()))?;
    super::print(&format!("{}\n", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
