//! Byte-level BPE: every byte is a character, a pattern splits the text into words, and the file lists the merges.

use serde_json::{Value, json};

use super::{Parts, text_array};
use crate::file::gguf::{Gguf, Value as Metadata};

/// GPT-4's pattern with digits in groups of `DIGITS`, as in Llama 3 and Qwen2.
const WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

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
    let splits = Splits::named(name)?;
    Ok(Parts {
        tokens: tokens.to_vec(),
        merges,
        normalizer: splits.normalizer,
        pre_tokenizer: splits.pre_tokenizer,
        decoder: byte_level(true),
        unknown: None,
        bytes_for_unknown: false,
        ignore_merges: splits.ignore_merges,
        begins_text: splits.begins_text,
    })
}

/// How llama.cpp's pre-tokenizers, which have names, split a text into words.
struct Splits {
    normalizer: Value,
    pre_tokenizer: Value,
    /// Whether a word that is itself a token is taken without merges.
    ignore_merges: bool,
    /// Whether texts begin with a BOS token by default.
    begins_text: bool,
}

impl Splits {
    fn named(name: &str) -> Result<Self, String> {
        let plain = |pre_tokenizer| Self {
            normalizer: Value::Null,
            pre_tokenizer,
            ignore_merges: false,
            begins_text: false,
        };
        let words = |digits: &str| {
            json!({
                "type": "Sequence",
                "pretokenizers": [
                    {
                        "type": "Split",
                        "pattern": {"Regex": WORDS.replace("DIGITS", digits)},
                        "behavior": "Isolated",
                        "invert": false,
                    },
                    byte_level(false),
                ],
            })
        };
        match name {
            "gpt-2" => Ok(plain(byte_level(true))),
            "smollm" => Ok(plain(json!({
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "Digits", "individual_digits": true},
                    byte_level(true),
                ],
            }))),
            "llama-bpe" => Ok(Self {
                ignore_merges: true,
                begins_text: true,
                ..plain(words(r"\p{N}{1,3}"))
            }),
            "qwen2" => Ok(Self {
                normalizer: json!({"type": "NFC"}),
                ..plain(words(r"\p{N}"))
            }),
            other => Err(format!(
                "has the pre-tokenizer `{other}`; `gpt-2`, `smollm`, `llama-bpe` and `qwen2` are supported, so take the model as safetensors with its tokenizer.json"
            )),
        }
    }
}

fn byte_level(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}
