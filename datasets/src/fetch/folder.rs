//! The cache folder: where a name's files are, and whether they are complete.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ArtifactKind;
use crate::manifest::{self, File};

/// The file in a fetched folder that states its source.
pub(super) const RECEIPT: &str = "fetched.json";

/// The source of a folder's files, with their sizes and checksums.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Receipt {
    pub(super) kind: ArtifactKind,
    pub(super) name: String,
    /// For people: `hub OWNER/NAME@COMMIT`.
    pub(super) source: String,
    pub(super) files: Vec<File>,
}

/// The cache folder: `$RAPID_HOME`, else `rapid` in the platform's cache folder, else `.rapid` in the current folder.
#[must_use]
pub fn home() -> PathBuf {
    let variable = |name| {
        let value = std::env::var_os(name)?;
        (!value.is_empty()).then(|| PathBuf::from(value))
    };
    if let Some(home) = variable("RAPID_HOME") {
        return home;
    }
    let platform = if cfg!(windows) {
        variable("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        std::env::home_dir().map(|home| home.join("Library/Caches"))
    } else {
        variable("XDG_CACHE_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
    };
    platform.map_or_else(|| PathBuf::from(".rapid"), |cache| cache.join("rapid"))
}

/// The folder of a name's files once they are fetched.
#[must_use]
pub fn folder(kind: ArtifactKind, name: &str) -> PathBuf {
    folder_in(&home(), kind, name)
}

pub(super) fn folder_in(home: &Path, kind: ArtifactKind, name: &str) -> PathBuf {
    home.join(kind.folder()).join(folder_name(name))
}

/// A hub repository's name as one folder name: `owner--name`.
pub(super) fn folder_name(name: &str) -> String {
    let name = name.replace(['/', '\\'], "--");
    match name.as_str() {
        "" | "." | ".." => "_".to_owned(),
        _ => name,
    }
}

/// The folder with a name's files, if all exist with the right sizes. Checksums were compared when they were fetched, and the
/// receipt has them.
#[must_use]
pub fn locate(kind: ArtifactKind, name: &str) -> Option<PathBuf> {
    let files = manifest::find(kind, name).map_or_else(Vec::new, |manifest| manifest.files);
    complete(&folder(kind, name), &files)
}

/// `folder`, if it holds `files`, or those of its receipt if `files` is empty.
pub(super) fn complete(folder: &Path, files: &[File]) -> Option<PathBuf> {
    let received = received(folder);
    let wanted: &[File] = if files.is_empty() { &received } else { files };
    let is_there = |file| difference(folder, &received, file).is_none();
    (!wanted.is_empty() && wanted.iter().all(is_there)).then(|| folder.to_owned())
}

/// How the file `path` in `folder` differs from the one that a name's manifest lists. `None` also for a file that it doesn't list.
pub(crate) fn difference_from_manifest(
    kind: ArtifactKind,
    name: &str,
    folder: &Path,
    path: &str,
) -> Option<String> {
    let files = manifest::find(kind, name)?.files;
    let wanted = files.iter().find(|file| file.path == path)?;
    difference(folder, &received(folder), wanted)
}

/// How a file in `folder` differs from the `wanted` one. Another version may have the same size, which the receipt shows. Files
/// that someone put there have no receipt.
fn difference(folder: &Path, received: &[File], wanted: &File) -> Option<String> {
    let File { path, size, sha256 } = wanted;
    let found = std::fs::metadata(folder.join(path)).ok();
    let Some(found) = found.filter(std::fs::Metadata::is_file) else {
        return Some("is not a file".to_owned());
    };
    if found.len() != *size {
        return Some(format!("has {} bytes instead of {size}", found.len()));
    }
    let other = received
        .iter()
        .find(|file| file.path == *path && file.sha256 != *sha256)?;
    Some(format!(
        "was fetched with the SHA-256 {} instead of {sha256}",
        other.sha256
    ))
}

/// The files in a folder's receipt; none if it has no receipt.
fn received(folder: &Path) -> Vec<File> {
    let receipt = std::fs::read(folder.join(RECEIPT)).ok();
    let receipt: Option<Receipt> = receipt.and_then(|text| serde_json::from_slice(&text).ok());
    receipt.map(|receipt| receipt.files).unwrap_or_default()
}

/// The files that were fetched into a folder, by their names in it.
pub(super) fn fetched_files(folder: &Path) -> Vec<(String, PathBuf)> {
    let files = received(folder).into_iter().map(|file| file.path);
    let files = files.filter(|path| is_inside(path));
    files
        .map(|path| (path.clone(), folder.join(path)))
        .collect()
}

/// The files under a folder, by their names in it with `/`, sorted. A link to a folder counts as a file.
pub(crate) fn files_under(top: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if let Some(name) = path.strip_prefix(top).ok().and_then(Path::to_str) {
                found.push((name.replace(std::path::MAIN_SEPARATOR, "/"), path));
            }
        }
    }
    found.sort();
    found
}

/// Whether a path from a manifest or a hub stays in the folder that it is joined to. Messages show it, so it has no control
/// characters.
pub(super) fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && !path.contains(['\\', ':'])
        && !path.contains(char::is_control)
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}
