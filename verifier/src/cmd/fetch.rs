//! `rapid-verifier fetch`.

use std::process::ExitCode;

use datasets::fetch::{ArtifactKind, FetchError, fetch, named};
use verifier::setup;

use super::{Usage, print, runtime, say};

/// Fetch the sandbox's interpreter, or a data set, into the cache folder
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rapid-verifier fetch
  rapid-verifier fetch dataset:gsm8k
  RAPID_HOME=/srv/rapid rapid-verifier fetch

Sources and checksums come from the manifest. Existing files are not fetched again.")]
pub(crate) struct Args {
    /// What to fetch
    #[arg(value_name = "[sandbox:|dataset:]NAME", default_value = setup::SANDBOX)]
    name: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (kind, name) = named(&args.name)?;
    if kind == ArtifactKind::Model {
        let reason = format!("`{name}` is a model, which `rapid fetch` fetches");
        anyhow::bail!(Usage(reason));
    }
    match runtime()?.block_on(fetch(kind, &name)) {
        Ok(folder) => print(&format!("{}\n", folder.display()))?,
        // A built-in data set needs no download.
        Err(built_in @ FetchError::BuiltIn(_)) => say(&built_in.to_string()),
        Err(error) => return Err(error.into()),
    }
    Ok(ExitCode::SUCCESS)
}
