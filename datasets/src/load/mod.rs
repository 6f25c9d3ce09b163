//! Loads tasks from files. There is one module for each form of record.
//!
//! A data folder contains `mbppplus/train.jsonl` and `eval.jsonl` (or `mbppplus/evalplus-v0.1.0.jsonl`), `math/train.jsonl` and
//! `eval.jsonl`, `gsm8k/train.jsonl` and `eval.jsonl`, `minif2f/minif2f.jsonl`, and `humaneval/HumanEval.jsonl` (or `.jsonl.gz`). The cache folder has the same layout.

mod evalplus;
mod gsm8k;
mod humaneval;
mod math;
mod mbppplus;
mod minif2f;
mod record;
mod starter;
mod user_file;

use std::path::{Path, PathBuf};

use crate::did_you_mean::nearest;
use crate::fetch::{self, ArtifactKind};
use crate::{Dataset, DatasetError};

/// The names of the data sets.
pub const NAMES: [&str; 9] = [
    "mbppplus",
    "math",
    "gsm8k",
    "minif2f",
    "humaneval",
    "starter-math",
    "starter-math-400",
    "starter-code",
    "starter-lean",
];

/// Reads a data set: one of [`NAMES`], or the path of a user's `.jsonl` file (its form is described in `user_file.rs`).
///
/// The files of a named data set are looked for in `data_dir`, if it is given, and then in the cache folder. The starter sets are
/// part of the program.
///
/// # Errors
/// [`DatasetError`] for an unknown name, missing files, and a file that cannot be read or has a wrong record.
pub fn open(name: &str, data_dir: Option<&Path>) -> Result<Dataset, DatasetError> {
    let is_path = Path::new(name)
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("jsonl"));
    let folders = || folders(name, data_dir);
    match name {
        _ if is_path => user_file::open(Path::new(name)),
        "mbppplus" => mbppplus::open(&folders()),
        "math" => math::open(&folders()),
        "gsm8k" => gsm8k::open(&folders()),
        "minif2f" => minif2f::open(&folders()),
        "humaneval" => humaneval::open(&folders()),
        "starter-math" | "starter-math-400" | "starter-code" | "starter-lean" => {
            starter::open(name)
        }
        _ => Err(DatasetError::Unknown {
            name: name.to_owned(),
            nearest: nearest(name, NAMES).map(str::to_owned),
            known: NAMES.join(", "),
        }),
    }
}

/// The folders in which a named data set is looked for, in order.
fn folders(name: &str, data_dir: Option<&Path>) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = data_dir.map(|dir| dir.join(name)).into_iter().collect();
    folders.extend(fetch::locate(ArtifactKind::Dataset, name));
    if folders.is_empty() {
        folders.push(fetch::folder(ArtifactKind::Dataset, name));
    }
    folders
}

/// The paths of `files` in the first of `folders` that contains all of them.
fn files_in<const N: usize>(
    name: &str,
    folders: &[PathBuf],
    files: [&str; N],
) -> Result<[PathBuf; N], DatasetError> {
    folders
        .iter()
        .map(|folder| files.map(|file| folder.join(file)))
        .find(|paths| paths.iter().all(|path| path.is_file()))
        .ok_or_else(|| DatasetError::Missing {
            name: name.to_owned(),
            looked_for: folders
                .iter()
                .flat_map(|folder| files.map(|file| folder.join(file)))
                .collect(),
        })
}
