//! Fetching models, data sets and sandboxes into the cache folder.
//!
//! A name is fetched into `$RAPID_HOME/{models,datasets,sandboxes}/NAME/`, completely or not at all: its files are collected
//! and checked in a folder beside it, which is renamed at the end. `fetched.json` in it records the source, the hub's commit
//! and each file's size and SHA-256. Every file with a checksum in the manifest must match it. A hub repository's file without
//! one must match the checksum that the hub publishes for that commit (large files), or its size there (small files). Files
//! that are in the cache of Hugging Face's own programs are hard-linked or copied from there, and checked in the same way. The
//! files of a fetched folder are therefore replaced and never written into.

mod check;
mod download;
mod error;
mod fetcher;
mod folder;
mod hub;
mod hub_cache;
mod install;
mod names;
mod progress;
mod pypi;

use std::path::PathBuf;

pub use crate::manifest::ArtifactKind;
pub use error::FetchError;
pub(crate) use folder::difference_from_manifest;
pub use folder::{folder, home, locate};
pub use names::named;

use fetcher::Fetcher;

/// Fetches a name unless its files exist already, and returns its folder. The progress is on standard error.
///
/// The sources of the manifest are tried in order. Those on the hub honour the variables of Hugging Face's own programs, their
/// cache and their login. A name with a slash is a repository of the hub. A second process that fetches the same name waits for
/// the first.
///
/// # Errors
/// [`FetchError`] with the failure of each source.
pub async fn fetch(kind: ArtifactKind, name: &str) -> Result<PathBuf, FetchError> {
    let user = std::env::home_dir().unwrap_or_default();
    let fetcher = Fetcher::from_variables(|name| std::env::var_os(name), home(), &user);
    let manifest = names::wanted(kind, name)?;
    let progress = progress::Terminal::default();
    fetcher.fetch_manifest(&manifest, &progress).await
}

#[cfg(test)]
mod tests;
