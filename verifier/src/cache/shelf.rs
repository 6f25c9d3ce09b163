//! Expected values on disk: a file for each key, and beside it, while a process makes it, a lock. Processes that share the folder so make each once, and read what the others made.
//!
//! The locks are the system's (`flock`), so that a process that is killed holds none. A file begins with the digest of what follows: one that was damaged is made again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::Key;

/// How names of files begin that are still being written.
const ASIDE: &str = ".new";
const VALUES: &str = "values";
const LOCK: &str = "lock";
/// Age at which what a killed process left half written is removed.
const LEFT: Duration = Duration::from_secs(3600);

/// The folder.
pub struct Shelf {
    folder: PathBuf,
    /// Bytes that it may hold.
    bound: u64,
    /// Bytes that it holds, about: other processes add to it too.
    held: AtomicU64,
    failed: AtomicBool,
}

/// The right to make what belongs under a key, until it is dropped.
#[derive(Debug)]
pub struct Claim(Option<(File, PathBuf)>);

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some((_held, path)) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

impl Shelf {
    /// Opens the folder, or makes it, to hold about `bound` bytes.
    ///
    /// # Errors
    /// Where it cannot be made, or nothing can be written in it.
    pub fn open(folder: &Path, bound: u64) -> io::Result<Shelf> {
        fs::create_dir_all(folder)?;
        let shelf = Shelf {
            folder: folder.to_owned(),
            bound,
            held: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        };
        drop(shelf.aside()?);
        shelf.prune()?;
        Ok(shelf)
    }

    /// What is under `key`.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.path(key, VALUES);
        let mut bytes = fs::read(&path).ok()?;
        let (digest, values) = bytes.split_at_checked(blake3::OUT_LEN)?;
        if blake3::hash(values) != *<&[u8; blake3::OUT_LEN]>::try_from(digest).ok()? {
            tracing::warn!(
                "{} is not what was written there; it is made again",
                path.display()
            );
            return None;
        }
        // What was not asked for the longest goes first.
        let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        bytes.drain(..blake3::OUT_LEN);
        Some(bytes)
    }

    /// Keeps `values` under `key`. They are on the disk when this returns; where that fails, which is logged once, they are not kept.
    pub fn put(&self, key: &Key, values: &[u8]) {
        if values.len() as u64 > self.bound / 2 {
            return;
        }
        if let Err(error) = self.try_put(key, values)
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                "expected values cannot be kept in {}: {error}. They are kept in memory only; free some space there, or name another folder with --cache-dir",
                self.folder.display()
            );
        }
    }

    fn try_put(&self, key: &Key, values: &[u8]) -> io::Result<()> {
        let mut aside = self.aside()?;
        aside.write_all(blake3::hash(values).as_bytes())?;
        aside.write_all(values)?;
        aside.as_file().sync_all()?;
        aside.persist(self.path(key, VALUES))?;
        let held = self.held.fetch_add(values.len() as u64, Ordering::Relaxed);
        if held + values.len() as u64 > self.bound {
            self.prune()?;
        }
        Ok(())
    }

    /// The right to make what belongs under `key`; `None` while another process, or another holder in this one, has it.
    #[must_use]
    pub fn claim(&self, key: &Key) -> Option<Claim> {
        let path = self.path(key, LOCK);
        loop {
            let locked = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .and_then(|file| match file.try_lock() {
                    Ok(()) => Ok(Some(file)),
                    Err(fs::TryLockError::WouldBlock) => Ok(None),
                    Err(fs::TryLockError::Error(error)) => Err(error),
                });
            match locked {
                // Whoever had it may have removed the file since it was opened here.
                Ok(Some(file)) if is_at(&file, &path) => return Some(Claim(Some((file, path)))),
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(error) => {
                    // Made twice is better than not at all.
                    tracing::debug!("{} cannot be locked: {error}", path.display());
                    return Some(Claim(None));
                }
            }
        }
    }

    fn path(&self, key: &Key, extension: &str) -> PathBuf {
        self.folder.join(format!("{key}.{extension}"))
    }

    fn aside(&self) -> io::Result<tempfile::NamedTempFile> {
        tempfile::Builder::new()
            .prefix(ASIDE)
            .tempfile_in(&self.folder)
    }

    /// Counts what is there, and removes what was not asked for the longest until it is half of what may be, where it is more than that.
    fn prune(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let Ok(status) = fs::metadata(&path) else {
                continue; // Another process has removed it.
            };
            let modified = status.modified()?;
            if path
                .extension()
                .is_some_and(|extension| extension == VALUES)
            {
                files.push((modified, status.len(), path));
            } else if path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(ASIDE))
                && modified.elapsed().is_ok_and(|age| age > LEFT)
            {
                let _ = fs::remove_file(&path);
            } else if path.extension().is_some_and(|extension| extension == LOCK)
                && modified.elapsed().is_ok_and(|age| age > LEFT)
            {
                remove_free(&path);
            }
        }
        let mut held: u64 = files.iter().map(|(_, length, _)| length).sum();
        if held > self.bound {
            files.sort();
            for (_, length, path) in files {
                if held <= self.bound / 2 {
                    break;
                }
                if fs::remove_file(&path).is_ok() {
                    held -= length;
                }
            }
        }
        self.held.store(held, Ordering::Relaxed);
        Ok(())
    }
}

/// Removes a lock that nobody holds: whoever did was killed.
fn remove_free(path: &Path) {
    if let Ok(file) = OpenOptions::new().write(true).open(path)
        && file.try_lock().is_ok()
        && is_at(&file, path)
    {
        let _ = fs::remove_file(path);
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let place = |status: fs::Metadata| (status.dev(), status.ino());
    file.metadata().ok().map(place) == fs::metadata(path).ok().map(place)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn shelf(bound: u64) -> (tempfile::TempDir, Shelf) {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(folder.path(), bound).unwrap();
        (folder, shelf)
    }

    #[test]
    fn two_processes_read_what_either_wrote() {
        let (folder, one) = shelf(1 << 20);
        let other = Shelf::open(folder.path(), 1 << 20).unwrap();
        one.put(&Key([1; 32]), b"values");
        assert_eq!(other.get(&Key([1; 32])).as_deref(), Some(&b"values"[..]));
        assert_eq!(other.get(&Key([2; 32])), None);
    }

    #[test]
    fn a_key_is_claimed_by_one_at_a_time_and_no_lock_is_left() {
        let (folder, one) = shelf(1 << 20);
        let other = Shelf::open(folder.path(), 1 << 20).unwrap();
        let claim = one.claim(&Key([1; 32]));
        assert!(claim.is_some() && other.claim(&Key([1; 32])).is_none());
        assert!(other.claim(&Key([2; 32])).is_some());
        drop(claim);
        assert!(other.claim(&Key([1; 32])).is_some());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn of_many_who_claim_a_key_at_once_only_one_has_it() {
        let (_folder, shelf) = shelf(1 << 20);
        let (holders, claims) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        if let Some(claim) = shelf.claim(&Key([1; 32])) {
                            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                            claims.fetch_add(1, Ordering::SeqCst);
                            holders.fetch_sub(1, Ordering::SeqCst);
                            drop(claim);
                        }
                    }
                });
            }
        });
        assert!(claims.load(Ordering::SeqCst) > 0);
    }

    #[test]
    fn the_lock_of_a_process_that_was_killed_is_free() {
        let (folder, shelf) = shelf(1 << 20);
        let key = Key([1; 32]);
        let path = folder.path().join(format!("{key}.{LOCK}"));
        let mut child = std::process::Command::new("flock")
            .arg("--no-fork")
            .arg(&path)
            .args(["sh", "-c", "echo locked; exec sleep 600"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 7];
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut said).unwrap();
        assert!(shelf.claim(&key).is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(shelf.claim(&key).is_some());
    }

    #[test]
    fn an_old_lock_that_nobody_holds_is_removed() {
        let (folder, shelf) = shelf(1 << 20);
        let held = shelf.claim(&Key([1; 32])).unwrap();
        let left = folder.path().join(format!("{}.{LOCK}", Key([2; 32])));
        let new = folder.path().join(format!("{}.{LOCK}", Key([3; 32])));
        fs::write(&left, b"").unwrap();
        fs::write(&new, b"").unwrap();
        let old = SystemTime::now() - 2 * LEFT;
        for path in [
            &left,
            &folder.path().join(format!("{}.{LOCK}", Key([1; 32]))),
        ] {
            File::options()
                .write(true)
                .open(path)
                .unwrap()
                .set_modified(old)
                .unwrap();
        }
        shelf.prune().unwrap();
        assert!(!left.exists() && new.exists());
        assert!(shelf.claim(&Key([1; 32])).is_none());
        drop(held);
    }

    #[test]
    fn a_file_that_was_damaged_is_not_read() {
        let (folder, shelf) = shelf(1 << 20);
        let key = Key([1; 32]);
        for damage in [&b""[..], b"short", &[0; 40]] {
            shelf.put(&key, b"values");
            assert!(shelf.get(&key).is_some());
            fs::write(folder.path().join(format!("{key}.{VALUES}")), damage).unwrap();
            assert_eq!(shelf.get(&key), None);
        }
    }

    #[test]
    fn the_folder_does_not_grow_beyond_its_bound_and_what_is_asked_for_stays() {
        let (folder, shelf) = shelf(10_000);
        for n in 0..100 {
            shelf.put(&Key([n; 32]), &[n; 1_000]);
            std::thread::sleep(Duration::from_millis(2));
            assert!(shelf.get(&Key([0; 32])).is_some(), "{n}");
        }
        let held: u64 = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!(held < 12_000, "{held}");
        assert!(shelf.get(&Key([1; 32])).is_none() && shelf.get(&Key([99; 32])).is_some());
        shelf.put(&Key([200; 32]), &[0; 6_000]);
        assert!(shelf.get(&Key([200; 32])).is_none());
    }
}
