//! The interpreter's two files.

use std::path::Path;
use std::sync::Arc;

use crate::SandboxError;

/// CPython as a WebAssembly module that has already started.
const INTERPRETER: &str = "python-snapshot.wasm";
/// The standard library and packages, mounted as `/usr/local/lib/python315.zip`.
const LIBRARY: &str = "python-stdlib.zip";

/// The files that the sandbox is built from.
pub(super) struct Artifact {
    pub(super) interpreter: Vec<u8>,
    pub(super) library: Arc<[u8]>,
}

impl Artifact {
    /// # Errors
    /// [`SandboxError::Unusable`], naming the file and how to get it.
    pub(super) fn read(folder: &Path) -> Result<Artifact, SandboxError> {
        let interpreter = read(&folder.join(INTERPRETER), b"\0asm")?;
        let library = read(&folder.join(LIBRARY), b"PK")?;
        Ok(Artifact {
            interpreter,
            library: library.into(),
        })
    }

    /// BLAKE3 of the two files.
    pub(super) fn digest(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        for part in [&self.interpreter[..], &self.library[..]] {
            hasher.update(blake3::hash(part).as_bytes());
        }
        hasher.finalize()
    }
}

fn read(path: &Path, magic: &[u8]) -> Result<Vec<u8>, SandboxError> {
    let remedy = "fetch the Python sandbox again with `rapid fetch sandbox:python-wasi` or `rapid-verifier fetch`";
    let bytes = std::fs::read(path).map_err(|error| {
        SandboxError::Unusable(format!(
            "{} cannot be read ({error}); {remedy}",
            path.display()
        ))
    })?;
    if bytes.starts_with(magic) {
        Ok(bytes)
    } else {
        Err(SandboxError::Unusable(format!(
            "{} is damaged: its first bytes are not those of such a file; {remedy}",
            path.display()
        )))
    }
}
