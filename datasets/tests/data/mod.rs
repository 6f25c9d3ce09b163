//! Finds real data sets for tests: in `$RAPID_TEST_DATA` (otherwise `../shared/data` beside the repository), else in the cache folder, else in the repository's
//! excerpts. With `RAPID_TEST_DATA=excerpts`, always in the excerpts. The tests of other crates include this file by its path.

#![allow(dead_code, reason = "not every test uses everything")]
#![allow(unreachable_pub, reason = "one of the crates re-exports it")]

use std::path::{Path, PathBuf};

use datasets::fetch::{ArtifactKind, locate};

/// A folder with a data set.
#[derive(Debug, Clone)]
pub struct Records {
    /// The folder, in the layout of `--data-dir`.
    pub folder: PathBuf,
    /// Whether it has all records. An excerpt has a dozen.
    pub whole: bool,
}

impl Records {
    /// Labelled completions of MBPP+'s tasks: a model's, if they are beside the whole data set, else those written for the excerpt.
    pub fn samples(&self) -> PathBuf {
        let models = self
            .folder
            .join("samples/mbppplus-qwen2.5-coder-1.5b.jsonl");
        if models.is_file() {
            return models;
        }
        excerpts().join("samples/mbppplus-written.jsonl")
    }
}

/// The records of a data set. If records are missing, a `SKIPPED` line says which.
pub fn holding(name: &str) -> Option<Records> {
    let (excerpts, data_folder) = (excerpts(), data_folder());
    let excerpt = excerpts.join(name).is_dir().then_some(Records {
        folder: excerpts,
        whole: false,
    });
    if excerpt.is_some() && data_folder == Path::new("excerpts") {
        eprintln!(
            "SKIPPED: all records of {name} but those of datasets/excerpts, as RAPID_TEST_DATA says"
        );
        return excerpt;
    }
    let cached = || Some(locate(ArtifactKind::Dataset, name)?.parent()?.to_owned());
    let is_there = data_folder.join(name).is_dir();
    if let Some(folder) = is_there.then(|| data_folder.clone()).or_else(cached) {
        let whole = true;
        return Some(Records { folder, whole });
    }
    let missing = match excerpt {
        Some(_) => "all records but those of datasets/excerpts",
        None => "the tests that need it",
    };
    eprintln!(
        "SKIPPED: {name}, {missing}: it is neither in {} (RAPID_TEST_DATA names another folder) nor in the cache folder (rapid fetch dataset:{name})",
        data_folder.display()
    );
    excerpt
}

fn root() -> &'static Path {
    // Every crate with tests that read data is directly in the repository.
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a crate is in a folder of the repository")
}

fn data_folder() -> PathBuf {
    std::env::var_os("RAPID_TEST_DATA").map_or_else(|| root().join("../shared/data"), PathBuf::from)
}

/// The repository's excerpts, in the layout of a data folder.
pub fn excerpts() -> PathBuf {
    root().join("datasets/excerpts")
}
