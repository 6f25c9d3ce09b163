//! From files to tasks: one file here for each form of record.
//!
//! A data folder holds `mbppplus/train.jsonl` and `eval.jsonl` (or `mbppplus/evalplus-v0.1.0.jsonl`), `math/train.jsonl` and
//! `eval.jsonl`, `gsm8k/train.jsonl` and `eval.jsonl`, `minif2f/minif2f.jsonl`, and `humaneval/HumanEval.jsonl` (or `.jsonl.gz`). The cache folder has the same layout.

mod evalplus;
mod gsm8k;
mod humaneval;
mod math;
mod mbppplus;
mod minif2f;
mod user_file;
mod record;
mod starter;

use std::path::{Path, PathBuf};

use crate::fetch::{self, ArtifactKind};
use crate::did_you_mean::nearest;
use crate::{Dataset, DatasetError};

/// The data sets that have a name.
pub const NAMES: [&str; 8] = [
    "mbppplus",
    "math",
    "gsm8k",
    "minif2f",
    "humaneval",
    "starter-math",
    "starter-code",
    "starter-lean",
];

/// Reads a data set: one of [`NAMES`], or the path of a `.jsonl` file of one's own (its form is described in `user_file.rs`).
///
/// The files of a named data set are looked for in `data_dir`, where one is given, and then in the cache folder. The
/// starter sets are part of the program.
///
/// # Errors
/// [`DatasetError`]: an unknown name, files that are nowhere, and a file that cannot be read or has a wrong record.
pub fn open(name: &str, data_dir: Option<&Path>) -> Result<Dataset, DatasetError> {
    let is_path = Path::new(name)
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("jsonl"));
    let places = || places(name, data_dir);
    match name {
        _ if is_path => user_file::open(Path::new(name)),
        "mbppplus" => mbppplus::open(&places()),
        "math" => math::open(&places()),
        "gsm8k" => gsm8k::open(&places()),
        "minif2f" => minif2f::open(&places()),
        "humaneval" => humaneval::open(&places()),
        "starter-math" | "starter-code" | "starter-lean" => starter::open(name),
        _ => Err(DatasetError::Unknown {
            name: name.to_owned(),
            nearest: nearest(name, NAMES).map(str::to_owned),
            known: NAMES.join(", "),
        }),
    }
}

/// The folders in which a named data set may lie, in order.
fn places(name: &str, data_dir: Option<&Path>) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = data_dir.map(|dir| dir.join(name)).into_iter().collect();
    places.extend(fetch::locate(ArtifactKind::Dataset, name));
    if places.is_empty() {
        places.push(fetch::folder(ArtifactKind::Dataset, name));
    }
    places
}

/// The first of `places` that holds all of `files`, as the paths of those files.
fn files_in<const N: usize>(
    name: &str,
    places: &[PathBuf],
    files: [&str; N],
) -> Result<[PathBuf; N], DatasetError> {
    places
        .iter()
        .map(|place| files.map(|file| place.join(file)))
        .find(|paths| paths.iter().all(|path| path.is_file()))
        .ok_or_else(|| DatasetError::Missing {
            name: name.to_owned(),
            looked_for: places
                .iter()
                .flat_map(|place| files.map(|file| place.join(file)))
                .collect(),
        })
}
