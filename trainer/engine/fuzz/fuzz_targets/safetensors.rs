//! Loads a checkpoint's folder with an arbitrary `model.safetensors`: a header's JSON, preceded by its length, or, if the first byte is odd, raw bytes.
//!
//! ```sh
//! bash scripts/fuzz.sh 300 safetensors
//! ```
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

const CONFIG: &str = r#"{
  "model_type": "llama", "vocab_size": 12, "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2,
  "num_key_value_heads": 1, "max_position_embeddings": 16, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true, "hidden_act": "silu"
}"#;

const TOKENIZER: &str = r#"{"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}"#;

/// The folder is in memory, if the system has such a place.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let shared = PathBuf::from("/dev/shm");
    let folder = if shared.is_dir() { shared } else { std::env::temp_dir() };
    let folder = folder.join(format!("engine-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    for (name, text) in [("config.json", CONFIG), ("tokenizer.json", TOKENIZER)] {
        std::fs::write(folder.join(name), text).expect("a file in the temporary folder");
    }
    folder
});

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let file = if first % 2 == 1 {
        rest.to_vec()
    } else {
        // The header ends where its JSON does; the remaining bytes are the tensors' data.
        let end = rest.iter().rposition(|byte| *byte == b'}').map_or(rest.len(), |last| last + 1);
        let mut file = (end as u64).to_le_bytes().to_vec();
        file.extend(rest);
        file
    };
    std::fs::write(FOLDER.join("model.safetensors"), &file).expect("a file in the temporary folder");
    if let Ok(loaded) = engine::load::open(&FOLDER) {
        for (name, shape) in loaded.config.tensor_shapes() {
            let tensor = &loaded.weights.tensors[&name];
            assert_eq!(tensor.shape, shape);
            assert_eq!(tensor.data.len(), shape.iter().product::<usize>());
        }
        // No two tensors overlap, and a value has at least 2 bytes.
        let values: usize = loaded.weights.tensors.values().map(|tensor| tensor.data.len()).sum();
        assert!(values * 2 <= file.len());
    }
});
