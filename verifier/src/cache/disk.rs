//! The cache's file: a redb database that survives being killed at any moment.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use redb::{Database, ReadableDatabase as _, TableDefinition};

use super::Key;

/// Writes that come within this time of each other share a transaction.
const GATHER: Duration = Duration::from_millis(20);
/// Bytes of redb's own page cache.
const PAGES: usize = 64 << 20;
/// Writes that one transaction holds at most.
const BATCH: usize = 4096;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Verdicts, as JSON.
    Verdicts,
    /// Values that tasks' own solutions returned.
    Expected,
}

impl Table {
    fn definition(self) -> TableDefinition<'static, [u8; 32], &'static [u8]> {
        match self {
            Table::Verdicts => TableDefinition::new("verdicts-1"),
            Table::Expected => TableDefinition::new("expected-1"),
        }
    }
}

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
    Entry(Table, Key, Vec<u8>),
    /// Answered when all that was sent before is on the disk.
    Flush(SyncSender<()>),
}

impl Disk {
    /// Opens the file, or makes it. A file that is no database, or a broken one, is moved aside with a warning.
    ///
    /// # Errors
    /// [`DiskError`] where the file is in use, or cannot be made.
    pub fn open(path: &Path) -> Result<Disk, DiskError> {
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
                move || write_all(&database, &path, &queue)
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
    pub fn get(&self, table: Table, key: &Key) -> Option<Vec<u8>> {
        match read(&self.database, table, key) {
            Ok(entry) => entry,
            Err(error) => {
                tracing::warn!("reading the cache failed: {error}");
                None
            }
        }
    }

    /// Keeps an entry: soon, not at once. What a kill loses is only work that will be done again.
    pub fn put(&self, table: Table, key: Key, bytes: Vec<u8>) {
        if let Some(writes) = &self.writes {
            // The writer ends only when this sender does.
            let _ = writes.send(Write::Entry(table, key, bytes));
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
        for table in [Table::Verdicts, Table::Expected] {
            write.open_table(table.definition())?;
        }
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

fn read(database: &Database, table: Table, key: &Key) -> Result<Option<Vec<u8>>, redb::Error> {
    let table = database.begin_read()?.open_table(table.definition())?;
    Ok(table.get(key.0)?.map(|entry| entry.value().to_vec()))
}

/// Until the handle is dropped. After the first failure nothing more is written, since the database takes no more.
fn write_all(database: &Database, path: &Path, queue: &Receiver<Write>) {
    let mut failed = false;
    while let Ok(first) = queue.recv() {
        let mut batch = Vec::new();
        let mut flushes = Vec::new();
        let mut next = Some(first);
        while let Some(write) = next {
            match write {
                Write::Entry(table, key, bytes) => batch.push((table, key, bytes)),
                Write::Flush(done) => {
                    flushes.push(done);
                    break;
                }
            }
            next = if batch.len() < BATCH {
                queue.recv_timeout(GATHER).ok()
            } else {
                None
            };
        }
        if !failed && let Err(error) = write_batch(database, &batch) {
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

fn write_batch(database: &Database, batch: &[(Table, Key, Vec<u8>)]) -> Result<(), redb::Error> {
    if batch.is_empty() {
        return Ok(());
    }
    let write = database.begin_write()?;
    for table in [Table::Verdicts, Table::Expected] {
        let mut open = write.open_table(table.definition())?;
        for (_, key, bytes) in batch.iter().filter(|(of, _, _)| *of == table) {
            open.insert(key.0, bytes.as_slice())?;
        }
    }
    write.commit()?;
    Ok(())
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
        disk.put(Table::Verdicts, Key([1; 32]), b"kept".to_vec());
        disk.flush();
        assert_eq!(
            disk.get(Table::Verdicts, &Key([1; 32])).as_deref(),
            Some(b"kept".as_slice())
        );
        assert!(folder.path().join("cache.redb.corrupt-1").exists());
    }

    #[test]
    fn a_truncated_database_is_moved_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.redb");
        {
            let disk = Disk::open(&path).unwrap();
            for n in 0..200 {
                disk.put(Table::Expected, Key([n; 32]), vec![n; 4096]);
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
        disk.put(Table::Verdicts, Key([1; 32]), b"kept".to_vec());
        disk.flush();
        assert!(disk.get(Table::Verdicts, &Key([1; 32])).is_some());
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
            .put(Table::Expected, Key([7; 32]), b"value".to_vec());
        assert_eq!(
            Disk::open(&path)
                .unwrap()
                .get(Table::Expected, &Key([7; 32]))
                .as_deref(),
            Some(b"value".as_slice())
        );
    }
}
