//! Where tests find real data sets: `$RAPID_TEST_DATA` (otherwise `../shared/data` beside the repository), else the cache folder, else the excerpts that the
//! repository holds; with `RAPID_TEST_DATA=excerpts` at once in these. The tests of other crates include this file by its path.

#![allow(dead_code, reason = "not every test asks for everything")]
#![allow(unreachable_pub, reason = "one of the crates hands it on")]

use std::path::{Path, PathBuf};

use datasets::fetch::{ArtifactKind, locate};

/// A folder that holds a data set.
#[derive(Debug, Clone)]
pub struct Records {
    /// Data sets by their names, as `--data-dir` takes it.
    pub folder: PathBuf,
    /// Whether all of its records are there; an excerpt has a dozen.
    pub whole: bool,
}

impl Records {
    /// Labelled completions of MBPP+'s tasks: a model's beside the whole data set, else those written for the excerpt.
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

/// The records of a data set. What is missing is printed: all of them, or all but the excerpt's.
pub fn holding(name: &str) -> Option<Records> {
    let whole = |folder: PathBuf| Records {
        folder,
        whole: true,
    };
    let excerpt = Records {
        folder: excerpts(),
        whole: false,
    };
    let has_excerpt = excerpt.folder.join(name).is_dir();
    let beside = beside();
    if has_excerpt && beside == Path::new("excerpts") {
        eprintln!(
            "SKIPPED: all records of {name} but those of datasets/excerpts, as RAPID_TEST_DATA says"
        );
        return Some(excerpt);
    }
    if beside.join(name).is_dir() {
        return Some(whole(beside));
    }
    let remedy = format!(
        "it is neither in {} (RAPID_TEST_DATA names another folder) nor in the cache folder (rapid fetch dataset:{name})",
        beside.display()
    );
    if let Some(cached) = locate(ArtifactKind::Dataset, name) {
        return cached.parent().map(|folder| whole(folder.to_owned()));
    }
    let missing = if has_excerpt {
        "all records but those of datasets/excerpts"
    } else {
        "what needs it"
    };
    eprintln!("SKIPPED: {name}, {missing}: {remedy}");
    has_excerpt.then_some(excerpt)
}

fn root() -> &'static Path {
    // Every crate whose tests read data lies directly in the repository.
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a crate lies in the repository")
}

fn beside() -> PathBuf {
    std::env::var_os("RAPID_TEST_DATA").map_or_else(|| root().join("../shared/data"), PathBuf::from)
}

/// The repository's excerpts, in the layout of a data folder.
pub fn excerpts() -> PathBuf {
    root().join("datasets/excerpts")
}
