//! Fetching models, data sets and sandboxes into the cache folder.
//!
//! A name is fetched into `$RAPID_HOME/{models,datasets,sandboxes}/NAME/`, completely or not at all: its files are collected
//! and checked in a folder beside it, which is renamed at the end. `fetched.json` in it records the source, the hub's commit
//! and each file's size and SHA-256. Every file with a checksum in the manifest must match it. A hub repository's file without
//! one must match the checksum that the hub publishes for that commit (large files), or its size there (small files). Files
//! that are in the cache of Hugging Face's own programs are hard-linked or copied from there, and checked in the same way. The
//! files of a fetched folder are therefore replaced and never written into.

mod checksum;
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
pub(crate) use folder::{difference_from_manifest, files_under};
pub use folder::{folder, home, locate};
pub use names::named;

use fetcher::Fetcher;
use hub_cache::Cached;

/// Fetches a name unless its files exist already, and returns its folder. The progress is on standard error.
///
/// The sources of the manifest are tried in order. Those on the hub honour the variables of Hugging Face's own programs, their
/// cache and their login. A name with a slash is a repository of the hub. A second process that fetches the same name waits for
/// the first.
///
/// # Errors
/// [`FetchError`] with the failure of each source.
pub async fn fetch(kind: ArtifactKind, name: &str) -> Result<PathBuf, FetchError> {
    let fetcher = fetcher();
    let manifest = names::wanted(kind, name)?;
    let progress = progress::Terminal::default();
    fetcher.fetch_manifest(&manifest, &progress).await
}

fn fetcher() -> Fetcher {
    let user = std::env::home_dir().unwrap_or_default();
    Fetcher::from_variables(|name| std::env::var_os(name), home(), &user)
}

/// The files of a data set of the hub (`owner/name` or `owner/name@revision`) by their names in its repository. They are those that were fetched, or else those in
/// the cache of Hugging Face's own programs, which are used in place.
///
/// # Errors
/// Where it was looked for, if it is in neither.
pub(crate) fn hub_files(name: &str) -> Result<Vec<(String, PathBuf)>, Vec<PathBuf>> {
    fetcher().hub_files(name)
}

impl Fetcher {
    fn hub_files(&self, name: &str) -> Result<Vec<(String, PathBuf)>, Vec<PathBuf>> {
        let folder = folder::folder_in(&self.home, ArtifactKind::Dataset, name);
        if let Some(folder) = folder::complete(&folder, &[]) {
            return Ok(folder::fetched_files(&folder));
        }
        let (repo, revision) = name.split_once('@').unwrap_or((name, "main"));
        let repository = hub::Repository {
            endpoint: &self.hub,
            token: None,
            repo,
            revision,
            dataset: true,
        };
        let cached = Cached::new(&self.hub_cache, &repository);
        match cached.in_place(&repository, &names::data_files()) {
            Ok(files) if !files.is_empty() => Ok(files),
            _ => Err(vec![folder, self.hub_cache.clone()]),
        }
    }
}

#[cfg(test)]
mod tests;
