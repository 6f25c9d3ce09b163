//! Conversion of the tokenizer in a GGUF file's metadata to `tokenizer.json`.

mod byte_level;
mod sentencepiece;
mod write;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::config::ModelConfig;
use crate::file::gguf::{Gguf, Value as Metadata};
use crate::file::llama_cpp::{CONTROL, token};
pub(super) use write::metadata;

/// llama.cpp's token types that `tokenizer.json` distinguishes.
const NORMAL: i64 = 1;
const USER_DEFINED: i64 = 4;

/// The file's tokenizer in Hugging Face's format.
pub(super) fn tokenizer_json(gguf: &Gguf, config: &ModelConfig) -> Result<Value, String> {
    let tokens = text_array(gguf, "tokenizer.ggml.tokens");
    let parts = match gguf.value("tokenizer.ggml.model") {
        Some(Metadata::Text(kind)) if kind == "gpt2" => byte_level::parts(gguf, tokens?)?,
        Some(Metadata::Text(kind)) if kind == "llama" => sentencepiece::parts(gguf, tokens?)?,
        Some(Metadata::Text(kind)) => {
            return Err(format!(
                "has a tokenizer of type `{kind}`; in GGUF files `gpt2` (byte-level BPE) and `llama` (SentencePiece's BPE) are supported, so take the model as safetensors with its tokenizer.json"
            ));
        }
        _ => return Err("has no tokenizer (`tokenizer.ggml.model`)".into()),
    };
    let tokens = &parts.tokens;
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
    let mut model = json!({
        "type": "BPE",
        "dropout": null,
        "unk_token": parts.unknown,
        "continuing_subword_prefix": null,
        "end_of_word_suffix": null,
        "fuse_unk": parts.bytes_for_unknown,
        "byte_fallback": parts.bytes_for_unknown,
        "ignore_merges": parts.ignore_merges,
    });
    model["vocab"] = Value::Object(vocabulary);
    model["merges"] = Value::Array(parts.merges);
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added_tokens(gguf, tokens)?,
        "normalizer": parts.normalizer,
        "pre_tokenizer": parts.pre_tokenizer,
        "post_processor": post_processor(gguf, tokens, parts.begins_text)?,
        "decoder": parts.decoder,
        "model": model,
    }))
}

/// The parts of `tokenizer.json` that depend on the kind of tokenizer.
struct Parts {
    /// Tokens by id, as written in the vocabulary.
    tokens: Vec<String>,
    /// Pairs of tokens, in the order of merging.
    merges: Vec<Value>,
    normalizer: Value,
    pre_tokenizer: Value,
    decoder: Value,
    /// The token for text that has no other token.
    unknown: Option<String>,
    /// Whether text without a token of its own is written as tokens of bytes.
    bytes_for_unknown: bool,
    /// Whether a word that is itself a token is taken without merges.
    ignore_merges: bool,
    /// Whether texts begin with a BOS token by default.
    begins_text: bool,
}

fn text_array<'a>(gguf: &'a Gguf, key: &str) -> Result<&'a [String], String> {
    match gguf.value(key) {
        Some(Metadata::Texts(texts)) => Ok(texts),
        _ => Err(format!("lacks the table `{key}`")),
    }
}

/// llama.cpp's types of the tokens; `None` if the file has no types.
fn types<'a>(gguf: &'a Gguf, tokens: &[String]) -> Result<Option<&'a [i64]>, String> {
    match gguf.value("tokenizer.ggml.token_type") {
        None => Ok(None),
        Some(Metadata::Ints(types)) if types.len() == tokens.len() => Ok(Some(types)),
        Some(_) => {
            Err("`tokenizer.ggml.token_type` does not have one number for each token".into())
        }
    }
}

fn added_tokens(gguf: &Gguf, tokens: &[String]) -> Result<Vec<Value>, String> {
    let Some(types) = types(gguf, tokens)? else {
        return Ok(Vec::new());
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

/// A post-processor that prepends the BOS token, if the file requests it.
fn post_processor(gguf: &Gguf, tokens: &[String], default: bool) -> Result<Value, String> {
    let adds_bos = match gguf.value("tokenizer.ggml.add_bos_token") {
        Some(Metadata::Bool(adds_bos)) => *adds_bos,
        _ => default,
    };
    let Some(id) = token(gguf, "bos_token_id")?.filter(|_| adds_bos) else {
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

/// The `tokenizer_config.json` that belongs to the tokenizer.
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
