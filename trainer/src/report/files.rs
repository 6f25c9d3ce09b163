//! The files of a report in its folder, and the list of them. The next report there may remove what is in the list.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use crate::atomic_file;

/// The list: the name of each file of a report but its page, with the digest of its content.
const LIST: &str = "report-files.json";

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{path} cannot be written: {source}")]
pub struct WriteError {
    path: PathBuf,
    source: io::Error,
}

impl WriteError {
    pub(crate) fn new(path: &Path, source: io::Error) -> Self {
        Self {
            path: path.to_owned(),
            source,
        }
    }
}

/// Replaces a file by one with this text.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), WriteError> {
    atomic_file::write(path, text.as_bytes()).map_err(|source| WriteError::new(path, source))
}

type Digests = BTreeMap<String, String>;

/// Writes a report into a folder, which is created if it does not exist: its files, by their names, and its page; returns the page's path. Files of an earlier report that this
/// one has not are removed, unless somebody changed them. After an error, each file is either written whole or left as it was.
pub(crate) fn write_files(
    folder: &Path,
    files: &[(String, String)],
    page: &str,
) -> Result<PathBuf, WriteError> {
    std::fs::create_dir_all(folder).map_err(|source| WriteError::new(folder, source))?;
    let list = folder.join(LIST);
    let earlier = read(&list)?;
    let digests = files.iter();
    let digests = digests.map(|(name, text)| (name.clone(), digest(text.as_bytes())));
    let digests: Digests = digests.collect();
    for (name, text) in files {
        replace(&folder.join(name), text)?;
    }
    let html = folder.join("report.html");
    replace(&html, page)?;
    for (name, expected) in earlier {
        // A name with a folder, which no report writes, is left alone.
        let is_name = Path::new(&name).file_name() == Some(OsStr::new(&name));
        let path = folder.join(&name);
        let is_unchanged = || std::fs::read(&path).is_ok_and(|bytes| digest(&bytes) == expected);
        if is_name && !digests.contains_key(&name) && is_unchanged() {
            std::fs::remove_file(&path).map_err(|source| WriteError::new(&path, source))?;
        }
    }
    let text = serde_json::to_string_pretty(&digests)
        .map_err(|error| WriteError::new(&list, error.into()))?;
    replace(&list, &(text + "\n"))?;
    Ok(html)
}

/// The list of an earlier report; empty if there is none.
fn read(list: &Path) -> Result<Digests, WriteError> {
    let text = match std::fs::read(list) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Digests::new()),
        text => text.map_err(|source| WriteError::new(list, source))?,
    };
    serde_json::from_slice(&text).map_err(|error| {
        let reason = format!("the file that is there is not the list of a report's files ({error}); remove or rename it");
        WriteError::new(list, io::Error::new(io::ErrorKind::InvalidData, reason))
    })
}

fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a report of these files, each with this text.
    fn write(folder: &Path, names: &[&str], text: &str) -> Result<PathBuf, WriteError> {
        let names = names.iter();
        let files = names.map(|name| ((*name).to_owned(), text.to_owned()));
        write_files(folder, &files.collect::<Vec<_>>(), "page")
    }

    #[test]
    fn only_files_that_an_earlier_report_wrote_and_nobody_changed_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("mine.csv"), "mine").unwrap();
        write(folder.path(), &["a.csv", "b.csv", "c.svg"], "first").unwrap();
        std::fs::write(path("b.csv"), "changed").unwrap();
        write(folder.path(), &["a.csv"], "second").unwrap();
        let text = |name: &str| std::fs::read_to_string(path(name)).ok();
        assert_eq!(text("a.csv").as_deref(), Some("second"));
        assert_eq!(text("b.csv").as_deref(), Some("changed"));
        assert_eq!(text("c.svg"), None);
        assert_eq!(text("mine.csv").as_deref(), Some("mine"));
        // What stayed is no longer a report's.
        std::fs::write(path("b.csv"), "first").unwrap();
        write(folder.path(), &[], "third").unwrap();
        assert_eq!(text("b.csv").as_deref(), Some("first"));
        assert_eq!(text("a.csv"), None);
    }

    #[test]
    fn a_list_reaches_no_other_folder_and_a_file_in_its_place_stays() {
        let place = tempfile::tempdir().unwrap();
        let (folder, other) = (place.path().join("out"), place.path().join("mine.csv"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(&other, "mine").unwrap();
        let names = ["../mine.csv".to_owned(), other.display().to_string()];
        let digests: Digests = names.map(|name| (name, digest(b"mine"))).into();
        let list = folder.join(LIST);
        std::fs::write(&list, serde_json::to_string(&digests).unwrap()).unwrap();
        write(&folder, &[], "").unwrap();
        assert!(other.is_file());
        std::fs::write(&list, "mine").unwrap();
        let error = write(&folder, &["a.csv"], "").unwrap_err().to_string();
        assert!(error.contains(LIST) && error.ends_with("remove or rename it"));
        assert_eq!(std::fs::read_to_string(&list).unwrap(), "mine");
    }
}
