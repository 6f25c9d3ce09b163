//! `rapid-verifier fetch`.

use std::process::ExitCode;

use datasets::fetch::{ArtifactKind, FetchError, Terminal, fetch};
use verifier::setup;

use super::{print, runtime, say};

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
    let (kind, name) = parse_name(&args.name);
    match runtime()?.block_on(fetch(kind, name, &Terminal::new())) {
        Ok(folder) => print(&format!("{}\n", folder.display()))?,
        // A built-in data set needs no download.
        Err(built_in @ FetchError::BuiltIn { .. }) => say(&built_in.to_string()),
        Err(error) => return Err(error.into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses `kind:name`. Without a kind, the name is a data set's if one has it, else a sandbox's.
fn parse_name(text: &str) -> (ArtifactKind, &str) {
    for kind in [ArtifactKind::Sandbox, ArtifactKind::Dataset] {
        let rest = text.strip_prefix(kind.word());
        if let Some(name) = rest.and_then(|rest| rest.strip_prefix(':')) {
            return (kind, name);
        }
    }
    if datasets::NAMES.contains(&text) {
        (ArtifactKind::Dataset, text)
    } else {
        (ArtifactKind::Sandbox, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_may_be_omitted() {
        for (text, kind, name) in [
            ("python-wasi", ArtifactKind::Sandbox, "python-wasi"),
            ("sandbox:python-wasi", ArtifactKind::Sandbox, "python-wasi"),
            ("gsm8k", ArtifactKind::Dataset, "gsm8k"),
            ("dataset:gsm8k", ArtifactKind::Dataset, "gsm8k"),
            ("dataset:", ArtifactKind::Dataset, ""),
        ] {
            assert_eq!(parse_name(text), (kind, name), "{text}");
        }
    }
}
