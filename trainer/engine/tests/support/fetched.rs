//! What `rapid fetch` and scripts/tokenizers.sh have put into the cache folder.

#![allow(dead_code)]

use std::path::PathBuf;

/// A folder of the cache; `None`, and a line that says so, where it is not there.
pub(crate) fn folder(name: &str, remedy: &str) -> Option<PathBuf> {
    let home = std::env::var_os("RAPID_HOME").map(PathBuf::from);
    let home = home.or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(std::env::home_dir()?.join(".cache")));
        Some(cache?.join("rapid"))
    })?;
    let folder = home.join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("SKIPPED: {} does not exist; run {remedy}", folder.display());
    None
}

pub(crate) fn gemma() -> Option<PathBuf> {
    folder("models/gemma3-270m", "`rapid fetch model:gemma3-270m`")
}

pub(crate) fn smollm2() -> Option<PathBuf> {
    let remedy = "`rapid fetch model:smollm2-135m-instruct`";
    folder("models/smollm2-135m-instruct", remedy)
}

/// The folder of a family's published tokenizer.
pub(crate) fn tokenizer(family: &str) -> Option<PathBuf> {
    folder(&format!("tokenizers/{family}"), "scripts/tokenizers.sh")
}
