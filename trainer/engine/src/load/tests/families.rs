//! Model families in the files of llama.cpp and `transformers`.

use candle_core::Tensor as CandleTensor;

use super::*;
use crate::config::{Llama3Rope, RopeScaling};
use crate::file::gguf::Gguf;

/// Blocks of every supported format, in rows wide enough for the largest blocks.
#[test]
fn blocks_are_dequantised_as_by_candle() {
    let files = Files::new();
    let shape = [3, 512];
    let values: Vec<f32> = (0..3 * 512)
        .map(|i| (i * 37 % 1009) as f32 / 500.0 - 1.0)
        .collect();
    let exact = CandleTensor::from_vec(values.clone(), &shape, &Device::Cpu).unwrap();
    for (kind, limit) in [
        (GgmlDType::F32, 0.0),
        (GgmlDType::F16, 1e-3),
        (GgmlDType::BF16, 1e-2),
        (GgmlDType::Q8_0, 0.01),
        (GgmlDType::Q6K, 0.05),
        (GgmlDType::Q5_0, 0.07),
        (GgmlDType::Q5_1, 0.07),
        (GgmlDType::Q5K, 0.07),
        (GgmlDType::Q4_0, 0.14),
        (GgmlDType::Q4_1, 0.14),
        (GgmlDType::Q4K, 0.14),
    ] {
        let tensor = QTensor::quantize(&exact, kind).unwrap();
        let theirs = tensor.dequantize(&Device::Cpu).unwrap();
        let theirs: Vec<f32> = theirs.flatten_all().unwrap().to_vec1().unwrap();
        let file = gguf_bytes(&BTreeMap::new(), &[("x".into(), tensor)]);
        let path = files.write("x.gguf", file);
        let ours = Gguf::open(&path).unwrap().tensor("x", &shape).unwrap();
        assert_eq!(ours, theirs, "{kind:?}");
        let pairs = ours.iter().zip(&values);
        let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst <= limit, "{kind:?}: {worst}");
        let error = Gguf::open(&path).unwrap().tensor("x", &[6, 256]);
        assert!(error.unwrap_err().contains("[3, 512]"));
    }
    let whole = QTensor::quantize(&exact, GgmlDType::F32).unwrap();
    let mut file = gguf_bytes(&BTreeMap::new(), &[("x".into(), whole)]);
    // Version, counts, name, dimensions, sizes: then the type.
    let at = 4 + 4 + 16 + 9 + 4 + 16;
    for (number, name) in [(10u32, "Q2_K"), (23, "IQ4_XS"), (39, "MXFP4"), (99, "99")] {
        file[at..at + 4].copy_from_slice(&number.to_le_bytes());
        let error = Gguf::open(&files.write("x.gguf", &file)).err().unwrap();
        assert_says(&error, &[&format!("GGML type {name}"), "Q4_K"]);
    }
}

/// The metadata of the Llama of [`metadata`] under another architecture.
fn renamed(architecture: &'static str) -> BTreeMap<&'static str, Value> {
    let mut metadata = metadata();
    for (key, value) in metadata.clone() {
        if let Some(rest) = key.strip_prefix("llama.") {
            metadata.remove(key);
            let key: &'static str = format!("{architecture}.{rest}").leak();
            metadata.insert(key, value);
        }
    }
    metadata.insert("general.architecture", Value::String(architecture.into()));
    metadata
}

/// The metadata of a SentencePiece tokenizer: `ab` is merged from `a` and `b`, and all other text is bytes.
fn sentencepiece(metadata: &mut BTreeMap<&'static str, Value>) {
    let mut tokens: Vec<(String, f32, i32)> = vec![
        ("<pad>".into(), -1000.0, 3),
        ("<eos>".into(), -1000.0, 3),
        ("<bos>".into(), -1000.0, 3),
        ("<unk>".into(), -1000.0, 3),
        ("  ".into(), -1000.0, 4),
        ("\n".into(), -1000.0, 4),
        ("ab".into(), -1.0, 1),
        ("▁a".into(), -2.0, 1),
        ("▁ab".into(), -3.0, 1),
        ("▁".into(), -4.0, 1),
        ("a".into(), -5.0, 1),
        ("b".into(), -6.0, 1),
    ];
    tokens.extend((0..=255u8).map(|byte| (format!("<0x{byte:02X}>"), 0.0, 6)));
    tokens.truncate(258);
    let column = |f: fn(&(String, f32, i32)) -> Value| Value::Array(tokens.iter().map(f).collect());
    let texts = column(|t| Value::String(t.0.clone()));
    metadata.insert("tokenizer.ggml.tokens", texts);
    metadata.insert("tokenizer.ggml.scores", column(|t| Value::F32(t.1)));
    metadata.insert("tokenizer.ggml.token_type", column(|t| Value::I32(t.2)));
    metadata.remove("tokenizer.ggml.merges");
    metadata.extend([
        ("tokenizer.ggml.model", Value::String("llama".into())),
        ("tokenizer.ggml.pre", Value::String("default".into())),
        ("tokenizer.ggml.add_space_prefix", Value::Bool(false)),
        ("tokenizer.ggml.bos_token_id", Value::U32(2)),
        ("tokenizer.ggml.eos_token_id", Value::U32(1)),
        ("tokenizer.ggml.unknown_token_id", Value::U32(3)),
    ]);
}

fn gemma_metadata() -> BTreeMap<&'static str, Value> {
    let mut metadata = renamed("gemma3");
    metadata.insert("gemma3.attention.key_length", Value::U32(32));
    metadata.insert("gemma3.attention.sliding_window", Value::U32(16));
    metadata.insert("gemma3.rope.freq_base", Value::F32(1e6));
    metadata.insert("gemma3.final_logit_softcapping", Value::F32(30.0));
    metadata.insert("gemma3.block_count", Value::U32(7));
    sentencepiece(&mut metadata);
    metadata
}

fn gemma_config() -> ModelConfig {
    let config = json!({
        "model_type": "gemma3_text",
        "vocab_size": 258,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 7,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "query_pre_attn_scalar": 32,
        "sliding_window": 16,
        "final_logit_softcapping": 30.0,
        "bos_token_id": 2,
        "eos_token_id": 1,
        "pad_token_id": null,
    });
    ModelConfig::from_json(&config.to_string()).unwrap()
}

/// The metadata and the tensors of a Gemma as llama.cpp's converter writes them.
pub(super) fn gemma() -> (BTreeMap<&'static str, Value>, Vec<(String, QTensor)>) {
    let config = gemma_config();
    let tensors = weights(&config).tensors.into_iter();
    let tensors = tensors.map(|(name, tensor)| {
        let theirs = llama_cpp::llama_cpp_name(&name, config.flags);
        let offset = if name.contains("norm") { 1.0 } else { 0.0 };
        let data = tensor.data.iter().map(|w| w + offset).collect();
        (theirs, quantised(data, tensor.shape, GgmlDType::F32))
    });
    (gemma_metadata(), tensors.collect())
}

#[test]
fn a_gguf_file_of_gemma_has_hugging_faces_weights() {
    let files = Files::new();
    let config = gemma_config();
    let (metadata, tensors) = gemma();
    let file = gguf_bytes(&metadata, &tensors);
    let loaded = open(&files.write("gemma.gguf", file)).unwrap();
    assert_eq!(loaded.config, config);
    assert_eq!(loaded.weights, weights(&config));
    let tokenizer = &loaded.text.tokenizer;
    for (text, tokens) in [
        ("ab", vec![2, 6]),
        ("a ab", vec![2, 10, 8]),
        ("a  b", vec![2, 10, 4, 11]),
        ("\nb", vec![2, 5, 11]),
        ("é", vec![2, 12 + 0xC3, 12 + 0xA9]),
        ("<eos>b", vec![2, 1, 11]),
    ] {
        assert_eq!(tokenizer.encode(text, true).unwrap(), tokens, "{text:?}");
        if !text.contains('<') {
            assert_eq!(tokenizer.decode(&tokens).unwrap(), text);
        }
    }
    assert!(!tokenizer.encode("<eos>", false).unwrap().contains(&1));
}

#[test]
fn llama_3s_scaling_is_recovered_from_its_factors() {
    let files = Files::new();
    let mut scaled = config();
    let scaling = Llama3Rope {
        factor: 32.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_max_position_embeddings: 8192,
    };
    scaled.rope_theta = 500_000.0;
    let plain = scaled.rope_frequencies();
    scaled.rope_scaling = Some(RopeScaling::Llama3(scaling));
    let pairs = plain.iter().zip(scaled.rope_frequencies());
    let mut factors: Vec<f32> = pairs.map(|(plain, scaled)| plain / scaled).collect();
    let mut metadata = metadata();
    metadata.insert("llama.rope.freq_base", Value::F32(500_000.0));
    let read = |factors: &[f32]| {
        let factors = quantised(factors.to_vec(), vec![factors.len()], GgmlDType::F32);
        let mut tensors = gguf_tensors(GgmlDType::F32);
        tensors.push(("rope_freqs.weight".into(), factors));
        let file = gguf_bytes(&metadata, &tensors);
        super::super::config(&files.write("model.gguf", file))
    };
    assert_eq!(read(&factors).unwrap(), scaled);
    factors[3] *= 1.1;
    assert_says(&read(&factors).unwrap_err().to_string(), &["not supported"]);
}

#[test]
fn the_text_part_of_a_multimodal_model_is_read_under_either_prefix() {
    let config = gemma_config();
    let mut json = config.to_json();
    json["model_type"] = "gemma3_text".into();
    let multimodal = json!({"model_type": "gemma3", "text_config": json, "vision_config": {}, "bos_token_id": 2, "eos_token_id": 1});
    for prefix in ["model.language_model.", "language_model.model."] {
        let files = Files::new();
        files.write("config.json", multimodal.to_string());
        files.write("tokenizer.json", random_model_tokenizer::json().to_string());
        let renamed = weights(&config).tensors.into_iter();
        let renamed = renamed.map(|(name, tensor)| (name.replacen("model.", prefix, 1), tensor));
        let mut renamed: BTreeMap<String, Tensor> = renamed.collect();
        let (shape, data) = (vec![2], vec![0.0; 2]);
        renamed.insert("vision_tower.weight".into(), Tensor { shape, data });
        let renamed = Weights { tensors: renamed };
        files.write("model.safetensors", safetensors(&renamed, DType::F32));
        let loaded = open(files.folder.path()).unwrap();
        assert_eq!(loaded.config, config);
        assert_eq!(loaded.weights, weights(&config));
    }
}
