//! Models that are exported and read again.

use super::*;
use crate::export::{to_folder, to_gguf};
use crate::file::{WeightType, encoded};

/// A folder of a model with this `config.json`.
fn model(files: &Files, name: &str, config: &str) -> PathBuf {
    let folder = files.folder.path().join(name);
    std::fs::create_dir(&folder).unwrap();
    files.write(&format!("{name}/config.json"), config);
    let tokenizer = random_model_tokenizer::json().to_string();
    files.write(&format!("{name}/tokenizer.json"), tokenizer);
    let weights = weights(&ModelConfig::from_json(config).unwrap());
    let weights = safetensors(&weights, DType::F32);
    files.write(&format!("{name}/model.safetensors"), weights);
    folder
}

#[test]
fn an_exported_model_is_the_same_model() {
    let files = Files::new();
    let (gemma, tensors) = families::gemma();
    let scaled = r#""rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "original_max_position_embeddings": 8192}"#;
    let sources = [
        files.write("llama.gguf", gguf(&metadata(), GgmlDType::F32)),
        files.write("gemma.gguf", gguf_bytes(&gemma, &tensors)),
        model(
            &files,
            "llama3",
            &CONFIG.replace(r#""rope_theta": 10000.0"#, scaled),
        ),
        model(&files, "qwen2", &CONFIG.replace(r#""llama""#, r#""qwen2""#)),
    ];
    let out = |name: &str| files.folder.path().join("out").join(name);
    for (number, source) in sources.iter().enumerate() {
        let original = open(source).unwrap();
        for dtype in WeightType::ALL {
            let (file, folder) = (
                out(&format!("{number}{}.gguf", dtype.name)),
                out(dtype.name),
            );
            to_gguf(source, &file, dtype, "small").unwrap();
            let mut copies = vec![open(&file).unwrap()];
            let written = to_folder(source, &folder, dtype, "# card".into());
            assert_eq!(written.is_ok(), dtype.name != "q8_0", "{written:?}");
            if written.is_ok() {
                copies.push(open(&folder).unwrap());
                assert!(folder.join("README.md").is_file());
                std::fs::remove_dir_all(folder).unwrap();
            }
            for copy in copies {
                assert_eq!(copy.config, original.config);
                for (name, tensor) in &copy.weights.tensors {
                    let pairs = tensor.data.iter().zip(&original.weights.tensors[name].data);
                    let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                    let limit = if dtype.name == "q8_0" { 0.02 } else { 0.0 };
                    assert!(
                        worst <= limit,
                        "{source:?}, {}, {name}: {worst}",
                        dtype.name
                    );
                }
                let texts = ["ab  a b 12", "\né🦀<|end|><eos>", "▁▁a"];
                for (text, special) in texts.iter().flat_map(|it| [(it, true), (it, false)]) {
                    let [theirs, ours] =
                        [&copy, &original].map(|it| it.text.encode(text, special).unwrap());
                    assert_eq!(theirs, ours, "{source:?}: {text:?}");
                }
                let has_template = [&copy, &original].map(|it| it.text.template.is_some());
                assert_eq!(has_template[0], has_template[1]);
            }
        }
    }
    let again = to_gguf(&sources[0], &out("0f32.gguf"), WeightType::ALL[0], "small");
    assert_says(&again.unwrap_err().to_string(), &["0f32.gguf"]);
    assert_says(&encoded(&[1e5], GgmlDType::F16).unwrap_err(), &["bf16"]);
}

#[test]
fn what_no_gguf_file_can_describe_is_not_written() {
    let files = Files::new();
    let windows =
        r#""qwen2", "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 1"#;
    let windows = model(&files, "windows", &CONFIG.replace(r#""llama""#, windows));
    let mut tokenizer = random_model_tokenizer::json();
    tokenizer["normalizer"] = json!({"type": "Lowercase"});
    let lowercase = model(&files, "lowercase", CONFIG);
    files.write("lowercase/tokenizer.json", tokenizer.to_string());
    for (source, words) in [(windows, "config.json"), (lowercase, "a tokenizer")] {
        let out = files.folder.path().join("out/model.gguf");
        let error = to_gguf(&source, &out, WeightType::ALL[0], "small").unwrap_err();
        assert_says(&error.to_string(), &[words, "Hugging Face folder"]);
        let left = std::fs::read_dir(files.folder.path().join("out"));
        assert!(left.is_err() || left.unwrap().count() == 0);
    }
}
