//! Small models in the supported formats, intact and damaged.

use std::collections::BTreeMap;
use std::path::PathBuf;

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device};
use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

mod end_tokens;
mod exported;
mod families;
mod hostile;

use super::*;
use crate::error::assert_says;
use crate::text::random_model_tokenizer;

const CONFIG: &str = r#"{"model_type": "llama", "vocab_size": 258, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false, "eos_token_id": 256}"#;

fn config() -> ModelConfig {
    ModelConfig::from_json(CONFIG).unwrap()
}

/// Weights that differ between elements and tensors. They are multiples of 1/64 up to 2, which f16 and bf16 represent exactly.
fn weights(config: &ModelConfig) -> Weights {
    let tensors = config.tensor_shapes().into_iter().enumerate();
    let tensors = tensors.map(|(number, (name, shape))| {
        let size: usize = shape.iter().product();
        let data = (0..size).map(|i| ((i * 31 + number * 17) % 257) as f32 / 64.0 - 2.0);
        let data = data.collect();
        (name, Tensor { shape, data })
    });
    let tensors = tensors.collect();
    Weights { tensors }
}

/// Rows of queries and keys in the order of llama.cpp's converter: `reshape(heads, 2, half, columns).swapaxes(1, 2)`.
fn converted(tensor: &Tensor, heads: usize) -> Vec<f32> {
    let half = tensor.shape[0] / heads / 2;
    let columns = tensor.shape[1];
    let mut rows = Vec::new();
    for number in 0..2 * half * heads {
        let (head, pair, which) = (number / (2 * half), number / 2 % half, number % 2);
        let row = head * 2 * half + which * half + pair;
        rows.extend_from_slice(&tensor.data[row * columns..(row + 1) * columns]);
    }
    rows
}

fn metadata() -> BTreeMap<&'static str, Value> {
    let text = |text: &str| Value::String(text.to_owned());
    let texts = |texts: Vec<String>| Value::Array(texts.into_iter().map(Value::String).collect());
    let tokens = [random_model_tokenizer::vocabulary(), vec!["ab".into()]].concat();
    let types = (0..258).map(|id| Value::I32(if id == 256 { 3 } else { 1 }));
    BTreeMap::from([
        ("general.architecture", text("llama")),
        ("llama.embedding_length", Value::U32(64)),
        ("llama.feed_forward_length", Value::U32(96)),
        ("llama.block_count", Value::U32(2)),
        ("llama.attention.head_count", Value::U32(4)),
        ("llama.attention.head_count_kv", Value::U32(2)),
        ("llama.context_length", Value::U32(128)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("tokenizer.ggml.model", text("gpt2")),
        ("tokenizer.ggml.pre", text("smollm")),
        ("tokenizer.ggml.tokens", texts(tokens)),
        ("tokenizer.ggml.token_type", Value::Array(types.collect())),
        ("tokenizer.ggml.merges", texts(vec!["a b".into()])),
        ("tokenizer.ggml.eos_token_id", Value::U32(256)),
        // Outside the vocabulary, so there is none.
        ("tokenizer.ggml.padding_token_id", Value::U32(258)),
        ("tokenizer.chat_template", text("{{ messages[0].content }}")),
    ])
}

/// The tensors of the model in a GGUF file, with its matrices in the given type.
fn gguf_tensors(kind: GgmlDType) -> Vec<(String, QTensor)> {
    let config = config();
    let tensors = weights(&config).tensors.into_iter();
    tensors
        .map(|(name, tensor)| {
            let data = match &name {
                name if name.contains("q_proj") => converted(&tensor, config.num_attention_heads),
                name if name.contains("k_proj") => converted(&tensor, config.num_key_value_heads),
                _ => tensor.data,
            };
            let kind = match tensor.shape.len() {
                1 => GgmlDType::F32,
                _ => kind,
            };
            let name = llama_cpp::llama_cpp_name(&name, config.flags);
            (name, quantised(data, tensor.shape, kind))
        })
        .collect()
}

fn quantised(data: Vec<f32>, shape: Vec<usize>, kind: GgmlDType) -> QTensor {
    let values = candle_core::Tensor::from_vec(data, shape, &Device::Cpu).unwrap();
    QTensor::quantize(&values, kind).unwrap()
}

/// A GGUF file of the model, with its matrices in the given type.
fn gguf(metadata: &BTreeMap<&'static str, Value>, kind: GgmlDType) -> Vec<u8> {
    gguf_bytes(metadata, &gguf_tensors(kind))
}

/// The bytes of a GGUF file.
fn gguf_bytes(metadata: &BTreeMap<&'static str, Value>, tensors: &[(String, QTensor)]) -> Vec<u8> {
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(key, value)| (*key, value)).collect();
    let tensors: Vec<(&str, &QTensor)> =
        tensors.iter().map(|(name, t)| (name.as_str(), t)).collect();
    let mut file = std::io::Cursor::new(Vec::new());
    gguf_file::write(&mut file, &metadata, &tensors).unwrap();
    file.into_inner()
}

struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    fn error(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.write(name, content);
        let error = open(&path).err().expect("it is refused").to_string();
        assert!(error.contains(name) && !error.contains('\n'), "{error}");
        error
    }

    /// The error for the folder as a model.
    fn refusal(&self) -> String {
        let opened = open(self.folder.path());
        opened.err().expect("it is refused").to_string()
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.folder.path().join(name)).unwrap();
    }
}

#[test]
fn a_gguf_file_has_hugging_faces_weights() {
    let files = Files::new();
    for (kind, error) in [(GgmlDType::F32, 0.0), (GgmlDType::Q4_1, 0.14)] {
        let path = files.write("model.gguf", gguf(&metadata(), kind));
        let loaded = open(&path).unwrap();
        assert_eq!(loaded.config, config(), "{kind:?}");
        let expected = weights(&config());
        assert_eq!(loaded.weights.tensors.len(), expected.tensors.len());
        for (name, tensor) in &loaded.weights.tensors {
            let expected = &expected.tensors[name];
            assert_eq!(tensor.shape, expected.shape, "{name}");
            let pairs = tensor.data.iter().zip(&expected.data);
            let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst <= error, "{kind:?} {name}: {worst}");
        }
        let tokens = loaded.text.tokenizer.encode("ab 12<|end|>", true);
        assert_eq!(tokens.unwrap(), [257, 32, 49, 50, 256]);
        assert!(loaded.text.template.is_some());
    }
}

#[test]
fn a_gguf_file_without_a_head_ties_it_to_the_embedding() {
    let files = Files::new();
    let intact = gguf(&metadata(), GgmlDType::F32);
    // Under its new name, the head looks like a tensor of a vision part.
    let name = [&13u64.to_le_bytes()[..], b"output.weight"].concat();
    let at = 8 + intact.windows(name.len()).position(|w| w == name).unwrap();
    let mut tied = intact;
    tied[at..at + 2].copy_from_slice(b"v.");
    let loaded = open(&files.write("model.gguf", &tied)).unwrap();
    assert!(loaded.config.tie_word_embeddings);
    assert!(!loaded.weights.tensors.contains_key("lm_head.weight"));
}

#[test]
fn a_folder_with_one_gguf_file_is_a_model() {
    let files = Files::new();
    assert_says(&files.refusal(), &["neither a config.json nor a GGUF file"]);
    files.write("a.gguf", gguf(&metadata(), GgmlDType::F32));
    assert!(open(files.folder.path()).is_ok());
    files.write("b.gguf", b"");
    assert_says(&files.refusal(), &["several"]);
}

#[test]
fn a_truncated_gguf_file_is_rejected() {
    let files = Files::new();
    let intact = gguf(&metadata(), GgmlDType::Q4_1);
    let (header, data) = (0..2000, 2000..intact.len() - 32);
    let cuts = header.step_by(7).chain(data.step_by(997));
    for length in cuts.chain([intact.len() - 33]) {
        let error = files.error("model.gguf", &intact[..length]);
        assert!(error.contains("cut short"), "{length}: {error}");
    }
}

/// A value of a table's column: a type and a value, or several; `none` for no value.
fn value(column: &str) -> Option<Value> {
    let (kind, rest) = column.split_once(' ').unwrap_or((column, ""));
    let parse = |text: &str| match kind.trim_end_matches('s') {
        "u32" => Value::U32(text.parse().unwrap()),
        "u64" => Value::U64(text.parse().unwrap()),
        "i32" => Value::I32(text.parse().unwrap()),
        "f32" => Value::F32(text.parse().unwrap()),
        _ => Value::String(text.to_owned()),
    };
    match kind {
        "none" => None,
        list if list.ends_with('s') => Some(Value::Array(rest.split('|').map(parse).collect())),
        _ => Some(parse(rest)),
    }
}

#[test]
fn invalid_metadata_is_rejected_by_name() {
    let files = Files::new();
    let llama = (metadata(), gguf_tensors(GgmlDType::F32));
    let gemma = families::gemma();
    for case in include_str!("tests/metadata.tsv").lines().skip(1) {
        let columns: Vec<&str> = case.split('\t').collect();
        let (metadata, tensors) = match columns[0] {
            "llama" => &llama,
            _ => &gemma,
        };
        let mut metadata = metadata.clone();
        match value(columns[2]) {
            Some(value) => metadata.insert(columns[1], value),
            None => metadata.remove(columns[1]),
        };
        let error = files.error("model.gguf", gguf_bytes(&metadata, tensors));
        assert!(error.contains(columns[3]), "{case}: {error}");
    }
}

#[test]
fn pre_tokenizers_are_selected_by_name() {
    let files = Files::new();
    let mut metadata = metadata();
    let merged = |token: &str| Value::Array(vec![Value::String(token.into())]);
    let tokens = [random_model_tokenizer::vocabulary(), vec!["12".into()]].concat();
    let tokens = Value::Array(tokens.into_iter().map(Value::String).collect());
    metadata.insert("tokenizer.ggml.tokens", tokens);
    metadata.insert("tokenizer.ggml.merges", merged("1 2"));
    metadata.insert("tokenizer.ggml.bos_token_id", Value::U32(256));
    for (name, tokens) in [
        ("gpt-2", vec![97, 257]),
        ("smollm", vec![97, 49, 50]),
        ("qwen2", vec![97, 49, 50]),
        // Llama 3 begins a text with its BOS token.
        ("llama-bpe", vec![256, 97, 257]),
    ] {
        metadata.insert("tokenizer.ggml.pre", Value::String(name.into()));
        let path = files.write("model.gguf", gguf(&metadata, GgmlDType::F32));
        let tokenizer = open(&path).unwrap().text.tokenizer;
        assert_eq!(tokenizer.encode("a12", true).unwrap(), tokens, "{name}");
        assert_eq!(tokenizer.decode(&tokens).unwrap(), "a12");
    }
}

#[test]
fn lengths_beyond_the_files_size_allocate_no_memory() {
    let files = Files::new();
    let huge = u64::MAX.to_le_bytes();
    let intact = gguf(&metadata(), GgmlDType::F32);
    let key = b"tokenizer.ggml.tokens";
    let tokens = intact.windows(key.len()).position(|w| w == key).unwrap() + key.len();
    let name = b"token_embd.weight";
    let embedding = intact.windows(name.len()).position(|w| w == name).unwrap() + name.len();
    // The numbers of tensors and of metadata entries; a key's length; an array's length; a tensor's sizes; its offset.
    let sizes = [4, 12, 24].map(|n| embedding + n);
    for at in [8, 16, 24, tokens + 8].into_iter().chain(sizes) {
        let mut damaged = intact.clone();
        damaged[at..at + 8].copy_from_slice(&huge);
        files.error("model.gguf", damaged);
    }
}

fn safetensors(weights: &Weights, dtype: DType) -> Vec<u8> {
    let tensors = weights
        .tensors
        .iter()
        .map(|(name, Tensor { shape, data })| {
            let values = candle_core::Tensor::from_slice(data, shape.as_slice(), &Device::Cpu);
            (name.clone(), values.unwrap().to_dtype(dtype).unwrap())
        });
    let tensors: Vec<_> = tensors.collect();
    ::safetensors::serialize(tensors, None).unwrap()
}

fn folder(files: &Files) {
    files.write("config.json", CONFIG);
    files.write("tokenizer.json", random_model_tokenizer::json().to_string());
    let weights = safetensors(&weights(&config()), DType::F32);
    files.write("model.safetensors", weights);
}

#[test]
fn a_folder_of_safetensors_is_loaded_in_every_float_type() {
    let files = Files::new();
    folder(&files);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        files.write("model.safetensors", safetensors(&weights(&config()), dtype));
        let loaded = open(files.folder.path()).unwrap();
        assert_eq!(loaded.weights, weights(&config()), "{dtype:?}");
        assert_eq!(loaded.config, config());
    }
}

#[test]
fn shards_are_combined() {
    let files = Files::new();
    folder(&files);
    files.remove("model.safetensors");
    let (mut first, mut second) = (weights(&config()), Weights::default());
    let moved = first.tensors.remove("model.norm.weight").unwrap();
    second.tensors.insert("model.norm.weight".into(), moved);
    files.write("a.safetensors", safetensors(&first, DType::F32));
    files.write("b.safetensors", safetensors(&second, DType::F32));
    let index = |map: serde_json::Value| {
        let index = json!({"weight_map": map});
        files.write("model.safetensors.index.json", index.to_string())
    };
    index(
        json!({"model.embed_tokens.weight": "a.safetensors", "model.norm.weight": "b.safetensors"}),
    );
    let loaded = open(files.folder.path()).unwrap();
    assert_eq!(loaded.weights, weights(&config()));

    // A single file wins, with a warning unless the index names it.
    folder(&files);
    for (named, warnings) in [("a.safetensors", 1), ("model.safetensors", 0)] {
        index(json!({"model.norm.weight": named}));
        let text = open(files.folder.path()).unwrap().text;
        assert_eq!(text.warnings.len(), warnings, "{:?}", text.warnings);
    }
    files.remove("model.safetensors");

    index(json!({"x": "../a.safetensors"}));
    assert_says(&files.refusal(), &["not a file of this folder"]);
}

#[test]
fn errors_name_the_files_that_a_folder_lacks() {
    let files = Files::new();
    folder(&files);
    for (name, words) in [
        ("tokenizer.json", "tokenizer.json"),
        ("model.safetensors", "no model.safetensors"),
    ] {
        files.remove(name);
        assert_says(&files.refusal(), &[words]);
        folder(&files);
    }
    let mut incomplete = weights(&config());
    let name = "model.layers.1.mlp.up_proj.weight";
    incomplete.tensors.remove(name);
    files.write("model.safetensors", safetensors(&incomplete, DType::F32));
    assert_says(&files.refusal(), &[name]);
    files.write("config.json", CONFIG.replace("96", "95"));
    assert_says(&files.refusal(), &["[64, 96]", "[64, 95]"]);
}

#[test]
fn a_folder_without_weights_is_described_by_what_it_holds_instead() {
    for (name, words) in [
        ("adapter_config.json", "LoRA adapter"),
        ("model-00001-of-00002.safetensors", "without their index"),
        ("pytorch_model.bin", "form that is not read"),
        ("consolidated.00.pth", "form that is not read"),
    ] {
        let files = Files::new();
        files.write(name, "{}");
        for _ in 0..2 {
            assert_says(&files.refusal(), &[name, words]);
            folder(&files);
            files.remove("model.safetensors");
        }
    }
}

#[test]
fn a_truncated_safetensors_file_is_rejected() {
    let files = Files::new();
    folder(&files);
    let intact = safetensors(&weights(&config()), DType::BF16);
    let cuts = (0..intact.len()).step_by(499);
    for length in cuts.chain([7, 8, 9, intact.len() - 1]) {
        files.write("model.safetensors", &intact[..length]);
        assert_says(&files.refusal(), &["cut short"]);
    }
}

/// A file with some other bytes.
fn damaged(mut file: Vec<u8>, flips: Vec<(usize, u8)>) -> Vec<u8> {
    for (at, byte) in flips {
        file[at] = byte;
    }
    file
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_gguf_file_causes_no_panic(flips in prop::collection::vec((0usize..9000, any::<u8>()), 1..6)) {
        static WHOLE: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| gguf(&metadata(), GgmlDType::Q4_1));
        let files = Files::new();
        let _ = open(&files.write("model.gguf", damaged(WHOLE.clone(), flips)));
    }

    #[test]
    fn a_damaged_safetensors_file_causes_no_panic(flips in prop::collection::vec((0usize..2600, any::<u8>()), 1..6)) {
        static WHOLE: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| safetensors(&weights(&config()), DType::F32));
        let files = Files::new();
        let path = files.write("model.safetensors", damaged(WHOLE.clone(), flips));
        if let Ok(mut file) = crate::file::safetensors::SafetensorsFile::open(&path) {
            for (name, shape) in config().tensor_shapes() {
                let _ = file.tensor(&name, &shape);
            }
        }
    }
}
