//! The files on which a grader's rewards depend, and the digest of their content.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::settings::CustomSettings;
use crate::cache::KeyWriter;
use crate::mutex::lock;

/// The files of a grader. They are read again only when one of them has changed by its metadata, since the digest is part of every verdict's key.
pub(super) struct Files {
    paths: Vec<PathBuf>,
    version: Option<String>,
    last: Mutex<Last>,
}

/// What was last seen of the files.
#[derive(Default)]
struct Last {
    stamps: Vec<Stamp>,
    content: Content,
}

/// The content of the files at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// Digest of all of them, or the version in the configuration.
    pub(super) digest: String,
    /// How often they have changed, also from one content and back.
    pub(super) changes: u64,
}

/// What changes with a file's content: device, inode, size, and the times of the last change of content and metadata, in nanoseconds.
type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

impl Files {
    pub(super) fn new(settings: &CustomSettings) -> Files {
        let named = settings.command.iter().map(PathBuf::from);
        let named = named.filter(|path| path.is_file());
        Files {
            paths: match (&settings.version, &settings.files[..]) {
                (Some(_), _) => Vec::new(),
                (None, []) => named.collect(),
                (None, files) => files.iter().map(PathBuf::from).collect(),
            },
            version: settings.version.clone(),
            last: Mutex::default(),
        }
    }

    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Their content now.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(super) fn content(&self) -> Result<Content, String> {
        let mut last = lock(&self.last);
        let stamps = self.stamps()?;
        if last.content.changes == 0 || last.stamps != stamps {
            let digest = match &self.version {
                Some(version) => version.clone(),
                None => self.digest()?,
            };
            // Stamps from before the files were read: if one changes meanwhile, it is read again.
            last.stamps = stamps;
            last.content.digest = digest;
            last.content.changes += 1;
        }
        Ok(last.content.clone())
    }

    fn digest(&self) -> Result<String, String> {
        let mut writer = KeyWriter::new();
        for path in &self.paths {
            let content = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
            writer = writer.field(&content);
        }
        Ok(writer.finish().to_string())
    }

    fn stamps(&self) -> Result<Vec<Stamp>, String> {
        let stamps = self.paths.iter().map(|path| {
            let meta = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
            let (changed, touched) = (
                (meta.mtime(), meta.mtime_nsec()),
                (meta.ctime(), meta.ctime_nsec()),
            );
            Ok((meta.dev(), meta.ino(), meta.size(), changed, touched))
        });
        stamps.collect()
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("its file {} cannot be read: {error}", path.display())
}
