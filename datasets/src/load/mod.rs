//! Loads tasks from files. There is one module for each form of record.
//!
//! A data folder contains `mbppplus/train.jsonl` and `eval.jsonl` (or `mbppplus/evalplus-v0.1.0.jsonl`), `math/train.jsonl` and
//! `eval.jsonl`, `gsm8k/train.jsonl` and `eval.jsonl`, `minif2f/minif2f.jsonl`, and `humaneval/HumanEval.jsonl` (or `.jsonl.gz`). The cache folder has the same layout.

mod columns;
mod evalplus;
mod gsm8k;
mod hub;
mod humaneval;
mod math;
mod mbppplus;
mod minif2f;
mod parquet;
mod published;
mod record;
mod rows;
mod source;
mod starter;
mod user_file;

use std::path::{Path, PathBuf};

use crate::did_you_mean::nearest;
use crate::fetch::{self, ArtifactKind};
use crate::{Dataset, DatasetError, Task};

pub use source::{Source, is_user_file};

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

impl Source {
    /// Reads the data set: one of [`NAMES`], the file of a user (`user_file.rs`), or a data set of the hub (`hub.rs`).
    ///
    /// The files of a named data set are looked for in `data_dir`, if it is given, and then in the cache folder. Those of the hub are also looked for in the cache
    /// of Hugging Face's own programs. The starter sets are part of the program.
    ///
    /// # Errors
    /// [`DatasetError`] for an unknown name, settings that do not fit the data set, and missing files. Also for files of another version in the cache folder, and
    /// for a file that cannot be read or has a wrong record.
    pub fn open(&self, data_dir: Option<&Path>) -> Result<Dataset, DatasetError> {
        self.check()?;
        match self.dataset.as_str() {
            name if is_user_file(name) => user_file::open(self),
            _ if self.is_of_hub() => hub::open(self, data_dir),
            name => named(name, data_dir),
        }
    }
}

/// Reads the data set with this name, or in this file.
///
/// # Errors
/// As [`Source::open`].
pub fn open(name: &str, data_dir: Option<&Path>) -> Result<Dataset, DatasetError> {
    Source::named(name).open(data_dir)
}

fn named(name: &str, data_dir: Option<&Path>) -> Result<Dataset, DatasetError> {
    let load: fn(&Folder<'_>) -> Result<Dataset, DatasetError> = match name {
        "mbppplus" => mbppplus::open,
        "math" => |folder| folder.splits(math::tasks),
        "gsm8k" => |folder| folder.splits(gsm8k::tasks),
        "minif2f" => minif2f::open,
        "humaneval" => humaneval::open,
        "starter-math" | "starter-math-400" | "starter-code" | "starter-lean" => {
            return starter::open(name);
        }
        _ => {
            return Err(DatasetError::Unknown {
                name: name.to_owned(),
                nearest: nearest(name, NAMES).map(str::to_owned),
                known: NAMES.join(", "),
            });
        }
    };
    let cached = || {
        load(&Folder {
            name,
            path: fetch::folder(ArtifactKind::Dataset, name),
            in_cache: true,
        })
    };
    let Some(dir) = data_dir else {
        return cached();
    };
    let given = load(&Folder {
        name,
        path: dir.join(name),
        in_cache: false,
    });
    or_if_missing(given, cached)
}

/// What `other` gives, if the files of `first` are missing. If both are missing, the error names the files of `first`.
fn or_if_missing(
    first: Result<Dataset, DatasetError>,
    other: impl FnOnce() -> Result<Dataset, DatasetError>,
) -> Result<Dataset, DatasetError> {
    match first {
        Err(missing @ DatasetError::Missing { .. }) => match other() {
            Err(DatasetError::Missing { .. }) => Err(missing),
            outcome => outcome,
        },
        outcome => outcome,
    }
}

/// A folder with the files of a named data set.
struct Folder<'a> {
    name: &'a str,
    path: PathBuf,
    /// Whether it is in the cache folder. There, a file that the manifest names has to be that one. Elsewhere it is the user's choice.
    in_cache: bool,
}

impl Folder<'_> {
    /// The data set in the files `train.jsonl` and `eval.jsonl`; `tasks` reads a split.
    fn splits(
        &self,
        tasks: impl Fn(&Path) -> Result<Vec<Task>, DatasetError>,
    ) -> Result<Dataset, DatasetError> {
        let [train, eval] = self.files(["train.jsonl", "eval.jsonl"])?;
        Ok(Dataset {
            name: self.name.to_owned(),
            train: tasks(&train)?,
            eval: tasks(&eval)?,
        })
    }

    /// The paths of `files`, if all exist.
    fn files<const N: usize>(&self, files: [&str; N]) -> Result<[PathBuf; N], DatasetError> {
        let paths = files.map(|file| self.path.join(file));
        if !paths.iter().all(|path| path.is_file()) {
            return Err(DatasetError::Missing {
                name: self.name.to_owned(),
                looked_for: paths.into(),
            });
        }
        for file in files.into_iter().filter(|_| self.in_cache) {
            let kind = ArtifactKind::Dataset;
            if let Some(difference) =
                fetch::difference_from_manifest(kind, self.name, &self.path, file)
            {
                return Err(DatasetError::OtherVersion {
                    name: self.name.to_owned(),
                    path: self.path.join(file),
                    difference,
                });
            }
        }
        Ok(paths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_version_is_refused_in_the_cache_folder() {
        let home = tempfile::tempdir().unwrap();
        let folder = |in_cache| Folder {
            name: "humaneval",
            path: home.path().to_owned(),
            in_cache,
        };
        let manifest = crate::manifest::find(ArtifactKind::Dataset, "humaneval").unwrap();
        let (file, size) = (manifest.files[0].path.as_str(), manifest.files[0].size);
        let write = |name: &str, size: u64| {
            let file = std::fs::File::create(home.path().join(name)).unwrap();
            file.set_len(size).unwrap();
        };
        let refused = |difference: &str| {
            // It is not hidden by another form of the data set that does not exist.
            let error = humaneval::open(&folder(true)).unwrap_err().to_string();
            let path = home.path().join(file);
            assert!(
                error.starts_with(&format!("{} {difference}", path.display()))
                    && error.contains("`rapid fetch dataset:humaneval`"),
                "{error}"
            );
            assert!(folder(false).files([file]).is_ok());
        };

        write(file, size);
        assert!(folder(true).files([file]).is_ok(), "put there by hand");
        write(file, size - 1);
        refused(&format!("has {} bytes instead of {size}", size - 1));

        write(file, size);
        let old = "0".repeat(64);
        let receipt = serde_json::json!({ "kind": "dataset", "name": "humaneval", "source": "",
                                          "files": [{ "path": file, "size": size, "sha256": old }] });
        std::fs::write(home.path().join("fetched.json"), receipt.to_string()).unwrap();
        refused(&format!("was fetched with the SHA-256 {old} instead of"));

        // The manifest doesn't list this form of the data set, so it was put there by hand.
        write("HumanEval.jsonl", 3);
        assert!(folder(true).files(["HumanEval.jsonl"]).is_ok());
    }

    #[test]
    fn the_cache_folder_is_used_if_the_data_folder_lacks_the_files() {
        let missing = |file: &str| {
            Err(DatasetError::Missing {
                name: String::new(),
                looked_for: vec![file.into()],
            })
        };
        let found = or_if_missing(missing("a"), || starter::open("starter-code"));
        assert_eq!(found.unwrap().name, "starter-code");
        let error = or_if_missing(missing("a"), || missing("b")).unwrap_err();
        assert!(error.to_string().contains("(looked for a)"), "{error}");
    }
}
