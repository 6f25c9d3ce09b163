//! The folder of compiled modules. Its content becomes machine code of this process. So only its owner can open the folder, and a file is loaded only if its tag is
//! right. The key of the tags can be read by the owner only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::NamedTempFile;
use wasmtime::{Engine, Module};

use crate::SandboxError;

/// Modules in the folder: the one of this version of the program, and those that were used most recently.
const MAX_MODULES: usize = 3;

/// Bytes that a module takes, rounded up.
const MODULE_BYTES: u64 = 320 << 20;

/// Prefix of the names of files that are still being written.
const UNFINISHED: &str = ".new";

/// The folder. Finished files in it are never written to, so that reading needs no lock.
pub(super) struct Compiled {
    folder: PathBuf,
    key: [u8; 32],
}

/// The right to write in the folder. Dropping it gives up the right.
pub(super) struct Lock(#[expect(dead_code, reason = "held, not read")] File);

impl Compiled {
    /// Opens or creates `cache/compiled`.
    ///
    /// # Errors
    /// [`SandboxError::Unusable`] if the folder cannot be created, or belongs to another user.
    pub(super) fn open(cache: &Path) -> Result<Compiled, SandboxError> {
        let folder = cache.join("compiled");
        Compiled::try_open(folder.clone()).map_err(|error| unusable(&folder, &error))
    }

    fn try_open(folder: PathBuf) -> io::Result<Compiled> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        let status = fs::symlink_metadata(&folder)?;
        if !status.is_dir() {
            return Err(io::Error::other("it is not a folder"));
        }
        // The user that this process runs as owns a file that it creates.
        if status.uid() != tempfile::tempfile_in(&folder)?.metadata()?.uid() {
            return Err(io::Error::other("it belongs to another user"));
        }
        if status.mode() & 0o077 != 0 {
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        }
        let key = match key(&folder) {
            Some(key) => key,
            None => {
                let _lock = lock(&folder)?;
                make_key(&folder)?
            }
        };
        Ok(Compiled { folder, key })
    }

    /// Waits until no other process prepares a module here.
    ///
    /// # Errors
    /// As [`Compiled::open`].
    pub(super) fn lock(&self) -> Result<Lock, SandboxError> {
        lock(&self.folder).map_err(|error| unusable(&self.folder, &error))
    }

    /// The module called `name`, if it exists and is what [`Compiled::store`] wrote.
    pub(super) fn load(&self, name: &str, engine: &Engine) -> Option<Module> {
        let tag = fs::read(self.folder.join(name).with_extension("tag")).ok()?;
        let path = self.folder.join(name).with_extension("cwasm");
        let mut file = File::open(&path).ok()?;
        let expected: [u8; 32] = tag.try_into().ok()?;
        if self.tag(name, &mut file).ok()? != blake3::Hash::from_bytes(expected) {
            tracing::warn!(
                "{} was changed after it was written; it is compiled again",
                path.display()
            );
            return None;
        }
        // SAFETY: the bytes of this open file match a tag, and only this user can read the tag's key. So wasmtime compiled them for this program under this name, which
        // covers the version, configuration and processor; wasmtime itself refuses another version or configuration. The folder is closed to other users, and this
        // program never writes to a finished file.
        #[allow(unsafe_code)]
        let module = unsafe { Module::deserialize_open_file(engine, file) };
        match module {
            Ok(module) => {
                // Pruning begins with the least recently used module, or with the oldest one if the time cannot be set.
                let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
                Some(module)
            }
            Err(error) => {
                tracing::warn!(
                    "{} cannot be loaded ({error:#}); it is compiled again",
                    path.display()
                );
                None
            }
        }
    }

    /// Reserves disk space for a module. Compiling the module takes minutes, so this comes first.
    ///
    /// # Errors
    /// [`SandboxError::Unusable`] if there is not enough space.
    pub(super) fn reserve(&self, _lock: &Lock) -> Result<NamedTempFile, SandboxError> {
        unfinished_file(&self.folder)
            .and_then(|mut file| {
                io::copy(&mut io::repeat(0).take(MODULE_BYTES), &mut file)?;
                file.rewind()?;
                Ok(file)
            })
            .map_err(|error| unusable(&self.folder, &error))
    }

    /// Writes a module that was compiled here into its reserved file, under the lock.
    ///
    /// # Errors
    /// [`SandboxError::Unusable`].
    pub(super) fn store(
        &self,
        _lock: &Lock,
        reserved: NamedTempFile,
        name: &str,
        module: &[u8],
    ) -> Result<(), SandboxError> {
        self.try_store(reserved, name, module)
            .map_err(|error| unusable(&self.folder, &error))
    }

    fn try_store(&self, mut reserved: NamedTempFile, name: &str, module: &[u8]) -> io::Result<()> {
        reserved.write_all(module)?;
        reserved.as_file().set_len(module.len() as u64)?;
        reserved.as_file().sync_all()?;
        reserved.persist(self.folder.join(name).with_extension("cwasm"))?;
        let tag = self.tag(name, &mut &module[..])?;
        let mut tag_file = unfinished_file(&self.folder)?;
        tag_file.write_all(tag.as_bytes())?;
        tag_file.persist(self.folder.join(name).with_extension("tag"))?;
        // The new module can be used whether or not old ones can be removed.
        if let Err(error) = self.prune(name) {
            tracing::warn!(
                "old modules in {} cannot be removed ({error}), and take up to {} MiB each; remove them by hand",
                self.folder.display(),
                MODULE_BYTES >> 20
            );
        }
        Ok(())
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes all but the newest modules.
    fn prune(&self, name: &str) -> io::Result<()> {
        let mut modules: Vec<_> = fs::read_dir(&self.folder)?
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "cwasm")
                    && path.file_stem().is_some_and(|stem| stem != name)
            })
            .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
            .collect();
        modules.sort();
        let excess = (modules.len() + 1).saturating_sub(MAX_MODULES);
        for (_, path) in &modules[..excess] {
            remove_if_present(path)?;
            // A process that is killed while it stores a module may leave it without its tag.
            remove_if_present(&path.with_extension("tag"))?;
        }
        Ok(())
    }

    fn tag(&self, name: &str, module: &mut dyn Read) -> io::Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.update_reader(module)?;
        Ok(hasher.finalize())
    }
}

fn unusable(folder: &Path, error: &io::Error) -> SandboxError {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("make room for {} MiB there", MODULE_BYTES >> 20)
        }
        _ => "make it a folder that only its owner, who runs this program, may enter".to_owned(),
    };
    SandboxError::Unusable(format!(
        "{}, where the compiled Python sandbox is stored, cannot be used ({error}); {remedy}, or choose another cache folder with --cache-dir or RAPID_HOME",
        folder.display()
    ))
}

fn unfinished_file(folder: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempfile_in(folder)
}

fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes files that a killed process left unfinished. No other process is writing, since the lock is held.
fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn lock(folder: &Path) -> io::Result<Lock> {
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(folder.join("lock"))?;
    lock.lock()?;
    remove_leftovers(folder)?;
    Ok(Lock(lock))
}

/// The owner's key, if it has been created.
fn key(folder: &Path) -> Option<[u8; 32]> {
    fs::read(folder.join("key")).ok()?.try_into().ok()
}

/// Creates the owner's random key under the lock, unless another process just has.
fn make_key(folder: &Path) -> io::Result<[u8; 32]> {
    if let Some(key) = key(folder) {
        return Ok(key);
    }
    let mut key = [0_u8; 32];
    File::open("/dev/urandom")?.read_exact(&mut key)?;
    let mut file = unfinished_file(folder)?;
    file.write_all(&key)?;
    file.persist(folder.join("key"))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_stored_whether_old_ones_have_no_tag_or_cannot_be_removed() {
        for (removable, left) in [(true, MAX_MODULES), (false, 4)] {
            let cache = tempfile::tempdir().unwrap();
            let compiled = Compiled::open(cache.path()).unwrap();
            for old in ["a.cwasm", "b.cwasm", "c.cwasm"] {
                let old = compiled.folder().join(old);
                // A folder cannot be removed as a file is, not even by root.
                match removable {
                    true => fs::write(old, b"old").unwrap(),
                    false => fs::create_dir(old).unwrap(),
                }
            }
            let lock = compiled.lock().unwrap();
            // `reserve` would write all of `MODULE_BYTES`.
            let file = unfinished_file(compiled.folder()).unwrap();
            compiled.store(&lock, file, "new", b"module").unwrap();
            let names = fs::read_dir(compiled.folder()).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let modules: Vec<String> = names.filter(|name| name.ends_with(".cwasm")).collect();
            assert_eq!(modules.len(), left, "{modules:?}");
            assert!(modules.contains(&"new.cwasm".to_owned()), "{modules:?}");
            assert!(compiled.folder().join("new.tag").is_file());
        }
    }
}
