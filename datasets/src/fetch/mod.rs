//! Fetching models, data sets and sandboxes into the cache folder.
//!
//! A name is fetched into `$RAPID_HOME/{models,datasets,sandboxes}/NAME/`, at once or not at all: its files are put together and
//! checked in a folder beside it, which is renamed at the end. `fetched.json` in it records the source, the hub's commit
//! and each file's size and SHA-256. Every file with a checksum in the manifest must match it. A file of a hub repository
//! that the manifest has no checksum for is held to the one that the hub publishes for that commit (large files), or to
//! its size there (small ones). What the cache of Hugging Face's own programs has of a repository is hard-linked from
//! there, or copied, and checked in the same way, so the files of a fetched folder are replaced and never written into.

mod check;
mod download;
mod error;
mod folder;
mod hub;
mod hub_cache;
mod install;
mod progress;
mod pypi;
mod source;

use std::path::PathBuf;

pub use crate::manifest::ArtifactKind;
pub use error::FetchError;
pub use folder::{folder, home, locate};
pub use progress::{NoProgress, Progress, Terminal};
pub use source::Fetcher;

/// Fetches what is not there yet, and returns its folder.
///
/// The sources of the manifest are tried in order. Those on the hub honour the variables of Hugging Face's own programs
/// ([`Fetcher::from_environment`]), their cache and their login. A name with a slash is a repository of the hub. A second process that fetches the same name waits for the first.
///
/// # Errors
/// [`FetchError`] with what every source said.
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
