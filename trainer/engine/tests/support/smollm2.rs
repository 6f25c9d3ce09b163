//! Where the real model is.

use std::path::PathBuf;

/// The folder of SmolLM2-135M-Instruct in the cache.
pub(crate) fn folder() -> PathBuf {
    let home = std::env::var_os("RAPID_HOME").map_or_else(
        || {
            std::env::var_os("XDG_CACHE_HOME")
                .map_or_else(
                    || std::env::home_dir().unwrap().join(".cache"),
                    PathBuf::from,
                )
                .join("rapid")
        },
        PathBuf::from,
    );
    let folder = home.join("models/smollm2-135m-instruct");
    assert!(
        folder.is_dir(),
        "{} does not exist; run `rapid fetch model:smollm2-135m-instruct`",
        folder.display()
    );
    folder
}
