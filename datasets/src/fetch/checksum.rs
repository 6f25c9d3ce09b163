//! Sizes and checksums.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::error::{Failure, local};
use crate::manifest::{self, Manifest};

/// A file that was downloaded, or copied or linked from the cache of Hugging Face, and is not yet moved into place.
pub(super) struct Downloaded {
    pub(super) at: PathBuf,
    pub(super) file: manifest::File,
}

/// The size and the SHA-256 that a file must have, where they are known.
pub(super) struct Expected {
    pub(super) size: Option<u64>,
    pub(super) sha256: Option<String>,
}

impl Expected {
    /// The manifest's values for a path: none, if it doesn't name it.
    pub(super) fn of(manifest: &Manifest, path: &str) -> Expected {
        let known = manifest.files.iter().find(|file| file.path == path);
        Expected {
            size: known.map(|file| file.size),
            sha256: known.map(|file| file.sha256.clone()),
        }
    }

    /// The file `at`, or how it differs from the expected size and SHA-256.
    pub(super) fn compare(
        &self,
        at: &Path,
        path: &str,
    ) -> std::io::Result<Result<Downloaded, String>> {
        let (size, sha256) = digest(at)?;
        Ok(match (self.size, &self.sha256) {
            (Some(expected), _) if expected != size => {
                Err(format!("has {size} bytes instead of {expected}"))
            }
            (_, Some(expected)) if *expected != sha256 => {
                Err(format!("has the SHA-256 {sha256} instead of {expected}"))
            }
            _ => Ok(Downloaded {
                at: at.to_owned(),
                file: manifest::File {
                    path: path.to_owned(),
                    size,
                    sha256,
                },
            }),
        })
    }

    /// Compares the file `at` with the expected size and SHA-256, and deletes it if it differs.
    pub(super) fn check(&self, label: &str, at: &Path, path: &str) -> Result<Downloaded, Failure> {
        let outcome = self.compare(at, path).map_err(local(at))?;
        outcome.or_else(|difference| {
            std::fs::remove_file(at).map_err(local(at))?;
            Err(Failure::Source(format!(
                "{label} {difference}; it was deleted. Either the download was damaged, in which case another attempt helps, or the source has changed its file."
            )))
        })
    }
}

fn digest(path: &Path) -> std::io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut size = 0;
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        hash.update(&buffer[..n]);
        size += n as u64;
    }
    let hex = |byte: &u8| format!("{byte:02x}");
    Ok((size, hash.finalize().iter().map(hex).collect()))
}
