//! Where the real data sets are: `../shared/data` beside the repository, or `$RAPID_TEST_DATA`.

#![allow(dead_code, reason = "not every test asks for both")]

use std::path::{Path, PathBuf};

/// The folder, whether it is there or not.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os("RAPID_TEST_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"),
        PathBuf::from,
    )
}

/// The folder, where it holds a data set; `None`, and a line that says so, where it does not.
pub(crate) fn holding(name: &str) -> Option<PathBuf> {
    let folder = folder();
    if folder.join(name).is_dir() {
        return Some(folder);
    }
    eprintln!(
        "SKIPPED: {name}/ is not in {}; RAPID_TEST_DATA names the folder that holds it",
        folder.display()
    );
    None
}
