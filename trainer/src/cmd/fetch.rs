//! `rapid fetch`: fetches models, data sets and sandboxes into the cache folder.

use std::fmt::Write as _;

use datasets::fetch::{self, FetchError};
use datasets::manifest;
use trainer::stderr::say;

/// Fetch a model, a data set or a sandbox into the cache folder, or list what there is
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rapid fetch                                      list what can be fetched, and what is here
  rapid fetch model:smollm2-135m-instruct
  rapid fetch model:Qwen/Qwen2.5-0.5B@main         any repository of the hub
  rapid fetch dataset:gsm8k sandbox:python-wasi
  rapid fetch dataset:openai/gsm8k

The cache folder is $RAPID_HOME, else `rapid` in the platform's cache folder.")]
pub(crate) struct Args {
    /// What to fetch; the kind may be omitted if only one kind has the name
    #[arg(value_name = "[model:|dataset:|sandbox:]NAME")]
    names: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.names.is_empty() {
        return super::print(&list()?);
    }
    let artifacts = args.names.iter().map(|name| fetch::named(name));
    let artifacts = artifacts.collect::<Result<Vec<_>, _>>()?;
    super::block_on(async {
        for (kind, name) in artifacts {
            match fetch::fetch(kind, &name).await {
                Ok(folder) => super::print(&format!("{}\n", folder.display()))?,
                // A built-in artifact needs no fetching.
                Err(built_in @ FetchError::BuiltIn(_)) => say(&built_in.to_string()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    })
}

fn list() -> anyhow::Result<String> {
    let mut out = String::new();
    let manifests = manifest::all()?;
    let name = |m: &manifest::Manifest| format!("{}:{}", m.kind.word(), m.name);
    let width = manifests.iter().map(|m| name(m).len()).max().unwrap_or(0);
    for manifest in &manifests {
        let state = if manifest.sources.is_empty() {
            "built in"
        } else if fetch::locate(manifest.kind, &manifest.name).is_some() {
            "here"
        } else {
            ""
        };
        let about: Vec<&str> = manifest.about.split_whitespace().collect();
        let _ = writeln!(
            out,
            "{:<width$}  {state:<8}  {} ({})",
            name(manifest),
            about.join(" "),
            manifest.licence
        );
    }
    let _ = writeln!(out, "\nThe cache folder is {}", fetch::home().display());
    Ok(out)
}
