//! Takes files of hub repositories from the cache that Hugging Face's own programs share.
//!
//! A repository's folder in that cache holds contents (`blobs/`), the commits of branches and tags (`refs/`), and the files of
//! each commit as links to their contents (`snapshots/COMMIT/`). If a recent program downloaded the whole commit, it also holds
//! the hub's list of the commit's files (`trees/COMMIT.json`). None of it is trusted: a file has to lie in that folder, and its
//! size and SHA-256 have to match the manifest or the hub's list. If neither states a SHA-256, a large file has to match the
//! one that its content is named by, and a small one its size.
//!
//! Files are hard-linked where the system allows it, so both caches share them. This code may therefore not write into a file
//! of a fetched folder, or change its permissions: files are replaced, never altered.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::checksum::{Downloaded, Expected};
use super::error::{Failure, local};
use super::folder::{files_under, is_inside};
use super::hub::{Lfs, Listed, Listing, MAX_LISTING, Repository, is_commit, is_digest, select};
use super::progress::Progress;

/// A repository's folder in the cache.
pub(super) struct Cached(PathBuf);

/// `trees/COMMIT.json`: the hub's list of a commit's files.
#[derive(Deserialize)]
struct Tree {
    format_version: u32,
    files: BTreeMap<String, TreeFile>,
}

#[derive(Deserialize)]
struct TreeFile {
    size: u64,
    lfs_sha256: Option<String>,
}

impl Cached {
    pub(super) fn new(cache: &Path, repository: &Repository<'_>) -> Cached {
        let name = format!("{}/{}", repository.kind(), repository.repo);
        Cached(cache.join(name.replace('/', "--")))
    }

    fn snapshot(&self, commit: &str) -> PathBuf {
        self.0.join("snapshots").join(commit)
    }

    /// The files that match `include` at the revision's commit, as far as the cache has them. The error is a sentence without
    /// its full stop.
    pub(super) fn list(
        &self,
        repository: &Repository<'_>,
        include: &[String],
    ) -> Result<Listing, String> {
        let commit = self.commit(repository)?;
        let tree = self.tree(&commit);
        let is_whole = tree.is_some();
        let files = tree.unwrap_or_else(|| self.files(&commit));
        let all = Listing { commit, files };
        let listing = select(all, repository, include, "the cache of Hugging Face")?;
        let by_pattern = include.iter().any(|pattern| pattern.contains('*'));
        let names: Vec<&str> = listing.files.iter().map(|f| f.name.as_str()).collect();
        match missing(&names).filter(|_| by_pattern && !is_whole && !repository.dataset) {
            Some(missing) => Err(format!(
                "the cache of Hugging Face has only a part of {}@{}: it lacks {missing}",
                repository.repo, repository.revision
            )),
            None => Ok(listing),
        }
    }

    /// The revision's commit: the revision itself if it is a commit, otherwise the one that a program of Hugging Face found last.
    fn commit(&self, repository: &Repository<'_>) -> Result<String, String> {
        let Repository { repo, revision, .. } = *repository;
        if is_commit(revision) {
            return Ok(revision.to_owned());
        }
        let file = self.0.join("refs").join(revision);
        if !is_inside(revision) || file.symlink_metadata().is_err() {
            return Err(format!(
                "the cache of Hugging Face, {}, does not contain {repo}@{revision}",
                self.0.display()
            ));
        }
        match self.read(&file, 1 << 10)?.trim() {
            commit if is_commit(commit) => Ok(commit.to_owned()),
            _ => Err(format!("{} does not contain a commit", file.display())),
        }
    }

    /// The hub's list of the commit's files, if a program that downloaded all of them left it, in the expected form.
    fn tree(&self, commit: &str) -> Option<Vec<Listed>> {
        let file = self.0.join("trees").join(format!("{commit}.json"));
        let tree: Tree = serde_json::from_str(&self.read(&file, MAX_LISTING).ok()?).ok()?;
        let mut digests = tree.files.values().filter_map(|f| f.lfs_sha256.as_ref());
        let is_expected = tree.format_version == 1 && digests.all(|digest| is_digest(digest, 64));
        let listed = |(name, file): (String, TreeFile)| Listed {
            name,
            size: Some(file.size),
            lfs: file.lfs_sha256.map(|sha256| Lfs { sha256 }),
        };
        is_expected.then(|| tree.files.into_iter().map(listed).collect())
    }

    fn read(&self, path: &Path, most: usize) -> Result<String, String> {
        let mut text = String::new();
        File::open(self.resolve(path)?)
            .and_then(|file| file.take(most as u64).read_to_string(&mut text))
            .map_err(|e| format!("{} cannot be read ({e})", path.display()))?;
        Ok(text)
    }

    /// The commit's files that are in the cache.
    fn files(&self, commit: &str) -> Vec<Listed> {
        // The cache itself does not link to folders; `take` refuses such a link.
        let found = files_under(&self.snapshot(commit)).into_iter();
        found.map(|(name, _)| Listed::named(name)).collect()
    }

    /// The files of [`Cached::list`] that are in the cache, in place.
    pub(super) fn in_place(
        &self,
        repository: &Repository<'_>,
        include: &[String],
    ) -> Result<Vec<(String, PathBuf)>, String> {
        let Listing { commit, files } = self.list(repository, include)?;
        let snapshot = self.snapshot(&commit);
        let paths = files
            .into_iter()
            .map(|file| (snapshot.join(&file.name), file.name));
        // A link is read under its own name, since that tells the format.
        let is_there = |path: &PathBuf| self.resolve(path).is_ok();
        Ok(paths
            .filter(|(path, _)| is_there(path))
            .map(|(path, name)| (name, path))
            .collect())
    }

    /// Links or copies a commit's file to `at`, where nothing may exist yet, and checks it. Returns `None` if the cache does not
    /// have it. The reason of a [`Failure::Source`] is a sentence without its full stop; nothing exists at `at` then.
    pub(super) fn take(
        &self,
        commit: &str,
        name: &str,
        at: &Path,
        path: &str,
        expected: &Expected,
        progress: &dyn Progress,
    ) -> Result<Option<Downloaded>, Failure> {
        let link = self.snapshot(commit).join(name);
        if link.symlink_metadata().is_err() {
            return Ok(None);
        }
        let file = self.resolve(&link).map_err(Failure::Source)?;
        let size = file.metadata().map_or(0, |found| found.len());
        let what = format!("{name} from the cache of Hugging Face");
        progress.begin(&what, Some(size), size);
        let outcome = link_or_copy(&file, at).and_then(|()| check(&file, at, path, expected));
        progress.end();
        outcome.map(Some)
    }

    /// The target of a link of the cache. It has to lie in the repository's own folder.
    fn resolve(&self, link: &Path) -> Result<PathBuf, String> {
        let wrong = |what: String| format!("{} {what}", link.display());
        let file = link
            .canonicalize()
            .map_err(|e| wrong(format!("does not lead to a file ({e})")))?;
        let folder = self.0.canonicalize();
        if !folder.is_ok_and(|folder| file.starts_with(folder)) {
            let target = file.display();
            return Err(wrong(format!(
                "leads out of its repository's folder, to {target}"
            )));
        }
        if !file.is_file() {
            return Err(wrong("is not a file".to_owned()));
        }
        Ok(file)
    }
}

/// Hard-links a file, or copies it where that is not possible: across file systems, or if it belongs to another user.
fn link_or_copy(file: &Path, at: &Path) -> Result<(), Failure> {
    if let Some(parent) = at.parent() {
        std::fs::create_dir_all(parent).map_err(local(at))?;
    }
    if std::fs::hard_link(file, at).is_ok() {
        return Ok(());
    }
    let mut from = File::open(file)
        .map_err(|e| Failure::Source(format!("{} cannot be read ({e})", file.display())))?;
    let mut to = File::create_new(at).map_err(local(at))?;
    std::io::copy(&mut from, &mut to)
        .and_then(|_| to.sync_all())
        .map_err(|e| local(at)(e).into())
}

/// Checks the size and SHA-256 of the file that was linked or copied to `at`, and removes it from there if they differ. If no SHA-256 is known, a large file has to
/// match the name of its content in the cache.
fn check(file: &Path, at: &Path, path: &str, expected: &Expected) -> Result<Downloaded, Failure> {
    let is_content = file
        .parent()
        .is_some_and(|folder| folder.ends_with("blobs"));
    let named = file.file_name().and_then(|name| name.to_str());
    let named = named.filter(|name| is_content && is_digest(name, 64));
    let expected = Expected {
        size: expected.size,
        sha256: expected.sha256.clone().or(named.map(str::to_owned)),
    };
    // The file in the cache may have been replaced by a link since `resolve` checked it.
    let outcome = if at.symlink_metadata().is_ok_and(|found| found.is_file()) {
        let compared = expected.compare(at, path);
        compared.unwrap_or_else(|e| Err(format!("cannot be read ({e})")))
    } else {
        Err("is not a file any more".to_owned())
    };
    outcome.or_else(|difference| {
        std::fs::remove_file(at).map_err(local(at))?;
        Err(Failure::Source(format!("{} {difference}", file.display())))
    })
}

/// A required file that a model with these files lacks. If a program requested only some files, the cache does not have the
/// others.
fn missing(names: &[&str]) -> Option<&'static str> {
    for name in ["config.json", "tokenizer.json"] {
        if !names.contains(&name) {
            return Some(name);
        }
    }
    // `model-00001-of-00002.safetensors`: each part's name has the number of parts.
    let parts: Vec<usize> = names
        .iter()
        .filter_map(|name| name.strip_suffix(".safetensors")?.rsplit_once("-of-"))
        .filter_map(|(_, total)| total.parse().ok())
        .collect();
    let whole = names.contains(&"model.safetensors.index.json")
        && !parts.is_empty()
        && parts.iter().all(|total| *total == parts.len());
    (!whole && !names.contains(&"model.safetensors")).then_some("weights (*.safetensors)")
}
