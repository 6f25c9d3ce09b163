//! Moves checked files into a folder, all of them or none, by one process at a time.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use super::FetchError;
use super::checksum::Downloaded;
use super::error::local;
use super::folder::{RECEIPT, Receipt, folder_name};
use super::progress::Progress;
use crate::manifest::Manifest;

/// Moves the files and their receipt into a folder in the staging folder, and renames that folder to `target`.
pub(super) fn install(
    manifest: &Manifest,
    source: String,
    files: Vec<Downloaded>,
    staging: &Path,
    target: &Path,
) -> Result<(), FetchError> {
    let ready = staging.join("ready");
    remove(&ready)?;
    for Downloaded { at, file } in &files {
        let place = ready.join(&file.path);
        if let Some(parent) = place.parent() {
            std::fs::create_dir_all(parent).map_err(local(parent))?;
        }
        std::fs::rename(at, &place).map_err(local(&place))?;
    }
    let receipt = Receipt {
        kind: manifest.kind,
        name: manifest.name.clone(),
        source,
        files: files.into_iter().map(|it| it.file).collect(),
    };
    // Written elsewhere and renamed, because a source may have a file of this name, which may be linked to another cache.
    let draft = staging.join(RECEIPT);
    let text = serde_json::to_vec_pretty(&receipt).map_err(|e| local(&draft)(e.into()))?;
    std::fs::write(&draft, text).map_err(local(&draft))?;
    sync(&draft)?;
    let path = ready.join(RECEIPT);
    std::fs::rename(&draft, &path).map_err(local(&path))?;
    sync(&ready)?;
    // An existing folder is incomplete or of another version, or its name would not have been fetched, so it is replaced.
    let old = staging.join("old");
    remove(&old)?;
    if target.exists() {
        std::fs::rename(target, &old).map_err(local(target))?;
    }
    std::fs::rename(&ready, target).map_err(local(target))?;
    if let Some(parent) = target.parent() {
        sync(parent)?;
    }
    remove(staging)
}

/// Flushes a file's or a folder's content to the disk, so that it survives a power cut.
fn sync(path: &Path) -> Result<(), FetchError> {
    if cfg!(windows) && path.is_dir() {
        return Ok(());
    }
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(local(path))
}

pub(super) fn remove(path: &Path) -> Result<(), FetchError> {
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(local(path)(e)),
        _ => Ok(()),
    }
}

/// Waits until no other process fetches this name. The system releases the lock with the file's handle, even if the process is
/// killed.
pub(super) async fn lock(
    parent: &Path,
    name: &str,
    progress: &dyn Progress,
) -> Result<File, FetchError> {
    let path = parent.join(format!(".{}.lock", folder_name(name)));
    let mut options = File::options();
    let file = options.create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(local(&path))?;
    let mut noted = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(e)) => return Err(local(&path)(e)),
            Err(TryLockError::WouldBlock) if noted => {}
            Err(TryLockError::WouldBlock) => {
                let note = format!("another process is fetching {name}; waiting for it");
                progress.note(&note);
                noted = true;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
