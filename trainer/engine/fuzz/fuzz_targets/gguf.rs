//! A file that claims to be GGUF, loaded as a model: configuration, tokenizer, weights.
//!
//! ```sh
//! cargo install cargo-fuzz
//! cd trainer/engine && mkdir -p fuzz/corpus/gguf && cargo fuzz run gguf fuzz/corpus/gguf fuzz/seeds/gguf -- -max_len=20000 -rss_limit_mb=600 -malloc_limit_mb=200
//! ```
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

/// In memory, where the system has such a place.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let shared = PathBuf::from("/dev/shm");
    let folder = if shared.is_dir() { shared } else { std::env::temp_dir() };
    folder.join(format!("engine-fuzz-{}.gguf", std::process::id()))
});

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(&*FILE, bytes).expect("a file in the temporary folder");
    if let Ok(loaded) = engine::load::open(&FILE) {
        // Nothing is accepted in part: every weight is there in the shape that the configuration gives it.
        for (name, shape) in loaded.config.tensor_shapes() {
            let tensor = &loaded.weights.tensors[&name];
            assert_eq!(tensor.shape, shape);
            assert_eq!(tensor.data.len(), shape.iter().product::<usize>());
        }
        // No tensor lies where another does, and blocks hold 32 values in 18 bytes at most.
        let values: usize = loaded.weights.tensors.values().map(|tensor| tensor.data.len()).sum();
        assert!(values * 18 <= bytes.len() * 32);
    }
});
