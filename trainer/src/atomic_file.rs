//! Files that a reader sees whole or not at all.

use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// The start of the names of partial files.
const PREFIX: &str = ".rapid-partial-";

/// Whether a file with this name is a partial file, which a killed process may leave.
pub fn is_partial(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// A file that is written under another name in the same folder. [`AtomicFile::finish`] renames it. If it is dropped before, nothing remains of it.
#[derive(Debug)]
pub struct AtomicFile {
    file: BufWriter<NamedTempFile>,
    path: PathBuf,
}

impl AtomicFile {
    /// Begins a file in the folder of `path`, which must exist.
    ///
    /// # Errors
    /// The system's error. Also if the path exists and is not a regular file (a device, a pipe, a folder), since renaming would destroy it.
    pub fn create(path: &Path) -> io::Result<Self> {
        if std::fs::metadata(path).is_ok_and(|existing| !existing.is_file()) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it exists and is not a regular file, so it cannot be replaced; name another file",
            ));
        }
        let parent = path.parent();
        let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
        let folder = parent.unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        // Readable by everyone, like other files; a temporary file is readable only by its owner.
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
        let file = builder.tempfile_in(folder);
        let file = file.map_err(|error| folder_error(folder, &error))?;
        Ok(Self {
            file: BufWriter::new(file),
            path: path.to_owned(),
        })
    }

    /// Renames the file to its path, atomically.
    ///
    /// # Errors
    /// The system's error; an earlier file at the path is then unchanged.
    pub fn finish(self) -> io::Result<()> {
        let file = self.file.into_inner();
        let file = file.map_err(io::IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// The error if the partial file cannot be created. It names the folder: the user does not know the partial file.
fn folder_error(folder: &Path, error: &io::Error) -> io::Error {
    let shown = folder.display();
    let reason = match error.kind() {
        _ if !folder.is_dir() => format!("there is no folder {shown}; create it, or name another"),
        // Folders that cannot hold files, such as /proc, give this error.
        io::ErrorKind::NotFound => format!("{shown} cannot hold files; name another folder"),
        kind => format!("no file can be created in {shown}: {kind}; name another folder"),
    };
    io::Error::new(error.kind(), reason)
}

/// Writes a whole file.
///
/// # Errors
/// As [`AtomicFile::create`] and [`AtomicFile::finish`].
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(content)?;
    file.finish()
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        file.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        // An abandoned file leaves nothing.
        let mut abandoned = AtomicFile::create(&path).unwrap();
        abandoned.write_all(b"newer").unwrap();
        drop(abandoned);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_or_a_device_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path(), Path::new("/dev/null")] {
            let error = AtomicFile::create(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        // A missing folder, and one that cannot hold files, are named.
        let missing = folder.path().join("missing");
        let error = |path: &Path| AtomicFile::create(path).unwrap_err().to_string();
        let no_folder = format!("there is no folder {}; create it", missing.display());
        assert!(error(&missing.join("a.txt")).starts_with(&no_folder));
        let no_files = "/proc cannot hold files; name another folder";
        assert_eq!(error(Path::new("/proc/a.txt")), no_files);
    }
}
