//! Byte-level BPE: every byte is a character, a pattern splits the text into words, and the file lists the merges.

use serde_json::{Value, json};

use super::{Parts, text_array};
use crate::file::gguf::{Gguf, Value as Metadata};

/// GPT-4's pattern with digits in groups of `DIGITS`, as in Llama 3 and Qwen2.
const WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// llama.cpp's names of the pre-tokenizers that are supported.
pub(super) const NAMES: [&str; 4] = ["gpt-2", "smollm", "llama-bpe", "qwen2"];

/// Reads the file's tables.
pub(super) fn parts(gguf: &Gguf, tokens: &[String]) -> Result<Parts, String> {
    let merges = text_array(gguf, "tokenizer.ggml.merges")?
        .iter()
        .map(|merge| {
            // A space inside a token is written Ġ, so the first space separates the two. A token begins with a space only in a damaged file.
            let (left, right) = merge
                .split_once(' ')
                .ok_or_else(|| format!("has a merge that is not a pair: {merge:?}"))?;
            Ok(json!([left, right]))
        })
        .collect::<Result<Vec<Value>, String>>()?;
    let name = match gguf.value("tokenizer.ggml.pre") {
        Some(Metadata::Text(name)) => name.as_str(),
        _ => {
            return Err(
                "does not name its pre-tokenizer (`tokenizer.ggml.pre`), without which texts are cut into the wrong tokens; convert it again with a current llama.cpp"
                    .into(),
            );
        }
    };
    let plain = Parts {
        tokens: tokens.to_vec(),
        merges,
        normalizer: Value::Null,
        pre_tokenizer: byte_level(true),
        decoder: byte_level(true),
        unknown: None,
        bytes_for_unknown: false,
        ignore_merges: false,
        begins_text: false,
    };
    let words = |digits: &str| {
        let pattern = json!({"Regex": WORDS.replace("DIGITS", digits)});
        let split =
            json!({"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": false});
        after(&split, false)
    };
    match name {
        "gpt-2" => Ok(plain),
        "smollm" => Ok(Parts {
            pre_tokenizer: after(&json!({"type": "Digits", "individual_digits": true}), true),
            ..plain
        }),
        "llama-bpe" => Ok(Parts {
            pre_tokenizer: words(r"\p{N}{1,3}"),
            ignore_merges: true,
            begins_text: true,
            ..plain
        }),
        "qwen2" => Ok(Parts {
            pre_tokenizer: words(r"\p{N}"),
            normalizer: json!({"type": "NFC"}),
            ..plain
        }),
        other => Err(format!(
            "has the pre-tokenizer `{other}`; `gpt-2`, `smollm`, `llama-bpe` and `qwen2` are supported, so take the model as safetensors with its tokenizer.json"
        )),
    }
}

/// Bytes as characters, after another step.
fn after(first: &Value, use_regex: bool) -> Value {
    json!({"type": "Sequence", "pretokenizers": [first, byte_level(use_regex)]})
}

fn byte_level(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}
