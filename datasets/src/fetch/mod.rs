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
mod progress;
mod pypi;

use std::path::PathBuf;

pub use crate::manifest::ArtifactKind;
pub use error::FetchError;
pub use fetcher::Fetcher;
pub(crate) use folder::difference_from_manifest;
pub use folder::{folder, home, locate};
pub use progress::{NoProgress, Progress, Terminal};

/// Fetches a name unless its files exist already, and returns its folder.
///
/// The sources of the manifest are tried in order. Those on the hub honour the variables of Hugging Face's own programs
/// ([`Fetcher::from_environment`]), their cache and their login. A name with a slash is a repository of the hub. A second
/// process that fetches the same name waits for the first.
///
/// # Errors
/// [`FetchError`] with the failure of each source.
pub async fn fetch(
    kind: ArtifactKind,
    name: &str,
    progress: &dyn Progress,
) -> Result<PathBuf, FetchError> {
    Fetcher::from_environment()
        .fetch(kind, name, progress)
        .await
}

#[cfg(test)]
mod tests;
