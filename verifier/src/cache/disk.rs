//! The cache's file: a redb database that survives being killed at any moment, and does not grow beyond its bound.
//!
//! Entries, which are verdicts, are in two tables, a young one and an old one. What is written goes to the young one, and so does what is found in the old one. Where the
//! young one has half of the bound, it becomes the old one, whose entries, which nobody asked for since, are gone.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redb::{
    Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableHandle as _,
    WriteTransaction,
};

use super::Key;

/// Writes that come within this time of the first of them share its transaction.
const GATHER: Duration = Duration::from_millis(20);
/// Bytes of redb's own page cache.
const PAGES: usize = 64 << 20;
/// Writes that one transaction holds at most.
const BATCH: usize = 4096;
/// Bytes of the file, about, where nothing else is said.
pub const BYTES: u64 = 4 << 30;
/// What the entries of the young table weigh together, under [`YOUNG`].
const WEIGHTS: TableDefinition<'static, &'static str, u64> = TableDefinition::new("weights-1");
const YOUNG: &str = "young";

/// Verdicts, as JSON, by their keys.
type Entries = TableDefinition<'static, [u8; 32], &'static [u8]>;

const ENTRIES: Entries = TableDefinition::new("verdicts-1");
const OLD: Entries = TableDefinition::new("verdicts-1-old");

/// Why there is no cache on disk.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// Another process holds the file.
    #[error(
        "the cache {0} is in use by another process; this one keeps its verdicts in memory only. Give it a folder of its own with --cache-dir to keep them"
    )]
    InUse(PathBuf),
    /// The file system refuses.
    #[error(
        "the cache {path} cannot be opened: {reason}. Free some space there or name a writable folder with --cache-dir"
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
}

/// The open file. Reads go to it at once; writes are gathered by a thread of their own, which dropping the last handle waits for.
pub struct Disk {
    database: Arc<Database>,
    writes: Option<Sender<Write>>,
    writer: Option<JoinHandle<()>>,
}

enum Write {
    Entry(Key, Vec<u8>),
    /// Answered when all that was sent before is on the disk.
    Flush(SyncSender<()>),
}

impl Disk {
    /// Opens the file, or makes it, to grow to [`BYTES`]. A file that is no database, or a broken one, is moved aside with a warning.
    ///
    /// # Errors
    /// [`DiskError`] where the file is in use, or cannot be made.
    pub fn open(path: &Path) -> Result<Disk, DiskError> {
        Disk::open_within(path, BYTES)
    }

    /// As [`Disk::open`]; the file grows to about `bytes`, of which what was not asked for the longest goes first.
    ///
    /// # Errors
    /// As [`Disk::open`].
    pub fn open_within(path: &Path, bytes: u64) -> Result<Disk, DiskError> {
        let unusable = |reason: String| DiskError::Unusable {
            path: path.to_owned(),
            reason,
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| unusable(error.to_string()))?;
        }
        let database = match open(path) {
            Ok(database) => database,
            Err(Broken::InUse) => return Err(DiskError::InUse(path.to_owned())),
            Err(Broken::System(reason)) => return Err(unusable(reason)),
            Err(Broken::Corrupt(reason)) => {
                let aside = aside(path);
                std::fs::rename(path, &aside).map_err(|error| {
                    unusable(format!(
                        "it is corrupt ({reason}) and cannot be moved aside: {error}"
                    ))
                })?;
                tracing::warn!(
                    "the cache {} is corrupt ({reason}): moved to {}, a new one is begun",
                    path.display(),
                    aside.display()
                );
                open(path).map_err(|broken| unusable(broken.to_string()))?
            }
        };
        let database = Arc::new(database);
        let (writes, queue) = channel();
        let writer = std::thread::Builder::new()
            .name("cache-writer".to_owned())
            .spawn({
                let (database, path) = (Arc::clone(&database), path.to_owned());
                move || write_all(&database, bytes, &path, &queue)
            })
            .map_err(|error| unusable(error.to_string()))?;
        Ok(Disk {
            database,
            writes: Some(writes),
            writer: Some(writer),
        })
    }

    /// The entry under `key`. A failure to read counts as an absent entry, and is logged.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Vec<u8>> {
        match read(&self.database, key) {
            Ok(Some((entry, old))) => {
                if old {
                    self.put(*key, entry.clone());
                }
                Some(entry)
            }
            Ok(None) => None,
            Err(error) => {
                tracing::warn!("reading the cache failed: {error}");
                None
            }
        }
    }

    /// Keeps an entry: soon, not at once. What a kill loses is only work that will be done again.
    pub fn put(&self, key: Key, bytes: Vec<u8>) {
        if let Some(writes) = &self.writes {
            // The writer ends only when this sender does.
            let _ = writes.send(Write::Entry(key, bytes));
        }
    }

    /// Waits until all that was put is on the disk.
    pub fn flush(&self) {
        let (done, wait) = sync_channel(1);
        if let Some(writes) = &self.writes
            && writes.send(Write::Flush(done)).is_ok()
        {
            let _ = wait.recv();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.writes = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("it is in use by another process")]
    InUse,
    #[error("{0}")]
    System(String),
    #[error("it is corrupt: {0}")]
    Corrupt(String),
}

/// redb may panic on a file that was tampered with; that is one more way of saying that it is corrupt.
fn open(path: &Path) -> Result<Database, Broken> {
    let opened = std::panic::catch_unwind(|| {
        let database = Database::builder().set_cache_size(PAGES).create(path)?;
        let write = database.begin_write()?;
        lay_out(&write)?;
        write.commit()?;
        Ok::<_, redb::Error>(database)
    });
    match opened {
        Ok(Ok(database)) => Ok(database),
        Ok(Err(redb::Error::DatabaseAlreadyOpen)) => Err(Broken::InUse),
        Ok(Err(redb::Error::Io(error)))
            if !matches!(
                error.kind(),
                std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof
            ) =>
        {
            Err(Broken::System(error.to_string()))
        }
        Ok(Err(error)) => Err(Broken::Corrupt(error.to_string())),
        Err(_) => Err(Broken::Corrupt("its structure makes no sense".to_owned())),
    }
}

/// Makes the tables that are not there yet, and removes those of other versions of the format.
fn lay_out(write: &WriteTransaction) -> Result<(), redb::Error> {
    write.open_table(WEIGHTS)?;
    let mut known = vec![WEIGHTS.name().to_owned()];
    for entries in [ENTRIES, OLD] {
        write.open_table(entries)?;
        known.push(entries.name().to_owned());
    }
    let tables: Vec<_> = write.list_tables()?.collect();
    for table in tables {
        if !known.iter().any(|known| known == table.name()) {
            write.delete_table(table)?;
        }
    }
    Ok(())
}

fn aside(path: &Path) -> PathBuf {
    let mut number = 1;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".corrupt-{number}"));
        let candidate = PathBuf::from(name);
        if !candidate.exists() {
            return candidate;
        }
        number += 1;
    }
}

/// The entry, and whether it is among the old ones.
fn read(database: &Database, key: &Key) -> Result<Option<(Vec<u8>, bool)>, redb::Error> {
    let read = database.begin_read()?;
    for (entries, old) in [(ENTRIES, false), (OLD, true)] {
        let entries = read.open_table(entries)?;
        if let Some(entry) = entries.get(key.0)? {
            return Ok(Some((entry.value().to_vec(), old)));
        }
    }
    Ok(None)
}

/// Until the handle is dropped. After the first failure nothing more is written, since the database takes no more.
fn write_all(database: &Database, bytes: u64, path: &Path, queue: &Receiver<Write>) {
    let mut failed = false;
    while let Ok(first) = queue.recv() {
        let until = Instant::now() + GATHER;
        let mut batch = Vec::new();
        let mut flushes = Vec::new();
        let mut next = Some(first);
        while let Some(write) = next {
            match write {
                Write::Entry(key, bytes) => batch.push((key, bytes)),
                Write::Flush(done) => {
                    flushes.push(done);
                    break;
                }
            }
            next = if batch.len() < BATCH {
                let left = until.saturating_duration_since(Instant::now());
                queue.recv_timeout(left).ok()
            } else {
                None
            };
        }
        if !failed && let Err(error) = write_batch(database, bytes, &batch) {
            failed = true;
            tracing::warn!(
                "the cache {} cannot be written: {error}. From now on verdicts are kept in memory only; free some space there and start again to keep them",
                path.display()
            );
        }
        for done in flushes {
            let _ = done.send(());
        }
    }
}

fn write_batch(
    database: &Database,
    bytes: u64,
    batch: &[(Key, Vec<u8>)],
) -> Result<(), redb::Error> {
    if batch.is_empty() {
        return Ok(());
    }
    let write = database.begin_write()?;
    let more: u64 = batch.iter().map(|(_, entry)| weight(entry)).sum();
    // A file from before there was a bound does not say what it has: as much as it may.
    let weighed = {
        let weights = write.open_table(WEIGHTS)?;
        let known = weights.get(YOUNG)?.map(|weight| weight.value());
        known.unwrap_or(bytes)
    };
    let mut young = weighed.saturating_add(more);
    if young > bytes / 2 {
        write.delete_table(OLD)?;
        write.rename_table(ENTRIES, OLD)?;
        young = more;
    }
    {
        // Made again where it has just become the old one.
        let mut open = write.open_table(ENTRIES)?;
        for (key, entry) in batch {
            open.insert(key.0, entry.as_slice())?;
        }
    }
    write.open_table(WEIGHTS)?.insert(YOUNG, young)?;
    write.commit()?;
    Ok(())
}

/// Bytes that an entry takes in the file: pages are never quite full.
fn weight(entry: &[u8]) -> u64 {
    (entry.len() as u64 + 48) * 3 / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_database_is_moved_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.redb");
        std::fs::write(&path, "this is not a database".repeat(1000)).unwrap();
        let disk = Disk::open(&path).unwrap();
        disk.put(Key([1; 32]), b"kept".to_vec());
        disk.flush();
        assert_eq!(disk.get(&Key([1; 32])).as_deref(), Some(b"kept".as_slice()));
        assert!(folder.path().join("cache.redb.corrupt-1").exists());
    }

    #[test]
    fn a_truncated_database_is_moved_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.redb");
        {
            let disk = Disk::open(&path).unwrap();
            for n in 0..200 {
                disk.put(Key([n; 32]), vec![n; 4096]);
            }
        }
        let length = std::fs::metadata(&path).unwrap().len();
        std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(length / 3)
            .unwrap();
        let disk = Disk::open(&path).unwrap();
        disk.put(Key([1; 32]), b"kept".to_vec());
        disk.flush();
        assert!(disk.get(&Key([1; 32])).is_some());
    }

    fn numbered(n: u32) -> Key {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&n.to_le_bytes());
        Key(key)
    }

    #[test]
    fn what_is_put_is_written_although_more_keeps_coming() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(&folder.path().join("cache.redb")).unwrap();
        let written = (0..3_000).any(|n| {
            disk.put(numbered(n), b"kept".to_vec());
            std::thread::sleep(GATHER / 4);
            disk.get(&numbered(0)).is_some()
        });
        assert!(written);
    }

    #[test]
    fn a_file_does_not_grow_beyond_its_bound_and_what_is_asked_for_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.redb");
        for _ in 0..2 {
            let disk = Disk::open_within(&path, 1 << 20).unwrap();
            for n in 0..1_000 {
                disk.put(numbered(n), vec![7; 16 << 10]);
                if n % 10 == 9 {
                    disk.flush();
                    assert!(disk.get(&numbered(0)).is_some(), "{n}");
                }
            }
            assert!(disk.get(&numbered(1)).is_none());
            assert!(disk.get(&numbered(999)).is_some());
        }
        // 32 MiB were written.
        assert!(std::fs::metadata(&path).unwrap().len() < 8 << 20);
    }

    #[test]
    fn tables_of_another_version_of_the_format_are_removed() {
        const OTHER: TableDefinition<'static, &'static str, u64> =
            TableDefinition::new("verdicts-0");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.redb");
        {
            let database = Database::create(&path).unwrap();
            let write = database.begin_write().unwrap();
            write.open_table(OTHER).unwrap().insert("a", 1_u64).unwrap();
            write.commit().unwrap();
        }
        drop(Disk::open(&path).unwrap());
        let database = Database::create(&path).unwrap();
        let read = database.begin_read().unwrap();
        assert!(read.open_table(OTHER).is_err());
        assert!(read.open_table(ENTRIES).is_ok());
    }

    #[test]
    fn a_second_opening_says_that_the_file_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.redb");
        let _held = Disk::open(&path).unwrap();
        assert!(matches!(Disk::open(&path), Err(DiskError::InUse(_))));
    }

    #[test]
    fn an_unwritable_place_is_named_in_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = Disk::open(&file.join("cache.redb"))
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("cache.redb") && error.contains("--cache-dir"),
            "{error}"
        );
    }

    #[test]
    fn what_was_put_is_there_after_the_handle_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.redb");
        Disk::open(&path)
            .unwrap()
            .put(Key([7; 32]), b"value".to_vec());
        assert_eq!(
            Disk::open(&path).unwrap().get(&Key([7; 32])).as_deref(),
            Some(b"value".as_slice())
        );
    }
}
