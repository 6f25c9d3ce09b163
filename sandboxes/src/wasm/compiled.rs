//! The folder of compiled modules. What is in it becomes machine code of this process, so it belongs to its owner alone, and a file is
//! loaded only if its tag, made with a key that only the owner can read, is right.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use wasmtime::{Engine, Module};

use crate::SandboxError;

/// Modules kept: those of this version of the program and of the ones used last.
const KEEP: usize = 3;

/// How names of files begin that are still being written.
const ASIDE: &str = ".new";

/// The folder, and the right to write in it until this is dropped.
pub(super) struct Compiled {
    folder: PathBuf,
    key: [u8; 32],
    _lock: File,
}

impl Compiled {
    /// Opens or makes `cache/compiled`, and waits until no other process prepares a module in it.
    ///
    /// # Errors
    /// [`SandboxError::Unusable`] where the folder cannot be made, or belongs to someone else.
    pub(super) fn open(cache: &Path) -> Result<Compiled, SandboxError> {
        let folder = cache.join("compiled");
        Compiled::try_open(folder.clone()).map_err(|error| {
            SandboxError::Unusable(format!(
                "{}, where the compiled Python sandbox is kept, cannot be used ({error}); make it a folder that only its owner, who runs this program, may \
                 enter, or choose another cache folder",
                folder.display()
            ))
        })
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
        if status.uid() != process_owner(&folder)? {
            return Err(io::Error::other("it belongs to another user"));
        }
        if status.mode() & 0o077 != 0 {
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        }
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(folder.join("lock"))?;
        lock.lock()?;
        remove_leftovers(&folder)?;
        let key = key(&folder)?;
        Ok(Compiled {
            folder,
            key,
            _lock: lock,
        })
    }

    /// The module called `name`, if it is there and is what [`Compiled::keep`] wrote.
    pub(super) fn load(&self, name: &str, engine: &Engine) -> Option<Module> {
        let tag = fs::read(self.folder.join(name).with_extension("tag")).ok()?;
        let path = self.folder.join(name).with_extension("cwasm");
        let mut file = File::open(&path).ok()?;
        let expected: [u8; 32] = tag.try_into().ok()?;
        if self.tag(name, &mut file).ok()? != blake3::Hash::from_bytes(expected) {
            tracing::warn!(
                "{} is not what was written there; it is made again",
                path.display()
            );
            return None;
        }
        // SAFETY: the bytes of this open file carry a tag made with a key that only this user can read, so they are what this program
        // had wasmtime compile for this name, which says the version, configuration and processor; wasmtime itself refuses another
        // version or configuration. The folder is closed to other users, and this program never writes to a finished file.
        #[allow(unsafe_code)]
        let module = unsafe { Module::deserialize_open_file(engine, file) };
        match module {
            Ok(module) => Some(module),
            Err(error) => {
                tracing::warn!(
                    "{} cannot be loaded ({error:#}); it is made again",
                    path.display()
                );
                None
            }
        }
    }

    /// Writes a module that was compiled here.
    pub(super) fn keep(&self, name: &str, module: &[u8]) -> io::Result<()> {
        let mut aside = tempfile::Builder::new()
            .prefix(ASIDE)
            .tempfile_in(&self.folder)?;
        aside.write_all(module)?;
        aside.as_file().sync_all()?;
        aside.persist(self.folder.join(name).with_extension("cwasm"))?;
        let tag = self.tag(name, &mut &module[..])?;
        let mut aside = tempfile::Builder::new()
            .prefix(ASIDE)
            .tempfile_in(&self.folder)?;
        aside.write_all(tag.as_bytes())?;
        aside.persist(self.folder.join(name).with_extension("tag"))?;
        self.prune(name)
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
        let excess = (modules.len() + 1).saturating_sub(KEEP);
        for (_, path) in &modules[..excess] {
            fs::remove_file(path)?;
            fs::remove_file(path.with_extension("tag"))?;
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

/// Removes what a process that was killed left half written; nobody else is writing, since the lock is held.
fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(ASIDE) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The user that this process runs as, seen from a file that it makes.
fn process_owner(folder: &Path) -> io::Result<u32> {
    Ok(tempfile::tempfile_in(folder)?.metadata()?.uid())
}

/// The owner's key: made at random the first time.
fn key(folder: &Path) -> io::Result<[u8; 32]> {
    let path = folder.join("key");
    if let Ok(bytes) = fs::read(&path)
        && let Ok(key) = bytes.try_into()
    {
        return Ok(key);
    }
    let mut key = [0_u8; 32];
    File::open("/dev/urandom")?.read_exact(&mut key)?;
    let mut aside = tempfile::Builder::new().prefix(ASIDE).tempfile_in(folder)?;
    aside.write_all(&key)?;
    aside.persist(path)?;
    Ok(key)
}
