//! The tokenizer in a GGUF file's metadata → `tokenizer.json`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::config::ModelConfig;
use crate::load::gguf::{Gguf, Value as Metadata};
use crate::load::llama_cpp::token;

/// llama.cpp's token types that `tokenizer.json` tells apart.
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// GPT-4's pattern with digits in groups of `DIGITS`, as Llama 3 and Qwen2 have it.
const WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The byte-level BPE of a GGUF file in Hugging Face's form.
pub(super) fn tokenizer_json(gguf: &Gguf, config: &ModelConfig) -> Result<Value, String> {
    match gguf.value("tokenizer.ggml.model") {
        Some(Metadata::Text(kind)) if kind == "gpt2" => {}
        Some(Metadata::Text(kind)) => {
            return Err(format!(
                "has a tokenizer of type `{kind}`; in GGUF files `gpt2` (byte-level BPE) is supported, so take the model as safetensors with its tokenizer.json"
            ));
        }
        _ => return Err("has no tokenizer (`tokenizer.ggml.model`)".into()),
    }
    let tokens = texts(gguf, "tokenizer.ggml.tokens")?;
    if tokens.len() > config.vocab_size {
        return Err(format!(
            "has {} tokens for an embedding of {} rows; it is inconsistent, so fetch or convert it again",
            tokens.len(),
            config.vocab_size
        ));
    }
    let mut vocabulary = Map::new();
    for (id, token) in tokens.iter().enumerate() {
        if vocabulary.insert(token.clone(), json!(id)).is_some() {
            return Err(format!("lists the token {token:?} twice"));
        }
    }
    let merges = texts(gguf, "tokenizer.ggml.merges")?
        .iter()
        .map(|merge| {
            // A space inside a token is written Ġ, so the first one parts them; a token may begin with one only by damage.
            let (left, right) = merge
                .split_once(' ')
                .ok_or_else(|| format!("has a merge that is no pair: {merge:?}"))?;
            Ok(json!([left, right]))
        })
        .collect::<Result<Vec<Value>, String>>()?;
    let name = match gguf.value("tokenizer.ggml.pre") {
        Some(Metadata::Text(name)) => name.as_str(),
        _ => "gpt-2",
    };
    let splits = Splits::named(name)?;
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added_tokens(gguf, tokens)?,
        "normalizer": splits.normalizer,
        "pre_tokenizer": splits.pre_tokenizer,
        "post_processor": post_processor(gguf, tokens, splits.begins_text)?,
        "decoder": byte_level(true),
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": splits.ignore_merges,
            "vocab": vocabulary,
            "merges": merges,
        },
    }))
}

fn texts<'a>(gguf: &'a Gguf, key: &str) -> Result<&'a [String], String> {
    match gguf.value(key) {
        Some(Metadata::Texts(texts)) => Ok(texts),
        _ => Err(format!("lacks the table `{key}`")),
    }
}

/// How llama.cpp's pre-tokenizers, known by name, cut a text into words.
struct Splits {
    normalizer: Value,
    pre_tokenizer: Value,
    /// Whether a word that is a token goes without merges.
    ignore_merges: bool,
    /// Whether texts begin with a BOS token unless the file says otherwise.
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
            "gpt-2" | "default" => Ok(plain(byte_level(true))),
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

fn added_tokens(gguf: &Gguf, tokens: &[String]) -> Result<Vec<Value>, String> {
    let types = match gguf.value("tokenizer.ggml.token_type") {
        None => return Ok(Vec::new()),
        Some(Metadata::Ints(types)) if types.len() == tokens.len() => types,
        Some(_) => return Err("`tokenizer.ggml.token_type` is not one number a token".into()),
    };
    let added = tokens.iter().zip(types).enumerate();
    Ok(added
        .filter(|(_, (token, kind))| matches!(**kind, CONTROL | USER_DEFINED) && !token.is_empty())
        .map(|(id, (token, kind))| {
            json!({
                "id": id,
                "content": token,
                "single_word": false,
                "lstrip": false,
                "rstrip": false,
                "normalized": false,
                "special": *kind == CONTROL,
            })
        })
        .collect())
}

/// What goes before a text: the BOS token, where the file asks for one.
fn post_processor(gguf: &Gguf, tokens: &[String], default: bool) -> Result<Value, String> {
    let wanted = match gguf.value("tokenizer.ggml.add_bos_token") {
        Some(Metadata::Bool(wanted)) => *wanted,
        _ => default,
    };
    let Some(id) = token(gguf, "bos_token_id")?.filter(|_| wanted) else {
        return Ok(Value::Null);
    };
    let text = tokens
        .get(id as usize)
        .ok_or_else(|| format!("its BOS token {id} is not in its vocabulary"))?;
    let bos = json!({"SpecialToken": {"id": text, "type_id": 0}});
    let first = json!({"Sequence": {"id": "A", "type_id": 0}});
    let second = json!({"Sequence": {"id": "B", "type_id": 1}});
    Ok(json!({
        "type": "TemplateProcessing",
        "single": [bos, first],
        "pair": [bos, first, bos, second],
        "special_tokens": {text: {"id": text, "ids": [id], "tokens": [text]}},
    }))
}

/// A `tokenizer_config.json` to go with the tokenizer.
pub(super) fn tokenizer_config(
    special: &BTreeMap<String, String>,
    template: Option<&str>,
    config: &ModelConfig,
) -> Value {
    let mut settings = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": false,
        "model_max_length": config.max_position_embeddings,
    });
    for (name, text) in special {
        settings[name] = json!(text);
    }
    if let Some(template) = template {
        settings["chat_template"] = json!(template);
    }
    settings
}
