//! Loads a file that claims to be GGUF as a model: configuration, tokenizer, weights.
//!
//! ```sh
//! bash scripts/fuzz.sh 300 gguf
//! ```
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

/// The file is in memory, if the system has such a folder.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let shared = PathBuf::from("/dev/shm");
    let folder = if shared.is_dir() { shared } else { std::env::temp_dir() };
    folder.join(format!("engine-fuzz-{}.gguf", std::process::id()))
});

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(&*FILE, bytes).expect("a file in the temporary folder");
    if let Ok(loaded) = engine::load::open(&FILE) {
        // An accepted file is complete: every weight exists in the configured shape.
        for (name, shape) in loaded.config.tensor_shapes() {
            let tensor = &loaded.weights.tensors[&name];
            assert_eq!(tensor.shape, shape);
            assert_eq!(tensor.data.len(), shape.iter().product::<usize>());
        }
        // No two tensors overlap, and the densest blocks hold 32 values in 18 bytes.
        let values: usize = loaded.weights.tensors.values().map(|tensor| tensor.data.len()).sum();
        assert!(values * 18 <= bytes.len() * 32);
    }
});
