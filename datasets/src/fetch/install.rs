//! Files that are checked become a folder, at once or not at all, by one process at a time.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use super::check::Downloaded;
use super::folder::{RECEIPT, Receipt, ReceivedFile, folder_name};
use super::{FetchError, Progress};
use crate::manifest::Manifest;

/// Puts the files together in a folder of the staging folder, with their receipt, and gives it its name.
pub(super) fn install(
    manifest: &Manifest,
    source: String,
    files: Vec<Downloaded>,
    staging: &Path,
    target: &Path,
) -> Result<(), FetchError> {
    let ready = staging.join("ready");
    remove(&ready)?;
    let mut received = Vec::new();
    for file in files {
        let place = ready.join(&file.path);
        if let Some(parent) = place.parent() {
            std::fs::create_dir_all(parent).map_err(|e| local(parent, e))?;
        }
        std::fs::rename(&file.at, &place).map_err(|e| local(&place, e))?;
        received.push(ReceivedFile {
            path: file.path,
            size: file.size,
            sha256: file.sha256,
        });
    }
    let receipt = Receipt {
        kind: manifest.kind,
        name: manifest.name.clone(),
        source,
        files: received,
    };
    // Written aside and renamed: a file may have come under this name, and be another cache's too.
    let draft = staging.join(RECEIPT);
    let text = serde_json::to_vec_pretty(&receipt).map_err(|e| local(&draft, e.into()))?;
    std::fs::write(&draft, text).map_err(|e| local(&draft, e))?;
    sync(&draft)?;
    let path = ready.join(RECEIPT);
    std::fs::rename(&draft, &path).map_err(|e| local(&path, e))?;
    sync(&ready)?;
    // What is there is not complete, or this would not have been fetched: it makes way.
    let old = staging.join("old");
    remove(&old)?;
    if target.exists() {
        std::fs::rename(target, &old).map_err(|e| local(target, e))?;
    }
    std::fs::rename(&ready, target).map_err(|e| local(target, e))?;
    if let Some(parent) = target.parent() {
        sync(parent)?;
    }
    remove(staging)
}

/// Makes a file's or a folder's content last through a power cut.
fn sync(path: &Path) -> Result<(), FetchError> {
    if cfg!(windows) && path.is_dir() {
        return Ok(());
    }
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|e| local(path, e))
}

pub(super) fn remove(path: &Path) -> Result<(), FetchError> {
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(local(path, e)),
        _ => Ok(()),
    }
}

pub(super) fn local(path: &Path, source: std::io::Error) -> FetchError {
    FetchError::Local {
        path: path.to_owned(),
        source,
    }
}

/// Waits until no other process fetches this name. The lock ends with the file's handle, however the process ends.
pub(super) async fn lock(
    parent: &Path,
    name: &str,
    progress: &dyn Progress,
) -> Result<File, FetchError> {
    let path = parent.join(format!(".{}.lock", folder_name(name)));
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|e| local(&path, e))?;
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                if !told {
                    progress.note(&format!(
                        "another process is fetching {name}; waiting for it"
                    ));
                    told = true;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(TryLockError::Error(e)) => return Err(local(&path, e)),
        }
    }
}
