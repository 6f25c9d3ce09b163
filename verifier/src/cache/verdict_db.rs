//! The verdict database: a redb file that survives a kill at any moment and stays within its size limit.
//!
//! A young and an old table hold the verdicts. New verdicts are written to the young one; a verdict that is read from the old one is copied to the young one. When the
//! young table has half of the limit, it becomes the old one. The previous old table is dropped: nobody has read its entries since.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use datasets::digest::Digest as Key;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

/// Writes that arrive within this time of the first one share its transaction.
const GATHER: Duration = Duration::from_millis(20);
/// Size of redb's own page cache, in bytes.
const PAGES: usize = 64 << 20;
/// Maximum number of files beside each other, one for each process that uses the folder at the same time.
const MAX_FILES: usize = 8;
/// Maximum number of writes in a transaction.
const MAX_BATCH: usize = 4096;
/// Default approximate size limit of the file, in bytes.
pub const BYTES: u64 = 4 << 30;
/// The total weight of the young table's entries, under [`YOUNG`].
const WEIGHTS: TableDefinition<'static, &'static str, u64> = TableDefinition::new("weights-1");
const YOUNG: &str = "young";

/// Verdicts as JSON, by key.
type Entries = TableDefinition<'static, [u8; 32], &'static [u8]>;

const ENTRIES: Entries = TableDefinition::new("verdicts-1");
const OLD: Entries = TableDefinition::new("verdicts-1-old");

/// Why there is no cache on disk.
#[derive(Debug, thiserror::Error)]
pub enum VerdictDbError {
    /// Other processes have the file and all those beside it open.
    #[error(
        "the cache {0} and the {others} beside it are in use by other processes; this one stores its verdicts in memory only. Stop one of them to store these on disk",
        others = MAX_FILES - 1
    )]
    InUse(PathBuf),
    /// The file cannot be opened or created.
    #[error(
        "the cache {path} cannot be opened: {reason}. Free some space there or name a writable folder with --cache-dir"
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The error's message.
        reason: String,
    },
}

/// The open file. Reads are immediate. A separate thread batches the writes; dropping the handle waits for it.
pub struct VerdictDb {
    database: Arc<Database>,
    writes: Option<Sender<Write>>,
    writer: Option<JoinHandle<()>>,
}

enum Write {
    Entry(Key, Vec<u8>),
    /// Answered once every earlier write is on disk.
    Flush(SyncSender<()>),
}

impl VerdictDb {
    /// Opens or creates the file, with a size limit of about `bytes`. The least recently read verdicts are dropped first. A file that is corrupt, or not a database, is
    /// moved aside with a warning. If another process has the file open, this opens the first free file beside it: `verdicts-2.redb` beside `verdicts.redb`.
    ///
    /// # Errors
    /// [`VerdictDbError`] if too many processes use the folder, or the file cannot be opened or created.
    pub fn open(path: &Path, bytes: u64) -> Result<VerdictDb, VerdictDbError> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let beside = |number| path.with_file_name(format!("{stem}-{number}.redb"));
        std::iter::once(path.to_owned())
            .chain((2..=MAX_FILES).map(beside))
            .map(|file| VerdictDb::open_file(&file, bytes))
            .find(|opened| !matches!(opened, Err(VerdictDbError::InUse(_))))
            .unwrap_or_else(|| Err(VerdictDbError::InUse(path.to_owned())))
    }

    fn open_file(path: &Path, bytes: u64) -> Result<VerdictDb, VerdictDbError> {
        let unusable = |reason: String| VerdictDbError::Unusable {
            path: path.to_owned(),
            reason,
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| unusable(error.to_string()))?;
        }
        let database = match open(path) {
            Ok(database) => database,
            Err(redb::Error::DatabaseAlreadyOpen) => {
                return Err(VerdictDbError::InUse(path.to_owned()));
            }
            Err(redb::Error::Io(error))
                if !matches!(
                    error.kind(),
                    ErrorKind::InvalidData | ErrorKind::UnexpectedEof
                ) =>
            {
                return Err(unusable(error.to_string()));
            }
            Err(error) => {
                let aside = unused_path(path);
                std::fs::rename(path, &aside).map_err(|failed| {
                    unusable(format!(
                        "it is corrupt ({error}) and cannot be moved aside: {failed}"
                    ))
                })?;
                tracing::warn!(
                    "the cache {} is corrupt ({error}): moved to {}, and a new one is created",
                    path.display(),
                    aside.display()
                );
                open(path).map_err(|error| unusable(error.to_string()))?
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
        Ok(VerdictDb {
            database,
            writes: Some(writes),
            writer: Some(writer),
        })
    }

    /// The verdict under `key`. A read error is logged, and counts as a missing verdict.
    pub fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let found = read(&self.database, key)
            .inspect_err(|error| tracing::warn!("reading the cache failed: {error}"));
        let (entry, old) = found.ok()??;
        if old {
            self.put(*key, entry.clone());
        }
        Some(entry)
    }

    /// Queues a verdict to be written soon. If the process is killed before, the verdict is computed again later.
    pub fn put(&self, key: Key, bytes: Vec<u8>) {
        if let Some(writes) = &self.writes {
            // The writer runs until this sender is dropped.
            let _ = writes.send(Write::Entry(key, bytes));
        }
    }

    /// Waits until every queued verdict is on disk.
    pub fn flush(&self) {
        let (done, wait) = sync_channel(1);
        if let Some(writes) = &self.writes
            && writes.send(Write::Flush(done)).is_ok()
        {
            let _ = wait.recv();
        }
    }
}

impl Drop for VerdictDb {
    fn drop(&mut self) {
        self.writes = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Opens the database, and creates missing tables. redb may panic on a file that was tampered with: a panic counts as corruption.
fn open(path: &Path) -> Result<Database, redb::Error> {
    std::panic::catch_unwind(|| {
        let database = Database::builder().set_cache_size(PAGES).create(path)?;
        let write = database.begin_write()?;
        write.open_table(WEIGHTS)?;
        write.open_table(ENTRIES)?;
        write.open_table(OLD)?;
        write.commit()?;
        Ok::<_, redb::Error>(database)
    })
    .unwrap_or_else(|_| {
        Err(redb::Error::Corrupted(
            "its structure is invalid".to_owned(),
        ))
    })
}

fn unused_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    (1_u64..)
        .map(|number| path.with_file_name(format!("{name}.corrupt-{number}")))
        .find(|candidate| !candidate.exists())
        .unwrap_or_default()
}

/// The entry, and whether it is in the old table.
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

/// Writes batches until the handle is dropped. After the first failure nothing more is written, because the database accepts no more writes.
fn write_all(database: &Database, bytes: u64, path: &Path, queue: &Receiver<Write>) {
    let mut failed = false;
    while let Ok(first) = queue.recv() {
        std::thread::sleep(GATHER);
        let (mut batch, mut flushes) = (Vec::new(), Vec::new());
        for write in std::iter::once(first).chain(queue.try_iter().take(MAX_BATCH)) {
            match write {
                Write::Entry(key, bytes) => batch.push((key, bytes)),
                Write::Flush(done) => flushes.push(done),
            }
        }
        if !failed && let Err(error) = write_batch(database, bytes, &batch) {
            failed = true;
            tracing::warn!(
                "the cache {} cannot be written: {error}. From now on verdicts are stored in memory only; free some space there and restart to store them on disk",
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
    // A file of version 0.1.0 has no weight: assume the limit itself.
    let stored = {
        let weights = write.open_table(WEIGHTS)?;
        let weight = weights.get(YOUNG)?.map(|weight| weight.value());
        weight.unwrap_or(bytes)
    };
    let mut young = stored.saturating_add(more);
    if young > bytes / 2 {
        write.delete_table(OLD)?;
        write.rename_table(ENTRIES, OLD)?;
        young = more;
    }
    {
        // Creates the table if it was renamed just now.
        let mut entries = write.open_table(ENTRIES)?;
        for (key, entry) in batch {
            entries.insert(key.0, entry.as_slice())?;
        }
    }
    write.open_table(WEIGHTS)?.insert(YOUNG, young)?;
    write.commit()?;
    Ok(())
}

/// Approximate bytes of an entry in the file. Pages are never quite full.
fn weight(entry: &[u8]) -> u64 {
    (entry.len() as u64 + 48) * 3 / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_truncated_or_not_a_database_is_moved_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.redb");
        std::fs::write(&path, "this is not a database".repeat(1000)).unwrap();
        for _ in 0..2 {
            let disk = VerdictDb::open(&path, BYTES).unwrap();
            assert!(folder.path().join("cache.redb.corrupt-1").exists());
            for n in 0..200 {
                disk.put(Key([n; 32]), vec![n; 4096]);
            }
            disk.flush();
            assert_eq!(disk.get(&Key([7; 32])), Some(vec![7; 4096]));
            drop(disk);
            let length = std::fs::metadata(&path).unwrap().len();
            let file = std::fs::OpenOptions::new().write(true).open(&path);
            file.unwrap().set_len(length / 3).unwrap();
        }
    }

    fn numbered(n: u32) -> Key {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&n.to_le_bytes());
        Key(key)
    }

    #[test]
    fn an_entry_is_written_even_while_more_keep_arriving() {
        let folder = tempfile::tempdir().unwrap();
        let disk = VerdictDb::open(&folder.path().join("cache.redb"), BYTES).unwrap();
        let written = (0..3_000).any(|n| {
            disk.put(numbered(n), b"kept".to_vec());
            std::thread::sleep(GATHER / 4);
            disk.get(&numbered(0)).is_some()
        });
        assert!(written);
    }

    #[test]
    fn the_file_stays_within_its_limit_and_entries_in_use_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.redb");
        for _ in 0..2 {
            let disk = VerdictDb::open(&path, 1 << 20).unwrap();
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
    fn each_process_has_a_file_of_its_own_and_keeps_its_verdicts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.redb");
        let key = |at: usize| Key([at as u8; 32]);
        let open = || VerdictDb::open(&path, BYTES);
        let held: Vec<VerdictDb> = (0..MAX_FILES).map(|_| open().unwrap()).collect();
        assert!(matches!(open(), Err(VerdictDbError::InUse(_))));
        for (at, cache) in held.iter().enumerate() {
            cache.put(key(at), b"value".to_vec());
        }
        drop(held);
        let again: Vec<VerdictDb> = (0..MAX_FILES).map(|_| open().unwrap()).collect();
        for (at, cache) in again.iter().enumerate() {
            assert!(cache.get(&key(at)).is_some() && cache.get(&key(at + 1)).is_none());
        }
        assert!(folder.path().join("cache-8.redb").is_file());
    }

    #[test]
    fn the_error_names_a_path_that_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let opened = VerdictDb::open(&file.join("cache.redb"), BYTES);
        let error = opened.err().unwrap().to_string();
        for part in ["cache.redb", "--cache-dir"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
