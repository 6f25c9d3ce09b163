//! Files that are there whole or not at all.

use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// How the names of files begin that are not yet whole.
const PREFIX: &str = ".rapid-partial-";

/// Whether a file of this name is what a killed process left of one.
#[must_use]
pub fn is_partial(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// A file written beside its place; [`AtomicFile::finish`] gives it its name. Dropped before that, nothing is left of it.
#[derive(Debug)]
pub struct AtomicFile {
    file: BufWriter<NamedTempFile>,
    path: PathBuf,
}

impl AtomicFile {
    /// Begins a file in the folder of `path`, which must exist.
    ///
    /// # Errors
    /// What the system says; and where the path names something that is there and no regular file (a device, a pipe, a folder),
    /// since renaming over it would destroy it.
    pub fn create(path: &Path) -> io::Result<Self> {
        if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is there already and is no regular file, so it cannot be replaced; name another file",
            ));
        }
        let folder = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        // As other files are made, instead of for the owner alone.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
        Ok(Self {
            file: BufWriter::new(
                builder
                    .tempfile_in(folder)
                    .map_err(|error| no_file_in(folder, &error))?,
            ),
            path: path.to_owned(),
        })
    }

    /// Puts the file in its place, in one motion.
    ///
    /// # Errors
    /// What the system says; what was in the place before is still there then.
    pub fn finish(self) -> io::Result<()> {
        let file = self
            .file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Says it of the folder that the user named, instead of a partial file that nobody has heard of.
fn no_file_in(folder: &Path, error: &io::Error) -> io::Error {
    let shown = folder.display();
    let reason = match error.kind() {
        _ if !folder.is_dir() => format!("there is no folder {shown}; make it, or name another"),
        // So say folders that are no place for files, such as /proc.
        io::ErrorKind::NotFound => format!("{shown} takes no files; name another folder"),
        kind => format!("no file can be made in {shown}: {kind}; name another folder"),
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
        let mut aside = AtomicFile::create(&path).unwrap();
        aside.write_all(b"new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        aside.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn what_is_no_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let error = AtomicFile::create(folder.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        #[cfg(unix)]
        assert!(AtomicFile::create(Path::new("/dev/null")).is_err());
    }

    #[test]
    fn a_folder_that_is_not_there_and_one_that_takes_no_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let said = |path: &Path| AtomicFile::create(path).unwrap_err().to_string();
        let no_folder = format!("there is no folder {}; make it", missing.display());
        assert!(said(&missing.join("a.txt")).starts_with(&no_folder));
        #[cfg(target_os = "linux")]
        assert_eq!(
            said(Path::new("/proc/a.txt")),
            "/proc takes no files; name another folder"
        );
    }

    #[test]
    fn an_abandoned_file_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        AtomicFile::create(&folder.path().join("a.txt"))
            .unwrap()
            .write_all(b"new")
            .unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
