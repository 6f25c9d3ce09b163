//! Expected values on disk: one file for each key, and a lock file beside it while a process computes the values. Processes that share the folder compute each key's
//! values once, and read each other's.
//!
//! The locks are the system's (`flock`), so a killed process holds none. A file begins with the digest of its content: the values of a damaged file are computed again.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use datasets::digest::Digest as Key;

/// Prefix of the names of files that are still being written.
const TEMPORARY: &str = ".new";
const VALUES: &str = "values";
const LOCK: &str = "lock";
/// Age at which the leftovers of a killed process are removed.
const MAX_LEFTOVER_AGE: Duration = Duration::from_secs(3600);

/// The folder of expected values.
pub struct ExpectedValueStore {
    folder: PathBuf,
    /// Size limit, in bytes.
    max_bytes: u64,
    /// Approximate size, in bytes: other processes write to the folder too.
    bytes: AtomicU64,
    /// Whether a write has failed, which is logged once.
    failed: AtomicBool,
}

/// The exclusive right to compute the values of a key. Dropping it releases the right.
#[derive(Debug)]
pub struct Claim(Option<(File, PathBuf)>);

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some((_held, path)) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

impl ExpectedValueStore {
    /// Opens or creates the folder, with a size limit of about `max_bytes`.
    ///
    /// # Errors
    /// If the folder cannot be created or written to.
    pub fn open(folder: &Path, max_bytes: u64) -> io::Result<ExpectedValueStore> {
        fs::create_dir_all(folder)?;
        let store = ExpectedValueStore {
            folder: folder.to_owned(),
            max_bytes,
            bytes: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        };
        drop(store.temporary_file()?);
        store.prune()?;
        Ok(store)
    }

    /// The values under `key`.
    pub fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.path(key, VALUES);
        let mut bytes = fs::read(&path).ok()?;
        let (digest, values) = bytes.split_at_checked(blake3::OUT_LEN)?;
        if blake3::hash(values) != *<&[u8; blake3::OUT_LEN]>::try_from(digest).ok()? {
            tracing::warn!(
                "{} is damaged; its values are computed again",
                path.display()
            );
            return None;
        }
        // The modification time is the time of last use: the least recently used file is removed first.
        let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        bytes.drain(..blake3::OUT_LEN);
        Some(bytes)
    }

    /// Stores `values` under `key`. They are on disk when this returns. If writing fails, they are not stored, and the first such failure is logged.
    pub fn put(&self, key: &Key, values: &[u8]) {
        if values.len() as u64 > self.max_bytes / 2 {
            return;
        }
        if let Err(error) = self.try_put(key, values)
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                "expected values cannot be stored in {}: {error}. They are stored in memory only; free some space there, or name another folder with --cache-dir",
                self.folder.display()
            );
        }
    }

    fn try_put(&self, key: &Key, values: &[u8]) -> io::Result<()> {
        let mut file = self.temporary_file()?;
        file.write_all(blake3::hash(values).as_bytes())?;
        file.write_all(values)?;
        file.as_file().sync_all()?;
        file.persist(self.path(key, VALUES))?;
        let bytes = self.bytes.fetch_add(values.len() as u64, Ordering::Relaxed);
        if bytes + values.len() as u64 > self.max_bytes {
            self.prune()?;
        }
        Ok(())
    }

    /// Claims `key`. `None` while another process, or another claim in this process, holds it.
    #[must_use]
    pub fn claim(&self, key: &Key) -> Option<Claim> {
        let path = self.path(key, LOCK);
        let locked = File::create(&path).map_err(TryLockError::Error);
        match locked.and_then(|file| lock(&file).map(|()| file)) {
            Ok(file) => Some(Claim(Some((file, path)))),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Error(error)) => {
                // Without a lock, two processes may compute the values, but that is better than none.
                tracing::debug!("{} cannot be locked: {error}", path.display());
                Some(Claim(None))
            }
        }
    }

    fn path(&self, key: &Key, extension: &str) -> PathBuf {
        self.folder.join(format!("{key}.{extension}"))
    }

    fn temporary_file(&self) -> io::Result<tempfile::NamedTempFile> {
        tempfile::Builder::new()
            .prefix(TEMPORARY)
            .tempfile_in(&self.folder)
    }

    /// Measures the folder. If it exceeds the limit, removes the least recently used files until it has half of the limit. Also removes leftovers of killed processes.
    fn prune(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let Ok(status) = fs::metadata(&path) else {
                continue; // Another process has removed it.
            };
            let modified = status.modified()?;
            let is_old = modified.elapsed().is_ok_and(|age| age > MAX_LEFTOVER_AGE);
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            match path.extension().and_then(OsStr::to_str) {
                Some(VALUES) => files.push((modified, status.len(), path)),
                Some(LOCK) if is_old => {
                    let _ = File::open(&path)
                        .is_ok_and(|file| lock(&file).is_ok() && fs::remove_file(&path).is_ok());
                }
                _ if is_old && name.starts_with(TEMPORARY) => drop(fs::remove_file(&path)),
                _ => {}
            }
        }
        let mut bytes: u64 = files.iter().map(|(_, length, _)| length).sum();
        if bytes > self.max_bytes {
            files.sort();
            for (_, length, path) in files {
                if bytes <= self.max_bytes / 2 {
                    break;
                }
                if fs::remove_file(&path).is_ok() {
                    bytes -= length;
                }
            }
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// Locks an open lock file. A lock file counts as locked if its last holder has removed it since it was opened here.
fn lock(file: &File) -> Result<(), TryLockError> {
    file.try_lock()?;
    match file.metadata().map_err(TryLockError::Error)?.nlink() {
        0 => Err(TryLockError::WouldBlock),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn store(max_bytes: u64) -> (tempfile::TempDir, ExpectedValueStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = ExpectedValueStore::open(folder.path(), max_bytes).unwrap();
        (folder, store)
    }

    #[test]
    fn processes_read_each_others_values_and_a_key_has_one_claim_at_a_time() {
        let (folder, one) = store(1 << 20);
        let other = ExpectedValueStore::open(folder.path(), 1 << 20).unwrap();
        let [key, unknown] = [Key([1; 32]), Key([2; 32])];
        let claim = one.claim(&key);
        assert!(claim.is_some() && other.claim(&key).is_none());
        assert!(other.claim(&unknown).is_some());
        drop(claim);
        assert!(other.claim(&key).is_some());
        // No lock file is left.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        one.put(&key, b"values");
        assert_eq!(other.get(&key).as_deref(), Some(&b"values"[..]));
        assert_eq!(other.get(&unknown), None);
    }

    #[test]
    fn threads_that_claim_a_key_at_once_hold_it_one_at_a_time() {
        let (_folder, store) = store(1 << 20);
        let (holders, claims) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let claim = || {
            for held in (0..500).filter_map(|_| store.claim(&Key([1; 32]))) {
                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                claims.fetch_add(1, Ordering::SeqCst);
                std::thread::yield_now();
                holders.fetch_sub(1, Ordering::SeqCst);
                drop(held);
            }
        };
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(claim)));
        });
        assert!(claims.load(Ordering::SeqCst) > 0);
    }

    #[test]
    fn a_killed_process_holds_no_lock() {
        let (folder, store) = store(1 << 20);
        let key = Key([1; 32]);
        let path = folder.path().join(format!("{key}.{LOCK}"));
        let mut child = std::process::Command::new("flock")
            .arg("--no-fork")
            .arg(&path)
            .args(["sh", "-c", "echo locked; exec sleep 600"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0; 7];
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut line).unwrap();
        assert!(store.claim(&key).is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(store.claim(&key).is_some());
    }

    #[test]
    fn an_old_lock_file_without_a_holder_is_removed() {
        let (folder, store) = store(1 << 20);
        let held = store.claim(&Key([1; 32])).unwrap();
        let [locked, left, new] =
            [1, 2, 3].map(|n| folder.path().join(format!("{}.{LOCK}", Key([n; 32]))));
        let old = SystemTime::now() - 2 * MAX_LEFTOVER_AGE;
        File::create(&new).unwrap();
        File::create(&left).unwrap().set_modified(old).unwrap();
        let held_file = File::options().write(true).open(&locked).unwrap();
        held_file.set_modified(old).unwrap();
        store.prune().unwrap();
        assert!(!left.exists() && new.exists());
        assert!(store.claim(&Key([1; 32])).is_none());
        drop(held);
    }

    #[test]
    fn a_damaged_file_is_not_used() {
        let (folder, store) = store(1 << 20);
        let key = Key([1; 32]);
        for damage in [&b""[..], b"short", &[0; 40]] {
            store.put(&key, b"values");
            assert!(store.get(&key).is_some());
            fs::write(folder.path().join(format!("{key}.{VALUES}")), damage).unwrap();
            assert_eq!(store.get(&key), None);
        }
    }

    #[test]
    fn the_folder_stays_within_its_limit_and_values_in_use_are_kept() {
        let (folder, store) = store(10_000);
        for n in 0..100 {
            store.put(&Key([n; 32]), &[n; 1_000]);
            std::thread::sleep(Duration::from_millis(2));
            assert!(store.get(&Key([0; 32])).is_some(), "{n}");
        }
        let bytes: u64 = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!(bytes < 12_000, "{bytes}");
        assert!(store.get(&Key([1; 32])).is_none() && store.get(&Key([99; 32])).is_some());
        store.put(&Key([200; 32]), &[0; 6_000]);
        assert!(store.get(&Key([200; 32])).is_none());
    }
}
