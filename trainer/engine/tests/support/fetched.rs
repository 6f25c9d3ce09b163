//! Files that `rapid fetch` and scripts/tokenizers.sh have put into the cache folder.

#![allow(dead_code)]

use std::path::PathBuf;

use engine::backend::cuda::kernel_cache::home;

/// A folder of the cache, or how to obtain it if it does not exist.
fn cached(name: &str, remedy: &str) -> Result<PathBuf, String> {
    let folder = home().join(name);
    if folder.is_dir() {
        return Ok(folder);
    }
    Err(format!("{} does not exist; run {remedy}", folder.display()))
}

/// A folder of the cache. If it does not exist, returns `None` and prints that a test is skipped.
pub(crate) fn folder(name: &str, remedy: &str) -> Option<PathBuf> {
    cached(name, remedy)
        .inspect_err(|why| eprintln!("SKIPPED: {why}"))
        .ok()
}

pub(crate) fn gemma() -> Option<PathBuf> {
    folder("models/gemma3-270m", "`rapid fetch model:gemma3-270m`")
}

/// SmolLM2's folder, for tests that fail without it.
pub(crate) fn needed_smollm2() -> PathBuf {
    let remedy = "`rapid fetch model:smollm2-135m-instruct`";
    cached("models/smollm2-135m-instruct", remedy).unwrap_or_else(|why| panic!("{why}"))
}

/// The folder of a family's published tokenizer.
pub(crate) fn tokenizer(family: &str) -> Option<PathBuf> {
    folder(&format!("tokenizers/{family}"), "scripts/tokenizers.sh")
}
