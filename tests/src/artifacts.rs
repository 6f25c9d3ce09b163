//! The real artifacts that tests run on. They are in the cache folder, like a user's, and in a folder of data sets beside the repository.

use std::path::{Path, PathBuf};

use datasets::fetch::{ArtifactKind, locate};

use crate::programs::{rapid_verifier, run};
use crate::repository::files_with;

/// SmolLM2-135M-Instruct as a GGUF file. `None` if it was not fetched; prints that the test is skipped.
pub fn model() -> Option<PathBuf> {
    let folder = artifact(ArtifactKind::Model, "smollm2-135m-instruct")?;
    let file = files_with(&folder, "gguf").pop();
    Some(file.unwrap_or_else(|| panic!("{} has no GGUF file", folder.display())))
}

/// The sandbox's Python. `None` if it was not fetched; prints that the test is skipped.
pub fn sandbox() -> Option<PathBuf> {
    artifact(ArtifactKind::Sandbox, "python-wasi")
}

/// Copies the sandbox's compiled module, with its key and tag, into `folder`, and returns its path there.
pub fn compiled(folder: &Path) -> PathBuf {
    // Loading a module makes it the newest.
    let _ = run(&mut rapid_verifier(["doctor"])).success();
    let from = datasets::fetch::home().join("verifier/wasm/compiled");
    let modules = files_with(&from, "cwasm").into_iter();
    let module = modules
        .max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok())
        .unwrap_or_else(|| panic!("no compiled module in {}", from.display()));
    std::fs::create_dir_all(folder).unwrap();
    let copy = |file: &Path| folder.join(file.file_name().unwrap());
    for file in [&from.join("key"), &module.with_extension("tag"), &module] {
        std::fs::copy(file, copy(file)).unwrap();
    }
    copy(&module)
}

fn artifact(kind: ArtifactKind, name: &str) -> Option<PathBuf> {
    let path = locate(kind, name);
    if path.is_none() {
        let fetch = format!("rapid fetch {}:{name}", kind.word());
        skipped(&format!("{name} is not in the cache folder: {fetch}"));
    }
    path
}

/// Whether what takes minutes runs in full: `RAPID_TEST_LONG=1`. Otherwise prints what is left out.
pub fn long(what: &str) -> bool {
    let long = std::env::var("RAPID_TEST_LONG").is_ok_and(|value| value == "1");
    if !long {
        skipped(&format!("{what}; RAPID_TEST_LONG=1 includes it"));
    }
    long
}

/// Prints on stderr that a test did not run, with the reason. scripts/test.sh repeats these lines at its end.
pub fn skipped(reason: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("SKIPPED: {test}: {reason}");
}
