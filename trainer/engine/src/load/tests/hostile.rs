//! Files crafted to be misread, or to take more memory than their size allows.

use super::*;
use crate::file::gguf::{Gguf, Value as Stored};
use crate::file::safetensors::SafetensorsFile;

/// The error for a safetensors file with this header and 24 bytes of data; `None` if the file is accepted.
fn refusal(header: &str) -> Option<String> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.resize(file.len() + 24, 0);
    let files = Files::new();
    let path = files.write("x.safetensors", file);
    let error = SafetensorsFile::open(&path).err()?;
    Some(error.to_string())
}

/// A tensor of bytes in a safetensors header.
fn bytes_from(start: u64, end: u64) -> serde_json::Value {
    json!({"dtype": "U8", "shape": [end - start], "data_offsets": [start, end]})
}

#[test]
fn overlapping_tensors_of_a_safetensors_file_are_rejected() {
    for (one, other) in [
        ((0, 8), (0, 8)),
        ((0, 8), (7, 9)),
        ((0, 24), (8, 16)),
        ((8, 16), (0, 9)),
    ] {
        let header = json!({
            "a": bytes_from(one.0, one.1),
            "b": bytes_from(other.0, other.1),
            "empty": bytes_from(8, 8),
        });
        let error = refusal(&header.to_string()).unwrap();
        assert_says(&error, &["same bytes", "`a`", "`b`"]);
    }
    // Gaps are allowed, and so are tensors without elements, which occupy no bytes.
    let header = json!({
        "a": bytes_from(0, 8),
        "b": bytes_from(12, 20),
        "empty": bytes_from(4, 4),
        "empty too": bytes_from(4, 4),
        "empty at the end": bytes_from(24, 24),
    });
    assert_eq!(refusal(&header.to_string()), None);
}

#[test]
fn overlapping_tensors_of_a_gguf_file_are_rejected() {
    let files = Files::new();
    let mut file = gguf(&metadata(), GgmlDType::F32);
    let name = b"token_embd.weight";
    let at = file.windows(name.len()).position(|w| w == name).unwrap() + name.len() + 24;
    // The head comes first, with 258 rows of 64.
    for offset in [0, 258 * 64 * 4 - 1] {
        file[at..at + 8].copy_from_slice(&u64::to_le_bytes(offset));
        let error = files.error("model.gguf", &file);
        assert_says(
            &error,
            &["same bytes", "`output.weight`", "`token_embd.weight`"],
        );
    }
}

#[test]
fn duplicate_header_entries_are_rejected() {
    let tensor = bytes_from(0, 8).to_string();
    for (name, value) in [("a", tensor.as_str()), ("__metadata__", "{}")] {
        let error = refusal(&format!(r#"{{"{name}": {value}, "{name}": {value}}}"#)).unwrap();
        assert_says(&error, &[&format!("`{name}` twice")]);
        assert_eq!(refusal(&format!(r#"{{"{name}": {value}}}"#)), None);
    }
    let files = Files::new();
    let one = Value::U32(1);
    let mut file = std::io::Cursor::new(Vec::new());
    gguf_file::write(&mut file, &[("x.y", &one), ("x.y", &one)], &[]).unwrap();
    let path = files.write("x.gguf", file.into_inner());
    assert_says(&Gguf::open(&path).err().unwrap(), &["`x.y` twice"]);
}

#[test]
fn unused_weights_in_a_gguf_file_are_rejected() {
    let files = Files::new();
    let with = |extra: &str| {
        let zeros = quantised(vec![0.0; 64], vec![64], GgmlDType::F32);
        let mut tensors = gguf_tensors(GgmlDType::F32);
        tensors.push((extra.to_owned(), zeros));
        gguf_bytes(&metadata(), &tensors)
    };
    for extra in [
        "blk.0.attn_q.bias",
        "blk.1.ffn_gate_inp.weight",
        "blk.2.attn_norm.weight",
        "output.bias",
    ] {
        let error = files.error("model.gguf", with(extra));
        assert_says(&error, &[&format!("`{extra}`"), "without it"]);
    }
    for extra in ["v.blk.0.attn_q.bias", "mm.input_projection.weight"] {
        assert!(open(&files.write("model.gguf", with(extra))).is_ok());
    }
}

#[test]
fn unused_weights_in_safetensors_are_rejected_unless_they_change_nothing() {
    let files = Files::new();
    folder(&files);
    for extra in [
        "model.layers.0.self_attn.q_proj.bias",
        "model.layers.0.self_attn.q_norm.weight",
        "model.layers.2.input_layernorm.weight",
        "model.layers.0.mlp.gate_proj.lora_A.weight",
        "lm_head.bias",
        "+model.layers.0.self_attn.rotary_emb.inv_freq",
        "+model.vision_tower.blk.0.bias",
        "+lm_head.weight",
    ] {
        let accepted = extra.strip_prefix('+');
        let extra = accepted.unwrap_or(extra);
        let tied = CONFIG.replace("embeddings\": false", "embeddings\": true");
        files.write("config.json", &tied);
        let mut stored = weights(&ModelConfig::from_json(&tied).unwrap());
        let name = "model.norm.weight";
        let copy = stored.tensors[name].clone();
        stored.tensors.insert(extra.into(), copy);
        files.write("model.safetensors", safetensors(&stored, DType::F32));
        let error = open(files.folder.path()).err().map(|e| e.to_string());
        assert_eq!(error.is_none(), accepted.is_some(), "{extra}: {error:?}");
        assert!(error.is_none_or(|error| error.contains(&format!("`{extra}`"))));
    }
}

#[test]
fn weights_that_are_not_finite_are_named_with_their_file() {
    let files = Files::new();
    folder(&files);
    let name = "model.layers.1.mlp.up_proj.weight";
    for value in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut damaged = weights(&config());
        damaged.tensors.get_mut(name).unwrap().data[7] = value;
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            files.write("model.safetensors", safetensors(&damaged, dtype));
            let expected =
                format!("model.safetensors: 1 of the 6144 elements of the tensor `{name}`");
            assert_says(&files.refusal(), &[&expected]);
        }
    }
    let mut file = gguf(&metadata(), GgmlDType::F32);
    let last = file.len() - 64;
    file[last..last + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    assert_says(&files.error("model.gguf", file), &["NaN or infinite"]);
}

#[test]
fn arrays_of_bytes_are_skipped() {
    let files = Files::new();
    let array = |value: Value| Value::Array(vec![value; 3]);
    let metadata = BTreeMap::from([
        ("bytes", array(Value::U8(1))),
        ("nested", array(array(Value::I32(1)))),
        ("numbers", array(Value::I32(1))),
    ]);
    let path = files.write("x.gguf", gguf_bytes(&metadata, &[]));
    let file = Gguf::open(&path).unwrap();
    assert_eq!(file.value("bytes"), Some(&Stored::Other));
    assert_eq!(file.value("nested"), Some(&Stored::Other));
    assert_eq!(file.value("numbers"), Some(&Stored::Ints(vec![1; 3])));
}

#[test]
fn a_gguf_file_with_more_end_tokens_than_any_model_is_rejected() {
    let files = Files::new();
    let mut metadata = metadata();
    let tokens = vec![Value::String("<|endoftext|>".into()); 1025];
    metadata.insert("tokenizer.ggml.tokens", Value::Array(tokens));
    let types = vec![Value::I32(3); 1025];
    metadata.insert("tokenizer.ggml.token_type", Value::Array(types));
    let error = files.error("model.gguf", gguf(&metadata, GgmlDType::F32));
    assert_says(&error, &["1025 control tokens", "at most 1024"]);
}

#[test]
fn a_tokenizer_on_which_its_library_panics_is_an_error() {
    let files = Files::new();
    folder(&files);
    let mut tokenizer = random_model_tokenizer::json();
    tokenizer["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": "?"});
    files.write("tokenizer.json", tokenizer.to_string());
    assert_says(&files.refusal(), &["tokenizer.json", "panicked"]);

    // A special token that the file does not define is noticed only when a text is encoded.
    let sequence = json!({"Sequence": {"id": "A", "type_id": 0}});
    let undefined = json!({"SpecialToken": {"id": "<|begin|>", "type_id": 0}});
    let mut tokenizer = random_model_tokenizer::json();
    tokenizer["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": [undefined, sequence],
        "pair": [sequence],
        "special_tokens": {},
    });
    files.write("tokenizer.json", tokenizer.to_string());
    let text = open(files.folder.path()).unwrap().text;
    assert_eq!(text.encode("a", false).unwrap(), [97]);
    let error = text.encode("a", true).unwrap_err();
    assert_says(&error.to_string(), &["panicked"]);
}

#[cfg(unix)]
#[test]
fn endless_devices_are_rejected_as_model_files() {
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let files = Files::new();
        folder(&files);
        let path = files.folder.path().join(name);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_says(&files.refusal(), &[name, "not a file"]);
    }
}
