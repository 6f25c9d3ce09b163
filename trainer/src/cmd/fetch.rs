//! `rapid fetch`: fetches models, data sets and sandboxes into the cache folder.

use std::fmt::Write as _;

use anyhow::bail;
use datasets::did_you_mean::nearest;
use datasets::fetch::{self, ArtifactKind, FetchError, Terminal};
use datasets::manifest::{self, Manifest};
use trainer::stderr::say;

use super::Usage;

/// Fetch a model, a data set or a sandbox into the cache folder, or list what there is
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rapid fetch                                      list what can be fetched, and what is here
  rapid fetch model:smollm2-135m-instruct
  rapid fetch model:Qwen/Qwen2.5-0.5B@main         any repository of the hub
  rapid fetch dataset:gsm8k sandbox:python-wasi

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
    let artifacts = args
        .names
        .iter()
        .map(|name| resolve(name))
        .collect::<anyhow::Result<Vec<_>>>()?;
    super::block_on(async {
        for (kind, name) in artifacts {
            match fetch::fetch(kind, &name, &Terminal::new()).await {
                Ok(folder) => super::print(&format!("{}\n", folder.display()))?,
                // A built-in artifact needs no fetching.
                Err(built_in @ FetchError::BuiltIn { .. }) => say(&built_in.to_string()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    })
}

/// Parses `kind:name`, or a name that only one kind has. A name with a slash is a model of the hub.
fn resolve(text: &str) -> anyhow::Result<(ArtifactKind, String)> {
    let known = manifest::all()?;
    for kind in [
        ArtifactKind::Model,
        ArtifactKind::Dataset,
        ArtifactKind::Sandbox,
    ] {
        if let Some(name) = text
            .strip_prefix(kind.word())
            .and_then(|rest| rest.strip_prefix(':'))
        {
            let fetchable = name.contains('/')
                || known
                    .iter()
                    .any(|manifest| manifest.kind == kind && manifest.name == name);
            if !fetchable {
                let of_kind = known.iter().filter(|manifest| manifest.kind == kind);
                return Err(unknown(text, name, of_kind).into());
            }
            return Ok((kind, name.to_owned()));
        }
    }
    let kinds: Vec<ArtifactKind> = known
        .iter()
        .filter(|manifest| manifest.name == text)
        .map(|manifest| manifest.kind)
        .collect();
    match kinds[..] {
        [kind] => Ok((kind, text.to_owned())),
        [] if text.contains('/') => Ok((ArtifactKind::Model, text.to_owned())),
        [] => Err(unknown(text, text, known.iter()).into()),
        _ => bail!(
            "`{text}` is the name of several things; write model:{text}, dataset:{text} or sandbox:{text}"
        ),
    }
}

/// The error for an unknown name, with the nearest known name and all known names.
fn unknown<'a>(text: &str, name: &str, known: impl Iterator<Item = &'a Manifest> + Clone) -> Usage {
    let full_name = |manifest: &Manifest| format!("{}:{}", manifest.kind.word(), manifest.name);
    let near = nearest(name, known.clone().map(|manifest| manifest.name.as_str()));
    let suggestion = known
        .clone()
        .find(|manifest| Some(manifest.name.as_str()) == near)
        .map(|manifest| format!(" (did you mean `{}`?)", full_name(manifest)))
        .unwrap_or_default();
    let all: Vec<String> = known.map(full_name).collect();
    Usage(format!(
        "nothing is called `{text}`{suggestion}; known are {}, and any model of the hub as owner/name",
        all.join(", ")
    ))
}

fn list() -> anyhow::Result<String> {
    let mut out = String::new();
    let manifests = manifest::all()?;
    let width = manifests
        .iter()
        .map(|m| m.kind.word().len() + 1 + m.name.len())
        .max()
        .unwrap_or(0);
    for manifest in &manifests {
        let state = if manifest.sources.is_empty() {
            "built in"
        } else if fetch::locate(manifest.kind, &manifest.name).is_some() {
            "here"
        } else {
            ""
        };
        let name = format!("{}:{}", manifest.kind.word(), manifest.name);
        let _ = writeln!(
            out,
            "{name:<width$}  {state:<8}  {} ({})",
            manifest
                .about
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" "),
            manifest.licence
        );
    }
    let _ = writeln!(out, "\nThe cache folder is {}", fetch::home().display());
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_may_be_written_or_left_out() {
        let model = (ArtifactKind::Model, "smollm2-135m-instruct".to_owned());
        assert_eq!(resolve("model:smollm2-135m-instruct").unwrap(), model);
        assert_eq!(resolve("smollm2-135m-instruct").unwrap(), model);
        assert_eq!(
            resolve("owner/name").unwrap(),
            (ArtifactKind::Model, "owner/name".to_owned())
        );
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = resolve("zzz").unwrap_err();
        assert!(error.is::<Usage>());
        let text = error.to_string();
        assert!(
            text.contains("nothing is called `zzz`; known are dataset:gsm8k")
                && text.contains("model:smollm2-135m-instruct"),
            "{text}"
        );
    }

    #[test]
    fn the_list_names_everything_once() {
        let list = list().unwrap();
        for manifest in manifest::all().unwrap() {
            assert!(list.contains(&format!("{}:{}", manifest.kind.word(), manifest.name)));
        }
    }
}
